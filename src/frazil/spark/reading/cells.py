"""Regions of a scan as Arrow batches: a row per cell, or a row per line of the last axis.

Coordinates are spread over the cells by broadcasting, once for each slab of about a million
rows, and kept for the next slab, which mostly has the same; batches are slices, without copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrays import I64, Mask
from frazil.cf.decoding import DecodedValues
from frazil.errors import InvalidInputError
from frazil.spark.reading.axis_masks import narrowed
from frazil.spark.reading.columns import cast, is_fixed_width, to_arrow
from frazil.spark.reading.partitions import BlockGrid, Region, plan_ranges
from frazil.spark.reading.scan import LINES, Column, Scan
from frazil.spark.reading.selecting import LabelsOf, PositionsOf, matches
from frazil.spark.reading.stored import length_of, numbers_of, read_coordinate, read_variable
from frazil.spark.reading.where import conjuncts
from frazil.spark.tuning import BATCH_ROWS, REGION_CELLS

LARGEST: Final = 1 << 32
"""Bytes of a column that are held at once; a region is as large as a chunk, if that is large."""


@dataclass(frozen=True, slots=True, eq=False)
class NarrowedRegion:
    """A region narrowed to what a condition leaves of it."""

    region: Region
    mask: Mask | None
    """the cells that count, when not all do"""
    read: Mapping[str, DecodedValues] = field(default_factory=dict)
    """values that the condition needed, in their variables' own shape"""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the region."""
        return tuple(map(length_of, self.region))


def narrow_region(scan: Scan, region: Region) -> NarrowedRegion | None:
    """Apply the condition of a scan to a region, reading coordinates only; None leaves nothing."""
    if scan.condition is None:
        return NarrowedRegion(region, None)
    region = tuple(
        narrowed(scan, scan.condition, axis, places) for axis, places in enumerate(region)
    )
    if not all(map(length_of, region)):
        return None
    alone = scan.known_values.is_along_one
    rest = [part for part in conjuncts(scan.condition) if not alone(part)]
    if not rest:
        return NarrowedRegion(region, None)
    shape = tuple(map(length_of, region))
    require_room(math.prod(shape))
    mask = np.ones(shape, bool)
    look, held = _spread_look(scan, region)
    for part in rest:
        mask = mask & matches(part, look, _spread_numbers(scan, region))
        if not mask.any():
            return None
    return NarrowedRegion(region, None if mask.all() else mask, held)


def _spread_look(scan: Scan, region: Region) -> tuple[LabelsOf, dict[str, DecodedValues]]:
    """How a condition gets at values, and what it has got of the data."""
    held: dict[str, DecodedValues] = {}

    def look(name: str) -> DecodedValues:
        column = scan.values.get(name) or scan.coordinates[name]
        found = held.get(name) or _values(scan, column, region)
        if name in scan.values:
            held[name] = found
        return broadcast_axes(found, column, len(region))

    return look, held


def _spread_numbers(scan: Scan, region: Region) -> PositionsOf:
    def numbers(name: str) -> npt.NDArray[np.int64]:
        axis = [axis.name for axis in scan.axes].index(name)
        shape = [1] * len(region)
        shape[axis] = -1
        return numbers_of(region[axis]).reshape(shape)

    return numbers


def _values(scan: Scan, column: Column, region: Region) -> DecodedValues:
    """The values of a column in a region, in the variable's own shape."""
    if column.variable is None or column.decoder is None:
        return DecodedValues(numbers_of(region[column.axes[0]]))
    places = tuple(region[axis] for axis in column.axes)
    read = read_coordinate if column.name in scan.coordinates else read_variable
    return read(scan.pinned, column.variable, column.decoder, places)


def columns_of(scan: Scan, cut: NarrowedRegion) -> list[DecodedValues]:
    """The values of all columns in a region, with the axes of the table.

    Raises:
        InvalidInputError: the chunks are so large that a region of them has no room in memory.
    """
    for column in scan.columns:
        size = 8 if column.variable is None else max(column.variable.itemsize, 1)
        require_room(size * math.prod(cut.shape[axis] for axis in column.axes))
    return [
        broadcast_axes(
            cut.read.get(c.variable.name if c.variable else c.name) or _values(scan, c, cut.region),
            c,
            len(cut.region),
        )
        for c in scan.columns
    ]


def require_room(size_bytes: int) -> None:
    """Refuse to hold more at once than there may be memory for.

    Raises:
        InvalidInputError: it is too much.
    """
    if size_bytes > LARGEST:
        raise InvalidInputError(
            f"chunks are too large to be read as rows: {size_bytes:,} bytes at once, and at most "
            f"{LARGEST:,} are; choose fewer with where, sel or isel"
        )


def broadcast_axes(decoded: DecodedValues, column: Column, ndim: int) -> DecodedValues:
    """Values with the axes of the table, those that the variable lacks being 1 long."""
    order = np.argsort(column.axes)
    values = decoded.values.transpose(order)
    missing = None if decoded.missing is None else decoded.missing.transpose(order)
    lengths = dict(zip(sorted(column.axes), values.shape, strict=True))
    shape = tuple(lengths.get(axis, 1) for axis in range(ndim))
    return DecodedValues(values, missing).reshape(*shape)


# --- a row per cell ---


@dataclass(slots=True)
class LabelCache:
    """The columns of labels as they were spread last."""

    columns: dict[str, tuple[object, pa.Array]] = field(default_factory=dict)

    def find(self, name: str, where: object, make: Callable[[], pa.Array]) -> pa.Array:
        """The column for some places, made unless it is the one that was made last."""
        known = self.columns.get(name)
        if known is None or known[0] != where:
            known = self.columns[name] = (where, make())
        return known[1]


def read_cells(
    scan: Scan,
    region: Region,
    keep: Callable[[Region], Mask | None] | None = None,
    kept: LabelCache | None = None,
) -> Iterator[pa.RecordBatch]:
    """The cells of a region as batches in the scan's schema; of them those to `keep`.

    Pass the same `kept` with each of many regions.
    """
    cut = narrow_region(scan, region)
    if cut is None or 0 in cut.shape:
        return
    if keep is not None and (mask := keep(cut.region)) is not None:
        cut = replace(cut, mask=mask if cut.mask is None else cut.mask & mask)
    found = columns_of(scan, cut)
    for slab in slabs(cut.shape, REGION_CELLS):
        yield from _slab_batches(scan, found, cut, slab, kept or LabelCache())


def slabs(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut a box into boxes of at most `limit` cells, in row order."""
    inner, axis = 1, len(shape)
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    full = tuple(slice(0, n) for n in shape[axis:])
    if not axis:
        yield full
        return
    step = max(limit // inner, 1)
    for outer in np.ndindex(shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            part = slice(start, min(start + step, shape[axis - 1]))
            yield (*(slice(n, n + 1) for n in outer), part, *full)


def _slab_batches(
    scan: Scan,
    spread: list[DecodedValues],
    cut: NarrowedRegion,
    slab: tuple[slice, ...],
    kept: LabelCache,
) -> Iterator[pa.RecordBatch]:
    shape = tuple(part.stop - part.start for part in slab)
    rows = None if cut.mask is None else np.flatnonzero(cut.mask[slab])
    if rows is not None and not len(rows):
        return
    schema = scan.arrow_schema
    arrays = []
    for column, values, wanted in zip(scan.columns, spread, schema, strict=True):
        make = partial(_array, column.name, values, wanted.type, shape, slab, rows)
        where = _where(column, cut, slab) if rows is None else None
        arrays.append(make() if where is None else kept.find(column.name, (where, shape), make))
    count = int(np.prod(shape, dtype=np.int64)) if rows is None else len(rows)
    yield from batches(arrays, schema, count)


def _array(
    name: str,
    values: DecodedValues,
    kind: pa.DataType,
    shape: tuple[int, ...],
    slab: tuple[slice, ...],
    rows: I64 | None,
) -> pa.Array:
    return cast(name, flattened(values, shape, slab, rows), kind)


def _where(column: Column, cut: NarrowedRegion, slab: tuple[slice, ...]) -> object | None:
    """What the values of a column of labels in a slab depend on; None when that is too much."""
    if len(column.axes) == len(slab):
        return None
    found = []
    for axis in column.axes:
        places = cut.region[axis]
        if not isinstance(places, slice):
            return None
        found.append((places.start + slab[axis].start, places.start + slab[axis].stop))
    return tuple(found)


def batches(arrays: list[pa.Array], schema: pa.Schema, count: int) -> Iterator[pa.RecordBatch]:
    """Columns as batches of a size that Spark takes well."""
    if not arrays:
        raise ValueError("a table needs at least one column")
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for start in range(0, count, BATCH_ROWS):
        yield whole.slice(start, BATCH_ROWS)


def flattened(
    decoded: DecodedValues,
    shape: tuple[int, ...],
    slab: tuple[slice, ...],
    rows: I64 | None,
) -> pa.Array:
    """The part of a column that lies in a slab, cell by cell in row order."""
    own = tuple(
        slice(0, 1) if length == 1 else part
        for part, length in zip(slab, decoded.values.shape, strict=True)
    )
    part = decoded.take(own)
    if is_fixed_width(part.values.dtype):
        return to_arrow(_broadcast(part, shape, rows))
    # Arrow copies texts faster than numpy does; each distinct value is converted only once.
    numbers = np.arange(part.values.size).reshape(part.values.shape)
    places = np.broadcast_to(numbers, shape).reshape(-1)
    own_array = to_arrow(part.reshape(-1))
    if part.values.size == len(places) and rows is None:
        return own_array
    return own_array.take(pa.array(places if rows is None else places[rows]))


def _broadcast(part: DecodedValues, shape: tuple[int, ...], rows: I64 | None) -> DecodedValues:
    values = np.broadcast_to(part.values, shape).reshape(-1)
    missing = None if part.missing is None else np.broadcast_to(part.missing, shape).reshape(-1)
    flat = DecodedValues(values, missing)
    return flat if rows is None else flat.take(rows)


# --- a row per line ---


def read_lines(scan: Scan, region: Region) -> Iterator[pa.RecordBatch]:
    """The lines of a region along its last axis; values of a line are an array."""
    cut = narrow_region(scan, region)
    if cut is None or 0 in cut.shape:
        return
    found = columns_of(scan, cut)
    for slab in slabs(cut.shape, max(REGION_CELLS, cut.shape[-1])):
        yield from _line_batches(scan, found, cut, slab)


def _line_batches(
    scan: Scan, spread: list[DecodedValues], cut: NarrowedRegion, slab: tuple[slice, ...]
) -> Iterator[pa.RecordBatch]:
    shape = tuple(part.stop - part.start for part in slab)
    lines = int(np.prod(shape[:-1], dtype=np.int64))
    counts, kept, rows = np.full(lines, shape[-1]), None, None
    if cut.mask is not None:
        mask = cut.mask[slab].reshape(lines, shape[-1])
        counts = mask.sum(axis=1)
        kept, rows = np.flatnonzero(counts), np.flatnonzero(mask)
        counts = counts[kept]
    if not len(counts):
        return
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    arrays = []
    last = len(shape) - 1
    first = (*slab[:-1], slice(0, 1))
    for column, values, wanted in zip(scan.columns, spread, scan.arrow_schema, strict=True):
        if last in column.axes:
            flat = cast(column.name, flattened(values, shape, slab, rows), wanted.type.value_type)
            arrays.append(pa.ListArray.from_arrays(offsets, flat, type=wanted.type))
        else:
            flat = flattened(values, (*shape[:-1], 1), first, kept)
            arrays.append(cast(column.name, flat, wanted.type))
    rows_each = max(BATCH_ROWS // max(shape[-1], 1), 1)
    whole = pa.RecordBatch.from_arrays(arrays, schema=scan.arrow_schema)
    for start in range(0, len(counts), rows_each):
        yield whole.slice(start, rows_each)


# --- what tasks read ---


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The cells or lines of a scan, in ranges of blocks."""

    scan: Scan
    grid: BlockGrid

    def parts(self) -> list[tuple[int, int]]:
        """Ranges of blocks, one for each partition."""
        return plan_ranges(self.scan, self.grid)

    def read(self, part: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The rows of a range of blocks."""
        kept = LabelCache()
        # Blocks that a condition across axes leaves nothing of are seen one by one.
        limit = () if self.scan.is_separable else (1,)
        for region in self.grid.regions(*part, *limit):
            if self.scan.layout == LINES:
                yield from read_lines(self.scan, region)
            else:
                yield from read_cells(self.scan, region, kept=kept)
