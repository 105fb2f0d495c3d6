"""The commands that the documents print give what is printed; `…` stands for anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from frazil.cli.answers import MEANING
from frazil.cli.app import make_app

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK: Final = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block with the lines printed below each."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    for part in parts[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def fits(printed: list[str], expected: list[str]) -> bool:
    """Whether lines are as expected, blanks in a row and the open end of a block aside."""
    is_open = expected[-1:] == ["…"]
    wanted = expected[:-1] if is_open else expected
    if len(printed) < len(wanted) or (len(printed) > len(wanted) and not is_open):
        return False
    return all(
        re.fullmatch(".*".join(map(re.escape, " ".join(line.split()).split("…"))), text)
        for text, line in zip([" ".join(each.split()) for each in printed], wanted, strict=False)
    )


def test_every_command_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner, count = CliRunner(), 0
    for kind, block in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})
            continue
        for command, expected in commands(block):
            result = runner.invoke(make_app(), shlex.split(command)[1:])
            printed = (result.stdout + result.stderr).splitlines()
            assert fits(printed, expected), f"{command}\n" + "\n".join(printed)
            count += 1
    assert count > 25


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text()
    app = make_app()
    names = [command.name for command in app.registered_commands if command.name]
    names += [group.name for group in app.registered_groups if group.name]
    assert names
    assert [name for name in names if f"`{name}" not in text] == []


def test_the_page_has_every_exit_code() -> None:
    listed = re.findall(r"^\| (\d+) \| ([\w`]+)", PAGE.read_text(), re.MULTILINE)
    assert [int(code) for code, _ in listed] == [int(code) for code in MEANING]
