"""The working state of a session: nodes and chunks that can be held, and when it takes edits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import zarr

from frazil import config
from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    StorageError,
)
from frazil.ids import NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, ChunkType, InlineRef
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.changeset import GroupData
from frazil.transaction.keyspace import KeySpace
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, contents, group_document, start, write_keys

UNUSABLE = ["zarr.json", "a/zarr.json/b", "a\0b", "a\\b", "half\ud800", "x/\udfff"]


@pytest.mark.parametrize("name", UNUSABLE, ids=ascii)
def test_no_node_is_made_that_nobody_can_reach(name: str) -> None:
    session = Repository.create(MemoryStorage()).writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    with pytest.raises(InvalidInputError, match="invalid node path"):
        write_keys(session, {f"{name}/zarr.json": array_document(2)})
    session.commit("the rest")


@pytest.mark.parametrize("name", UNUSABLE[1:], ids=ascii)
def test_no_node_is_moved_there(name: str) -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    paths = ("zarr.json", "a/zarr.json", "x/zarr.json", "n/zarr.json")
    write_keys(session, dict.fromkeys(paths, group_document()))
    session.commit("groups")
    moving = repository.rearrange_session("main")
    with pytest.raises(InvalidInputError, match="invalid node path"):
        moving.move("/n", f"/{name.removesuffix('/b')}")


def test_other_names_stay_allowed() -> None:
    session = Repository.create(MemoryStorage()).writable_session("main")
    names = ["é", "a b", "zarr.jsonx", "c", "😀", ".hidden", "A"]
    write_keys(session, {f"{name}/zarr.json": array_document(2) for name in names})
    session.commit("names")
    assert {node.path for node in session.state.arrays()} == {f"/{name}" for name in names}


def test_a_repository_that_has_a_backslash_in_a_name_is_read_and_its_node_deleted() -> None:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    odd = GroupData(NodeId.random(), group_document())
    session.state.changes.set_group("/a\\b", odd, is_new=True)  # as other writers do
    write_keys(session, {"zarr.json": group_document(), "b/zarr.json": array_document(2)})
    session.commit("a name of others")
    keys = KeySpace(repository.readonly_session("main").state)
    assert {*keys.list_dir("")} == {"zarr.json", "a\\b", "b"}
    assert keys.get("a\\b/zarr.json") == group_document()
    again = repository.writable_session("main")
    KeySpace(again.state).delete("a\\b/zarr.json")
    again.commit("gone")
    assert {*KeySpace(again.state).list_dir("")} == {"zarr.json", "b"}


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


def test_writing_equal_metadata_is_no_change(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    write_keys(session, {"g/zarr.json": group_document()})
    assert not session.has_uncommitted_changes


@pytest.mark.parametrize("coords", ["6", "0/0", "4294967295"])
def test_chunks_outside_the_grid_are_refused(repository: Repository, coords: str) -> None:
    start(repository)
    space = KeySpace(repository.writable_session("main").state)
    with pytest.raises(InvalidInputError) as caught:
        space.set(f"g/a/c/{coords}", b"x")
    assert caught.value.kind == ErrorKind.INVALID_CHUNK_INDEX
    assert space.get(f"g/a/c/{coords}") is None


def test_empty_chunks_are_refused(repository: Repository) -> None:
    start(repository)
    with pytest.raises(InvalidInputError) as caught:
        write_keys(repository.writable_session("main"), {"g/a/c/0": b""})
    assert caught.value.kind == ErrorKind.ZERO_LENGTH_CHUNK


def test_chunks_cut_off_by_new_metadata_are_not_read(repository: Repository) -> None:
    session = repository.writable_session("main")
    write_keys(session, {"cut/zarr.json": array_document(4), "cut/c/3": b"x"})
    write_keys(session, {"cut/zarr.json": array_document(2)})
    assert KeySpace(session.state).get("cut/c/3") is None
    session.state.delete_chunks(session.state.array("/cut"), np.array([[0]], np.uint32))
    assert session.chunk_type("/cut", (-1,)) == ChunkType.uninitialized


def test_delete_and_recreate_gives_a_new_node(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    old = session.get_node_id("/g/a")
    space = KeySpace(session.state)
    space.delete("g/a/zarr.json")
    space.set("g/a/zarr.json", array_document(6))
    assert session.get_node_id("/g/a") != old
    session.commit("again")
    found = contents(repository.readonly_session("main"))
    assert not [key for key in found if key.startswith("g/a/c/")]


def test_a_missing_snapshot_is_no_empty_repository() -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage)
    with repository.transaction("main", message="one") as store:
        zarr.create_group(store).create_array("a", shape=(2,), dtype="i4")
    storage.delete_many([item.key for item in storage.list("snapshots/")])
    for mode in ("r", "a", "w-"):
        session = Repository.open(storage).writable_session("main")
        with pytest.raises(StorageError, match=r"object not found: .*snapshots/"):
            zarr.open_group(session.store, mode=mode)


# --- nodes ---


def test_a_node_does_not_become_one_of_the_other_kind(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    for path, document in (("/g", array_document(2)), ("/g/a", group_document())):
        with pytest.raises(AlreadyExistsError, match=path) as caught:
            session.state.set_metadata(path, document)
        assert caught.value.kind is ErrorKind.NODE_ALREADY_EXISTS
    assert not session.has_uncommitted_changes


def test_missing_nodes_and_groups_are_no_arrays(repository: Repository) -> None:
    start(repository)
    state = repository.readonly_session("main").state
    with pytest.raises(NodeNotFoundError, match="/none"):
        state.node("/none")
    with pytest.raises(InvalidInputError, match="'/g' is a group") as caught:
        state.array("/g")
    assert caught.value.kind is ErrorKind.NOT_AN_ARRAY
    assert [node.path for node in state.arrays()] == ["/g/a"]


def test_chunks_have_no_place_on_other_axes(repository: Repository) -> None:
    session = repository.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(4), "a/c/1": b"x"})
    write_keys(session, {"a/zarr.json": array_document(4, 4)})
    assert not session.state.has_chunks(session.state.array("/a"))
    session.commit("other axes")
    assert set(contents(repository.readonly_session("main"))) == {"a/zarr.json"}


# --- chunks ---


def test_a_chunk_that_somebody_set_meanwhile_is_not_added(repository: Repository) -> None:
    start(repository)
    state = repository.writable_session("main").state
    node = state.array("/g/a")
    state.set_chunk(node, (1,), InlineRef(b"set"))
    state.add_chunk(node, (1,), InlineRef(b"added"))
    assert state.chunk_ref(node, (1,)) == InlineRef(b"set")
    state.delete_chunk(node, (1,))
    state.add_chunk(node, (1,), InlineRef(b"added"))
    assert state.chunk_ref(node, (1,)) == InlineRef(b"added")


def test_references_of_base_and_session_are_one_table(repository: Repository) -> None:
    start(repository)
    state = repository.writable_session("main").state
    node = state.array("/g/a")
    state.set_chunk(node, (0,), InlineRef(b"new"))
    state.delete_chunk(node, (1,))
    state.delete_chunk(node, (99,))  # it cannot be there
    table = state.table(node)
    assert table.coords[:, 0].tolist() == [0, 2, 3, 4, 5]
    assert table.ref(0) == InlineRef(b"new")
    assert state.has_chunks(node)


def test_a_table_that_leaves_the_grid_is_refused_whole(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    node = session.state.array("/g/a")
    outside = ChunkTable.from_refs(1, [((0,), InlineRef(b"in")), ((6,), InlineRef(b"out"))])
    with pytest.raises(InvalidInputError, match="outside the chunk grid"):
        session.state.set_table(node, outside)
    assert not session.has_uncommitted_changes
    session.state.set_table(node, outside.take(np.array([0])))
    assert session.state.chunk_ref(node, (0,)) == InlineRef(b"in")


@pytest.mark.parametrize(("size", "is_inline"), [(1, True), (8, True), (9, False)])
def test_bytes_go_into_the_manifest_up_to_the_threshold(size: int, is_inline: bool) -> None:
    small = RepositoryConfig(inline_chunk_threshold_bytes=8)
    state = Repository.create(MemoryStorage(), small).writable_session("main").state
    ref = state.payload(memoryview(bytes(size)))
    assert isinstance(ref, InlineRef) == is_inline
    assert state.context.read_chunk(ref) == bytes(size)


# --- when it takes edits ---


def test_a_frozen_state_refuses_edits_until_all_have_let_go(repository: Repository) -> None:
    start(repository)
    state = repository.writable_session("main").state
    node = state.array("/g/a")
    with state.frozen(), state.frozen():
        pass
    with state.frozen():
        edits: list[Callable[[], object]] = [
            lambda: state.set_metadata("/new", group_document()),
            lambda: state.delete_node("/g"),
            lambda: state.set_chunk(node, (0,), InlineRef(b"x")),
            lambda: state.delete_chunk(node, (0,)),
            lambda: state.discard(),
        ]
        for edit in edits:
            with pytest.raises(ReadOnlyError, match="being committed or forked") as caught:
                edit()
            assert caught.value.kind is ErrorKind.READ_ONLY_SESSION
    state.set_chunk(node, (0,), InlineRef(b"x"))


def test_a_closed_state_is_a_view_of_its_snapshot(repository: Repository) -> None:
    tip = SnapshotId.parse(start(repository))
    state = repository.writable_session("main").state
    state.set_metadata("/new", group_document())
    state.close(tip)
    assert state.is_closed
    assert state.changes.is_empty
    assert state.tree.get("/new") is None
    with pytest.raises(ReadOnlyError, match="another thread has committed"), state.closing():
        pass
    with pytest.raises(ReadOnlyError, match="writable_session"):
        state.set_metadata("/new", group_document())


def test_discarded_changes_leave_nothing(repository: Repository) -> None:
    start(repository)
    session = repository.writable_session("main")
    before = contents(session)
    write_keys(session, {"g/a/c/0": b"new", "h/zarr.json": group_document()})
    session.state.refer_to_base()
    session.state.discard()
    assert contents(session) == before
    assert not session.state.changes.sources


def test_whether_equal_chunks_are_left_alone_is_said_by_the_call_the_session_or_the_process(
    repository: Repository,
) -> None:
    state = repository.writable_session("main").state
    with config.set(skip_identical_chunks=True):
        assert state.skips_identical()
        state.skip_identical = False
        assert not state.skips_identical()
        assert state.skips_identical(True)
