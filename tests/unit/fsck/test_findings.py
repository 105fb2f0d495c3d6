"""Findings as lines and data, and reports that stay bounded."""

from __future__ import annotations

import json

from frazil.fsck.findings import OLD_RULES, REFERENCES, Code, Finding, Level, Report

GONE = Finding(Code.CHUNK_MISSING, "chunks/x", "", "/a", ((1, 2),), 3)


def test_rules_are_named_after_what_they_say() -> None:
    assert str(Code.CHUNK_OUTSIDE_GRID) == "chunk-outside-grid"
    assert {str(code) for code in Code} >= {"log-root", "file-short", "chunk-missing"}
    assert (Code.LOG_ROOT.level, Code.CHUNK_MISSING.level) == (Level.WARNING, Level.ERROR)
    meanings = [code.meaning for code in Code]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_what_only_new_repositories_have_is_not_asked_of_old_ones() -> None:
    assert Code.LOG_MISSING not in OLD_RULES
    assert Code.HISTORY_ROOTS not in OLD_RULES
    assert {Code.HISTORY_CIRCLE, Code.CHUNK_MISSING, Code.FILE_DAMAGED} <= OLD_RULES


def test_everything_that_references_need_is_an_error_or_a_matter_of_leave() -> None:
    mild = {code for code in REFERENCES if code.level != Level.ERROR}
    assert mild == {Code.SOURCE_UNAUTHORIZED}


def test_a_finding_says_what_its_rule_means_unless_it_knows_more() -> None:
    assert str(GONE) == "error chunk-missing: chunks/x /a: a chunk object is gone"
    assert str(Finding(Code.LOG_ROOT, "t", "why")) == "warning log-root: t: why"
    foreign = str(Finding(Code.NODE_PATH, "s", "\x1b[31m\u202e"))
    assert "\x1b" not in foreign
    assert "\u202e" not in foreign


def test_a_finding_is_plain_data() -> None:
    data = GONE.as_dict()
    assert data == json.loads(json.dumps(data))
    assert (data["code"], data["level"], data["chunks"]) == ("chunk-missing", "error", [[1, 2]])


def test_the_same_finding_counts_once() -> None:
    report = Report()
    report.record([GONE, GONE])
    report.record([GONE, Finding(Code.CHUNK_MISSING, "chunks/x", "", "/b")])
    assert [each.path for each in report.findings] == ["/a", "/b"]
    assert report.counts[Level.ERROR] == 2


def test_findings_beyond_the_limit_are_counted_and_still_decide() -> None:
    report = Report(limit=1)
    notes = [Finding(Code.STRAY_NAME, f"manifests/{number}") for number in range(3)]
    report.record([*notes, GONE])
    assert (report.findings, report.more_findings) == (notes[:1], 3)
    assert report.counts == {Level.ERROR: 1, Level.WARNING: 0, Level.NOTE: 3}
    assert not report.is_sound
    assert report.as_dict()["more_findings"] == 3


def test_rules_that_are_not_asked_for_are_not_told() -> None:
    report = Report(rules=REFERENCES)
    report.record([Finding(Code.LOG_ROOT, "t"), GONE])
    assert report.codes() == {Code.CHUNK_MISSING}
    assert report.counts[Level.WARNING] == 0


def test_notes_leave_a_report_clean_and_warnings_leave_it_sound() -> None:
    report = Report()
    report.record([Finding(Code.UNREFERENCED, "chunks/")])
    assert report.is_clean
    report.record([Finding(Code.LOG_ROOT, "t")])
    assert (report.is_clean, report.is_sound) == (False, True)


def test_bytes_without_a_checksum_add_up() -> None:
    report = Report()
    for size in (3, 4):
        report.leave_unchecked("manifests", size)
    assert report.as_dict()["unchecked"] == {"manifests": 7}
