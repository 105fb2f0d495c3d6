"""The part of a session that reads: what it is, what it shows, and where chunks are."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import (
    SessionStateError,
)
from frazil.model.chunks import ChunkType
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from frazil.transaction.keyspace import KeySpace
from tests.support.generations import (
    ALL,
    IDS,
)
from tests.support.nodes import array_document, contents, group_document, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def test_equal_sessions_and_stores_have_equal_hashes(newest: Repository) -> None:
    one, two = newest.readonly_session("main"), newest.readonly_session("main")
    assert one == two
    assert hash(one) == hash(two)
    assert one.store == one.store
    assert hash(one.store) == hash(one.store)


def start(repository: Repository) -> str:
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "g/a/zarr.json": array_document(6),
            **{f"g/a/c/{i}": bytes([65 + i]) for i in range(6)},
        },
    )
    return session.commit("start")


def values(store: FrazilStore, path: str) -> bytes:
    return np.asarray(zarr.open_array(store, path=path, mode="r")[:]).tobytes()


def test_status_names_what_changed(newest: Repository) -> None:
    start(newest)
    session = newest.writable_session("main")
    space = KeySpace(session.state)
    space.set("g/zarr.json", group_document(x=1))
    space.set("g/a/c/1", b"new")
    space.delete("g/a/c/2")
    space.set("h/zarr.json", group_document())
    status = session.status()
    assert status.updated_groups == {"/g"}
    assert status.new_groups == {"/h"}
    assert status.updated_chunks == {"/g/a": [[1], [2]]}
    assert newest.diff(
        from_snapshot_id=session.snapshot_id, to_snapshot_id=session.commit("x")
    ).updated_chunks == {"/g/a": [[1], [2]]}


def test_small_chunks_are_inline_and_large_ones_native(newest: Repository) -> None:
    start(newest)
    session = newest.writable_session("main")
    write_keys(session, {"g/a/c/0": b"x" * 512, "g/a/c/1": b"x" * 513})
    session.commit("sizes")
    reader = newest.readonly_session("main")
    assert reader.chunk_type("/g/a", (0,)) == ChunkType.inline
    assert reader.chunk_type("/g/a", (1,)) == ChunkType.native
    KeySpace((editing := newest.writable_session("main")).state).delete("g/a/c/2")
    assert editing.chunk_type("/g/a", (2,)) == ChunkType.uninitialized


def test_read_only_sessions_pickle(tmp_path: Path) -> None:
    repository = Repository.create(LocalStorage(str(tmp_path)))
    start(repository)
    session = repository.readonly_session("main")
    copy = pickle.loads(pickle.dumps(session))
    assert contents(copy) == contents(session)
    store = pickle.loads(pickle.dumps(session.store))
    assert values(store, "g/a") == b"ABCDEF"
    with pytest.raises(SessionStateError):
        session.fork()
