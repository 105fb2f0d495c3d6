"""From version 1 to version 2, also against resistance."""

from __future__ import annotations

from itertools import pairwise

import pytest
import zarr

from frazil.errors import ConflictError, ErrorKind, FrazilError, SessionStateError, StorageError
from frazil.formats.ref_files import branch_key, encode_ref
from frazil.ids import SnapshotId
from frazil.maintenance.upgrade import upgrade_v1_to_v2
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, make, messages, put, values


def old(storage: MemoryStorage) -> Repository:
    """A version 1 repository with branches, tags, a deleted tag and a stored configuration."""
    repo = make(storage, 1)
    first = put(repo, 0, 1)
    repo.create_branch("side", first)
    put(repo, 1, 2)
    put(repo, 2, 3, "side")
    repo.create_tag("release", first)
    repo.create_tag("oops", first)
    repo.delete_tag("oops")
    repo.save_config()
    return repo


def upgrade(repo: Repository, *, dry_run: bool = False, delete: bool = True) -> None:
    upgrade_v1_to_v2(context_of(repo), dry_run=dry_run, delete_unused_v1_files=delete)


def assert_upgraded(storage: MemoryStorage) -> Repository:
    """Everything is there that was there before."""
    repo = Repository.open(storage)
    assert repo.spec_version == 2
    assert repo.list_branches() == {"main", "side"}
    assert repo.list_tags() == {"release"}
    assert messages(repo) == ["1=2", "0=1", "array", "Repository initialized"]
    assert messages(repo, "side") == ["2=3", "0=1", "array", "Repository initialized"]
    assert values(repo) == [1, 2, 0, 0, 0, 0, 0, 0]
    assert values(repo, "side") == [1, 0, 3, 0, 0, 0, 0, 0]
    with pytest.raises(FrazilError) as raised:
        repo.create_tag("oops", repo.lookup_branch("main"))
    assert raised.value.kind == ErrorKind.TAG_PREVIOUSLY_DELETED
    return repo


def test_refs_history_and_configuration_move(storage: MemoryStorage) -> None:
    repo = old(storage)
    config = repo.config
    before = keys(storage)
    upgrade(repo)
    upgraded = assert_upgraded(storage)
    assert upgraded.config == config
    gone = {key for key in before if key.startswith("refs/")} | {"config.yaml"}
    assert keys(storage) == before - gone | {"repo"}
    put(upgraded, 6, 60)
    assert values(upgraded) == [1, 2, 0, 0, 0, 0, 60, 0]
    root = [info.id for info in upgraded.ancestry(branch="main")][-1]
    changes = upgraded.diff(from_snapshot_id=root, to_branch="main")
    assert changes.updated_chunks == {"/line": [[0], [1], [6]]}


def test_the_operations_log_tells_what_must_have_happened(storage: MemoryStorage) -> None:
    repo = old(storage)
    upgrade(repo)
    updates = list(Repository.open(storage).ops_log())
    kinds = [type(update.kind).__name__ for update in updates]
    assert kinds[0] == "RepoMigrated"
    assert kinds[-1] == "RepoInitialized"
    assert sorted(kinds[1:-1]) == [
        "BranchCreated",
        "NewCommit",
        "NewCommit",
        "NewCommit",
        "NewCommit",
        "TagCreated",
        "TagCreated",
        "TagDeleted",
    ]
    assert all(newer.updated_at > older.updated_at for newer, older in pairwise(updates))
    assert all(update.backup_path is None for update in updates)


def test_a_dry_run_changes_nothing(storage: MemoryStorage) -> None:
    repo = old(storage)
    before = keys(storage)
    upgrade(repo, dry_run=True)
    assert keys(storage) == before
    assert Repository.open(storage).spec_version == 1


def test_old_files_can_stay_and_be_deleted_later(storage: MemoryStorage) -> None:
    repo = old(storage)
    upgrade(repo, delete=False)
    assert {"refs/branch.main/ref.json", "config.yaml"} <= keys(storage)
    upgrade(assert_upgraded(storage))
    assert not keys(storage, "refs/")
    assert "config.yaml" not in keys(storage)
    assert_upgraded(storage)


def test_there_is_nothing_to_upgrade_in_version_2(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    for dry_run in (True, False):
        with pytest.raises(SessionStateError) as raised:
            upgrade(repo, dry_run=dry_run)
        assert raised.value.kind == ErrorKind.INVALID_REPOSITORY_MIGRATION


def test_old_refs_that_somebody_went_on_using_are_not_deleted(storage: MemoryStorage) -> None:
    repo = old(storage)
    session = repo.writable_session("main")
    newer = SnapshotId.parse(session.flush("by a client that knows only v1"))
    upgrade(repo, delete=False)
    storage.put(branch_key("main", encoded=True), encode_ref(newer))
    with pytest.raises(SessionStateError, match="old client"):
        upgrade(Repository.open(storage))
    assert keys(storage, "refs/")


def test_a_branch_that_an_old_client_makes_at_the_last_moment_is_told_and_not_deleted(
    storage: MemoryStorage,
) -> None:
    repo = old(storage)
    late = SnapshotId.parse(repo.writable_session("main").flush("by a client that knows only v1"))
    key = branch_key("late", encoded=True)
    race = InterruptedStorage(storage)
    make_branch = Moment("list", "refs/", lambda: storage.put(key, encode_ref(late)))
    # The repo object is written twice: to announce the upgrade, and with what the refs say.
    race.moments = [Moment("put_if", "repo", lambda: race.moments.append(make_branch), call=2)]
    with pytest.raises(SessionStateError, match="old client") as raised:
        upgrade(Repository.open(race))
    assert race.is_over
    assert raised.value.facts["ref"] == "late"
    assert key in keys(storage, "refs/")
    assert_upgraded(storage)


def test_a_session_from_before_cannot_commit_where_nobody_would_look(
    storage: MemoryStorage,
) -> None:
    repo = old(storage)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="line")[7] = 70
    upgrade(Repository.open(storage), delete=False)
    with pytest.raises(ConflictError, match="upgraded") as raised:
        session.commit("late", rebase_with=ConflictDetector())
    assert raised.value.kind == ErrorKind.REPO_INFO_UPDATED
    assert_upgraded(storage)


@pytest.mark.parametrize("trouble", [Trouble.FAIL, Trouble.LOSE_REPLY])
def test_it_can_be_interrupted_anywhere_and_run_again(trouble: Trouble) -> None:
    call, interrupted = 1, True
    while interrupted:
        storage = MemoryStorage()
        old(storage)
        faulty = FaultyStorage(storage)
        repo = Repository.open(faulty)
        faulty.forget_calls()
        faulty.plan = (Fault(trouble, call=call, times=2),)
        try:
            upgrade(repo)
            interrupted = call < len(faulty.calls)
        except FrazilError:
            again = Repository.open(storage)
            if again.spec_version == 1 or keys(storage, "refs/") or "config.yaml" in keys(storage):
                upgrade(again)
        assert_upgraded(storage)
        assert not keys(storage, "refs/")
        call += 1
    assert call > 20


@pytest.mark.parametrize("moment", ["list snapshots/", "put_if repo"])
def test_a_commit_meanwhile_is_not_lost(moment: str) -> None:
    storage = MemoryStorage()
    repo = old(storage)
    operation, prefix = moment.split()
    race = InterruptedStorage(storage, [Moment(operation, prefix, lambda: put(repo, 6, 60))])
    upgrade(Repository.open(race))
    upgraded = Repository.open(storage)
    assert upgraded.spec_version == 2
    assert messages(upgraded)[0] == "6=60"
    assert values(upgraded) == [1, 2, 0, 0, 0, 0, 60, 0]


def test_the_second_of_two_upgrades_gives_way(storage: MemoryStorage) -> None:
    repo = old(storage)
    first = Moment("put_if", "repo", lambda: upgrade(repo, delete=False))
    race = InterruptedStorage(storage, [first])
    with pytest.raises(FrazilError) as raised:
        upgrade(Repository.open(race))
    assert raised.value.kind == ErrorKind.REPO_INFO_UPDATED
    assert_upgraded(storage)


def test_files_that_cannot_be_deleted_are_reported(storage: MemoryStorage) -> None:
    old(storage)
    faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, "delete_many", times=9)])
    with pytest.raises(StorageError):
        upgrade(Repository.open(faulty))
    assert_upgraded(storage)


def test_damaged_snapshots_that_nothing_needs_are_no_hindrance(storage: MemoryStorage) -> None:
    repo = old(storage)
    storage.put(f"snapshots/{SnapshotId.random()}", b"torn")
    upgrade(repo)
    assert_upgraded(storage)
