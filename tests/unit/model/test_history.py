"""The rules by which the repo object changes."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, FormatError
from frazil.formats.repo_info import decode_repo_info, encode_repo_info, snapshot_table
from frazil.ids import SnapshotId
from frazil.model.history import (
    RepoAvailability,
    RepoInfo,
    Snapshot,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateLog,
    UpdateType,
    with_update,
)

C = SnapshotId(b"c" * 12)


def info_with(*entries: UpdateEntry) -> RepoInfo:
    return RepoInfo(
        spec_version=2,
        tags={},
        branches={"main": C},
        deleted_tags=frozenset(),
        snapshots=snapshot_table([SnapshotEntry(C, None, 1, "root", {})]),
        status=StoredStatus(RepoAvailability.online, 1),
        metadata={},
        latest_updates=UpdateLog.of(entries),
    )


def test_the_line_that_was_newest_learns_its_backup() -> None:
    info = info_with(UpdateEntry(UpdateType.RepoInitialized(), 10))
    new = with_update(
        info, UpdateType.BranchCreated("x"), 11, "repo.1", 1000, branches={"main": C, "x": C}
    )
    assert list(new.latest_updates) == [
        UpdateEntry(UpdateType.BranchCreated("x"), 11),
        UpdateEntry(UpdateType.RepoInitialized(), 10, "repo.1"),
    ]
    assert new.branches == {"main": C, "x": C}
    assert new.repo_before_updates is None


def test_the_log_is_cut_after_its_limit_and_the_rest_is_in_the_backups() -> None:
    info = info_with(UpdateEntry(UpdateType.RepoInitialized(), 0))
    states = {}
    for n in range(1, 9):
        states[f"repo.{n}"] = info
        info = with_update(info, UpdateType.TagCreated(f"t{n}"), n, f"repo.{n}", 3)
        info = decode_repo_info(encode_repo_info(info), key="repo")
    assert [line.updated_at for line in info.latest_updates] == [8, 7, 6]
    assert info.repo_before_updates == "repo.6"
    times = []
    while True:
        times += [line.updated_at for line in info.latest_updates]
        if info.repo_before_updates is None:
            break
        info = states[info.repo_before_updates]
    assert times == [8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_lines_without_backup_are_not_cut_off() -> None:
    info = info_with(
        UpdateEntry(UpdateType.GCRan(), 9),
        UpdateEntry(UpdateType.NewCommit("main", C), 8),
        UpdateEntry(UpdateType.NewCommit("main", C), 7),
        UpdateEntry(UpdateType.RepoInitialized(), 6, "repo.old"),
        UpdateEntry(UpdateType.RepoInitialized(), 5, "repo.older"),
    )
    new = with_update(info, UpdateType.GCRan(), 10, "repo.new", 2)
    assert [line.updated_at for line in new.latest_updates] == [10, 9, 8, 7]
    assert new.repo_before_updates == "repo.old"


def test_time_must_go_on() -> None:
    info = info_with(UpdateEntry(UpdateType.RepoInitialized(), 10))
    for now in (9, 10):
        with pytest.raises(FormatError) as caught:
            with_update(info, UpdateType.GCRan(), now, "repo.1", 1000)
        assert caught.value.kind == ErrorKind.SNAPSHOT_TIMESTAMP


def test_the_first_line_may_have_any_time() -> None:
    new = with_update(info_with(), UpdateType.RepoInitialized(), 1, "repo.1", 1000)
    assert list(new.latest_updates) == [UpdateEntry(UpdateType.RepoInitialized(), 1)]
    assert new.repo_before_updates is None


def test_the_backup_of_older_lines_stays_known_until_more_are_cut_off() -> None:
    info = info_with(UpdateEntry(UpdateType.RepoInitialized(), 1))
    for now, before in ((2, None), (3, "repo.2"), (4, "repo.3")):
        info = with_update(info, UpdateType.GCRan(), now, f"repo.{now}", 2)
        assert info.repo_before_updates == before
    more = with_update(info, UpdateType.GCRan(), 5, "repo.5", 1000)
    assert more.repo_before_updates == "repo.3"
    assert [line.updated_at for line in more.latest_updates] == [5, 4, 3]


def test_history_records_a_snapshot_without_its_nodes() -> None:
    parent, pruned = SnapshotId(b"p" * 12), (SnapshotId(b"x" * 12),)
    found = Snapshot(C, None, (), 7, "message", {"a": 1}, ()).entry(parent, pruned)
    assert found == SnapshotEntry(C, parent, 7, "message", {"a": 1}, pruned)
