"""The guide to space, checks and erasure: its examples run as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "maintenance.md"


def test_examples_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "/temperature 2 of 200 in ((3, 4), (10, 12))" in printed
    assert "is_plausible failed: 1279.0 degrees away" in printed
    assert "snapshots looked through again" in printed
    assert "chunk objects put aside" in printed
