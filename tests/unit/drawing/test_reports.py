"""Reports as notebooks show them: every kind of field, and no secrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import frazil
from frazil.drawing.markup import MOST_ROWS
from frazil.drawing.reports import ReportView
from frazil.fsck.findings import Code, Finding, Report
from frazil.merging.records import MergeReport
from tests.support.notebooks import EVIL, SECRET, page_of


def test_reports_show_themselves(repo: frazil.Repository, tmp_path: Path) -> None:
    found = repo.audit.fsck()
    merge = repo.versions.merge("dev", into="main", dry_run=True)
    assert isinstance(merge, MergeReport)
    shares = repo.space.shares()
    values = repo.versions.diff_values("v1", "main")
    for report in (found, merge, shares, values, repo.space.compact(dry_run=True)):
        page = page_of(report)
        assert f"frazil.{type(report).__name__}" in page.text
        assert len(repr(report)) < 2000


def test_long_reports_stay_short_as_text() -> None:
    report = Report(spec=2)
    report.record(
        Finding(Code.CHUNK_MISSING, f"chunks/{n}", EVIL, path=f"/a{EVIL}") for n in range(500)
    )
    assert "findings=<500 items>" in repr(report)
    assert len(repr(report)) < 1000
    page = page_of(report)
    assert f"{500 - MOST_ROWS} more" in page.text
    assert "<script>" in page.text


@dataclass(frozen=True, slots=True, repr=False)
class Told(ReportView):
    """A report with something of every kind."""

    url: str
    secret_key: str
    counts: dict[str, int]
    names: tuple[str, ...]
    done: bool
    nothing: None = None
    share: float = 0.25


def test_fields_of_any_kind_are_shown_and_secrets_are_not() -> None:
    told = Told(f"s3://b/x?sig={SECRET}", SECRET, {"a": 1200}, (EVIL,), True)
    page = page_of(told)
    for word in ("s3://b/x?****", "1,200", "yes", "none", "0.25"):
        assert word in page.text
    assert SECRET not in repr(told)
    assert "\x1b" not in repr(told)
