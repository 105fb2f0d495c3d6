"""A session that is open for longer than collections spare what it wrote."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
import zarr

from frazil.commit.base import MINIMUM_AGE
from frazil.errors import SessionStateError, StorageError
from frazil.repository import Repository
from frazil.session import ForkSession, Session
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, make, messages, put, values

HOURS = MINIMUM_AGE.total_seconds()


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def begun_long_ago(session: Session) -> Session:
    """As if it were open for more than a day."""
    session.state.changes.began -= HOURS
    return session


def collect_chunks_of(storage: MemoryStorage, before: set[str]) -> None:
    """What a collection does to objects of a day ago that no snapshot names."""
    storage.delete_many(sorted(keys(storage, "chunks/") - before))


@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_whose_chunks_were_collected_is_refused(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    before = keys(storage, "chunks/")
    session = begun_long_ago(repo.writable_session("main"))
    zarr.open_array(session.store, path="line")[3] = 4
    collect_chunks_of(storage, before)
    with pytest.raises(SessionStateError, match="write them again"):
        session.commit("late")
    assert messages(repo)[0] == "0=1"
    zarr.open_array(session.store, path="line")[3] = 4
    session.commit("written again")
    assert values(repo)[:4] == [1, 0, 0, 4]


def test_a_fork_counts_from_its_own_beginning(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    before = keys(storage, "chunks/")
    session = repo.writable_session("main")
    fork = begun_long_ago(session.fork())
    zarr.open_array(fork.store, path="line")[3] = 4
    returned: ForkSession = pickle.loads(pickle.dumps(fork))
    session.merge(returned)
    collect_chunks_of(storage, before)
    with pytest.raises(SessionStateError, match="write them again"):
        session.commit("late")


@pytest.mark.parametrize("spec", [1, 2])
def test_a_collection_at_the_moment_of_the_commit_takes_it_back(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    tip = repo.lookup_branch("main")
    before = keys(storage, "chunks/")
    entry = "repo" if spec == 2 else "refs/branch.main"
    moment = Moment("put_if", entry, lambda: collect_chunks_of(storage, before))
    slow = Repository.open(InterruptedStorage(storage, []), repo.config)
    session = begun_long_ago(slow.writable_session("main"))
    zarr.open_array(session.store, path="line")[3] = 4
    watched = context_of(slow).place
    assert isinstance(watched, InterruptedStorage)
    watched.moments.append(moment)
    with pytest.raises(SessionStateError, match="write them again"):
        session.commit("late")
    assert not watched.moments
    assert Repository.open(storage).lookup_branch("main") == tip
    assert values(Repository.open(storage)) == [0] * 8


@pytest.mark.parametrize("spec", [1, 2])
def test_a_collection_at_the_moment_of_a_flush_is_noticed(
    storage: MemoryStorage, spec: int
) -> None:
    make(storage, spec)
    before = keys(storage, "chunks/")
    refused = 0
    for call in count(1):
        place = InterruptedStorage(storage, [])
        session = begun_long_ago(Repository.open(place).writable_session("main"))
        zarr.open_array(session.store, path="line")[3] = 4
        place.before(call, lambda: collect_chunks_of(storage, before))
        try:
            made = session.flush("late")
        except SessionStateError:
            refused += 1
        else:
            if not place.is_over:
                break
            seen = keys(storage, "chunks/")
            assert seen > before, (call, made)
    assert refused > 3


def test_a_plan_that_was_made_long_ago_makes_a_session_that_was(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    before = keys(storage, "chunks/")
    tip = replace(repo.tip("main"), began=time.time() - HOURS)
    session = tip.writable_session()
    zarr.open_array(session.store, path="line")[3] = 4
    collect_chunks_of(storage, before)
    with pytest.raises(SessionStateError, match="write them again"):
        session.commit("late")


def test_other_sessions_ask_for_nothing(storage: MemoryStorage) -> None:
    def asked(age: Callable[[Session], Session]) -> list[str]:
        watched = FaultyStorage(storage)
        watched.answers_inline = False  # as a store to which every question is a request
        session = age(Repository.open(watched).writable_session("main"))
        zarr.open_array(session.store, path="line")[3] = 4
        watched.forget_calls()
        session.commit("one chunk")
        return [key for operation, key in watched.calls if operation == "head"]

    make(storage, 2)
    assert [key for key in asked(begun_long_ago) if key.startswith("chunks/")]
    assert not [key for key in asked(lambda session: session) if key.startswith("chunks/")]


@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_that_is_found_again_is_looked_through_again(
    storage: MemoryStorage, spec: int
) -> None:
    """The look after it has failed, and a collection came at the moment of the commit."""
    repo = make(storage, spec)
    tip = repo.lookup_branch("main")
    before = keys(storage, "chunks/")
    entry = "repo" if spec == 2 else "refs/branch.main"
    slow = Repository.open(InterruptedStorage(storage, []), repo.config)
    session = begun_long_ago(slow.writable_session("main"))
    zarr.open_array(session.store, path="line")[3] = 4
    watched = context_of(slow).place
    assert isinstance(watched, InterruptedStorage)

    def fail() -> None:
        raise StorageError("no answer")

    def collected() -> None:
        collect_chunks_of(storage, before)
        watched.moments.append(Moment("head", "chunks/", fail))

    watched.moments.append(Moment("put_if", entry, collected))
    with pytest.raises(StorageError, match="no answer"):
        session.commit("late")
    assert watched.is_over
    assert Repository.open(storage).lookup_branch("main") != tip
    with pytest.raises(SessionStateError, match="write them again"):
        session.commit("late")
    assert Repository.open(storage).lookup_branch("main") == tip
