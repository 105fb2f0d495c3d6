"""Records of files as users get them, and back."""

from __future__ import annotations

import copy
import gc
import pickle
from datetime import UTC, datetime

import pytest

from frazil.formats.repo_info import snapshot_table
from frazil.ids import ManifestId, SnapshotId
from frazil.model import history
from frazil.model.history import RepoAvailability, UpdateType, to_micros
from frazil.model.outward import (
    inner_status,
    manifest_file_info,
    repo_status,
    snapshot_info,
    snapshot_infos,
    update_of,
)
from frazil.model.values import ManifestFileInfo, RepoStatus, SnapshotInfo, SpecVersion, Update

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
ONE, TWO = SnapshotId(b"1" * 12), SnapshotId(b"2" * 12)


def test_a_snapshot_entry_becomes_text_and_times() -> None:
    entry = history.SnapshotEntry(TWO, ONE, to_micros(NOON), "say", {"a": 1})
    info = snapshot_info(entry)
    assert info == SnapshotInfo(str(TWO), str(ONE), NOON, "say", {"a": 1})
    assert repr(info).startswith(f"<frazil.SnapshotInfo>\nid: {TWO}\n")
    assert "message: say\n" in repr(info)
    assert pickle.loads(pickle.dumps(info)) == info
    first = snapshot_info(history.SnapshotEntry(ONE, None, 0, "", {}))
    assert first.parent_id is None


def test_commits_of_a_history_are_read_when_they_are_looked_at() -> None:
    ids = [SnapshotId(bytes([n, 0]) * 6) for n in range(100)]
    parents = [None, *ids[:-1]]
    entries = [
        history.SnapshotEntry(one, parent, n, f"commit {n}", {"n": n})
        for n, (one, parent) in enumerate(zip(ids, parents, strict=True))
    ]
    table = snapshot_table(entries)
    expected = [snapshot_info(entry) for entry in reversed(entries)]
    assert list(snapshot_infos(table.pages(ids[-1]))) == expected
    for untouched, known in zip(snapshot_infos(table.pages(ids[-1])), expected, strict=True):
        assert pickle.loads(pickle.dumps(untouched)) == known
    first = next(snapshot_infos(table.pages(ids[1])))
    assert not hasattr(first, "no_such_field")
    assert repr(first) == repr(expected[-2])
    assert copy.copy(next(snapshot_infos(table.pages(ids[0])))) == expected[-1]


def test_commits_that_nobody_keeps_are_few_at_a_time() -> None:
    ids = [SnapshotId(n.to_bytes(12, "big")) for n in range(3000)]
    entries = [
        history.SnapshotEntry(one, parent, n, f"commit {n}", {})
        for n, (one, parent) in enumerate(zip(ids, [None, *ids[:-1]], strict=True))
    ]
    table, most = snapshot_table(entries), 0
    for number, _ in enumerate(snapshot_infos(table.pages(ids[-1]))):
        if number % 100 == 0:
            alive = sum(type(each) is SnapshotInfo for each in gc.get_objects())
            most = max(most, alive)
    assert 0 < most < 800
    # Each knows which one it is, whichever is looked at first.
    kept = list(snapshot_infos(table.pages(ids[-1])))
    assert [info.message for info in kept[::-7]] == [e.message for e in entries[::7]]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (UpdateType.RepoInitialized(), UpdateType.RepoInitialized()),
        (
            UpdateType.RepoMigrated(1, 2),
            UpdateType.RepoMigrated(SpecVersion.v1, SpecVersion.v2),
        ),
        (UpdateType.ConfigChanged(), UpdateType.ConfigChanged()),
        (UpdateType.MetadataChanged(), UpdateType.MetadataChanged()),
        (UpdateType.TagCreated("t"), UpdateType.TagCreated("t")),
        (UpdateType.TagDeleted("t", ONE), UpdateType.TagDeleted("t", str(ONE))),
        (UpdateType.BranchCreated("b"), UpdateType.BranchCreated("b")),
        (UpdateType.BranchDeleted("b", ONE), UpdateType.BranchDeleted("b", str(ONE))),
        (UpdateType.BranchReset("b", ONE), UpdateType.BranchReset("b", str(ONE))),
        (UpdateType.NewCommit("b", TWO), UpdateType.NewCommit("b", str(TWO))),
        (
            UpdateType.CommitAmended("b", ONE, TWO),
            UpdateType.CommitAmended("b", str(ONE), str(TWO)),
        ),
        (UpdateType.NewDetachedSnapshot(TWO), UpdateType.NewDetachedSnapshot(str(TWO))),
        (UpdateType.GCRan(), UpdateType.GCRan()),
        (UpdateType.ExpirationRan(), UpdateType.ExpirationRan()),
        (UpdateType.FeatureFlagChanged(3, None), UpdateType.FeatureFlagChanged(3, None)),
        (
            UpdateType.RepoStatusChanged(
                history.StoredStatus(RepoAvailability.read_only, to_micros(NOON), "audit")
            ),
            UpdateType.RepoStatusChanged(RepoStatus(RepoAvailability.read_only, NOON, "audit")),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_update_is_shown(kind: history.UpdateKind, shown: object) -> None:
    line = update_of(history.UpdateEntry(kind, to_micros(NOON), "backup"))
    assert line == Update(shown, NOON, "backup")  # type: ignore[arg-type]
    assert isinstance(line.kind, UpdateType)
    assert type(line.kind).__name__ in repr(line)
    assert pickle.loads(pickle.dumps(line)) == line


def test_a_status_goes_out_and_in() -> None:
    status = history.StoredStatus(RepoAvailability.read_only, to_micros(NOON), "audit")
    assert inner_status(repo_status(status)) == status
    assert "availability: ReadOnly" in repr(repo_status(status))
    offline = history.StoredStatus(RepoAvailability.offline, 0)
    assert repo_status(offline).availability is RepoAvailability.online


def test_a_manifest_entry_becomes_text() -> None:
    entry = history.ManifestFile(ManifestId(b"m" * 12), 100, 3)
    assert manifest_file_info(entry) == ManifestFileInfo(str(entry.id), 100, 3)


def test_versions_that_are_not_known_stay_numbers() -> None:
    """As a newer library may have migrated a repository to."""
    kind = update_of(history.UpdateEntry(UpdateType.RepoMigrated(2, 3), 0)).kind
    assert isinstance(kind, UpdateType.RepoMigrated)
    assert (kind.from_version, kind.to_version) == (SpecVersion.v2, 3)
    assert type(kind.to_version) is int


def test_what_a_newer_library_did_is_listed() -> None:
    line = update_of(history.UpdateEntry(history.UnknownUpdate(99), to_micros(NOON)))
    assert line.kind == history.UnknownUpdate(99)
    assert line.updated_at == NOON


def test_metadata_of_a_commit_are_a_copy() -> None:
    entry = history.SnapshotEntry(ONE, None, 0, "", {"a": 1})
    snapshot_info(entry).metadata["a"] = 2
    assert entry.metadata == {"a": 1}
