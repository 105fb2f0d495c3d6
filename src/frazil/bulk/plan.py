"""Plans: which chunks a read touches, what is taken of each and where it goes.

Chunks are numbered; all a plan knows of a chunk is computed when it is asked for, so that a
plan of a million chunks is as small as its axes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frazil.arrays import I64, Array, Shape
from frazil.bulk.grid import Grid
from frazil.bulk.selection import AxisSelection, Part, cut_item, expanded, in_bounds
from frazil.errors import SelectionError


class ChunkPlan(ABC):
    """Chunks of one array, numbered from 0: what is taken of each, and where it goes."""

    count: int
    """number of chunks"""
    drop_axes: Shape = ()
    """axes of the chunks that the caller's array does not have"""

    @property
    @abstractmethod
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""

    @property
    def run_length(self) -> int:
        """Number of chunks that are known to follow each other along an axis."""
        return 1

    @abstractmethod
    def coords(self, rows: range) -> I64:
        """Coordinates of some chunks, (n, ndim)."""

    @abstractmethod
    def shape(self, row: int) -> Shape:
        """Shape of a chunk, also beyond the end of the array."""

    @abstractmethod
    def parts(self, row: int) -> tuple[Any, Any]:
        """What is taken of a chunk, and where in the caller's array it goes."""

    def covers(self, row: int) -> bool:
        """Whether all elements of a chunk are taken, in order, that the array has."""
        return False

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """How many chunks from the first row on are taken whole side by side, and their places.

        The places are an array (n, *shape of a chunk), a view of `out`; None if the first chunk
        is not taken whole.
        """
        return None

    def box(self, rows: range, out: Array) -> Array | None:
        """The places of chunks from the first row on that fill a box of the grid.

        All of them are taken whole and are alike; None if the first chunk is not taken whole.
        The places are a view of `out`: first the axes of the grid, then those of a chunk.
        """
        return None

    def put(self, row: int, chunk: Array, out: Array) -> None:
        """Copy what is taken of a chunk to its place."""
        in_chunk, in_result = self.parts(row)
        out[in_result] = self.squeezed(chunk[in_chunk])

    def squeezed(self, taken: Array) -> Array:
        """What was taken of a chunk, with the axes of the caller's array."""
        return taken.squeeze(axis=self.drop_axes) if self.drop_axes else taken

    def fill(self, row: int, value: object, out: Array) -> None:
        """Put one value where a chunk would go."""
        out[self.parts(row)[1]] = value


@dataclass(frozen=True, eq=False)
class BoxPlan(ChunkPlan):
    """A selection that is a product over the axes: basic, strided, orthogonal, by blocks."""

    cuts: tuple[AxisSelection, ...]

    def __post_init__(self) -> None:
        counts = tuple(len(cut.chunks) for cut in self.cuts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "count", math.prod(counts))
        # Chunks that follow each other do so along the last axis that has more than one.
        several = [axis for axis, count in enumerate(counts) if count > 1]
        object.__setattr__(self, "_run_axis", several[-1] if several else len(counts) - 1)
        arrays = sum(cut.has_arrays for cut in self.cuts)
        object.__setattr__(self, "_is_crossed", arrays > 1)

    counts: Shape = ()
    count: int = 0
    _run_axis: int = 0
    _is_crossed: bool = False

    @property
    def full_shape(self) -> Shape:
        """Shape of the result with the axes it lacks."""
        return tuple(cut.items for cut in self.cuts)

    @property
    def result_shape(self) -> Shape:
        """Shape of the result."""
        return tuple(cut.items for cut in self.cuts if not cut.is_dropped)

    @property
    def largest(self) -> Shape:
        return tuple(int(cut.sizes.max(initial=0)) for cut in self.cuts)

    @property
    def run_length(self) -> int:
        return max(1, self.counts[self._run_axis]) if self.counts else 1

    def coords(self, rows: range) -> I64:
        if not self.cuts:
            return np.zeros((len(rows), 0), np.int64)
        places = np.unravel_index(np.arange(rows.start, rows.stop), self.counts)
        return np.stack([c.chunks[at] for c, at in zip(self.cuts, places, strict=True)], axis=1)

    def _places(self, row: int) -> list[int]:
        """Where in each cut a chunk is."""
        places = []
        for count in reversed(self.counts):
            row, place = divmod(row, count)
            places.append(place)
        return places[::-1]

    def shape(self, row: int) -> Shape:
        return tuple(
            int(cut.sizes[at]) for cut, at in zip(self.cuts, self._places(row), strict=True)
        )

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        places = self._places(rows.start)
        if not all(cut.is_whole[at] for cut, at in zip(self.cuts, places, strict=True)):
            return None
        if not self.cuts:
            return 1, out[None]
        axis = self._run_axis
        cut, first = self.cuts[axis], places[axis]
        size = int(cut.sizes[first])
        count = cut.alike_from(first, min(len(rows), len(cut.chunks) - first))
        boxes = [c.in_result[at] for c, at in zip(self.cuts, places, strict=True)]
        begin = boxes[axis].start  # type: ignore[union-attr]  # whole chunks are slices
        boxes[axis] = slice(begin, begin + count * size)
        view = out[tuple(boxes)]
        # Splitting an axis of a view needs no copy.
        split = view.reshape(*view.shape[:axis], count, size, *view.shape[axis + 1 :])
        return count, np.moveaxis(split, axis, 0)

    def box(self, rows: range, out: Array) -> Array | None:
        places, left = self._places(rows.start), len(rows)
        split: list[int] = []
        boxes: list[slice] = []
        for cut, first in zip(reversed(self.cuts), reversed(places), strict=True):
            size = int(cut.sizes[first])
            count = cut.alike_from(first, max(1, min(left, len(cut.chunks) - first)))
            if not count:
                return None
            begin = cut.in_result[first].start  # type: ignore[union-attr]  # as in `run`
            boxes.append(slice(begin, begin + count * size))
            split += [size, count]
            # Only behind an axis that is taken in full the box goes on along the next one.
            left = left // count if count == len(cut.chunks) else 0
        view = out[tuple(reversed(boxes))].reshape(split[::-1])
        axes = range(view.ndim)
        return view.transpose([*axes[::2], *axes[1::2]])

    def parts(self, row: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        places = self._places(row)
        in_chunk = tuple(c.in_chunk[at] for c, at in zip(self.cuts, places, strict=True))
        in_result = tuple(c.in_result[at] for c, at in zip(self.cuts, places, strict=True))
        if not self._is_crossed:
            return in_chunk, in_result
        return np.ix_(*map(_numbers, in_chunk)), np.ix_(*map(_numbers, in_result))

    def covers(self, row: int) -> bool:
        places = self._places(row)
        return all(cut.covers[at] for cut, at in zip(self.cuts, places, strict=True))


def _numbers(part: Part) -> I64:
    return np.arange(part.start, part.stop, part.step) if isinstance(part, slice) else part


@dataclass(frozen=True, eq=False)
class PointPlan(ChunkPlan):
    """Single elements in any order; the result has one axis."""

    chunk_coords: I64
    chunk_shapes: I64
    order: I64
    """the points, chunk by chunk"""
    bounds: Sequence[int]
    """where in `order` each chunk begins, and the end"""
    inside: tuple[I64, ...]
    """for each axis where in its chunk a point is, in that order"""

    @property
    def count(self) -> int:  # type: ignore[override]  # it is never set
        return len(self.chunk_coords)

    @property
    def largest(self) -> Shape:
        return tuple(self.chunk_shapes.max(axis=0, initial=0).tolist())

    def coords(self, rows: range) -> I64:
        return self.chunk_coords[rows.start : rows.stop]

    def shape(self, row: int) -> Shape:
        return tuple(self.chunk_shapes[row].tolist())

    def parts(self, row: int) -> tuple[tuple[Any, ...], I64]:
        span = slice(self.bounds[row], self.bounds[row + 1])
        return tuple(axis[span] for axis in self.inside), self.order[span]


@dataclass(frozen=True, eq=False)
class ListPlan(ChunkPlan):
    """Selections made by the caller, one for each chunk."""

    chunk_coords: I64
    chunk_shape: Shape
    """of every chunk"""
    in_chunk: Sequence[Any]
    in_result: Sequence[Any]
    is_whole: Sequence[bool]
    """whether all elements of a chunk are taken that the array has"""
    drop_axes: Shape = ()

    @property
    def count(self) -> int:  # type: ignore[override]  # it is never set
        return len(self.chunk_coords)

    @property
    def largest(self) -> Shape:
        return self.chunk_shape

    def coords(self, rows: range) -> I64:
        return self.chunk_coords[rows.start : rows.stop]

    def shape(self, row: int) -> Shape:
        return self.chunk_shape

    def parts(self, row: int) -> tuple[Any, Any]:
        return self.in_chunk[row], self.in_result[row]

    def covers(self, row: int) -> bool:
        return self.is_whole[row]

    def take(self, rows: Sequence[int]) -> ListPlan:
        """A plan for some of the chunks."""
        return replace(
            self,
            chunk_coords=self.chunk_coords[[*rows]],
            in_chunk=[self.in_chunk[row] for row in rows],
            in_result=[self.in_result[row] for row in rows],
            is_whole=[self.is_whole[row] for row in rows],
        )

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """Chunks side by side along the last axis, as zarr lists those of a region."""
        row, shape = rows.start, self.chunk_shape
        if not self.is_whole[row] or self.drop_axes or not out.ndim:
            return None
        place = self.in_result[row]
        chunk = out[place]
        # Selections by arrays give copies, which are no places.
        if chunk.shape != shape or not np.may_share_memory(chunk, out):
            return None
        if not shape or not all(isinstance(item, slice) for item in place):
            return 1, chunk[None]
        above, end, count = place[:-1], place[-1].stop, 1
        for after in range(row + 1, rows.stop):
            *others, last = self.in_result[after]
            if (*others,) != above or (last.start, last.stop) != (end, end + shape[-1]):
                break
            if not self.is_whole[after]:
                break
            count, end = count + 1, last.stop
        if count == 1:
            return 1, chunk[None]
        wide = out[(*above, slice(place[-1].start, end))]
        split = wide.reshape(*wide.shape[:-1], count, shape[-1])  # a view, without a copy
        return count, np.moveaxis(split, -2, 0)


def box_plan(grid: Grid, selection: object) -> BoxPlan:
    """Plan a basic or orthogonal selection.

    Raises:
        SelectionError: it is no such selection, or does not fit the array.
    """
    items = expanded(selection, len(grid))
    return BoxPlan(tuple(cut_item(axis, item) for axis, item in zip(grid, items, strict=True)))


def point_plan(grid: Grid, selection: object) -> tuple[PointPlan, Shape]:
    """Plan a selection of points: an array of indices for each axis, or a mask of the array.

    Also returns the shape that the result, which is flat in the plan, will have.
    """
    items: tuple[Any, ...]
    if isinstance(selection, np.ndarray) and selection.dtype.kind == "b":
        if selection.shape != tuple(axis.length for axis in grid):
            raise SelectionError("a mask must have the shape of the array", found=selection.shape)
        items = np.nonzero(selection)
    else:
        items = expanded(selection, len(grid))
    arrays = [np.asarray(item) for item in items if not isinstance(item, slice)]
    if len(arrays) != len(grid) or any(array.dtype.kind not in "iu" for array in arrays):
        raise SelectionError("points are selected by an array of integers for each axis")
    try:
        arrays = [*np.broadcast_arrays(*arrays)]
    except ValueError as error:
        raise SelectionError(f"arrays of indices do not fit together: {error}") from error
    shape = arrays[0].shape if arrays else ()
    points = [
        in_bounds(array.reshape(-1), axis.length) for array, axis in zip(arrays, grid, strict=True)
    ]
    return _by_chunk(grid, points), shape


def _by_chunk(grid: Grid, points: Sequence[I64]) -> PointPlan:
    chunks = np.stack([axis.chunk_of(p) for axis, p in zip(grid, points, strict=True)], axis=1)
    order = np.lexsort(chunks.T[::-1])
    chunks = chunks[order]
    new = np.ones(len(chunks), bool)
    new[1:] = (chunks[1:] != chunks[:-1]).any(axis=1)
    heads = np.flatnonzero(new)
    firsts = chunks[heads]
    inside = tuple(
        p[order] - axis.start_of(chunks[:, n])
        for n, (axis, p) in enumerate(zip(grid, points, strict=True))
    )
    shapes = np.stack([axis.size_of(firsts[:, n]) for n, axis in enumerate(grid)], axis=1)
    return PointPlan(firsts, shapes, order, [*heads.tolist(), len(chunks)], inside)
