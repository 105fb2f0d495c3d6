"""Snapshots with many nodes: read one by one, and written again mostly as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.writer import FlatWriter
from frazil.formats import nodes as format_nodes
from frazil.formats import snapshot_nodes
from frazil.formats.envelope import FileKind, seal, seal_table, unseal
from frazil.formats.nodes import ARRAY, GROUP
from frazil.formats.snapshot import (
    GROUP_DATA,
    NODE,
    SNAPSHOT,
    decode_snapshot,
    encode_snapshot,
)
from frazil.formats.snapshot_nodes import NodeTable, keeps_well
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node, path_order

KEY = "snapshots/TEST"
SPECS = pytest.mark.parametrize("spec", [1, 2])


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_nodes, "KEPT_NODES", 10)


def manifest(number: int) -> ManifestRef:
    return ManifestRef(ManifestId(bytes([number]) * 12), ((0, 4),))


def nodes() -> list[Node]:
    """Groups with arrays, some of which have names or manifests."""
    found: list[Node] = [GroupNode(NodeId(b"root\0\0\0\0"), "/", b"{}")]
    for g in range(8):
        found.append(GroupNode(NodeId(bytes([g, 0]) * 4), f"/g{g}", b'{"g":%d}' % g))
        for a in range(4):
            names = (f"x{a}",) if a % 2 else None
            refs = (manifest(10 * g + a),) if a > 1 else ()
            found.append(
                ArrayNode(
                    NodeId(bytes([g, a + 1]) * 4),
                    f"/g{g}/é{a}",
                    b'{"a":%d}' % a,
                    (Dimension(40, 4),),
                    names,
                    refs,
                )
            )
    return sorted(found, key=lambda node: path_order(node.path))


def snapshot(held: Sequence[Node], first: int = 1) -> Snapshot:
    refs = {ref.id for node in held if isinstance(node, ArrayNode) for ref in node.manifests}
    files = tuple(ManifestFile(one, 100, 4) for one in sorted(refs))
    return Snapshot(SnapshotId(bytes([first]) * 12), None, held, 1, "many", {"n": 1}, files)


def opened(held: Sequence[Node], spec: int = 2, first: int = 1) -> NodeTable:
    blob = encode_snapshot(snapshot(held, first), spec=spec)
    found = decode_snapshot(blob, key=KEY).nodes
    assert isinstance(found, NodeTable)
    return found


@SPECS
def test_each_node_is_found_without_the_others(spec: int) -> None:
    table = opened(nodes(), spec)
    assert len(table) == len(nodes())
    for node in nodes()[::20]:
        assert table.find(node.path) is table.find(node.path)
    assert "_all" not in table.__dict__
    for node in nodes():
        assert table.find(node.path) == node
    for path in ("/a", "/g0/x", "/g9", "/zz", "/g0/"):
        assert table.find(path) is None
    assert table == tuple(nodes())
    assert pickle.loads(pickle.dumps(table)) == tuple(nodes())


def test_tables_with_other_nodes_are_not_equal() -> None:
    table = opened(nodes())
    assert table != opened(nodes()[:-1])
    assert table != tuple(nodes()[:-1])
    assert table != len(nodes())


@pytest.mark.parametrize("length", [1, 300])
def test_the_same_path_twice_among_many_is_refused(length: int) -> None:
    """Also where paths are so long, or so odd, that they are compared one by one."""
    twice = [GroupNode(NodeId(bytes([7, n]) * 4), "/g1/" + "x" * length, b"{}") for n in (0, 1)]
    held = sorted([*nodes(), *twice], key=lambda node: path_order(node.path))
    with pytest.raises(FormatError, match="order"):
        decode_snapshot(encode_snapshot(snapshot(held), spec=2), key=KEY)


def test_documents_that_many_nodes_share_do_not_unfold_without_end() -> None:
    """A small file could otherwise fill the memory of whoever lists its nodes."""
    writer = FlatWriter()
    document, group = writer.blob(b" " * 100_000), writer.table(GROUP_DATA)
    tables = [
        writer.table(NODE, b"%08d" % n, writer.text(f"/{n:05}"), document, GROUP, group)
        for n in range(10_000)
    ]
    found = writer.offsets(tables)
    metadata = writer.offsets([])
    files = writer.structs(b"", 0, 8)
    message = writer.text("")
    root = writer.table(SNAPSHOT, b"s" * 12, None, found, 1, message, metadata, files, None)
    with pytest.raises(FormatError, match="too often"):
        decode_snapshot(seal_table(writer, root, FileKind.SNAPSHOT, spec=2), key=KEY)


def test_nodes_of_one_spec_are_written_as_the_other_wants_them() -> None:
    """As an upgrade does: its files must be those of the new version in every table."""
    table = opened(nodes(), 1)
    blob = encode_snapshot(snapshot(table), spec=2)
    assert tuple(decode_snapshot(blob, key=KEY).nodes) == tuple(nodes())
    root = Buffer(unseal(blob, FileKind.SNAPSHOT, key=KEY).body, KEY).root()
    for node in root.tables(2):
        data = node.table(4)
        if data is not None and node.byte(3) == ARRAY:
            assert data.structs(0, 16, "shape") == []
            assert len([*data.tables(3)]) == 1


@SPECS
@pytest.mark.parametrize("more", range(8))
def test_files_of_others_may_end_anywhere(spec: int, more: int) -> None:
    """What is written behind the bytes of such a file is found all the same."""
    body = body_of(nodes(), spec) + bytes(more)
    table = decode_snapshot(seal(body, FileKind.SNAPSHOT, spec=spec), key=KEY).nodes
    assert isinstance(table, NodeTable)
    node = changed(table.find("/g3/é2") or nodes()[0], 100)
    again = opened(table.edited([node]), spec)
    assert tuple(again) == tuple(node if each.path == node.path else each for each in nodes())


def test_what_is_kept_in_memory_for_the_next_commit() -> None:
    """Few nodes, or a table that is mostly as it was; many single nodes are read again."""
    table = opened(nodes())
    assert keeps_well(tuple(nodes()[:5]))
    assert not keeps_well(tuple(nodes()))
    assert keeps_well(table.edited([changed(nodes()[-1], 100)]))
    assert not keeps_well(table.edited([replace(node, user_data=b"") for node in nodes()]))


def test_nodes_are_found_by_id() -> None:
    wanted = [nodes()[3], nodes()[20]]
    assert opened(nodes()).of_ids([node.id for node in wanted] + [NodeId(b"nowhere!")]) == wanted


def changed(node: Node, number: int) -> Node:
    assert isinstance(node, ArrayNode)
    return replace(node, manifests=(*node.manifests, manifest(number)))


@SPECS
def test_changed_nodes_are_written_beside_the_bytes_of_the_others(spec: int) -> None:
    expected, table = nodes(), opened(nodes(), spec)
    for number, path in enumerate(["/g3/é2", "/g7/é3", "/g3/é2", "/g0/é0"], 100):
        row = next(n for n, node in enumerate(expected) if node.path == path)
        expected[row] = changed(expected[row], number)
        table = table.edited([expected[row]])
        assert table.find(path) == expected[row]
        listed = {
            ref.id for node in expected if isinstance(node, ArrayNode) for ref in node.manifests
        }
        assert table.manifest_ids() == listed
        again = opened(table, spec)
        assert tuple(again) == tuple(expected)
        if number % 2:
            table = again


@SPECS
def test_a_file_that_has_grown_by_an_eighth_is_written_in_full(spec: int) -> None:
    table, sizes, kept = opened(nodes(), spec), [], []
    full = len(body_of(nodes(), spec))
    for number in range(100):
        node = replace(table.find("/g3/é2") or nodes()[0], user_data=b'{"a":%03d}' % number)
        edited = table.edited([node])
        kept.append(keeps_well(edited))
        sizes.append(len(body_of(edited, spec)))
        table = opened(edited, spec)
    assert max(sizes) < 1.3 * full
    written_in_full = [number for number, size in enumerate(sizes) if size < full + 20]
    assert 3 < len(written_in_full) < 50
    assert written_in_full == [number for number, is_kept in enumerate(kept) if not is_kept]


@pytest.mark.parametrize(
    "path",
    ["/g1/", "/g1//x", "/g1/.", "/g1/../x", "g1/x", "/g1/\n/x/", "/g1\0", "/g1", "//x", "/~z/"],
)
def test_bad_and_doubtful_paths(path: str) -> None:
    """Whatever the shortcut for many nodes says must be what the check of one says."""
    odd = GroupNode(NodeId(b"odd node"), path, b"{}")
    held = sorted([*nodes(), odd], key=lambda node: path_order(node.path))
    blob = encode_snapshot(snapshot(held), spec=2)
    if path == "/g1\0":
        assert decode_snapshot(blob, key=KEY).nodes == tuple(held)
        return
    with pytest.raises(FormatError, match="path"):
        decode_snapshot(blob, key=KEY)


PLACES = [f"/{a}{b}" for a in ("g1", "g3", "a", "zz") for b in ("", "/é1", "/new", "/new/x")]


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.lists(st.tuples(st.sampled_from(PLACES), st.booleans()), min_size=1, max_size=3),
        min_size=1,
        max_size=6,
    ),
    spec=st.sampled_from([1, 2]),
)
def test_nodes_that_come_go_and_change_are_in_the_next_file(
    steps: list[list[tuple[str, bool]]], spec: int
) -> None:
    """Each step puts and removes some nodes; every second one is read back from a file."""
    expected = {node.path: node for node in nodes()}
    table = opened(nodes(), spec)
    for number, step in enumerate(steps):
        put: dict[str, Node] = {}
        for path, is_put in step:
            put.pop(path, None)
            if is_put:
                put[path] = GroupNode(NodeId(bytes([200 + number]) * 8), path, b"%d" % number)
        gone = {path for path, is_put in step} - put.keys()
        table = table.edited(put.values(), gone)
        expected = {path: node for path, node in (expected | put).items() if path not in gone}
        ordered = sorted(expected.values(), key=lambda node: path_order(node.path))
        assert tuple(table) == tuple(ordered)
        for path in PLACES:
            assert table.find(path) == expected.get(path)
        below = [node for node in ordered if node.path.startswith("/g3/")]
        assert table.below("/g3") == below
        assert table.paths_below("/g3") == [node.path for node in below]
        assert table.paths_below("/") == [node.path for node in ordered if node.path != "/"]
        made = [node for node in ordered if node.id[0] == 200 + number]
        assert table.of_ids([NodeId(bytes([200 + number]) * 8)]) == made
        assert table.manifest_ids() == {
            ref.id for node in ordered if isinstance(node, ArrayNode) for ref in node.manifests
        }
        again = opened(table, spec)
        assert tuple(again) == tuple(ordered)
        if number % 2:
            table = again


@SPECS
def test_one_node_is_read_as_many_are(spec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_nodes, "MANY_FOUND", 0)
    alone = [opened(nodes(), spec).find(node.path) for node in nodes()]
    monkeypatch.setattr(format_nodes, "FEW_NODES", 0)
    assert [opened(nodes(), spec).find(node.path) for node in nodes()] == alone == nodes()


@SPECS
def test_a_few_nodes_are_checked_like_many(spec: int) -> None:
    for bad in ("/a/../b", "a", "/a/"):
        held = [
            GroupNode(NodeId(b"root\0\0\0\0"), "/", b"{}"),
            GroupNode(NodeId(b"8" * 8), bad, b""),
        ]
        held.sort(key=lambda node: path_order(node.path))
        with pytest.raises(FormatError, match="path"):
            decode_snapshot(encode_snapshot(snapshot(held), spec=spec), key=KEY)


def body_of(held: Sequence[Node], spec: int) -> bytes:
    """A snapshot file as it is before compression."""
    blob = encode_snapshot(snapshot(held), spec=spec)
    return bytes(unseal(blob, FileKind.SNAPSHOT, key=KEY).body)


def misplaced(body: bytes, spec: int) -> list[str]:
    """Numbers that are not where FlatBuffers wants them; official readers refuse such files."""
    root = Buffer(body, KEY).root()
    found = []
    for node in root.tables(2):
        data = node.table(4)
        if data is None or node.byte(3) != ARRAY:
            continue
        path = node.required_text(1, "path")
        starts = [data.required_vector(0, 16, "shape")[0]] if spec == 1 else []
        starts += [dim.at(0) or 0 for dim in data.tables(3)] if spec == 2 else []
        found += [f"shape of {path} at {start}" for start in starts if start % 8]
        for ref in data.tables(2):
            start = ref.required_vector(1, 8, "extents")[0]
            found += [f"extents of {path} at {start}"] * (start % 4 > 0)
    return found


@SPECS
def test_numbers_are_where_official_readers_want_them(spec: int) -> None:
    """In new files, and in those that are made of the bytes of others."""
    expected, table = nodes(), opened(nodes(), spec)
    assert misplaced(body_of(expected, spec), spec) == []
    for number, path in enumerate(["/g3/é2", "/g7/é3", "/g0/é0"], 100):
        row = next(n for n, node in enumerate(expected) if node.path == path)
        expected[row] = changed(expected[row], number)
        odd = replace(expected[row], user_data=expected[row].user_data + b" " * (number % 8 + 1))
        expected[row] = odd
        table = table.edited([odd])
        body = body_of(table, spec)
        assert misplaced(body, spec) == []
        table = opened(table, spec)
        assert tuple(table) == tuple(expected)


@SPECS
def test_a_changed_node_does_not_double_the_file(spec: int) -> None:
    table = opened(nodes(), spec)
    node = table.find("/g3/é2")
    assert node is not None
    again = body_of(table.edited([changed(node, 100)]), spec)
    assert len(again) < 1.3 * len(body_of(nodes(), spec))
