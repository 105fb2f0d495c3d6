"""What references need of the objects they point into, as columns: how long each must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.maintenance.id_sets import ID_WIDTH, U8
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType

U64: TypeAlias = npt.NDArray[np.uint64]
Source: TypeAlias = tuple[str, str | int | None]
"""Location and checksum of a virtual reference."""

MIN_PENDING: Final = 1 << 16
"""Rows that are collected before they are sorted in."""
MAX_END: Final = np.uint64(2**64 - 1)


@dataclass(slots=True, eq=False)
class NativeNeeds:
    """Chunk objects by id, with the length that references ask for; grows."""

    _keys: npt.NDArray[np.bytes_] = field(default_factory=lambda: np.zeros(0, f"S{ID_WIDTH}"))
    _ends: U64 = field(default_factory=lambda: np.zeros(0, np.uint64))
    _pending: list[tuple[npt.NDArray[np.bytes_], U64]] = field(default_factory=list)
    _count: int = 0

    def add(self, ids: U8, ends: U64) -> None:
        """Take over references; several may name one object."""
        if not len(ids):
            return
        keys = np.ascontiguousarray(ids).view(f"S{ID_WIDTH}").ravel()
        self._pending.append((keys, ends))
        self._count += len(ids)
        if self._count > max(MIN_PENDING, len(self._keys)):
            self._settle()

    def rows(self) -> tuple[U8, U64]:
        """Ids, ascending, and the length that each object must have."""
        self._settle()
        return self._keys.view(np.uint8).reshape(-1, ID_WIDTH), self._ends

    def _settle(self) -> None:
        if not self._pending:
            return
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._pending)])
        ends = np.concatenate([self._ends, *(ends for _, ends in self._pending)])
        self._keys, places = np.unique(keys, return_inverse=True)
        self._ends = np.zeros(len(self._keys), np.uint64)
        np.maximum.at(self._ends, places, ends)
        self._pending.clear()
        self._count = 0


def native_needs(table: ChunkTable) -> tuple[U8, U64]:
    """The objects of the native references of a table, and the end of each range."""
    rows = table.kind == ChunkType.native
    return table.chunk_id[rows], _ends(table.offset[rows], table.length[rows])


def virtual_needs(table: ChunkTable) -> Iterator[tuple[Source, int, int]]:
    """The sources of the virtual references of a table: how long each must be, how many refer."""
    rows = np.flatnonzero(table.kind == ChunkType.virtual)
    if not len(rows):
        return
    columns = np.empty((len(rows), 3), np.int64)
    columns[:, 0] = table.location[rows]
    columns[:, 1] = table.etag[rows]
    columns[:, 2] = table.last_modified[rows]
    found, places = np.unique(columns, axis=0, return_inverse=True)
    places = places.reshape(-1)
    ends = np.zeros(len(found), np.uint64)
    np.maximum.at(ends, places, _ends(table.offset[rows], table.length[rows]))
    counts = np.bincount(places, minlength=len(found)).tolist()
    for row, end, count in zip(found.tolist(), ends.tolist(), counts, strict=True):
        location, etag, seconds = row
        checksum = table.etags[etag] if etag != ABSENT else seconds or None
        yield (table.locations[location], checksum), end, count


def _ends(offset: U64, length: U64) -> U64:
    """Ends of ranges; a sum that does not fit is longer than any object."""
    ends = offset + length
    return np.where(ends < offset, MAX_END, ends)


def merge_sources(
    known: dict[Source, tuple[int, int]], found: Iterable[tuple[Source, int, int]]
) -> None:
    """Add sources of one manifest to those of others."""
    for source, end, count in found:
        longest, total = known.get(source, (0, 0))
        known[source] = max(longest, end), total + count
