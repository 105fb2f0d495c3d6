"""Many threads on one session: nothing crashes, and no write is lost silently."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from frazil.errors import ReadOnlyError
from frazil.repository import Repository
from frazil.session.keyspace import KeySpace
from frazil.storage.latency import LatencyStorage
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, contents, write_keys

CHUNKS = 400


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
