"""The guide to branches: its examples run as printed, and its table has every conflict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from frazil.merging.records import ConflictKind
from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "branches.md"


def test_examples_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    assert (tmp_path / "forecast" / "repo").exists()


def test_every_kind_of_conflict_is_in_the_table() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert listed == [str(kind) for kind in ConflictKind]
