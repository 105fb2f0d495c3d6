"""References of many chunks as columns, and their bytes into memory.

Lookups are one vectorised step for each manifest that a region touches. Ranges of one object
that follow each other, and whose places in memory do too, are read as one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Rows
from frazil.bulk.tuning import READ_PATIENCE_S
from frazil.errors import ErrorKind, FormatError, StorageError
from frazil.ids import crockford_many
from frazil.masking import shown_url
from frazil.model.chunks import ChunkTable, ChunkType, VirtualRef
from frazil.model.lookup import lookup_for
from frazil.model.nodes import ArrayNode, ManifestRef
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Piece
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.verification import RecordedChecksums, check_checksum
from frazil.transaction.working import WorkingState

MISSING: Final = int(ChunkType.uninitialized)
NATIVE: Final = int(ChunkType.native)
VIRTUAL: Final = int(ChunkType.virtual)
INLINE: Final = int(ChunkType.inline)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkReferences:
    """Where many chunks are, a row for each."""

    kind: npt.NDArray[np.uint8]
    """a `ChunkType`; 0 for chunks that were never written"""
    offset: I64
    length: I64
    """0 for missing chunks"""
    chunk_id: npt.NDArray[np.uint8]
    """(n, 12)"""
    table: npt.NDArray[np.int32]
    """number of the table that knows the rest of inline and virtual chunks"""
    row: Rows
    """their row in it"""
    tables: Sequence[ChunkTable]
    coords: npt.NDArray[np.integer]
    """(n, ndim)"""
    array: str = ""
    """path of the array, where that is known"""

    @classmethod
    def of(cls, table: ChunkTable, array: str = "") -> ChunkReferences:
        """The references of a table."""
        n = len(table)
        return cls(
            kind=table.kind,
            offset=table.offset.astype(np.int64),
            length=table.length.astype(np.int64),
            chunk_id=table.chunk_id,
            table=np.zeros(n, np.int32),
            row=np.arange(n),
            tables=(table,),
            coords=table.coords,
            array=array,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Rows | slice) -> ChunkReferences:
        """Some of the rows."""
        return replace(
            self,
            kind=self.kind[rows],
            offset=self.offset[rows],
            length=self.length[rows],
            chunk_id=self.chunk_id[rows],
            table=self.table[rows],
            row=self.row[rows],
            coords=self.coords[rows],
        )

    def chunk(self, row: int) -> tuple[str, npt.NDArray[np.integer]]:
        """The array and the coordinates of a chunk, for an error to name."""
        return self.array, self.coords[row]

    def part(self, rows: Rows, offset: I64, length: I64) -> ChunkReferences:
        """Ranges of the chunks in some rows, as references of their own."""
        taken = self.take(rows)
        return replace(taken, offset=taken.offset + offset, length=length)

    def check_lengths(self, limit: int, shape: tuple[int, ...]) -> None:
        """Refuse references to more bytes than a chunk of a shape can have once it is encoded."""
        if len(self):
            worst = int(np.argmax(self.length.view(np.uint64)))  # negative ones are the largest
            check_length(int(self.length[worst]), limit, shape=shape)


def check_length(length: int, limit: int, **facts: object) -> None:
    """Refuse a reference to more bytes than a chunk can have once it is encoded."""
    if not 0 <= length <= limit:
        raise FormatError(
            "a chunk reference is longer than a chunk of this array can be",
            kind=ErrorKind.INVALID_OBJECT_SIZE,
            found=length,
            limit=limit,
            **facts,
        )


def find_chunks(
    state: WorkingState, node: ArrayNode, coords: I64, changes: ChangeSet | None = None
) -> ChunkReferences:
    """Look up many chunks; `coords` is (n, ndim).

    Pass `changes` if another thread may commit: the change set read before `node` was looked up.
    """
    n = len(coords)
    found = ChunkReferences(
        kind=np.zeros(n, np.uint8),
        offset=np.zeros(n, np.int64),
        length=np.zeros(n, np.int64),
        chunk_id=np.zeros((n, 12), np.uint8),
        table=np.zeros(n, np.int32),
        row=np.zeros(n, np.intp),
        tables=(),
        array=node.path,
        coords=coords,
    )
    tables: list[ChunkTable] = []
    rest = _from_changes(state, node, coords, changes or state.changes, found, tables)
    if rest is None or len(rest):
        wanted = coords if rest is None else coords[rest]
        for table in state.load_tables(node, touched(node.manifests, wanted)):
            _enter(found, tables, table, table.find_many(wanted), rest)
    return replace(found, tables=tuple(tables))


def touched(manifests: Sequence[ManifestRef], coords: I64) -> list[ManifestRef]:
    """The manifests that may hold some of the chunks."""
    if not len(coords):
        return []
    low, high = coords.min(axis=0).tolist(), coords.max(axis=0).tolist()
    near = [
        ref
        for ref in manifests
        if all(
            start <= b and a < end
            for a, b, (start, end) in zip(low, high, ref.extents, strict=False)
        )
    ]
    return near if len(near) < 2 else [ref for ref in near if _covers_any(ref, coords)]


def _covers_any(ref: ManifestRef, coords: I64) -> bool:
    inside = np.ones(len(coords), bool)
    for axis, (start, end) in enumerate(ref.extents):
        column = coords[:, axis]
        inside &= (column >= start) & (column < end)
    return bool(inside.any())


def _from_changes(
    state: WorkingState,
    node: ArrayNode,
    coords: I64,
    changes: ChangeSet,
    found: ChunkReferences,
    tables: list[ChunkTable],
) -> Rows | None:
    """Enter the uncommitted chunks; return the rows still to be looked up, None for all."""
    changed = changes.chunks.get(node.id)
    if not changed:
        return None
    with state.lock:  # `columns` rearranges the changes, so no thread may write now
        table, dropped = changed.columns()
    rows = table.find_many(coords)
    _enter(found, tables, table, rows, None)
    settled = rows >= 0
    if len(dropped):
        settled |= lookup_for(dropped).rows(coords) >= 0
    return np.flatnonzero(~settled)


def _enter(
    found: ChunkReferences,
    tables: list[ChunkTable],
    table: ChunkTable,
    rows: Rows,
    targets: Rows | None,
) -> None:
    """Put the chunks that a table has into the columns."""
    hit = rows >= 0
    if not hit.any():
        return
    into: Rows | slice
    if hit.all():
        into = slice(None) if targets is None else targets
    else:
        rows = rows[hit]
        into = np.flatnonzero(hit) if targets is None else targets[hit]
    found.kind[into] = table.kind[rows]
    found.offset[into] = table.offset[rows].astype(np.int64)
    found.length[into] = table.length[rows].astype(np.int64)
    found.chunk_id[into] = table.chunk_id[rows]
    found.table[into] = len(tables)
    found.row[into] = rows
    tables.append(table)


# --- bytes ---


class OneReader:
    """Lets one thread at a time open small files, as long as that is quick.

    Each system call gives Python's lock away for a moment; two threads that both make thousands
    spend their time passing it on. Where a read takes long, as on a slow disk, nobody waits for it.
    """

    def __init__(self, patience_s: float = READ_PATIENCE_S) -> None:
        self._lock = threading.Lock()
        self._patience_s = patience_s

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Go one after the other, but do not wait long."""
        is_held = self._lock.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if is_held:
                self._lock.release()


def fetch_into(
    state: WorkingState,
    refs: ChunkReferences,
    memory: memoryview,
    at: I64,
    reader: OneReader | None = None,
) -> None:
    """Put the bytes of chunks into memory, each at its place; missing ones are left out.

    With a `reader` native chunks are read in turn with other threads that have the same.

    Raises:
        StorageError: an object is missing or too short; it tells which chunk is there.
        InvalidInputError: a virtual chunk may not be read.
        FormatError: a chunk is not what its checksum says.
    """
    try:
        _fetch_into(state, refs, memory, at, reader)
    except StorageError as error:
        row = _row_at(refs, error.facts.get("key"), error.facts.get("location"))
        if row is not None and refs.array:
            error.of_chunk(*refs.chunk(row))
        raise
    if state.context.checksums is not None:
        _verify(state.context.checksums, refs, memory, at)


def _verify(
    checksums: RecordedChecksums, refs: ChunkReferences, memory: memoryview, at: I64
) -> None:
    """Compare native chunks that have been read with the checksums on record."""
    rows = np.flatnonzero(refs.kind == NATIVE)
    recorded = checksums.of(refs.chunk_id[rows], refs.offset[rows], refs.length[rows])
    names = crockford_many(refs.chunk_id[rows])
    for row, name, known in zip(rows.tolist(), names, recorded, strict=True):
        start = int(at[row])
        try:
            check_checksum(memory[start : start + int(refs.length[row])], known, CHUNKS + name)
        except FormatError as error:
            raise error.of_chunk(*refs.chunk(row)) from None


def _row_at(refs: ChunkReferences, key: object, location: object) -> int | None:
    """The first row whose chunk is in the object that an error names."""
    native = np.flatnonzero(refs.kind == NATIVE)
    for row, name in zip(native.tolist(), crockford_many(refs.chunk_id[native]), strict=True):
        if CHUNKS + name == key:
            return row
    for row in np.flatnonzero(refs.kind == VIRTUAL).tolist():
        if shown_url(_virtual(refs, row).location) == location:
            return row
    return None


def _fetch_into(
    state: WorkingState,
    refs: ChunkReferences,
    memory: memoryview,
    at: I64,
    reader: OneReader | None,
) -> None:
    kinds = set(np.unique(refs.kind).tolist())
    if NATIVE in kinds:
        rows = None if kinds == {NATIVE} else np.flatnonzero(refs.kind == NATIVE)
        pieces = _pieces(refs, memory, at, rows)
        with nullcontext() if reader is None else reader.turn():
            state.context.assets.near.read_into(pieces)
    if INLINE in kinds:
        for row in np.flatnonzero(refs.kind == INLINE).tolist():
            start, size, place = int(refs.offset[row]), int(refs.length[row]), int(at[row])
            data = refs.tables[refs.table[row]].inline_data
            memory[place : place + size] = memoryview(data)[start : start + size]
    if VIRTUAL in kinds:
        chosen = np.flatnonzero(refs.kind == VIRTUAL).tolist()
        chunks = state.context.containers.fetch_many([_virtual(refs, row) for row in chosen])
        for row, chunk in zip(chosen, chunks, strict=True):
            memory[int(at[row]) : int(at[row]) + len(chunk)] = chunk


def require_last_byte(state: WorkingState, refs: ChunkReferences, row: int) -> None:
    """Read the last byte of a chunk alone."""
    one = refs.take(slice(row, row + 1))
    last = one.part(np.zeros(1, np.intp), one.length - 1, np.ones(1, np.int64))
    fetch_into(state, last, memoryview(bytearray(1)), np.zeros(1, np.int64))


def _virtual(refs: ChunkReferences, row: int) -> VirtualRef:
    ref = refs.tables[refs.table[row]].ref(int(refs.row[row]))
    assert isinstance(ref, VirtualRef)
    return replace(ref, offset=int(refs.offset[row]), length=int(refs.length[row]))


def _pieces(refs: ChunkReferences, memory: memoryview, at: I64, rows: Rows | None) -> list[Piece]:
    """What to read of which objects, with neighbours joined."""
    ids, offset, length = refs.chunk_id, refs.offset, refs.length
    if rows is not None:
        ids, offset, length, at = ids[rows], offset[rows], length[rows], at[rows]
    words = np.ascontiguousarray(ids).view(np.uint32).reshape(-1, 3)
    new = np.ones(len(ids), bool)
    new[1:] = (words[1:] != words[:-1]).any(axis=1)
    heads = np.arange(len(ids))
    if not new.all():
        new[1:] |= (offset[1:] != offset[:-1] + length[:-1]) | (at[1:] != at[:-1] + length[:-1])
        heads = np.flatnonzero(new)
        length = np.add.reduceat(length, heads)
        if len(heads) > 1:
            # Ranges of one object come together and in order: a disk then reads them as one.
            order = np.lexsort((offset[heads], *words[heads].T))
            heads, length = heads[order], length[order]
    begin = at[heads]
    return [
        (CHUNKS + name, start, memory[first:last])
        for name, start, first, last in zip(
            crockford_many(ids[heads]),
            offset[heads].tolist(),
            begin.tolist(),
            (begin + length).tolist(),
            strict=True,
        )
    ]
