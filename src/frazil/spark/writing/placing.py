"""Maps rows to cells: labels to positions along axes, positions to chunks and cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrays import I64, Mask
from frazil.bulk.grid import Grid
from frazil.cf.decoding import Values
from frazil.errors import InvalidInputError, unsuitable
from frazil.spark.writing.plan import ChunkGroup, TableAxis, WritePlan, comparable, label_places


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """Rows of a batch along each axis of the table; -1 for labels that are not there yet."""

    places: tuple[I64, ...]
    new: tuple[Values | None, ...]
    """along each axis the new labels as they are stored, each once"""

    @property
    def is_known(self) -> Mask | None:
        """Which rows have a place; None when all have."""
        unknown = [axis < 0 for axis in self.places if (axis < 0).any()]
        return None if not unknown else ~np.logical_or.reduce(unknown)


def place_rows(plan: WritePlan, batch: pa.RecordBatch | pa.Table) -> PlacedRows:
    """Find the places of rows.

    Raises:
        InvalidInputError: a label is NULL or is not there, or a row is outside of the region.
    """
    places: list[I64] = []
    new: list[Values | None] = []
    for number, axis in enumerate(plan.axes):
        column = batch.column(axis.name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if column.null_count:
            raise unsuitable(f"column {axis.name!r} has NULL, which is no coordinate")
        found, extra = _along(plan, axis, column)
        if plan.region is not None and not plan.region[number][found].all():
            bad = column[int(np.flatnonzero(~plan.region[number][found])[0])]
            raise unsuitable(
                f"a row has {axis.name} = {bad}, which is outside of the region to be replaced"
            )
        places.append(found)
        new.append(extra)
    return PlacedRows(tuple(places), tuple(new))


def _along(plan: WritePlan, axis: TableAxis, column: pa.Array) -> tuple[I64, Values | None]:
    if axis.encoder is None:
        found = column.to_numpy(zero_copy_only=False).astype(np.int64)
        outside = (found < 0) | (found >= axis.size)
        if outside.any():
            raise _outside(plan, axis, column, outside)
        return found, None
    stored = axis.encoder.encode(column)
    found = label_places(axis, stored)
    unknown = found < 0
    if not unknown.any():
        return found, None
    if not axis.grows or plan.is_resolved:
        raise _outside(plan, axis, column, unknown)
    return found, distinct(stored[unknown])


def distinct(values: Values) -> Values:
    """Each value once."""
    if values.dtype.kind in "OT":
        return np.array(pc.unique(comparable(values)).to_pylist(), object)
    return np.unique(values)


def _outside(
    plan: WritePlan, axis: TableAxis, column: pa.Array, outside: Mask
) -> InvalidInputError:
    value = column[int(np.flatnonzero(outside)[0])]
    what, growing, hint = "labels", plan.request.append_dim, ""
    if axis.encoder is None:
        what = "positions"
    elif growing is None:
        hint = f"; extend it with append-dim={axis.name}"
    elif growing != axis.name:
        hint = (
            f"; only {growing!r} grows, and all labels of {axis.name!r} must be there from the"
            " first write on: give them with option 'coords' when the arrays are made"
        )
    return unsuitable(
        f"a row has {axis.name} = {value}, which is none of the {axis.size} {what} of that"
        f" dimension{hint}"
    )


def chunks_and_cells(
    group: ChunkGroup, grid: Grid, places: tuple[I64, ...], count: int
) -> tuple[I64, I64]:
    """Numbers of the chunks that rows are in, and of their cells in those, in C order."""
    chunk = np.zeros(count, np.int64)
    cell = np.zeros(count, np.int64)
    for axis, along in zip(group.axes, grid, strict=True):
        own = along.chunk_of(places[axis])
        chunk = chunk * max(along.count, 1) + own
        cell = cell * along.size_of(own) + (places[axis] - along.start_of(own))
    return chunk, cell


def _counts(grid: Grid) -> tuple[int, ...]:
    return tuple(max(along.count, 1) for along in grid)


def chunk_coords(grid: Grid, number: int) -> tuple[int, ...]:
    """The coordinates of a chunk."""
    return tuple(map(int, np.unravel_index(number, _counts(grid)))) if grid else ()


def chunk_numbers(grid: Grid, coords: npt.NDArray[np.integer]) -> I64:
    """The numbers of chunks by their coordinates, (n, ndim)."""
    if not grid:
        return np.zeros(len(coords), np.int64)
    found: I64 = np.ravel_multi_index(tuple(coords.T.astype(np.int64)), _counts(grid))
    return found
