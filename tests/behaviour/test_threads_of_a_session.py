"""Many threads on one session: nothing crashes, and no write is lost silently."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from frazil.errors import ReadOnlyError
from frazil.model.config import ManifestConfig, RepositoryConfig
from frazil.model.manifest_config import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.pool import thread_pool
from frazil.storage.wrapped import LatencyStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.nodes import array_document, contents, write_keys

CHUNKS = 400
WRITERS = 2000


def test_listing_while_others_write() -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(CHUNKS)})
    space = KeySpace(session.state)

    def write(index: int) -> None:
        space.set(f"a/c/{index}", b"x")
        if index % 20 == 0:
            assert f"a/c/{index}" in set(space.list_prefix(""))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(CHUNKS)))
    session.commit("all")
    assert len(contents(repository.readonly_session("main"))) == CHUNKS + 1


def test_a_write_during_a_commit_is_in_it_or_refused() -> None:
    storage = LatencyStorage(MemoryStorage(), write_latency_ms=5)
    repository = Repository.create(storage)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(CHUNKS), "a/c/0": b"first"})
    space = KeySpace(session.state)

    def write(index: int) -> int | None:
        try:
            space.set(f"a/c/{index}", b"x")
        except ReadOnlyError:
            return None
        return index

    with ThreadPoolExecutor(5) as threads:
        written = [threads.submit(write, index) for index in range(1, CHUNKS)]
        session.commit("meanwhile")
        taken = {one.result() for one in written} - {None}
    found = contents(repository.readonly_session("main"))
    assert {key for key in found if "/c/" in key} == {f"a/c/{i}" for i in {0, *taken}}


def test_forks_made_side_by_side_leave_the_session_writable() -> None:
    storage = LatencyStorage(MemoryStorage(), write_latency_ms=5)
    repository = Repository.create(storage)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4)})
    with ThreadPoolExecutor(4) as threads:
        forks = list(threads.map(lambda _: session.fork(), range(8)))
    for index, fork in enumerate(forks[:4]):
        write_keys(fork, {f"a/c/{index}": b"x"})
    session.merge(*forks)
    session.commit("merged")
    assert len(contents(repository.readonly_session("main"))) == 5


def test_changes_are_not_discarded_or_merged_in_the_middle_of_a_commit() -> None:
    storage = LatencyStorage(MemoryStorage(), write_latency_ms=100)
    repository = Repository.create(storage)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4)})
    fork = session.fork()
    write_keys(fork, {"a/c/0": b"x"})
    with ThreadPoolExecutor(1) as threads:
        commit = threads.submit(session.commit, "all")
        while True:  # until the commit has begun
            try:
                session.state.require_editable()
            except ReadOnlyError:
                break
        with pytest.raises(ReadOnlyError):
            session.discard_changes()
        with pytest.raises(ReadOnlyError):
            session.merge(fork)
        commit.result()
    assert set(contents(repository.readonly_session("main"))) == {"a/zarr.json"}


def test_deleting_chunks_of_many_manifests_while_writers_fill_the_pool() -> None:
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    storage = MemoryStorage()
    repository = Repository.create(storage, config)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(20), "b/zarr.json": array_document(WRITERS)})
    write_keys(session, {f"a/c/{index}": b"x" for index in range(20)})
    session.commit("many manifests")

    session = Repository.open(storage).writable_session("main")
    space = KeySpace(session.state)
    done = Event()

    def write(index: int) -> None:
        space.set(f"b/c/{index}", b"x")

    def delete() -> None:
        space.delete_dir("a/c")
        done.set()

    with session.state.lock:  # more writers wait than there are threads when the deletion begins
        writers = [thread_pool().submit(write, index) for index in range(WRITERS)]
        Thread(target=delete, daemon=True).start()
    assert done.wait(20)
    for each in writers:
        each.result()
    assert len(contents(session)) == 2 + WRITERS


def test_who_reads_during_a_commit_sees_no_older_value() -> None:
    repository = Repository.create(MemoryStorage())
    write_keys(first := repository.writable_session("main"), {"a/zarr.json": array_document(4)})
    first.commit("first")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(60):
            session = repository.writable_session("main")
            write_keys(session, {"a/c/0": b"%d" % number})
            space, done = KeySpace(session.state), Event()
            with ThreadPoolExecutor(2) as threads:
                readers = [threads.submit(seen_until, space, done) for _ in range(2)]
                session.commit("next")
                done.set()
                assert [one.result() for one in readers] == [{b"%d" % number}] * 2
    finally:
        sys.setswitchinterval(before)


def seen_until(space: KeySpace, done: Event) -> set[bytes | None]:
    """Every value a reader meets until it is told to stop."""
    seen = {space.get("a/c/0")}
    while not done.is_set():
        seen.add(space.get("a/c/0"))
    return seen


def test_of_two_commits_at_once_one_is_refused() -> None:
    storage = LatencyStorage(MemoryStorage(), write_latency_ms=30)
    repository = Repository.create(storage)
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4)})

    def flush(number: int) -> str | None:
        try:
            return session.flush(f"flush {number}")
        except ReadOnlyError:
            return None

    with ThreadPoolExecutor(4) as threads:
        made = [one for one in threads.map(flush, range(4)) if one is not None]
    assert made == [session.snapshot_id]
    assert set(contents(repository.readonly_session(snapshot_id=made[0]))) == {"a/zarr.json"}


def test_a_listing_that_began_before_a_commit_shows_what_was_there() -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(3), "a/c/0": b"x", "a/c/2": b"y"})
    listing = KeySpace(session.state).list_prefix("")
    session.commit("meanwhile")
    assert set(listing) == {"a/zarr.json", "a/c/0", "a/c/2"}


def test_of_many_who_set_what_is_absent_one_wins() -> None:
    repository = Repository.create(LatencyStorage(MemoryStorage(), write_latency_ms=2))
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(2), "a/c/0": b"there"})
    space = KeySpace(session.state)
    offers = [bytes([number]) * 600 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for key in ("a/c/0", "a/c/1"):
            list(threads.map(lambda offer, key=key: space.set_if_absent(key, offer), offers))
    first = space.get("a/c/1")
    assert first in offers
    space.set_if_absent("a/c/1", b"late")
    assert (space.get("a/c/0"), space.get("a/c/1")) == (b"there", first)
