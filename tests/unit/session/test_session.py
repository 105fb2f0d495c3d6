"""What a session promises: its life from opening to commit, amend, flush, fork and merge."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import (
    ErrorKind,
    FormatError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from frazil.transaction.keyspace import KeySpace
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, contents, group_document, start, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def values(store: FrazilStore, path: str) -> bytes:
    return np.asarray(zarr.open_array(store, path=path, mode="r")[:]).tobytes()


def test_commit_makes_the_session_read_only_at_the_new_snapshot(repository: Repository) -> None:
    session = repository.writable_session("main")
    store = session.store
    write_keys(session, {"zarr.json": group_document()})
    assert session.has_uncommitted_changes
    new = session.commit("made", {"author": "me"})
    assert session.read_only
    assert session.branch is None
    assert session.snapshot_id == new == repository.lookup_branch("main")
    assert repository.lookup_snapshot(new).metadata == {"author": "me"}
    with pytest.raises(ReadOnlyError):
        KeySpace(store.session.state).set("zarr.json", group_document(x=1))
    with pytest.raises(SessionStateError) as caught:
        session.commit("again")
    assert caught.value.kind == ErrorKind.COMMIT_NOT_ALLOWED


def test_nothing_to_commit_is_an_error_unless_allowed(repository: Repository) -> None:
    with pytest.raises(SessionStateError, match="no changes made to the session"):
        repository.writable_session("main").commit("nothing")
    new = repository.writable_session("main").commit("empty", allow_empty=True)
    assert repository.lookup_snapshot(new).message == "empty"


def test_readers_never_see_uncommitted_changes(repository: Repository) -> None:
    start(repository)
    reader = repository.readonly_session("main")
    before = contents(reader)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/c/0": b"changed"})
    assert contents(repository.readonly_session("main")) == before
    session.commit("changed")
    assert contents(reader) == before
    assert contents(repository.readonly_session("main"))["g/a/c/0"] == b"changed"


def test_discard_brings_back_the_base(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    before = contents(session)
    KeySpace(session.state).delete_dir("g")
    session.discard_changes()
    assert contents(session) == before
    assert not session.has_uncommitted_changes


def test_shrinking_drops_chunks_for_good(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/zarr.json": array_document(2)})
    session.commit("shrunk")
    session = repository.writable_session("main")
    write_keys(session, {"g/a/zarr.json": array_document(6)})
    session.commit("grown")
    found = contents(repository.readonly_session("main"))
    assert [key for key in sorted(found) if "/c/" in key] == ["g/a/c/0", "g/a/c/1"]


# --- amend, flush, transaction ---


def test_v1_cannot_amend_or_move() -> None:
    repository = Repository.create(MemoryStorage(), spec_version=1)
    start(repository)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/c/0": b"x"})
    with pytest.raises(FormatError, match="upgrade"):
        session.amend("no")
    with pytest.raises(FormatError, match="upgrade"):
        repository.rearrange_session("main")
    session.commit("but commit works after the refusal")


def test_flush_moves_no_branch(repository: Repository) -> None:
    first = start(repository)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/c/0": b"aside"})
    aside = session.flush("aside")
    assert repository.lookup_branch("main") == first
    assert contents(repository.readonly_session(snapshot_id=aside))["g/a/c/0"] == b"aside"
    repository.create_branch("side", aside)
    assert [i.id for i in repository.ancestry(branch="side")][:2] == [aside, first]


# --- working together ---


def test_forks_are_pickled_written_and_merged(tmp_path: Path) -> None:
    repository = Repository.create(LocalStorage(str(tmp_path)))
    start(repository)
    session = repository.writable_session("main")
    write_keys(session, {"g/a/c/5": b"parent"})
    with pytest.raises(ValueError, match="fork"):
        pickle.dumps(session)
    forks = [pickle.loads(pickle.dumps(session.fork())) for _ in range(3)]
    for index, fork in enumerate(forks):
        assert contents(fork)["g/a/c/5"] == b"parent"
        write_keys(fork, {f"g/a/c/{index}": b"fork"})
        with pytest.raises(SessionStateError, match="not allowed in a fork"):
            fork.commit("no")
    back = [pickle.loads(pickle.dumps(fork)) for fork in forks]
    session.merge(*back)
    session.commit("together")
    found = contents(repository.readonly_session("main"))
    assert [found[f"g/a/c/{i}"] for i in (0, 1, 2, 5)] == [b"fork"] * 3 + [b"parent"]


def test_a_fork_may_change_what_its_session_has_just_made(repository: Repository) -> None:
    session = repository.writable_session("main")
    write_keys(session, {"new/zarr.json": array_document(2), "new/c/0": b"x"})
    write_keys(session, {"ng/zarr.json": group_document()})
    fork, rival = session.fork(), session.fork()
    write_keys(fork, {"new/zarr.json": array_document(4), "new/c/3": b"y"})
    write_keys(fork, {"ng/zarr.json": group_document(x=1)})
    write_keys(rival, {"new/zarr.json": array_document(3)})
    session.merge(fork)
    session.merge(fork)
    with pytest.raises(SessionStateError) as caught:
        session.merge(rival)
    assert caught.value.kind == ErrorKind.MERGE_FAILED
    session.commit("merged")
    found = contents(repository.readonly_session("main"))
    assert json.loads(found["new/zarr.json"]) == json.loads(array_document(4))
    assert (found["new/c/0"], found["new/c/3"]) == (b"x", b"y")
    assert json.loads(found["ng/zarr.json"]) == json.loads(group_document(x=1))


def test_forks_that_clash_are_refused_whole(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    one, two = session.fork(), session.fork()
    write_keys(one, {"g/zarr.json": group_document(x=1), "g/a/c/0": b"one"})
    write_keys(two, {"g/zarr.json": group_document(x=2), "g/a/c/0": b"two"})
    session.merge(one)
    before = contents(session)
    with pytest.raises(SessionStateError) as caught:
        session.merge(two)
    assert caught.value.kind == ErrorKind.MERGE_FAILED
    assert contents(session) == before


def test_sessions_of_one_snapshot_are_merged(repository: Repository) -> None:
    start(repository)
    one, two = repository.writable_session("main"), repository.writable_session("main")
    write_keys(one, {"g/a/c/0": b"1"})
    write_keys(two, {"g/a/c/1": b"2"})
    one.merge(one, two)
    write_keys(two, {"g/a/c/1": b"3"})
    one.commit("both")
    found = contents(repository.readonly_session("main"))
    assert (found["g/a/c/0"], found["g/a/c/1"]) == (b"1", b"2")


def test_merges_that_make_no_sense_are_refused(newest: Repository) -> None:
    start(newest)
    early, other = newest.writable_session("main"), newest.writable_session("main")
    fork = early.fork()
    write_keys(other, {"g/a/c/1": b"2"})
    reader = newest.readonly_session("main")
    with pytest.raises(ReadOnlyError):
        reader.merge(fork)
    with pytest.raises(SessionStateError) as caught:
        early.merge(newest.rearrange_session("main"))
    assert caught.value.kind == ErrorKind.REARRANGE_SESSION_ONLY
    with pytest.raises(SessionStateError, match="into a fork") as caught:
        fork.merge(other)
    assert caught.value.kind == ErrorKind.MERGE_NOT_ALLOWED
    other.commit("moves the branch")
    late = newest.writable_session("main")
    write_keys(late, {"g/a/c/2": b"3"})
    with pytest.raises(SessionStateError, match="different snapshots"):
        early.merge(late)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_listing_while_others_write_loses_nothing(newest: Repository) -> None:
    session = newest.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(4, 400)})

    def write_row(row: int) -> None:
        for column in range(400):
            write_keys(session, {f"a/c/{row}/{column}": b"x"})
        write_keys(session, {f"g{row}/{n}/zarr.json": group_document() for n in range(50)})

    with ThreadPoolExecutor(5) as threads:
        writers = [threads.submit(write_row, row) for row in range(4)]
        reader = threads.submit(list_until, session, writers)
        for done in (*writers, reader):
            done.result()
    assert len(contents(session)) == 2 + 4 * 400 + 4 * 50


def list_until(session: Session, writers: list[Future[None]]) -> None:
    """List keys over and over until everything is written."""
    space = KeySpace(session.state)
    while not all(writer.done() for writer in writers):
        list(space.list_prefix(""))
        space.prefix_size("a")
        space.list_dir("a/c")
