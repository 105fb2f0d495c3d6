"""Sets of ids as numpy columns of twelve bytes, and the least length of objects, by id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import U8, U64, ByteStrings
from frazil.ids import ObjectId
from frazil.maintenance.tuning import MIN_PENDING
from frazil.model.chunks import ChunkTable, ChunkType

ID_WIDTH: Final = ObjectId.width
MAX_END: Final = np.uint64(2**64 - 1)


class RowSet:
    """A growing set of rows of equal width; rows are (n, width) arrays of bytes."""

    def __init__(self, width: int = ID_WIDTH) -> None:
        self._width = width
        self._sorted: ByteStrings = np.zeros(0, f"S{width}")
        self._pending: list[ByteStrings] = []
        self._count = 0

    def add(self, rows: U8) -> None:
        """Take over rows, which may repeat."""
        if not len(rows):
            return
        self._pending.append(self._keys(rows))
        self._count += len(rows)
        if self._count > max(MIN_PENDING, len(self._sorted)):
            self._settle()

    def add_ids(self, ids: Iterable[bytes]) -> None:
        """Take over single ids."""
        self.add(id_rows(ids))

    def contains(self, rows: U8) -> npt.NDArray[np.bool_]:
        """Tell for each row whether it is in the set."""
        self._settle()
        keys, known = self._keys(rows), self._sorted
        if not len(known):
            return np.zeros(len(keys), np.bool_)
        places = np.searchsorted(known, keys)
        found: npt.NDArray[np.bool_] = known[np.minimum(places, len(known) - 1)] == keys
        return found

    def rows(self) -> U8:
        """All rows, ascending."""
        self._settle()
        return self._sorted.view(np.uint8).reshape(-1, self._width)

    def __len__(self) -> int:
        self._settle()
        return len(self._sorted)

    def _keys(self, rows: U8) -> ByteStrings:
        # numpy ignores zeros at the end of such texts, which equal widths make harmless.
        return np.ascontiguousarray(rows).view(f"S{self._width}").ravel()

    def _settle(self) -> None:
        if self._pending:
            self._sorted = np.unique(np.concatenate([self._sorted, *self._pending]))
            self._pending.clear()
            self._count = 0


def id_rows(ids: Iterable[bytes]) -> U8:
    """Single ids as rows."""
    return np.frombuffer(b"".join(ids), np.uint8).reshape(-1, ID_WIDTH)


# --- what references need of objects ---


def native_needs(table: ChunkTable) -> tuple[U8, U64]:
    """The objects of the native references of a table, and the end of each range."""
    rows = table.kind == ChunkType.native
    return table.chunk_id[rows], range_ends(table.offset[rows], table.length[rows])


def range_ends(offset: U64, length: U64) -> U64:
    """Ends of ranges; a sum that does not fit is longer than any object."""
    ends = offset + length
    return np.where(ends < offset, MAX_END, ends)


def needed_objects(tables: Iterable[ChunkTable]) -> tuple[U8, U64, npt.NDArray[np.int64]]:
    """Objects by id, ascending: how long each must be, and how many references name it."""
    parts = [
        (np.zeros((0, ID_WIDTH), np.uint8), np.zeros(0, np.uint64)),
        *map(native_needs, tables),
    ]
    ids, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    names = np.ascontiguousarray(ids).view(f"S{ID_WIDTH}").ravel()
    known, places, counts = np.unique(names, return_inverse=True, return_counts=True)
    longest = np.zeros(len(known), np.uint64)
    np.maximum.at(longest, places, ends)
    return known.view(np.uint8).reshape(-1, ID_WIDTH), longest, counts
