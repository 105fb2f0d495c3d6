"""Rebasing needs to know what others did: where the record of it is gone, it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import ConflictError, ErrorKind, SessionStateError
from frazil.ids import SnapshotId
from frazil.model.values import BasicConflictSolver, ConflictDetector, VersionSelection
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.assets import log_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from frazil.transaction.rebasing import rebase
from tests.support.nodes import array_document, contents, write_keys

LATER = timedelta(minutes=1)


def started(spec: int) -> tuple[Storage, Repository]:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(9), "b/zarr.json": array_document(9)})
    session.commit("start")
    return storage, repository


def write(repository: Repository, key: str) -> Session:
    session = repository.writable_session("main")
    write_keys(session, {key: b"x"})
    return session


def forget(storage: Storage, snapshot: str) -> None:
    key = log_key(SnapshotId.parse(snapshot))
    assert storage.head(key) is not None
    storage.delete_many([key])


@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_whose_record_is_gone_is_not_passed(spec: int) -> None:
    """It may have written the very chunk that this session writes."""
    storage, repository = started(spec)
    late = write(Repository.open(storage), "a/c/0")
    base = late.snapshot_id
    first = write(repository, "b/c/0").commit("first")
    second = write(repository, "a/c/0").commit("second")
    forget(storage, second)
    with pytest.raises(SessionStateError) as caught:
        late.commit("late", rebase_with=ConflictDetector())
    assert caught.value.kind is ErrorKind.REBASE_TX_LOG_PRUNED
    assert second in str(caught.value)
    assert repository.lookup_branch("main") == second
    assert late.has_uncommitted_changes
    assert late.snapshot_id == base != first


def test_nor_one_that_has_expired() -> None:
    """What expired commits did is in logs that the next commit keeps; spec 2 knows which."""
    storage, repository = started(2)
    late = write(Repository.open(storage), "a/c/0")
    first = write(repository, "b/c/0").commit("first")
    second = write(repository, "b/c/1").commit("second")
    third = write(repository, "b/c/2").commit("third")
    assert repository.expire_snapshots(datetime.now(UTC) + LATER)
    forget(storage, second)
    with pytest.raises(SessionStateError) as caught:
        late.commit("late", rebase_with=ConflictDetector())
    assert caught.value.kind is ErrorKind.REBASE_TX_LOG_PRUNED
    assert second in str(caught.value)
    assert first not in str(caught.value)
    assert repository.lookup_branch("main") == third


def test_expired_commits_after_the_base_are_passed() -> None:
    """Those before it are not asked about, nor is their record."""
    storage, repository = started(2)
    early = write(repository, "b/c/0").commit("early")
    late = write(Repository.open(storage), "a/c/0")
    write(repository, "b/c/1").commit("first")
    write(repository, "b/c/2").commit("second")
    repository.expire_snapshots(datetime.now(UTC) + LATER)
    forget(storage, early)
    late.commit("late", rebase_with=ConflictDetector())
    found = contents(Repository.open(storage).readonly_session("main"))
    assert {"a/c/0", "b/c/0", "b/c/1", "b/c/2"} <= found.keys()


def test_an_expired_commit_that_clashes_is_found() -> None:
    storage, repository = started(2)
    late = write(Repository.open(storage), "a/c/0")
    write(repository, "a/c/0").commit("clash")
    write(repository, "b/c/1").commit("harmless")
    repository.expire_snapshots(datetime.now(UTC) + LATER)
    with pytest.raises(ConflictError):
        late.commit("late", rebase_with=ConflictDetector())


@pytest.mark.parametrize("spec", [1, 2])
def test_a_branch_that_was_reset_is_told(spec: int) -> None:
    storage, repository = started(spec)
    start = repository.lookup_branch("main")
    gone = write(repository, "b/c/0").commit("gone")
    late = write(Repository.open(storage), "a/c/0")
    repository.reset_branch("main", start)
    write(repository, "b/c/1").commit("instead")
    with pytest.raises(ConflictError, match="reset or expired") as caught:
        late.commit("late", rebase_with=ConflictDetector())
    assert caught.value.expected_parent == gone


@pytest.mark.parametrize("spec", [1, 2])
def test_several_commits_are_passed_one_by_one(spec: int) -> None:
    storage, repository = started(spec)
    late = write(Repository.open(storage), "a/c/0")
    for place in range(3):
        last = write(repository, f"b/c/{place}").commit(f"number {place}")
    late.rebase(ConflictDetector())
    assert late.snapshot_id == last
    late.commit("late")
    messages = [info.message for info in repository.ancestry(branch="main")]
    assert messages[:4] == ["late", "number 2", "number 1", "number 0"]


@pytest.mark.parametrize("spec", [1, 2])
def test_a_session_stays_on_the_last_commit_that_went_well(spec: int) -> None:
    storage, repository = started(spec)
    late = write(Repository.open(storage), "a/c/0")
    fine = write(repository, "b/c/0").commit("fine")
    write(repository, "a/c/0").commit("clash")
    with pytest.raises(ConflictError):
        late.rebase(ConflictDetector())
    assert late.snapshot_id == fine
    assert contents(late)["b/c/0"] == b"x"


def test_what_was_solved_stays_undone_when_the_rest_cannot_be() -> None:
    """Two expired commits are passed at once: the first is solved, the second is not."""
    storage, repository = started(2)
    late = write(Repository.open(storage), "a/c/0")
    write_keys(late, {"b/c/0": b"late"})
    write(repository, "a/c/0").commit("solved by taking theirs")
    session = repository.writable_session("main")
    KeySpace(session.state).delete("b/zarr.json")
    session.commit("the array is gone")
    repository.expire_snapshots(datetime.now(UTC) + LATER)
    base = late.snapshot_id
    solver = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
    with pytest.raises(ConflictError):
        late.rebase(solver)
    assert late.snapshot_id == base
    assert contents(late)["a/c/0"] == b"x"
    assert contents(late)["b/c/0"] == b"late"


@pytest.mark.parametrize("spec", [1, 2])
def test_the_number_of_commits_passed_is_told(spec: int) -> None:
    storage, repository = started(spec)
    session = write(Repository.open(storage), "a/c/0")
    assert rebase(session.state, "main", ConflictDetector()) == 0
    assert rebase(session.state, "gone", ConflictDetector()) == 0
    for place in range(2):
        write(repository, f"b/c/{place}").commit("other")
    assert rebase(session.state, "main", ConflictDetector()) == 2
