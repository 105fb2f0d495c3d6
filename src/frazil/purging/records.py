"""What shall be erased, and what an erasure did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Mask
from frazil.bulk.grid import Grid
from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import NodeId, is_below

CellRanges: TypeAlias = tuple[tuple[int, int | None], ...]
"""Per axis the first cell and the one past the last, None for the end of the array."""


def parse_region(region: Sequence[slice | tuple[int, int | None]] | None) -> CellRanges | None:
    """A region from slices or pairs.

    Raises:
        InvalidInputError: it has steps or negative numbers, or is empty.
    """
    if region is None:
        return None
    found: list[tuple[int, int | None]] = []
    for part in region:
        start, stop = (part.start, part.stop) if isinstance(part, slice) else part
        start = 0 if start is None else int(start)
        stop = None if stop is None else int(stop)
        if isinstance(part, slice) and part.step not in (None, 1):
            raise _bad(f"{part} has a step")
        if start < 0 or (stop is not None and stop <= start):
            raise _bad(f"{start}:{stop} is empty, or counts from the end")
        found.append((start, stop))
    return tuple(found)


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError(f"no region to purge: {problem}", kind=ErrorKind.INVALID_SELECTION)


@dataclass(frozen=True, slots=True)
class PurgeTarget:
    """What shall be erased: nodes, whatever their paths were, or a region of them."""

    path: str
    region: CellRanges | None = None
    nodes: frozenset[NodeId] = frozenset()

    def names(self, path: str) -> bool:
        """Whether a node at a path is meant."""
        if self.path == "/":
            return path != "/"
        return path == self.path or (self.region is None and is_below(path, self.path))

    def meets(self, grid: Grid, coords: npt.NDArray[np.integer]) -> Mask:
        """Which chunks hold cells of the region."""
        met = np.ones(len(coords), np.bool_)
        columns = coords.astype(np.int64)
        for axis, (start, stop) in enumerate(self.region or ()):
            first = grid[axis].start_of(columns[:, axis])
            met &= first + grid[axis].size_of(columns[:, axis]) > start
            if stop is not None:
                met &= first < stop
        return met


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked through after an erasure, and what it found."""

    snapshots: int = 0
    manifests: int = 0
    objects: int = 0
    """erased objects that were asked for, or read, again"""
    leftovers: tuple[str, ...] = ()
    """files that still contain erased data"""
    unnamed_objects: int = 0
    """chunk objects that no manifest names: uploads of unfinished work, or garbage"""

    @property
    def is_clean(self) -> bool:
        """Whether nothing refers to what was erased, and none of its bytes are left."""
        return not self.leftovers


@dataclass(frozen=True, slots=True, repr=False)
class PurgeReport(ReportView):
    """What an erasure did, or would do."""

    path: str
    region: CellRanges | None
    applied: bool
    paths: tuple[str, ...] = ()
    """all paths that the erased nodes ever had"""
    snapshots: Mapping[str, str | None] = field(default_factory=dict)
    """old ids of rewritten snapshots, and the new ones; None where nothing was done yet"""
    loose_snapshots: int = 0
    """snapshot files outside of history that were deleted because they held it"""
    manifests_deleted: int = 0
    chunks_dropped: int = 0
    """references that are gone from manifests"""
    chunks_blanked: int = 0
    """chunks of which a part was erased, written anew"""
    objects_deleted: int = 0
    objects_overwritten: int = 0
    """objects with other chunks in them, in which the erased bytes are zero now"""
    bytes_erased: int = 0
    virtual_sources: tuple[str, ...] = ()
    """source files of virtual chunks, which are not changed"""
    still_referenced: tuple[str, ...] = ()
    """other arrays that refer to the same bytes, which therefore stay"""
    backups: int = 0
    """backups of the repo object, which name old snapshots and hold no values"""
    backups_deleted: bool = False
    verification: Verification | None = None

    @property
    def is_proved(self) -> bool:
        """Whether it was done and nothing is left."""
        checked = self.verification
        return self.applied and checked is not None and checked.is_clean
