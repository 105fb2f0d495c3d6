"""One node of a snapshot file.

Columns pay from a dozen nodes on; who asks for one should not wait for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from frazil.formats.flat import U32, U64, Buffer, Table
from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import ArrayNode, Dimension, Extents, GroupNode, ManifestRef, Node

ARRAY: Final = 1
GROUP: Final = 2
DIMENSION_V1: Final = struct.Struct("<QQ")


def read_node(node: Table, path: str) -> Node:
    """Read a node, whose path is known and checked.

    Raises:
        FormatError: it is damaged.
    """
    node_id = NodeId(node.required_bytes(0, 8, "id"))
    document = node.required_blob(2, "user_data")
    kind, data = node.byte(3), node.table(4)
    if data is None:
        raise node.buffer.fail("missing required field node_data")
    if kind == GROUP:
        return GroupNode(node_id, path, document)
    if kind != ARRAY:
        raise node.buffer.fail("a node is neither a group nor an array")
    shape = tuple(_shape(data))
    refs = map(_manifest, data.tables(2, "manifests"))
    # Official packages keep those from before an array got another number of axes.
    manifests = tuple(ref for ref in refs if len(ref.extents) == len(shape))
    return ArrayNode(node_id, path, document, shape, _names(data), manifests)


def old_dimension(buffer: Buffer, length: int, chunk: int) -> Dimension:
    """A dimension as spec 1 has it, with the length of a chunk."""
    if length and not chunk:
        raise buffer.fail("a dimension with elements has chunks of length zero")
    return Dimension(length, -(-length // chunk) if chunk else 0)


def _shape(data: Table) -> Iterator[Dimension]:
    old = data.structs(0, DIMENSION_V1.size, "shape")
    if data.at(3) is None:
        for raw in old:
            yield old_dimension(data.buffer, *DIMENSION_V1.unpack(raw))
    else:
        for dim in data.tables(3):
            yield Dimension(dim.number(0, U64), dim.number(1, U32))


def _names(data: Table) -> tuple[str | None, ...] | None:
    return None if data.at(1) is None else tuple(name.text(0) for name in data.tables(1))


def _manifest(ref: Table) -> ManifestRef:
    start, count = ref.required_vector(1, 8, "extents")
    edges = struct.unpack(f"<{2 * count}I", ref.buffer.slice(start, 8 * count))
    extents: Extents = tuple(zip(edges[::2], edges[1::2], strict=True))
    if any(first > end for first, end in extents):
        raise ref.buffer.fail("a manifest covers a range that ends before it begins")
    return ManifestRef(ManifestId(ref.required_bytes(0, 12, "id")), extents)
