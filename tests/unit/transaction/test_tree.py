"""The hierarchy of a session: the same whether nodes of a large base were all read or not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.formats.snapshot_nodes import NodeTable
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Snapshot
from frazil.model.nodes import GroupNode, Node
from frazil.storage.memory import MemoryStorage
from frazil.transaction.tree import NodeTree
from tests.support.nodes import array_document, contents, write_keys

GROUPS = range(20)
PATHS = ["/", *(f"/g{g}" for g in GROUPS), *(f"/g{g}/n{n}" for g in GROUPS for n in range(9))]
ODD = ["/g1", "/g1/n3", "/g1/new", "/g1/n3/deep", "/g10", "/new", "/g1-", "/g25", "/"]


def group(path: str, text: bytes = b"{}") -> GroupNode:
    return GroupNode(NodeId(path.encode()[:8].ljust(8, b"\0")), path, text)


def large() -> NodeTable:
    held = tuple(group(path) for path in sorted(PATHS, key=str.encode))
    blob = encode_snapshot(Snapshot(SnapshotId(b"1" * 12), None, held, 1, "", {}, ()), spec=2)
    found = decode_snapshot(blob, key="snapshots/x").nodes
    assert isinstance(found, NodeTable)
    return found


def by_path(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.path)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ODD), st.booleans()), max_size=9), st.integers(0, 12))
def test_a_large_base_looks_like_plain_nodes(steps: list[tuple[str, bool]], walk_at: int) -> None:
    """Even after somebody has walked through all nodes."""
    lazy, plain = NodeTree(large()), NodeTree(tuple(large()))
    for number, (path, is_put) in enumerate(steps):
        assert lazy.edits is not None
        node, is_there = group(path, b"%d" % number), plain.get(path) is not None
        for tree in (lazy, plain):
            if is_put:
                tree.put(node)
            elif is_there:
                tree.remove(path)
        if number == walk_at:
            assert by_path(lazy) == by_path(plain)
        for each in ODD:
            assert lazy.get(each) == plain.get(each)
        for each in ("/", "/g1", "/g1/n3", "/g8", "/nowhere"):
            assert sorted(lazy.children(each)) == sorted(plain.children(each))
            if each != "/":
                assert by_path(lazy.descendants(each)) == by_path(plain.descendants(each))
    assert by_path(lazy) == by_path(plain)
    assert len(lazy) == len(plain)


def test_all_nodes_are_read_when_many_are_changed() -> None:
    tree = NodeTree(large())
    for path in PATHS[:50]:
        tree.put(group(path, b"new"))
    assert tree.edits is None
    assert {node.path for node in tree if node.user_data == b"new"} == set(PATHS[:50])


@pytest.fixture
def wide() -> frazil.Repository:
    """A repository with more nodes than are read at once."""
    repository = frazil.Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    for path in PATHS:
        session.state.set_metadata(path, b'{"zarr_format":3,"node_type":"group"}')
    session.commit("wide")
    return repository


CHANGED = b'{"zarr_format":3,"node_type":"group","attributes":{"a":1}}'


def test_commits_of_single_nodes_do_not_read_the_others(wide: frazil.Repository) -> None:
    session = wide.writable_session("main")
    session.state.set_metadata("/g1", CHANGED)
    session.state.set_metadata("/g1/new", CHANGED)
    session.state.delete_node("/g7/n7")
    session.state.delete_node("/g8")
    assert session.state.tree.edits is not None
    session.commit("few")
    assert isinstance(session.state.base.nodes, NodeTable)
    again = frazil.Repository.open(wide.storage).readonly_session("main").state
    expected = {path for path in PATHS if not path.startswith("/g8") and path != "/g7/n7"}
    assert {node.path for node in again.tree} == expected | {"/g1/new"}
    assert again.node("/g1").user_data == again.node("/g1/new").user_data == CHANGED


def test_moves_and_rebases_of_single_nodes(wide: frazil.Repository) -> None:
    slow = wide.rearrange_session("main")
    slow.move("/g2/n1", "/g3/moved")
    slow.move("/g5", "/g2/n1")
    quick = wide.writable_session("main")
    quick.state.set_metadata("/g3", CHANGED)
    quick.commit("other")
    slow.commit("moved", rebase_with=frazil.ConflictDetector())
    paths = {node.path for node in wide.readonly_session("main").state.tree}
    kept = {path for path in PATHS if not path.startswith("/g5") and path != "/g2/n1"}
    assert paths == kept | {"/g3/moved", "/g2/n1", *(f"/g2/n1/n{n}" for n in range(9))}
    assert wide.readonly_session("main").state.node("/g3").user_data == CHANGED


def test_chunks_of_a_single_array_are_in_the_commit(wide: frazil.Repository) -> None:
    for keys in ({"g2/a/zarr.json": array_document(4)}, {"g2/a/c/1": b"x"}, {"g2/a/c/3": b"y"}):
        session = wide.writable_session("main")
        write_keys(session, keys)
        session.commit(" ".join(keys))
    found = contents(wide.readonly_session("main"))
    assert (found["g2/a/c/1"], found["g2/a/c/3"]) == (b"x", b"y")
