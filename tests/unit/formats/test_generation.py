"""What a generation can do is a line of one table: nobody else asks which one it is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[3] / "src" / "frazil"
OWN_ROOMS: Final = ("formats/legacy/", "storage/legacy/", "commit/", "upgrading/")
"""Each file of these is about certain generations only."""
OWN_FILES: Final = (
    "formats/generation.py",
    "transaction/context.py",  # gives a repository the commit protocol of its generation
)
NAMED: Final = frozenset({"LegacyGeneration", "CommitProtocol"})
TELLING: Final = frozenset({"dialect", "protocol"})
"""Fields of a generation that tell which one it is, rather than what it can do."""
NUMBERED: Final = ("formats/", "fsck/")
"""These may ask for the spec version that the header of a single file has."""


def questions(path: Path) -> list[str]:
    """Where a file compares a generation with one that it names."""
    found = []
    of_files = path.relative_to(SOURCE).as_posix().startswith(NUMBERED)
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        for side in (node.left, *node.comparators):
            names = {each.id for each in ast.walk(side) if isinstance(each, ast.Name)}
            is_telling = isinstance(side, ast.Attribute) and side.attr in TELLING
            if names & NAMED or is_telling or (is_spec(side) and not of_files):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}")
    return found


def is_spec(side: ast.expr) -> bool:
    """Whether it is a spec version, which only headers of files are asked for."""
    name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
    return name in ("spec", "spec_version")


def test_which_generation_it_is_is_asked_in_its_own_rooms_only() -> None:
    asked = [
        question
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) not in OWN_FILES
        and not name.startswith(OWN_ROOMS)
        for question in questions(path)
    ]
    assert not asked, "give Generation a property instead:\n" + "\n".join(asked)


def test_such_a_question_would_be_found() -> None:
    assert questions(SOURCE / "formats" / "generation.py")
