"""`layout=aggregates`: values reduced by tasks over the dimensions that no column has.

A row is a label of the columns that were asked for and a part of the table, so one label may have
several rows: counts and sums are to be added, of extremes the extreme is to be taken. Missing
values do not count, and NaN is greater than every number, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as t

from frazil.cf.decoding import DecodedValues, Mask, Values
from frazil.errors import unsuitable
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.cells import (
    BATCH_ROWS,
    NarrowedRegion,
    columns_of,
    flattened,
    narrow_region,
)
from frazil.spark.reading.columns import LONG, arrow_schema, cast, to_arrow
from frazil.spark.reading.partitions import (
    REGION_CELLS,
    BlockGrid,
    Region,
    plan_blocks,
    plan_ranges,
)
from frazil.spark.reading.scan import Scan, make_scan
from frazil.spark.reading.skipping import without_hopeless
from frazil.spark.reading.stored import length_of, numbers_of
from frazil.spelling import meant, unknown

ROWS: Final = "count(*)"
COUNT, SUM, MIN, MAX, SQUARES = AGGREGATES = ("count", "sum", "min", "max", "squares")
"""`squares` is the sum of squared distances from the mean of the row's own cells."""
HELD_ROWS: Final = 1 << 20
"""Rows that a task keeps to add to, before it gives them away."""
_LOW: Final = 0xFFFF_FFFF

Counts: TypeAlias = npt.NDArray[np.int64]


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

    @property
    def reduced(self) -> tuple[int, ...]:
        """The other axes."""
        return tuple(axis for axis in range(len(self.scan.axes)) if axis not in self.kept)

    @cached_property
    def grid(self) -> BlockGrid:
        """The blocks to look into."""
        grid = plan_blocks(self.scan, self.scan.data_columns())
        return without_hopeless(self.scan, grid)

    def parts(self) -> list[tuple[int, int]]:
        """Ranges of blocks, one for each partition."""
        return plan_ranges(self.scan, self.grid)

    def read(self, part: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The rows of a range of blocks."""
        return read_aggregates(self, self.grid, *part)


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
    # A table needs a column; which one does not matter for a count of cells.
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


@dataclass(slots=True, eq=False)
class Reduced:
    """Aggregates of one variable, for each label."""

    count: Counts
    total: Values | None = None
    low: Counts | None = None
    """the lower halves of whole numbers, whose upper halves are `total`"""
    least: Values | None = None
    most: Values | None = None
    squares: Values | None = None

    def add(self, other: Reduced) -> None:
        """Take other cells of the same labels in."""
        if self.squares is not None and other.squares is not None:
            assert self.total is not None
            assert other.total is not None
            self.squares = _joint_squares(self, other)
        if self.total is not None and other.total is not None:
            self.total = self.total + other.total
        if self.low is not None and other.low is not None:
            self.low = self.low + other.low
        if self.least is not None and other.least is not None:
            self.least = _joint(np.fmin, self.least, other.least, self.count, other.count)
        if self.most is not None and other.most is not None:
            self.most = _joint(np.maximum, self.most, other.most, self.count, other.count)
        self.count = self.count + other.count


def _joint(pick: Any, one: Values, two: Values, n: Counts, m: Counts) -> Values:  # noqa: ANN401
    with np.errstate(invalid="ignore"):
        found: Values = np.where(n == 0, two, np.where(m == 0, one, pick(one, two)))
    return found


def _joint_squares(one: Reduced, two: Reduced) -> Values:
    """Squared distances from the common mean."""
    n, m = one.count.astype("f8"), two.count.astype("f8")
    assert one.squares is not None
    assert two.squares is not None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        apart = _sums(two) / m - _sums(one) / n
        between = np.where((n == 0) | (m == 0), 0.0, apart * apart * n * m / (n + m))
    found: Values = one.squares + two.squares + between
    return found


def _sums(reduced: Reduced) -> Values:
    assert reduced.total is not None
    if reduced.low is None:
        return reduced.total.astype("f8")
    return reduced.total.astype("f8") * float(_LOW + 1) + reduced.low


def reduce_values(
    decoded: DecodedValues, mask: Mask | None, axes: tuple[int, ...], wanted: Iterable[str]
) -> Reduced:
    """Reduce values over some axes; `mask` says which cells count, missing values never do."""
    values = decoded.values
    valid = mask
    if decoded.missing is not None:
        valid = ~decoded.missing if mask is None else mask & ~decoded.missing
    over = int(np.prod([values.shape[axis] for axis in axes], dtype=np.int64))
    rest = tuple(n for axis, n in enumerate(values.shape) if axis not in axes)
    found = Reduced(np.full(rest, over) if valid is None else _added(valid, axes, np.int64))
    with np.errstate(invalid="ignore", over="ignore"):
        if SUM in wanted or SQUARES in wanted:
            _add_sums(found, values, valid, axes)
        if SQUARES in wanted:
            found.squares = _squares(found, values, valid, axes)
        if MIN in wanted:
            found.least = _extreme(values, valid, axes, least=True)
        if MAX in wanted:
            found.most = _extreme(values, valid, axes, least=False)
    return found


def _added(values: Values, axes: tuple[int, ...], dtype: type) -> Values:
    """Sums over axes; over none of them, the values themselves."""
    return np.asarray(np.sum(values, axis=axes, dtype=dtype))


def _add_sums(found: Reduced, values: Values, valid: Mask | None, axes: tuple[int, ...]) -> None:
    chosen = values if valid is None else np.where(valid, values, values.dtype.type(0))
    if values.dtype.kind == "f":
        found.total = _added(chosen, axes, np.float64)
    elif values.dtype.itemsize < 8:
        found.total = _added(chosen, axes, np.int64)
    else:  # 64 bits of many values may need more than 64
        found.total = _added(chosen >> 32, axes, np.int64)
        found.low = _added(chosen & _LOW, axes, np.int64)


def _squares(found: Reduced, values: Values, valid: Mask | None, axes: tuple[int, ...]) -> Values:
    with np.errstate(divide="ignore"):
        mean = np.expand_dims(_sums(found) / found.count, axes)
    apart = np.subtract(values, mean, dtype=np.float64)
    np.multiply(apart, apart, out=apart)
    if valid is not None:
        apart[~valid] = 0.0
    made: Values = np.sum(apart, axis=axes)
    return np.where(found.count == 0, 0.0, made)


def _extreme(values: Values, valid: Mask | None, axes: tuple[int, ...], *, least: bool) -> Values:
    kind = values.dtype.kind
    plain = values.view(np.int64) if kind == "M" else values
    pick: np.ufunc
    if kind == "f":
        # Of two numbers of which one is NaN, the other is the smaller.
        pick, none = (np.fmin, np.nan) if least else (np.maximum, -np.inf)
        chosen = plain if valid is None else np.where(valid, plain, plain.dtype.type(none))
    else:
        pick = np.minimum if least else np.maximum
        chosen = plain if valid is None else np.where(valid, plain, _bound(plain.dtype, least))
    found: Values = pick.reduce(chosen, axis=axes) if axes else chosen
    return found.view(values.dtype) if kind == "M" else found


def _bound(dtype: np.dtype[Any], least: bool) -> Any:  # noqa: ANN401  (of that type)
    if dtype.kind == "b":
        return least
    info = np.iinfo(dtype)
    return dtype.type(info.max if least else info.min)


@dataclass(slots=True, eq=False)
class GroupAggregates:
    """The aggregates of cells with the same labels, and where these are."""

    region: Region
    rows: Counts
    reduced: list[Reduced] = field(default_factory=list)

    def add(self, other: GroupAggregates) -> None:
        """Take other cells of the same labels in."""
        self.rows = self.rows + other.rows
        for one, two in zip(self.reduced, other.reduced, strict=True):
            one.add(two)


def read_aggregates(
    plan: AggregateScan, grid: BlockGrid, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a range of blocks."""
    held: dict[object, GroupAggregates] = {}
    size = 0
    for part in _parts(plan, grid, start, stop):
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
        over = int(np.prod([cut.shape[axis] for axis in axes], dtype=np.int64))
        rows = np.full(kept, over)
    else:
        rows = _added(cut.mask, axes, np.int64)
    made = GroupAggregates(cut.region, rows)
    for decoded, wanted in zip(found, plan.wanted, strict=True):
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
        places if axis in plan.kept else numbers_of(places)[:1]
        for axis, places in enumerate(held.region)
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
