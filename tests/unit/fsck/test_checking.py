"""Every planted defect is found, and nothing is found where nothing is wrong."""

from __future__ import annotations

import pytest

from frazil.errors import RefNotFoundError, RepositoryNotFoundError
from frazil.fsck import RULES, Code, Level, Report, fsck, verify
from frazil.storage.memory import MemoryStorage
from tests.support.runners import Elsewhere
from tests.unit.fsck.defects import DEFECTS, Defect
from tests.unit.fsck.samples import Sick, copy, healthy

CASES = [(each, spec) for each in DEFECTS for spec in each.specs]


def told(report: Report) -> str:
    """All findings as lines."""
    return "\n".join(map(str, report.findings))


@pytest.mark.parametrize(
    ("planted", "spec"), CASES, ids=[f"{each.name}-v{spec}" for each, spec in CASES]
)
def test_defect_is_found(planted: Defect, spec: int) -> None:
    sick = Sick(copy(healthy(spec)), spec)
    planted.plant(sick)
    report = fsck(sick.storage, deep=planted.deep)
    assert planted.code in report.codes(), told(report)
    level = planted.code.level
    assert report.is_sound == (not report.counts[Level.ERROR])
    assert report.counts[level] > 0


@pytest.mark.parametrize(
    ("planted", "spec"), CASES, ids=[f"{each.name}-v{spec}" for each, spec in CASES]
)
def test_others_that_read_files_tell_the_same(planted: Defect, spec: int) -> None:
    sick = Sick(copy(healthy(spec)), spec)
    planted.plant(sick)
    here = fsck(sick.storage, deep=True)
    runner = Elsewhere(knows_sizes=False)
    there = fsck(sick.storage, deep=True, runner=runner)
    assert runner.items > 0
    assert there.as_dict() == here.as_dict()
    assert verify(sick.storage, runner=runner).as_dict() == verify(sick.storage).as_dict()


@pytest.mark.parametrize("spec", [1, 2])
def test_others_tell_what_no_checksum_covers(spec: int) -> None:
    here = fsck(healthy(spec), deep=True)
    assert any(name.startswith("chunks of ") for name in here.unchecked)
    there = fsck(healthy(spec), deep=True, runner=Elsewhere(knows_sizes=False))
    assert there.as_dict() == here.as_dict()


def test_the_table_of_defects_is_long() -> None:
    assert len(DEFECTS) >= 40
    assert len({each.name for each in DEFECTS}) == len(DEFECTS)


def test_every_rule_has_a_planted_defect_or_a_test_of_its_own() -> None:
    elsewhere = {code for code in Code if code.startswith("source-")}
    assert set(Code) - {each.code for each in DEFECTS} - elsewhere == set()
    assert set(RULES) == set(Code)


@pytest.mark.parametrize("spec", [1, 2])
def test_nothing_is_found_in_a_healthy_repository(spec: int) -> None:
    report = fsck(healthy(spec), deep=True)
    assert report.findings == [], told(report)
    assert report.is_clean
    assert (report.snapshots, report.logs) == (5 + spec, 3 + 2 * spec)
    assert report.decoded_chunks > 10
    assert sum(report.unreferenced.values()) == 0


@pytest.mark.parametrize("spec", [1, 2])
def test_one_ref_is_checked_with_its_history(spec: int) -> None:
    sick = Sick(copy(healthy(spec)), spec)
    sick.delete(sick.manifest_key())
    assert not fsck(sick.storage, refs=["main"]).is_sound
    assert fsck(sick.storage, refs=["v1"]).is_sound
    assert fsck(sick.storage, refs=["dev", str(sick.find("second"))]).is_clean
    report = fsck(sick.repository, refs=["v1"], ancestors=False)
    assert report.snapshots == 1
    with pytest.raises(RefNotFoundError, match="nope"):
        fsck(sick.storage, refs=["nope"])


def test_findings_beyond_the_limit_are_counted() -> None:
    sick = Sick(copy(healthy(2)), 2)
    for item in list(sick.storage.list("chunks/")):
        sick.delete(item.key)
    report = fsck(sick.storage, max_findings=3)
    assert len(report.findings) == 3
    assert report.more_findings == report.counts[Level.ERROR] - 3 > 0


def test_an_empty_place_is_no_repository() -> None:
    with pytest.raises(RepositoryNotFoundError):
        fsck(MemoryStorage())


def test_progress_is_told() -> None:
    seen: dict[str, tuple[int, int]] = {}
    fsck(healthy(2), progress=lambda now: seen.update({now.what: (now.done, now.total)}))
    assert {"snapshots", "manifests", "chunk objects"} <= seen.keys()
    assert all(done == total for done, total in seen.values())


def test_a_report_is_plain_data() -> None:
    sick = Sick(copy(healthy(2)), 2)
    sick.delete(sick.manifest_key())
    data = fsck(sick.storage).as_dict()
    assert data["sound"] is False
    assert data["errors"] == len([f for f in data["findings"] if f["level"] == "error"])
    (finding,) = [f for f in data["findings"] if f["code"] == "manifest-missing"]
    assert finding["path"] == "/a"
