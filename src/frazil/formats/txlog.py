"""Transaction logs: what a commit changed."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.formats.block_tables import encode_tables
from frazil.formats.blocks import LINK, Field, Writer
from frazil.formats.columns import groups
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.flat import U32, Buffer, Table
from frazil.formats.refs import MAX_NDIM
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Move, TransactionLog
from frazil.model.lookup import ascending_order
from frazil.model.nodes import segment_order

Coords: TypeAlias = npt.NDArray[np.uint32]

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
FEW: Final = 16


def decode_log(blob: bytes, *, key: str) -> TransactionLog:
    """Read a transaction log file.

    Lists that are not in order, as older writers left them, are put in order.

    Raises:
        FormatError: the file is damaged or of another kind.
    """
    buffer = Buffer(unseal(blob, FileKind.TRANSACTION_LOG, key=key).body, key)
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
    if count <= FEW:
        return _decode_few(buffer, start, count, ndim)
    coords = np.empty((count, ndim), np.uint32)
    for group in groups(buffer, start, count, (4,)):
        coords[group.rows] = group.coordinates(0, ndim)
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
    writer = Writer()
    links = writer.root([log.id, *[LINK] * MOVED_NODES])
    for slot, name in enumerate(ID_LISTS, 1):
        ids: Sequence[NodeId] = sorted(getattr(log, name))
        writer.blob(links[slot], b"".join(ids), count=len(ids))
    nodes = sorted(log.updated_chunks)
    rows: list[list[Field]] = [[node, LINK] for node in nodes]
    lists = writer.tables(links[UPDATED_CHUNKS], rows)
    _encode_moves(writer, links[MOVED_NODES], log.moved_nodes)
    parts = []
    for node, link in zip(nodes, lists, strict=True):
        coords = log.updated_chunks[node]
        if len(coords) <= FEW:
            _encode_few(writer, link[1], coords)
        else:
            parts.append((link[1], encode_tables(coords)))
    return seal(writer.finish(parts), FileKind.TRANSACTION_LOG, spec=spec, level=level)


def _encode_few(writer: Writer, link: int, coords: Coords) -> None:
    """Write some coordinates one by one, which for so few is quicker than as columns."""
    ndim, data = coords.shape[1], coords.astype("<u4").tobytes()
    for row, links in enumerate(writer.tables(link, [[LINK]] * len(coords))):
        at = 4 * ndim * row
        writer.blob(links[0], data[at : at + 4 * ndim], count=ndim)


def _encode_moves(writer: Writer, link: int, moves: Iterable[Move]) -> None:
    ordered = sorted(moves, key=lambda move: segment_order(move.target))
    rows: list[list[Field]] = [
        [LINK, LINK, move.node_id, b"\1" if move.is_array else None] for move in ordered
    ]
    for move, links in zip(ordered, writer.tables(link, rows), strict=True):
        writer.text(links[0], move.source)
        writer.text(links[1], move.target)
