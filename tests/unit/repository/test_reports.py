"""What verbs report, and how old things must be for those that delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import NotFoundError
from frazil.ids import SnapshotId
from frazil.model.values import GCSummary, ManifestFileInfo
from frazil.repository import Repository
from frazil.repository.reports import CollectionReport, ExpiryReport, ManifestsReport, Namespace
from frazil.storage.memory import MemoryStorage

WHEN = datetime(2024, 5, 1, tzinfo=UTC)


def files(*names: str) -> tuple[ManifestFileInfo, ...]:
    return tuple(ManifestFileInfo(name, 100, 1) for name in names)


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        (files("a", "b"), files("b", "c", "d"), 1, 2),
        (files("a"), files("a"), 0, 0),
        (files("a", "b"), (), 2, 0),
        ((), files("a"), 0, 1),
    ],
)
def test_manifests_that_came_and_went_are_counted(
    before: tuple[ManifestFileInfo, ...],
    after: tuple[ManifestFileInfo, ...],
    removed: int,
    added: int,
) -> None:
    report = ManifestsReport("main", "old", "new", before, after)
    assert (report.removed, report.added) == (removed, added)


def test_long_lists_are_counted_in_the_text_of_a_report() -> None:
    few = ExpiryReport(WHEN, ("A", "B"))
    assert "snapshots=('A', 'B')" in repr(few)
    many = ExpiryReport(WHEN, tuple("ABCDEFG"))
    assert "snapshots=<7 items>" in repr(many)
    collected = CollectionReport(WHEN, "full", GCSummary(), None, ("chunks/A",) * 5000)
    assert "files=<5,000 items>" in repr(collected)
    assert len(repr(collected)) < 1000


def test_a_namespace_finds_versions_by_any_of_their_names() -> None:
    repository = Repository.create(MemoryStorage())
    tip = repository.lookup_branch("main")
    repository.create_tag("v1", tip)
    space = Namespace(repository)
    for text in ("main", "v1", tip, tip[:8].lower()):
        assert space._snapshot(text) == SnapshotId.parse(tip)
    with pytest.raises(NotFoundError):
        space._snapshot("nothing-of-that-name")


def test_the_age_of_a_call_counts_more_than_that_of_the_namespace() -> None:
    repository = Repository.create(MemoryStorage())
    hour, zero = timedelta(hours=1), timedelta(0)
    assert Namespace(repository)._age_floor(None) is None
    assert Namespace(repository, hour)._age_floor(None) == hour
    assert Namespace(repository, hour)._age_floor(zero) == zero
