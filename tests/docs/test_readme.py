"""The code that the documents print runs as printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import program

ROOT: Final = Path(__file__).resolve().parents[2]


def test_tour_of_the_readme_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tour = program(ROOT / "README.md")
    exec(compile(tour, str(ROOT / "README.md"), "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "The third day" in printed
    assert "['experiment', 'main'] ['v1']" in printed


def test_tour_without_spark_tells_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tour = runpy.run_path(str(ROOT / "examples" / "tour.py"))
    tour["run"](tmp_path / "weather")
    lines = dict(
        line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line
    )
    told = {step.strip(): what.strip() for step, what in lines.items()}
    assert told["main now"].startswith("48 hours up to 2024-05-02T23:00")
    assert told["main of yesterday"].startswith("24 hours up to 2024-05-01T23:00")
    assert "'/t2m'" in told["changed on branch"]


def test_every_link_in_the_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert documents
    assert not broken
