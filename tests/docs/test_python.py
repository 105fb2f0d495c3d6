"""The guides for Python programs: their examples run as printed, and the names they list exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import frazil
import frazil.icechunk
from tests.support.documents import program

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["python.md", "icechunk-users.md"])
def test_examples_run_as_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(DOCS / page), page, "exec"), {"__name__": "page"})
    assert any(path.name == "repo" for path in tmp_path.glob("*/repo"))


def test_the_table_of_names_has_names_that_exist() -> None:
    text = (DOCS / "icechunk-users.md").read_text()
    packages = {"icechunk": frazil.icechunk, "frazil": frazil}
    found = re.findall(r"`(icechunk|frazil)\.([A-Za-z_]\w*)`", text)
    assert len(found) > 20
    for package, name in found:
        assert name in ("icechunk", "spark") or hasattr(packages[package], name), name
    repo = frazil.Repository.create(frazil.in_memory_storage())
    for path in re.findall(r"`repo\.([\w.]+)`", text):
        thing: object = repo
        for part in path.split("."):
            thing = getattr(thing, part)
