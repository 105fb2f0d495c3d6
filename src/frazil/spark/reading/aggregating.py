"""`layout=aggregates`: values reduced by tasks over the dimensions that no column has.

A row is a label of the columns that were asked for and a part of the table, so one label may have
several rows: counts and sums are to be added, of extremes the extreme is to be taken. Missing
values do not count, and NaN is greater than every number, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from frazil.cf.decoding import DecodedValues
from frazil.errors import unsuitable
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.answering import Answered, answer
from frazil.spark.reading.cells import NarrowedRegion, columns_of, flattened, narrow_region
from frazil.spark.reading.columns import LONG, arrow_schema, cast, to_arrow
from frazil.spark.reading.partitions import BlockGrid, plan_blocks, plan_ranges, rows_of
from frazil.spark.reading.reducing import (
    AGGREGATES,
    MOST_CELLS,
    Counts,
    GroupAggregates,
    LabelClasses,
    Reduced,
    added_over,
    countable,
    reduce_values,
)
from frazil.spark.reading.scan import Scan, make_scan
from frazil.spark.reading.skipping import without_excluded
from frazil.spark.reading.stored import first_of, length_of
from frazil.spark.tuning import BATCH_ROWS, HELD_ROWS, REGION_CELLS
from frazil.spelling import meant, unknown

ROWS: Final = "count(*)"


@dataclass(frozen=True, eq=False)
class AggregateScan:
    """What to reduce: the columns of `scan` are labels first, variables then."""

    scan: Scan
    labels: int
    kept: tuple[int, ...]
    """the axes that labels lie along"""
    wanted: tuple[tuple[str, ...], ...]
    """for each variable the aggregates of it"""
    schema: t.StructType
    classes: Mapping[int, LabelClasses] = field(default_factory=dict)
    """labels that may be taken together, by axis"""

    @property
    def reduced(self) -> tuple[int, ...]:
        """The other axes."""
        return tuple(axis for axis in range(len(self.scan.axes)) if axis not in self.kept)

    @property
    def only_counts(self) -> bool:
        """Whether all cells are counted, for which nothing is read, however many they are."""
        return not self.scan.columns and self.scan.condition is None

    def answered(self) -> Answered:
        """What statistics tell now, and the blocks to look into for the rest."""
        scan = self.scan
        grid = without_excluded(scan, plan_blocks(scan, scan.data_columns()))
        if grid.total * grid.cells > MOST_CELLS:
            countable([rows_of(scan, grid)])
        return answer(scan, scan.columns[self.labels :], self.wanted, self.kept, grid)


@dataclass(frozen=True, eq=False)
class AggregateParts:
    """A scan once statistics were asked: tasks must not ask again, they may be others by then."""

    plan: AggregateScan
    answered: Answered

    def parts(self) -> list[tuple[int, int] | pa.RecordBatch]:
        """Ranges of blocks, one for each partition, and rows that are known already."""
        held = self.answered.held
        known = given(self.plan, () if held is None else (held,))
        grid = self.answered.grid
        if self.plan.only_counts and grid.total:
            return [(0, grid.total), *known]
        return [*plan_ranges(self.plan.scan, grid), *known]

    def read(self, part: tuple[int, int] | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(part, pa.RecordBatch):
            return iter([part])
        return read_aggregates(self.plan, self.answered.grid, *part)

    def __getstate__(self) -> dict[str, Any]:
        # What goes to tasks need not have the rows that parts have.
        return {"plan": self.plan, "answered": replace(self.answered, held=None)}


def column_name(aggregate: str, variable: str) -> str:
    """The column with an aggregate of a variable."""
    return f"{aggregate}({variable})"


def sum_type(kind: t.DataType) -> t.DataType | None:
    """What sums of a column are given as; None when it cannot be summed here."""
    match kind:
        case t.FloatType() | t.DoubleType():
            return t.DoubleType()
        case t.ByteType() | t.ShortType() | t.IntegerType():
            return LONG
        case t.LongType():
            return t.DecimalType(38, 0)  # sums of these may be larger than any of them
        case _:
            return None


def can_compare(dtype: np.dtype[Any]) -> bool:
    """Whether extremes of values can be found here."""
    return dtype.kind in "biufM" and dtype.str[1:] != "u8"


def make_aggregate_scan(
    session: Session, target: NamedTarget, pinned: Pinned, request: ReadRequest
) -> AggregateScan:
    """Work out what a user asked for.

    Raises:
        InvalidInputError: there is no such aggregate, or a variable has none.
    """
    asked = () if request.aggregates is None else request.aggregates.items
    labels = request.columns or ()
    names = [name for name, _ in asked]
    columns = tuple(dict.fromkeys((*labels, *names)))
    # A table needs a column; for a count of cells, any one will do.
    own = replace(request, layout="cells", aggregates=None, columns=columns or None)
    scan = make_scan(session, target, pinned, own)
    if not columns:
        scan = replace(scan, columns=(), schema=t.StructType([]))
    by_name = {column.name: column for column in scan.columns}
    chosen = [by_name[name] for name in (*labels, *names)]
    kept = tuple(sorted({axis for column in chosen[: len(labels)] for axis in column.axes}))
    fields = [scan.schema[name] for name in labels]
    fields.append(t.StructField(ROWS, LONG))
    wanted = []
    for name, words in asked:
        column = by_name[name]
        kind = scan.schema[name].dataType
        found = tuple(meant(word, AGGREGATES) or "" for word in words)
        for word, known in zip(words, found, strict=True):
            if not known:
                raise unsuitable(unknown("aggregate", word, AGGREGATES))
            fields.append(
                t.StructField(column_name(known, name), _type_of(known, name, kind, column.dtype))
            )
        wanted.append(found)
    return AggregateScan(
        replace(scan, columns=tuple(chosen)),
        len(labels),
        kept,
        tuple(wanted),
        t.StructType(fields),
    )


def _type_of(aggregate: str, name: str, kind: t.DataType, dtype: np.dtype[Any]) -> t.DataType:
    found: t.DataType | None
    match aggregate:
        case "count":
            return LONG
        case "min" | "max":
            found = kind if can_compare(dtype) else None
        case "sum":
            found = sum_type(kind)
        case _:
            found = None if sum_type(kind) is None else t.DoubleType()
    if found is None:
        raise unsuitable(f"{name!r} is {kind.simpleString()}, which has no {aggregate} here")
    return found


# --- in tasks ---


def read_aggregates(
    plan: AggregateScan, grid: BlockGrid, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a range of blocks."""
    held: dict[object, GroupAggregates] = {}
    size = 0
    for whole in _parts(plan, grid, start, stop):
        part = whole.merged(plan.kept, plan.classes)
        key = tuple(_key(part.region[axis]) for axis in plan.kept)
        known = held.get(key)
        if known is None:
            held[key] = part
            size += part.rows.size
        else:
            known.add(part)
        if size > HELD_ROWS:
            yield from given(plan, held.values())
            held, size = {}, 0
    yield from given(plan, held.values())


def reduce_all(
    plan: AggregateScan, grid: BlockGrid, start: int, stop: int
) -> GroupAggregates | None:
    """The aggregates of all cells of a range of blocks, where there are no labels."""
    found: GroupAggregates | None = None
    for part in _parts(plan, grid, start, stop):
        if found is None:
            found = part
        else:
            found.add(part)
    return found


def _parts(
    plan: AggregateScan, grid: BlockGrid, start: int, stop: int
) -> Iterator[GroupAggregates]:
    limit = REGION_CELLS if plan.scan.is_separable else 1
    if plan.only_counts:
        limit = grid.cells * (stop - start)
    for region in grid.regions(start, stop, limit):
        cut = narrow_region(plan.scan, region)
        if cut is not None and 0 not in cut.shape:
            yield _reduced(plan, cut)


def _key(places: Any) -> object:  # noqa: ANN401  (Places)
    return (places.start, places.stop) if isinstance(places, slice) else places.tobytes()


def _reduced(plan: AggregateScan, cut: NarrowedRegion) -> GroupAggregates:
    """The aggregates of a region."""
    variables = replace(plan.scan, columns=plan.scan.columns[plan.labels :])
    found = columns_of(variables, cut) if variables.columns else []
    axes = plan.reduced
    kept = tuple(cut.shape[axis] for axis in plan.kept)
    if cut.mask is None:
        rows = np.full(kept, countable(cut.shape[axis] for axis in axes))
    else:
        rows = added_over(cut.mask, axes, np.int64)
    made = GroupAggregates(cut.region, rows)
    for decoded, wanted in zip(found, plan.wanted, strict=True):
        if cut.mask is None:  # what lacks an axis is the same all along it
            own = decoded.values.shape
            times = math.prod(cut.shape[axis] // own[axis] for axis in axes)
            part = reduce_values(decoded, None, axes, wanted)
            made.reduced.append(part.repeated(times, kept))
            continue
        shape = cut.shape
        whole = DecodedValues(
            np.broadcast_to(decoded.values, shape),
            None if decoded.missing is None else np.broadcast_to(decoded.missing, shape),
        )
        made.reduced.append(reduce_values(whole, cut.mask, axes, wanted))
    return made


def given(plan: AggregateScan, held: Iterable[GroupAggregates]) -> Iterator[pa.RecordBatch]:
    """Aggregates as rows."""
    schema = arrow_schema(plan.schema)
    for each in held:
        rows = np.flatnonzero(each.rows)
        if not len(rows):
            continue
        arrays = [*_labels(plan, each, rows), to_arrow(DecodedValues(each.rows.reshape(-1)[rows]))]
        for reduced, wanted in zip(each.reduced, plan.wanted, strict=True):
            arrays += [_column(reduced, aggregate, rows) for aggregate in wanted]
        cells = [
            cast(wanted.name, array, wanted.type)
            for array, wanted in zip(arrays, schema, strict=True)
        ]
        whole = pa.RecordBatch.from_arrays(cells, schema=schema)
        for start in range(0, len(rows), BATCH_ROWS):
            yield whole.slice(start, BATCH_ROWS)


def _labels(plan: AggregateScan, held: GroupAggregates, rows: Counts) -> list[pa.Array]:
    labels = replace(plan.scan, columns=plan.scan.columns[: plan.labels])
    # Labels do not change along the other axes: one place of each will do.
    region = tuple(
        places if axis in plan.kept else first_of(places) for axis, places in enumerate(held.region)
    )
    shape = tuple(map(length_of, region))
    whole = tuple(slice(0, n) for n in shape)
    return [
        flattened(each, shape, whole, rows)
        for each in columns_of(labels, NarrowedRegion(region, None))
    ]


def _column(reduced: Reduced, aggregate: str, rows: Counts) -> pa.Array:
    count = reduced.count.reshape(-1)[rows]
    none = count == 0
    match aggregate:
        case "count":
            return to_arrow(DecodedValues(count))
        case "sum" if reduced.low is not None:
            assert reduced.total is not None
            high, low = reduced.total.reshape(-1)[rows], reduced.low.reshape(-1)[rows]
            sums = [
                None if empty else Decimal((int(h) << 32) + int(lo))
                for h, lo, empty in zip(high, low, none, strict=True)
            ]
            return pa.array(sums, pa.decimal128(38, 0))
        case "sum":
            found = reduced.total
        case "squares":
            found = reduced.squares
        case "min":
            found = reduced.least
        case _:
            found = reduced.most
    assert found is not None
    values = found.reshape(-1)[rows]
    return to_arrow(DecodedValues(values, none if none.any() else None))
