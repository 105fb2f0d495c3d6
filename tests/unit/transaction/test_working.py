"""Names that some reader or storage could not reach are refused when a node is made."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInputError
from frazil.ids import NodeId
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.changeset import GroupData
from frazil.transaction.keyspace import KeySpace
from tests.support.nodes import array_document, group_document, write_keys

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
