"""Plans: which chunks a read touches, what is taken of each and where it goes.

Chunks are numbered; all a plan knows of a chunk is computed when it is asked for, so that a
plan of a million chunks is as small as its axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.bulk.codecs import Array, Shape
from frazil.bulk.grid import I64, Grid
from frazil.bulk.selection import Cut, Part, cut_all, expanded, in_bounds
from frazil.errors import SelectionError

Bools: TypeAlias = npt.NDArray[np.bool_]


class Plan(Protocol):
    """Chunks of one array, numbered from 0."""

    @property
    def count(self) -> int:
        """Number of chunks."""

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""

    @property
    def run_length(self) -> int:
        """Number of chunks that follow each other along an axis."""

    def coords(self, rows: range) -> I64:
        """Coordinates of some chunks, (n, ndim)."""

    def shape(self, row: int) -> Shape:
        """Shape of a chunk, also beyond the end of the array."""

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """How many chunks from the first row on are taken whole side by side, and their places.

        The places are an array (n, *shape of a chunk), a view of `out`; None if the first chunk
        is not taken whole.
        """

    def places(self, out: Array) -> Array | None:
        """The places of all chunks at once, if all are taken whole and are alike.

        They are a view of `out`: first the axes of the grid, then those of a chunk.
        """

    def put(self, row: int, chunk: Array, out: Array) -> None:
        """Copy what is taken of a chunk to its place."""

    def fill(self, row: int, value: object, out: Array) -> None:
        """Put one value where a chunk would go."""


@dataclass(frozen=True, eq=False)
class BoxPlan:
    """A selection that is a product over the axes: basic, strided, orthogonal, by blocks."""

    cuts: tuple[Cut, ...]

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
        """Shape of a chunk that no other is larger than."""
        return tuple(int(cut.sizes.max(initial=0)) for cut in self.cuts)

    @property
    def run_length(self) -> int:
        """Number of chunks along the last axis that has several."""
        return max(1, self.counts[self._run_axis]) if self.counts else 1

    def coords(self, rows: range) -> I64:
        """Coordinates of some chunks."""
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
        """Shape of a chunk."""
        return tuple(
            int(cut.sizes[at]) for cut, at in zip(self.cuts, self._places(row), strict=True)
        )

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """Whole chunks side by side along the last axis that has several."""
        places = self._places(rows.start)
        if not all(cut.is_whole[at] for cut, at in zip(self.cuts, places, strict=True)):
            return None
        if not self.cuts:
            return 1, out[None]
        axis = self._run_axis
        cut, first = self.cuts[axis], places[axis]
        size = int(cut.sizes[first])
        stop = min(len(cut.chunks), first + len(rows))
        same = cut.is_whole[first:stop] & (cut.sizes[first:stop] == size)
        count = stop - first if same.all() else int(np.argmin(same))
        boxes = [c.in_result[at] for c, at in zip(self.cuts, places, strict=True)]
        begin = boxes[axis].start  # type: ignore[union-attr]  # whole chunks are slices
        boxes[axis] = slice(begin, begin + count * size)
        view = out[tuple(boxes)]
        # Splitting an axis of a view needs no copy.
        split = view.reshape(*view.shape[:axis], count, size, *view.shape[axis + 1 :])
        return count, np.moveaxis(split, axis, 0)

    def places(self, out: Array) -> Array | None:
        """The places of all chunks at once, if all are taken whole and are alike."""
        sizes = [int(cut.sizes[0]) for cut in self.cuts]
        for cut, size in zip(self.cuts, sizes, strict=True):
            if not (cut.is_whole.all() and (cut.sizes == size).all()):
                return None
        split = [n for pair in zip(self.counts, sizes, strict=True) for n in pair]
        axes = range(len(split))
        return out.reshape(split).transpose([*axes[::2], *axes[1::2]])

    def parts(self, row: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What is taken of a chunk, and where in a result with all axes it goes."""
        places = self._places(row)
        in_chunk = tuple(c.in_chunk[at] for c, at in zip(self.cuts, places, strict=True))
        in_result = tuple(c.in_result[at] for c, at in zip(self.cuts, places, strict=True))
        if not self._is_crossed:
            return in_chunk, in_result
        return np.ix_(*map(_numbers, in_chunk)), np.ix_(*map(_numbers, in_result))

    def covers(self, row: int) -> bool:
        """Whether all elements of a chunk are taken, in order, that the array has."""
        places = self._places(row)
        return all(cut.covers[at] for cut, at in zip(self.cuts, places, strict=True))

    def put(self, row: int, chunk: Array, out: Array) -> None:
        """Copy what is taken of a chunk to its place."""
        in_chunk, in_result = self.parts(row)
        out[in_result] = chunk[in_chunk]

    def fill(self, row: int, value: object, out: Array) -> None:
        """Put one value where a chunk would go."""
        out[self.parts(row)[1]] = value


def _numbers(part: Part) -> I64:
    return np.arange(part.start, part.stop, part.step) if isinstance(part, slice) else part


@dataclass(frozen=True, eq=False)
class PointPlan:
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
    def count(self) -> int:
        """Number of chunks."""
        return len(self.chunk_coords)

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""
        return tuple(self.chunk_shapes.max(axis=0, initial=0).tolist())

    @property
    def run_length(self) -> int:
        """Chunks do not follow each other."""
        return 1

    def coords(self, rows: range) -> I64:
        """Coordinates of some chunks."""
        return self.chunk_coords[rows.start : rows.stop]

    def shape(self, row: int) -> Shape:
        """Shape of a chunk."""
        return tuple(self.chunk_shapes[row].tolist())

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """Points are never whole chunks."""
        return None

    def parts(self, row: int) -> tuple[tuple[Any, ...], I64]:
        """The points of a chunk, and where in the result they go."""
        span = slice(self.bounds[row], self.bounds[row + 1])
        return tuple(axis[span] for axis in self.inside), self.order[span]

    def covers(self, row: int) -> bool:
        """Points are never whole chunks."""
        return False

    def places(self, out: Array) -> Array | None:
        """Chunks are not placed at once."""
        return None

    def put(self, row: int, chunk: Array, out: Array) -> None:
        """Copy the points of a chunk."""
        in_chunk, in_result = self.parts(row)
        out[in_result] = chunk[in_chunk]

    def fill(self, row: int, value: object, out: Array) -> None:
        """Put one value at the points of a chunk."""
        out[self.parts(row)[1]] = value


@dataclass(frozen=True, eq=False)
class ListPlan:
    """Selections that somebody else has made, one for each chunk."""

    chunk_coords: I64
    chunk_shapes: Sequence[Shape]
    in_chunk: Sequence[Any]
    in_result: Sequence[Any]
    is_whole: Sequence[bool]
    """whether the chunk is taken as it is, also what is beyond the end of the array"""
    drop_axes: Shape = ()

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.chunk_coords)

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""
        return max(self.chunk_shapes, key=math.prod, default=())

    @property
    def run_length(self) -> int:
        """Chunks do not follow each other."""
        return 1

    def coords(self, rows: range) -> I64:
        """Coordinates of some chunks."""
        return self.chunk_coords[rows.start : rows.stop]

    def shape(self, row: int) -> Shape:
        """Shape of a chunk."""
        return self.chunk_shapes[row]

    def take(self, rows: Sequence[int]) -> ListPlan:
        """A plan for some of the chunks."""
        return ListPlan(
            self.chunk_coords[[*rows]],
            [self.chunk_shapes[row] for row in rows],
            [self.in_chunk[row] for row in rows],
            [self.in_result[row] for row in rows],
            [self.is_whole[row] for row in rows],
            self.drop_axes,
        )

    def run(self, rows: range, out: Array) -> tuple[int, Array] | None:
        """One chunk at a time."""
        row = rows.start
        if not self.is_whole[row] or self.drop_axes or not out.ndim:
            return None
        place = out[self.in_result[row]]
        # Selections by arrays give copies, which are no places.
        if place.shape != self.chunk_shapes[row] or not np.may_share_memory(place, out):
            return None
        return 1, place[None]

    def places(self, out: Array) -> Array | None:
        """Chunks are not placed at once."""
        return None

    def put(self, row: int, chunk: Array, out: Array) -> None:
        """Copy what is taken of a chunk to its place."""
        self.put_taken(row, chunk[self.in_chunk[row]], out)

    def put_taken(self, row: int, taken: Array, out: Array) -> None:
        """Copy to its place what was taken of a chunk."""
        out[self.in_result[row]] = taken.squeeze(axis=self.drop_axes) if self.drop_axes else taken

    def fill(self, row: int, value: object, out: Array) -> None:
        """Put one value where a chunk would go."""
        out[self.in_result[row]] = value


def box_plan(grid: Grid, selection: object) -> BoxPlan:
    """Plan a basic or orthogonal selection.

    Raises:
        SelectionError: it is no such selection, or does not fit the array.
    """
    return BoxPlan(cut_all(grid, selection))


def point_plan(grid: Grid, selection: object) -> tuple[PointPlan, Shape]:
    """Plan a selection of points: an array of indices for each axis, or a mask of the array.

    Also returns the shape that the result, which is flat in the plan, will have.

    Raises:
        SelectionError: it is no such selection, or does not fit the array.
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
