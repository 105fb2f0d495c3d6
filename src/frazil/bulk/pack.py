"""Encoded chunks to objects: many small ones into one, each large one into its own.

Native references have offset and length, so an object below `chunks/` may hold any number of
chunks. Everything is written under fresh random names, and nothing refers to it before its
references are put into a change set: a write that fails leaves garbage, never damage.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil import config
from frazil.bulk.engine import pace_for
from frazil.bulk.tuning import LARGE_FILE, PACK_SHARE, PACKS_SENT
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import ChunkId, crockford_many
from frazil.model.chunks import ABSENT, ChunkRef, ChunkTable, ChunkType, NativeRef, constant
from frazil.model.lookup import ascending_order, is_ascending
from frazil.model.nodes import ArrayNode
from frazil.storage.assets import CHUNK, CHUNKS, chunk_key
from frazil.storage.base import Bytes
from frazil.storage.pool import ahead, start_in_pool
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True)
class Packing:
    """Which chunks share objects, and how large those get; sizes in bytes."""

    max_object: int = 64 << 20
    max_chunk: int = 1 << 20
    """chunks below this size are packed"""

    def __post_init__(self) -> None:
        if self.max_object < 1 or self.max_chunk < 0:
            raise InvalidInputError(
                "packs need a size above 0, and chunks to pack one of 0 or more",
                kind=ErrorKind.INVALID_SETTING,
                max_object=self.max_object,
                max_chunk=self.max_chunk,
            )

    @property
    def limit(self) -> int:
        """The size from which on a chunk gets an object of its own."""
        return min(self.max_chunk, self.max_object)


Choice: TypeAlias = Packing | bool | None
"""How to pack: as it says, by the configured sizes (True), not at all (False), or by default."""


@dataclass(frozen=True, slots=True, eq=False)
class Scattered:
    """Bytes of a chunk that lie in several places in memory."""

    parts: Sequence[Bytes]
    size: int

    def __len__(self) -> int:
        return self.size


Encoded: TypeAlias = tuple[int, Bytes | Scattered]
"""Row number of a chunk in the write, and its bytes."""


def chosen_packing(
    choice: Choice, *, default: bool, max_in_flight: int | None = None
) -> Packing | None:
    """The packing that a caller's choice means; None for one object per chunk.

    Packs are filled in memory, so they get a part of what may be in flight only.
    """
    now = config.current()
    if not isinstance(choice, Packing):
        if not (default if choice is None else choice):
            return None
        choice = Packing(now.pack_object_bytes, now.pack_chunk_bytes)
    limit = max(1, (max_in_flight or now.max_in_flight_bytes) // PACK_SHARE)
    return choice if choice.max_object <= limit else replace(choice, max_object=limit)


def packs_by_default(state: WorkingState) -> bool:
    """Whether bulk writes of a session are packed when nothing else is said."""
    wanted = state.pack_writes
    return config.current().pack_bulk_writes if wanted is None else wanted


class PackWriter:
    """Stores the encoded chunks of one write and remembers where they are.

    `put_large` may be called from several threads, the others from one.
    """

    def __init__(self, state: WorkingState, count: int, *, packing: Packing | None) -> None:
        self._storage = state.context.storage
        self._inline_limit = state.inline_limit
        self._own_from = 0 if packing is None else packing.limit
        self._max_pack = 0 if packing is None else packing.max_object
        # Making files in one folder is serial in the kernel, and threads that fight for it lose
        # more than half of its speed.
        least = LARGE_FILE if self._storage.answers_inline else self._inline_limit + 1
        self._large_from = max(self._own_from, least)
        self._kind = np.zeros(count, np.uint8)
        self._chunk_id = np.zeros((count, 12), np.uint8)
        self._offset = np.zeros(count, np.uint64)
        self._length = np.zeros(count, np.uint64)
        self._inline = bytearray()
        self._open: list[Encoded] = []
        self._open_bytes = 0
        self._sending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for what is on its way, since it may use memory of the caller."""
        for future in self._sending:
            future.cancel()
        wait(self._sending)

    def put_large(self, chunks: Iterable[Encoded]) -> list[Encoded]:
        """Store the chunks that are better stored by several threads, and return the others."""
        small: list[Encoded] = []
        large: list[Encoded] = []
        for chunk in chunks:
            size = len(chunk[1])
            if not size:
                raise InvalidInputError(
                    "zero-length chunks cannot be stored", kind=ErrorKind.ZERO_LENGTH_CHUNK
                )
            (small if size < self._large_from else large).append(chunk)
        self._put_each(large)
        return small

    def add(self, chunks: Iterable[Encoded]) -> None:
        """Keep tiny chunks for the manifest, put others into the pack, store what is left."""
        own: list[Encoded] = []
        for row, data in chunks:
            size = len(data)
            if size <= self._inline_limit:
                self._kind[row] = ChunkType.inline
                self._offset[row], self._length[row] = len(self._inline), size
                self._inline += joined_bytes(data)
            elif size < self._own_from:
                if self._open_bytes + size > self._max_pack:
                    self._close_pack()
                self._open.append((row, data))
                self._open_bytes += size
            else:
                own.append((row, data))
        self._put_each(own)

    def _put_each(self, chunks: Sequence[Encoded]) -> None:
        """Store chunks as objects of their own."""
        if not chunks:
            return
        ids = np.frombuffer(secrets.token_bytes(12 * len(chunks)), np.uint8).reshape(-1, 12)
        rows, data = zip(*chunks, strict=True)
        keys = [CHUNKS + name for name in crockford_many(ids)]
        if len(keys) == 1:
            self._storage.put_parts(keys[0], _parts(data[0]), CHUNK)
        else:
            self._storage.put_many(zip(keys, map(joined_bytes, data), strict=True), CHUNK)
        self._record(rows, ids, 0, list(map(len, data)))

    def table(self, coords: npt.NDArray[np.uint32]) -> ChunkTable:
        """Store what is left, and tell where all chunks are; `coords` is (count, ndim)."""
        self._close_pack()
        while self._sending:
            self._sending.popleft().result()
        rows = np.flatnonzero(self._kind)
        chosen = coords[rows]
        order = ascending_order(chosen)
        if order is not None:
            rows, chosen = rows[order], chosen[order]
            if not is_ascending(chosen):
                raise InvalidInputError(
                    "two chunks with the same coordinates", kind=ErrorKind.INVALID_CHUNK_INDEX
                )
        return ChunkTable(
            coords=np.ascontiguousarray(chosen, np.uint32),
            kind=self._kind[rows],
            offset=self._offset[rows],
            length=self._length[rows],
            chunk_id=self._chunk_id[rows],
            location=constant(ABSENT, np.int32, len(rows)),
            etag=constant(ABSENT, np.int32, len(rows)),
            last_modified=constant(0, np.uint32, len(rows)),
            inline_data=bytes(self._inline),
        )

    def absent(self, coords: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The coordinates of chunks that were not stored."""
        rows = np.flatnonzero(self._kind == ChunkType.uninitialized)
        return np.ascontiguousarray(coords[rows], np.uint32)

    def _close_pack(self) -> None:
        """Store the pack being filled; a distant store may take its time."""
        if not self._open:
            return
        chunk_id = ChunkId.random()
        parts = [part for _, data in self._open for part in _parts(data)]
        send = partial(self._storage.put_parts, chunk_key(chunk_id), parts, CHUNK)
        if self._storage.answers_inline:
            send()
        else:
            self._sending.append(start_in_pool(send))
            if len(self._sending) > PACKS_SENT:
                self._sending.popleft().result()
        rows = [row for row, _ in self._open]
        sizes = np.fromiter((len(data) for _, data in self._open), np.uint64, len(rows))
        self._record(rows, np.frombuffer(chunk_id, np.uint8), np.cumsum(sizes) - sizes, sizes)
        self._open, self._open_bytes = [], 0

    def _record(
        self,
        rows: Sequence[int],
        chunk_id: npt.NDArray[np.uint8],
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
    ) -> None:
        at = list(rows)
        self._kind[at] = ChunkType.native
        self._chunk_id[at] = chunk_id
        self._offset[at] = offset
        self._length[at] = length


def _parts(data: Bytes | Scattered) -> Sequence[Bytes]:
    return data.parts if isinstance(data, Scattered) else (data,)


def joined_bytes(data: Bytes | Scattered) -> Bytes:
    """The bytes of a chunk in one piece."""
    return b"".join(data.parts) if isinstance(data, Scattered) else data


def store_one(state: WorkingState, data: Bytes | Scattered) -> ChunkRef:
    """Store a single chunk: inside the manifest when small, else as an object of its own."""
    if not isinstance(data, Scattered):
        return state.payload(data)
    chunk_id = ChunkId.random()
    state.context.storage.put_parts(chunk_key(chunk_id), data.parts, CHUNK)
    return NativeRef(chunk_id, 0, len(data))


def write_encoded(
    state: WorkingState,
    node: ArrayNode,
    coords: npt.NDArray[np.uint32],
    buffers: Sequence[Bytes],
    *,
    packing: Choice = None,
) -> ChunkTable:
    """Store encoded chunks and tell where they are; the change set is left as it is.

    `coords` is (n, ndim). The caller hands the table to `WorkingState.set_table`, here or,
    through a fork or as columns, in another process.

    Raises:
        InvalidInputError: coordinates are outside the grid or repeated, or a chunk has no bytes.
    """
    coords = np.asarray(coords, np.uint32).reshape(len(buffers), len(node.shape))
    if len(coords):
        state.require_held(node, tuple(coords.max(axis=0).tolist()))
    wanted = chosen_packing(packing, default=packs_by_default(state))
    views = [data if isinstance(data, bytes) else memoryview(data).cast("B") for data in buffers]
    chunks: list[Encoded] = [*enumerate(views)]
    pace = pace_for(state.context.storage, max(map(len, views), default=1))
    runs = [chunks[at : at + pace.rows] for at in range(0, len(chunks), pace.rows)]
    with PackWriter(state, len(views), packing=wanted) as writer:
        with closing(ahead(writer.put_large, runs, pace.width)) as stored:
            for small in stored:
                writer.add(small)
        return writer.table(coords)
