"""Nodes of snapshot files: one by one and many at once they are the same, and so is damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import table_columns
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.tuning import FEW_NODES
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats.nodes import ARRAY, DIMENSION_V1, GROUP, read_nodes_at
from frazil.formats.snapshot import (
    ARRAY_DATA,
    DIMENSION,
    DIMENSION_NAME,
    GROUP_DATA,
    MANIFEST_REF,
    NODE,
)
from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node

KEY = "snapshots/TEST"
ID = ManifestId(b"m" * 12)
COUNTS = pytest.mark.parametrize("count", [1, FEW_NODES, FEW_NODES + 1])


@dataclass
class Written:
    """Fields of an array in a file, also such as no writer makes."""

    kind: int = ARRAY
    old_shape: tuple[tuple[int, int], ...] | None = ()
    shape: tuple[tuple[int, int], ...] | None = ((10, 3),)
    names: tuple[str | bytes | None, ...] | None = None
    manifests: tuple[tuple[tuple[int, int], ...], ...] | None = (((0, 3),),)
    has_data: bool = True
    has_document: bool = True


def write(writer: FlatWriter, number: int, node: Written) -> int:
    data = _data(writer, node) if node.has_data else None
    document = writer.blob(b"{%d}" % number) if node.has_document else None
    path = writer.text(f"/{number:03}")
    return writer.table(NODE, b"%08d" % number, path, document, node.kind, data)


def _data(writer: FlatWriter, node: Written) -> int:
    if node.kind != ARRAY:
        return writer.table(GROUP_DATA)
    old = None
    if node.old_shape is not None:
        raw = b"".join(DIMENSION_V1.pack(*pair) for pair in node.old_shape)
        old = writer.structs(raw, len(node.old_shape), 8)
    shape = None
    if node.shape is not None:
        shape = writer.offsets([writer.table(DIMENSION, *pair) for pair in node.shape])
    names = None
    if node.names is not None:
        raws = [name.encode() if isinstance(name, str) else name for name in node.names]
        names = writer.offsets(
            [
                writer.table(DIMENSION_NAME, None if raw is None else writer.raw_text(raw))
                for raw in raws
            ]
        )
    manifests = None
    if node.manifests is not None:
        manifests = writer.offsets([_manifest(writer, extents) for extents in node.manifests])
    return writer.table(ARRAY_DATA, old, names, manifests, shape)


def _manifest(writer: FlatWriter, extents: tuple[tuple[int, int], ...]) -> int:
    raw = b"".join(edge.to_bytes(4, "little") for pair in extents for edge in pair)
    return writer.table(MANIFEST_REF, bytes(ID), writer.structs(raw, len(extents), 4))


def read(*nodes: Written) -> list[Node]:
    """Nodes as they are read from a file with these."""
    writer = FlatWriter()
    tables = writer.offsets([write(writer, n, node) for n, node in enumerate(nodes)])
    body = writer.finish(writer.table(TableLayout(OFFSET), tables), b"Ichk").joined()
    columns = table_columns(Buffer(body, KEY).root(), 0, "nodes")
    return [*read_nodes_at(columns, [f"/{n:03}" for n in range(len(nodes))])]


def array(
    number: int,
    *shape: tuple[int, int],
    names: tuple[str | None, ...] | None = None,
    has_manifest: bool = True,
) -> ArrayNode:
    """The array of a number, with a manifest that covers all of it."""
    dimensions = tuple(Dimension(*pair) for pair in shape)
    whole = (ManifestRef(ID, tuple((0, count) for _, count in shape)),)
    node_id, path, document = NodeId(b"%08d" % number), f"/{number:03}", b"{%d}" % number
    return ArrayNode(node_id, path, document, dimensions, names, whole if has_manifest else ())


@COUNTS
def test_groups_and_arrays_of_any_rank(count: int) -> None:
    kinds: list[tuple[Written, Callable[[int], Node]]] = [
        (
            Written(GROUP),
            lambda n: GroupNode(NodeId(b"%08d" % n), f"/{n:03}", b"{%d}" % n),
        ),
        (Written(), lambda n: array(n, (10, 3))),
        (
            Written(shape=((2**63, 7), (0, 0)), names=("x", None), manifests=()),
            lambda n: array(n, (2**63, 7), (0, 0), names=("x", None), has_manifest=False),
        ),
        (Written(shape=(), names=(), manifests=((),)), lambda n: array(n, names=())),
        (
            Written(shape=((5, 1),), names=("é",), manifests=(((0, 1),),)),
            lambda n: array(n, (5, 1), names=("é",)),
        ),
    ]
    chosen = [kinds[n % len(kinds)] for n in range(count)]
    assert read(*(node for node, _ in chosen)) == [make(n) for n, (_, make) in enumerate(chosen)]


@COUNTS
def test_lengths_of_chunks_become_numbers_of_chunks(count: int) -> None:
    """As in files of spec 1; a length that is no multiple needs one more."""
    old = Written(old_shape=((10, 4), (8, 4), (0, 0), (0, 5)), shape=None, manifests=())
    expected = (Dimension(10, 3), Dimension(8, 2), Dimension(0, 0), Dimension(0, 0))
    for node in read(*[old] * count):
        assert isinstance(node, ArrayNode)
        assert node.shape == expected


@COUNTS
def test_the_newer_shape_counts_where_there_are_both(count: int) -> None:
    both = Written(old_shape=((10, 0),), shape=((10, 3),))
    assert read(*[both] * count) == [array(n, (10, 3)) for n in range(count)]


@COUNTS
def test_a_manifest_of_another_number_of_axes_holds_nothing(count: int) -> None:
    """Official packages leave it when an array gets other axes in place."""
    left = Written(manifests=(((0, 2), (0, 1)), ((0, 3),), ()))
    assert read(*[left] * count) == [array(n, (10, 3)) for n in range(count)]


@COUNTS
@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (Written(kind=0), "neither a group nor an array"),
        (Written(kind=3), "neither a group nor an array"),
        (Written(has_data=False), "node_data"),
        (Written(GROUP, has_data=False), "node_data"),
        (Written(has_document=False), "user_data"),
        (Written(old_shape=None), "shape"),
        (Written(manifests=None), "manifests"),
        (Written(old_shape=((1, 0),), shape=None), "chunks of length zero"),
        (Written(manifests=(((3, 2),),)), "ends before it begins"),
        (Written(names=(b"\xff",)), "UTF-8"),
    ],
)
def test_damage_is_told_alike_of_one_and_of_many(
    count: int, damaged: Written, problem: str
) -> None:
    with pytest.raises(FormatError, match=problem) as caught:
        read(*[Written()] * (count - 1), damaged)
    assert caught.value.facts["key"] == KEY


def test_no_nodes_at_all() -> None:
    assert read() == []
