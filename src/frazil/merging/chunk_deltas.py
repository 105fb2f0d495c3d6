"""Changed chunks of an array as columns: what one table has that another has not; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, overlay
from frazil.model.lookup import lookup_for
from frazil.model.strings import merge_pools
from frazil.transaction.draft import in_grid, unique_coords

U32: TypeAlias = npt.NDArray[np.uint32]
Rows: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkDelta:
    """What changed: references that were set, and coordinates that were deleted."""

    table: ChunkTable
    dropped: U32

    @classmethod
    def empty(cls, ndim: int) -> ChunkDelta:
        """No change."""
        return cls(ChunkTable.empty(ndim), np.zeros((0, ndim), np.uint32))

    def __len__(self) -> int:
        return len(self.table) + len(self.dropped)

    @property
    def coords(self) -> U32:
        """All coordinates that changed, ascending."""
        if not len(self.dropped):
            return self.table.coords
        return unique_coords([self.table.coords, self.dropped])

    def within(self, grid: tuple[int, ...]) -> ChunkDelta:
        """The part inside a grid."""
        inside = (self.dropped < np.array(grid, np.int64)).all(axis=1)
        return ChunkDelta(in_grid(self.table, grid), self.dropped[inside])

    def without(self, coords: U32) -> ChunkDelta:
        """The part at other coordinates than these."""
        if not len(coords) or not len(self):
            return self
        lookup = lookup_for(coords)
        return ChunkDelta(
            self.table.take(lookup.rows(self.table.coords) < 0),
            self.dropped[lookup.rows(self.dropped) < 0],
        )

    def on(self, base: ChunkTable) -> ChunkTable:
        """A table with this change made to it."""
        return overlay(base, self.table, self.dropped)

    def plus(self, table: ChunkTable) -> ChunkDelta:
        """The change with more references set, where it has none."""
        if not len(table):
            return self
        more = table.take(self.table.find_many(table.coords) < 0)
        return ChunkDelta(overlay(self.table, more, self.dropped[:0]), self.dropped)


def outside(table: ChunkTable, grid: tuple[int, ...]) -> ChunkTable:
    """The rows that lie beyond a grid."""
    return table.take(np.asarray((table.coords >= np.array(grid, np.int64)).any(axis=1)))


def at(table: ChunkTable, coords: U32) -> ChunkTable:
    """The rows at some coordinates, which ascend."""
    rows = table.find_many(coords)
    return table.take(rows[rows >= 0])


def same_refs(one: ChunkTable, one_rows: Rows, other: ChunkTable, other_rows: Rows) -> Mask:
    """Which of two lists of rows hold equal references, pair by pair."""
    a, b = one.take(one_rows), other.take(other_rows)
    same: Mask = (a.kind == b.kind) & (a.length == b.length)
    is_inline = a.kind == ChunkType.inline
    same &= is_inline | (a.offset == b.offset)
    same &= (a.chunk_id == b.chunk_id).all(axis=1)
    same &= a.last_modified == b.last_modified
    for name, pool in (("location", "locations"), ("etag", "etags")):
        _, numbers = merge_pools([getattr(a, pool), getattr(b, pool)])
        left, right = getattr(a, name), getattr(b, name)
        same &= _renumbered(left, numbers[0]) == _renumbered(right, numbers[1])
    for row in np.flatnonzero(same & is_inline).tolist():
        same[row] = _inline(a, row) == _inline(b, row)
    return same


def _renumbered(
    numbers: npt.NDArray[np.int32], new: npt.NDArray[np.int32] | None
) -> npt.NDArray[np.int32]:
    return numbers if new is None else np.append(new, np.int32(ABSENT))[numbers]


def _inline(table: ChunkTable, row: int) -> bytes:
    start = int(table.offset[row])
    return table.inline_data[start : start + int(table.length[row])]


def delta_of(before: ChunkTable, after: ChunkTable) -> ChunkDelta:
    """What must change in a table to become another."""
    rows = before.find_many(after.coords)
    known = np.flatnonzero(rows >= 0)
    changed = rows < 0
    changed[known] = ~same_refs(before, rows[known], after, known)
    gone = after.find_many(before.coords) < 0
    return ChunkDelta(after.take(changed), before.coords[gone])


def common(ours: ChunkDelta, theirs: ChunkDelta) -> tuple[U32, U32]:
    """Coordinates that both change: those changed alike, and those that clash."""
    rows = ours.table.find_many(theirs.table.coords)
    hits = np.flatnonzero(rows >= 0)
    same = same_refs(ours.table, rows[hits], theirs.table, hits)
    both = theirs.table.coords[hits]
    gone = lookup_for(ours.dropped).rows(theirs.dropped) >= 0
    alike = unique_coords([both[same], theirs.dropped[gone]])
    clashing = [
        both[~same],
        theirs.dropped[ours.table.find_many(theirs.dropped) >= 0],
        ours.dropped[theirs.table.find_many(ours.dropped) >= 0],
    ]
    return alike, unique_coords(clashing)
