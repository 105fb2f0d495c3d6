"""The part of a session that reads: what it is, what it shows, and where chunks are."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import NodeNotFoundError, SessionStateError
from frazil.model.chunks import ChunkType
from frazil.model.config import RepositoryConfig, VirtualChunkContainer
from frazil.model.values import SessionMode
from frazil.repository import Repository
from frazil.storage.constructors import s3_store
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.generations import ALL, IDS, Spec
from tests.support.nodes import array_document, contents, group_document, start, write_keys


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


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_a_session_tells_what_it_is(spec: Spec) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    tip = start(repository)
    reader, writer = repository.readonly_session("main"), repository.writable_session("main")
    assert (reader.read_only, reader.branch, reader.snapshot_id) == (True, None, tip)
    assert (writer.read_only, writer.branch, writer.snapshot_id) == (False, "main", tip)
    assert (reader.mode, writer.mode) == (SessionMode.readonly, SessionMode.writable)
    assert repr(reader).splitlines()[1:] == ["read_only: True", f"snapshot_id: {tip}"]
    assert "branch: main" in repr(writer)
    assert "has_uncommitted_changes: False" in repr(writer)
    write_keys(writer, {"g/a/c/0": b"new"})
    assert "has_uncommitted_changes: True" in repr(writer)


def test_sessions_are_equal_only_if_both_read_the_same_snapshot(newest: Repository) -> None:
    first = newest.readonly_session("main")
    writer = newest.writable_session("main")
    assert writer == writer
    assert writer != newest.writable_session("main")
    assert first != writer
    start(newest)
    assert first != newest.readonly_session("main")
    assert first != Repository.create(MemoryStorage("a place of its own")).readonly_session("main")
    assert first != "a text"


def test_settings_of_a_session_travel_with_its_copies(tmp_path: Path) -> None:
    repository = Repository.create(LocalStorage(str(tmp_path)))
    start(repository)
    session = repository.writable_session("main")
    session.pack_writes, session.skip_identical = False, True
    fork = pickle.loads(pickle.dumps(session.fork()))
    assert (fork.pack_writes, fork.skip_identical) == (False, True)
    with pytest.raises(ValueError, match=r"Session\.fork\(\)"):
        session.require_picklable()


def test_a_node_keeps_its_id_while_it_moves(newest: Repository) -> None:
    start(newest)
    before = newest.readonly_session("main").get_node_id("/g/a")
    session = newest.rearrange_session("main")
    session.move("/g", "/h")
    assert session.get_node_id("/h/a") == before
    with pytest.raises(NodeNotFoundError, match="/g/a"):
        session.get_node_id("/g/a")


async def test_coordinates_of_all_chunks_are_told(newest: Repository) -> None:
    session = newest.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(3, 3), "s/zarr.json": array_document()})
    assert [at async for at in session.chunk_coordinates("/a")] == []
    write_keys(session, {"a/c/2/1": b"x", "a/c/0/2": b"x", "s/c": b"x"})
    for path in ("/a", "a"):
        assert [at async for at in session.chunk_coordinates(path)] == [(0, 2), (2, 1)]
    assert [at async for at in session.chunk_coordinates("/s")] == [()]


def test_manifests_are_fetched_ahead_and_counted(newest: Repository) -> None:
    start(newest)
    session = newest.writable_session("main")
    write_keys(session, {"b/zarr.json": array_document(2), "b/c/0": b"x"})
    session.commit("another array")
    storage = FaultyStorage(newest.storage)
    reader = Repository.open(storage).readonly_session("main")
    assert reader.prefetch(["g/a"]) == 1
    assert reader.prefetch() == 2
    storage.forget_calls()
    assert reader.chunk_type("/g/a", (0,)) == ChunkType.inline
    assert not storage.calls
    with pytest.raises(NodeNotFoundError):
        reader.prefetch(["none"])


def test_locations_of_virtual_chunks_are_written_out() -> None:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://b/", s3_store(), "files"))
    session = Repository.create(MemoryStorage(), config).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(3), "a/c/1": b"inline"})
    for number, location in ((0, "vcc://files/x"), (2, "s3://b/y")):
        session.store.set_virtual_ref(f"a/c/{number}", location, offset=0, length=1)
    assert session.all_virtual_chunk_locations() == ["s3://b/x", "s3://b/y"]
    assert session.chunk_type("a", (2,)) == ChunkType.virtual
