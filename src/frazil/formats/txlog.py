"""Transaction logs: what a commit changed."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from frazil.arrays import Coords
from frazil.flatbuf.columns import tables_at
from frazil.flatbuf.reader import U32, Buffer, Table
from frazil.flatbuf.strided import encode_tables
from frazil.flatbuf.tuning import FEW_COORDS
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats.envelope import FileKind, require_id, seal_table, unseal
from frazil.formats.refs import MAX_NDIM
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Move, TransactionLog
from frazil.model.lookup import ascending_order
from frazil.model.nodes import segment_order

ID_LISTS: Final = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_arrays",
    "updated_groups",
)
"""Lists of node ids, from slot 1 on."""
UPDATED_CHUNKS: Final = 7
MOVED_NODES: Final = 8
LOG: Final = TableLayout("id12", *(OFFSET,) * MOVED_NODES)
ARRAY_CHUNKS: Final = TableLayout("id8", OFFSET)
COORDS: Final = TableLayout(OFFSET)
MOVE: Final = TableLayout(OFFSET, OFFSET, "id8", "u8")
SMALLEST_COORDS: Final = 16
"""Bytes of a table with coordinates: 4 each for its place in the vector, its vtable, the place
of the coordinates, and their number."""


def decode_log(blob: bytes, *, key: str, of: SnapshotId | None = None) -> TransactionLog:
    """Read a transaction log file, which must be that of a snapshot, `of`, if one is given.

    Lists that are not in order, as older writers left them, are put in order.
    """
    buffer = Buffer(unseal(blob, FileKind.TRANSACTION_LOG, key=key).body, key)
    require_id(buffer, of)
    with buffer.once():
        root = buffer.root()
        ids = {
            name: tuple(sorted(map(NodeId, root.structs(slot, 8, name))))
            for slot, name in enumerate(ID_LISTS, 1)
        }
        return TransactionLog(
            id=SnapshotId(root.required_bytes(0, 12, "id")),
            **ids,
            updated_chunks=_decode_chunks(buffer, root),
            moved_nodes=tuple(_decode_move(move) for move in root.tables(MOVED_NODES)),
        )


def _decode_chunks(buffer: Buffer, root: Table) -> dict[NodeId, Coords]:
    found: dict[NodeId, Coords] = {}
    total = 0
    for array in root.tables(UPDATED_CHUNKS, "updated_chunks"):
        node = NodeId(array.required_bytes(0, 8, "node_id"))
        start, count = array.required_vector(1, 4, "chunks")
        total += count
        if total * 4 > buffer.size:
            raise buffer.fail("more coordinates than the file can hold")
        if node in found:
            raise buffer.fail("two lists of chunks for one array")
        found[node] = _decode_coords(buffer, start, count)
    return dict(sorted(found.items()))


def _decode_coords(buffer: Buffer, start: int, count: int) -> Coords:
    """Coordinates of a list, ascending and without repetitions."""
    if not count:
        return np.zeros((0, 0), np.uint32)
    first = Table(buffer, start + buffer.read(U32, start))
    _, ndim = first.required_vector(0, 4, "coords")
    if ndim > MAX_NDIM:
        raise buffer.fail("too many dimensions")
    if count <= FEW_COORDS:
        return _decode_few(buffer, start, count, ndim)
    coords = np.empty((count, ndim), np.uint32)
    tables = tables_at(buffer, start, count, "coordinates", smallest=SMALLEST_COORDS)
    for group in tables.groups():
        coords[group.rows] = group.equal_vectors(0, ndim, "coords")
    order = ascending_order(coords)
    if order is None:
        return coords
    coords = coords[order]
    is_new = np.ones(count, bool)
    is_new[1:] = (coords[1:] != coords[:-1]).any(axis=1)
    return coords[is_new]


def _decode_few(buffer: Buffer, start: int, count: int, ndim: int) -> Coords:
    """The same one by one, which is quicker for a handful."""
    found: set[tuple[int, ...]] = set()
    for at in range(start, start + 4 * count, 4):
        table = Table(buffer, at + buffer.read(U32, at))
        first, rank = table.required_vector(0, 4, "coords")
        if rank != ndim:
            raise buffer.fail("chunk coordinates of different rank")
        found.add(struct.unpack(f"<{ndim}I", buffer.slice(first, 4 * ndim)))
    return np.array(sorted(found), np.uint32).reshape(len(found), ndim)


def _decode_move(move: Table) -> Move:
    return Move(
        source=move.required_text(0, "from"),
        target=move.required_text(1, "to"),
        node_id=NodeId(move.required_bytes(2, 8, "node_id")),
        is_array=move.byte(3) == 1,
    )


def encode_log(log: TransactionLog, *, spec: int, level: int = 3) -> bytes:
    """Write a transaction log file.

    Raises:
        FormatError: more coordinates than one file can hold.
    """
    writer = FlatWriter()
    lists = [
        writer.table(ARRAY_CHUNKS, bytes(node), _encode_coords(writer, log.updated_chunks[node]))
        for node in sorted(log.updated_chunks)
    ]
    moves = [
        writer.table(
            MOVE, writer.text(move.source), writer.text(move.target), move.node_id, move.is_array
        )
        for move in sorted(log.moved_nodes, key=lambda move: segment_order(move.target))
    ]
    ids = [sorted(getattr(log, name)) for name in ID_LISTS]
    root = writer.table(
        LOG,
        bytes(log.id),
        *[writer.structs(b"".join(each), len(each), 1) for each in ids],
        writer.offsets(lists),
        writer.offsets(moves),
    )
    return seal_table(writer, root, FileKind.TRANSACTION_LOG, spec=spec, level=level)


def _encode_coords(writer: FlatWriter, coords: Coords) -> int:
    if len(coords) > FEW_COORDS:
        return writer.table_blocks(encode_tables(coords))
    ndim, data = coords.shape[1], coords.astype("<u4").tobytes()
    rows = [data[4 * ndim * row : 4 * ndim * (row + 1)] for row in range(len(coords))]
    return writer.offsets([writer.table(COORDS, writer.structs(row, ndim, 4)) for row in rows])
