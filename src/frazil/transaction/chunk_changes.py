"""Changed chunk references of one array, as columns and as single records."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.model.chunks import ChunkRef, ChunkTable
from frazil.model.combining import overlay
from frazil.model.nodes import Coordinates
from frazil.transaction.tuning import MAX_SEGMENTS

Segment: TypeAlias = tuple[ChunkTable, npt.NDArray[np.uint32]]
"""References that were set, and coordinates that were deleted."""


class Unset:
    """Tells "not changed here" from "deleted here" (None)."""


UNSET: Final = Unset()


class ChunkChanges:
    """Changed chunks of one array: a dict of the newest, then columns of bulk writes."""

    __slots__ = ("_loose", "_segments", "ndim")

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self._loose: dict[Coordinates, ChunkRef | None] = {}
        self._segments: list[Segment] = []

    def set(self, coords: Coordinates, ref: ChunkRef | None) -> None:
        """Record one chunk; None deletes it."""
        self._loose[coords] = ref

    def set_many(self, table: ChunkTable) -> None:
        """Record many chunks at once."""
        if not len(table):
            return
        self._seal_loose()
        self._append(table, _no_coords(self.ndim))

    def drop_many(self, coords: npt.NDArray[np.uint32]) -> None:
        """Delete many chunks at once; `coords` is (n, ndim)."""
        if not len(coords):
            return
        self._seal_loose()
        self._append(ChunkTable.empty(self.ndim), sorted_coords(coords))

    def get(self, coords: Coordinates) -> ChunkRef | Unset | None:
        """The recorded reference, None for deleted, `UNSET` when nothing was recorded."""
        found = self._loose.get(coords, UNSET)
        if not isinstance(found, Unset) or not self._segments:
            return found
        for table, dropped in reversed(self._segments):
            row = table.find(coords)
            if row >= 0:
                return table.ref(row)
            if len(dropped) and bool((dropped == np.array(coords, np.uint32)).all(axis=1).any()):
                return None
        return UNSET

    def forget(self, coords: Collection[Coordinates]) -> None:
        """Take back what was recorded for some chunks."""
        table, dropped = self.columns()
        keep = np.array([tuple(c) not in coords for c in table.coords.tolist()], np.bool_)
        keep_dropped = np.array([tuple(c) not in coords for c in dropped.tolist()], np.bool_)
        self._loose = {}
        self._segments = [(table.take(keep), dropped[keep_dropped])]

    def columns(self) -> tuple[ChunkTable, npt.NDArray[np.uint32]]:
        """Everything recorded: the references that are set, the coordinates that are deleted."""
        self._seal_loose()
        if not self._segments:
            return ChunkTable.empty(self.ndim), _no_coords(self.ndim)
        if len(self._segments) > 1:
            self._segments = [reduce(_united, self._segments)]
        return self._segments[0]

    def coords(self) -> npt.NDArray[np.uint32]:
        """Coordinates set or deleted, ascending, without repetition."""
        table, dropped = self.columns()
        if not len(dropped):
            return table.coords
        return sorted_coords(np.concatenate([table.coords, dropped]))

    def update(self, other: ChunkChanges) -> None:
        """Add the changes of another; where both changed a chunk, the other wins."""
        table, dropped = other.columns()
        self._seal_loose()
        self._append(table, dropped)

    def __len__(self) -> int:
        """How many chunks are set or deleted; those that were set twice may count twice."""
        return len(self._loose) + sum(len(table) + len(gone) for table, gone in self._segments)

    def _seal_loose(self) -> None:
        if not self._loose:
            return
        table = ChunkTable.from_refs(
            self.ndim, [(c, ref) for c, ref in self._loose.items() if ref is not None]
        )
        gone = [c for c, ref in self._loose.items() if ref is None]
        dropped = np.array(gone, np.uint32).reshape(len(gone), self.ndim)
        self._append(table, sorted_coords(dropped))
        self._loose = {}

    def _append(self, table: ChunkTable, dropped: npt.NDArray[np.uint32]) -> None:
        """Put changes on top of the others.

        When there are too many segments, the newest are merged as long as the next one is not much
        larger. So each row is copied only a few times, however many writes there are.
        """
        segments = [*self._segments, (table, dropped)]
        if len(segments) > MAX_SEGMENTS:
            last = segments.pop()
            while segments:
                last = _united(segments.pop(), last)
                if segments and _rows(segments[-1]) > 2 * _rows(last):
                    break
            segments.append(last)
        self._segments = segments


def _united(older: Segment, newer: Segment) -> Segment:
    """Two segments as one, the newer winning."""
    table, dropped = newer
    gone = _minus(sorted_coords(np.concatenate([older[1], dropped])), table.coords)
    return overlay(older[0], table, dropped), gone


def _rows(segment: Segment) -> int:
    return len(segment[0]) + len(segment[1])


def _no_coords(ndim: int) -> npt.NDArray[np.uint32]:
    return np.zeros((0, ndim), np.uint32)


def sorted_coords(coords: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Ascending and unique rows."""
    if len(coords) < 2:
        return coords
    if coords.shape[1] == 0:
        return coords[:1]
    ordered = coords[np.lexsort(coords.T[::-1])]
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[fresh]


def _minus(coords: npt.NDArray[np.uint32], other: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Rows of `coords` that are not in `other`."""
    if not len(coords) or not len(other):
        return coords
    if coords.shape[1] == 0:
        return coords[:0]
    both = np.concatenate([coords, other])
    _, inverse = np.unique(both, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    return coords[~np.isin(inverse[: len(coords)], inverse[len(coords) :])]
