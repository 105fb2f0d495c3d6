"""Conditions of a query that the source can apply: as positions along dimensions, or on values.

A condition on coordinates becomes the positions where it holds. Simple comparisons are made here;
all others are evaluated by Spark itself, on the small table of the coordinates they name, so that
every function means what it means to Spark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from frazil.errors import FrazilError
from frazil.spark.errors import spark_errors, without_pyspark_logging
from frazil.spark.options.labels import parse_isel
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.axis_masks import full_runs
from frazil.spark.reading.cells import NarrowedRegion, columns_of, flattened
from frazil.spark.reading.columns import arrow_schema, cast
from frazil.spark.reading.runs import Runs
from frazil.spark.reading.scan import Column, Scan, column_type
from frazil.spark.reading.selecting import checked
from frazil.spark.reading.where import (
    Compare,
    Condition,
    IsNull,
    OneOf,
    leaves,
    parse_predicate,
    parse_where,
)
from frazil.spark.tuning import CONDITION_LABELS
from frazil.texts import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION: Final = "__position"
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2})?)?")
_EXACT: Final = 1 << 53
_EXACT_SINGLE: Final = 1 << 24
"""Whole numbers up to this one are exact with 32 bits too."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition of a WHERE."""

    text: str
    """as it was written"""
    plain: str
    """without the names of tables before columns"""
    names: frozenset[str]
    """columns of the table, as the table calls them"""


@dataclass(slots=True)
class Pushed:
    """The conditions of a query that the source applies, and those left to Spark."""

    places: dict[int, Runs] = field(default_factory=dict)
    """along axes, where rows can be"""
    values: list[str] = field(default_factory=list)
    """conditions on values, for the source"""
    exact: list[Conjunct] = field(default_factory=list)
    """conditions that the source applies in full"""
    weak: list[Conjunct] = field(default_factory=list)
    """conditions that the source applies in part, and Spark again"""
    left: list[tuple[str, str]] = field(default_factory=list)
    """those that Spark applies, and why"""

    def narrow(self, axis: int, places: Runs) -> None:
        """Leave only some places of an axis."""
        known = self.places.get(axis)
        self.places[axis] = places if known is None else known & places

    def applied(self, request: ReadRequest, scan: Scan) -> ReadRequest:
        """A request with these conditions beside those that `scan` was asked for."""
        asked = scan.request
        chosen = [
            f"{backquoted(scan.axes[axis].name)}={runs_text(runs)}"
            for axis, runs in sorted(self.places.items())
            if runs.count < scan.shape[axis]
        ]
        if chosen:
            own = [] if asked.isel is None else [asked.isel.text.rstrip(", ")]
            request = replace(request, isel=parse_isel(", ".join([*own, *chosen])))
        if self.values:
            own = [] if asked.value_where is None else [asked.value_where.text]
            both = " AND ".join(f"({text})" for text in (*own, *self.values))
            request = replace(request, value_where=parse_predicate(both))
        return request


def runs_text(places: Runs) -> str:
    """Places as `isel` writes them."""
    ends = zip(places.starts.tolist(), places.stops.tolist(), strict=True)
    runs = [f"{start}:{stop}" for start, stop in ends]
    return runs[0] if len(runs) == 1 else f"[{', '.join(runs)}]" if runs else "0:0"


def push_conditions(
    scan: Scan, conjuncts: Iterable[Conjunct], spark: SparkSession, alias: str
) -> Pushed:
    """Find out what the source can do for some conditions on its columns."""
    found = Pushed()
    for_spark: dict[tuple[int, ...], list[Conjunct]] = {}
    for each in conjuncts:
        axes = _axes(scan, each.names)
        simple = _simple(scan, each)
        if axes is None:
            if simple is None:
                found.left.append((each.text, "it compares values in a way that tasks cannot"))
            else:
                found.values.append(each.plain)
                found.exact.append(each)
        elif not axes:
            found.left.append((each.text, "it is about no dimension"))
        elif simple is not None and len(axes) == 1:
            runs = full_runs(scan, simple, axes[0])
            found.narrow(axes[0], Runs.one(0, scan.shape[axes[0]]) if runs is None else runs)
            found.exact.append(each)
        else:
            for_spark.setdefault(axes, []).append(each)
    for axes, group in for_spark.items():
        _evaluate(found, scan, axes, group, spark, alias)
    return found


def _axes(scan: Scan, names: Iterable[str]) -> tuple[int, ...] | None:
    """The axes of coordinates; None when one of the names is a data variable."""
    chosen = [scan.coordinates.get(name) for name in names]
    if any(column is None for column in chosen):
        return None
    return tuple(sorted({axis for column in chosen if column for axis in column.axes}))


def _simple(scan: Scan, conjunct: Conjunct) -> Condition | None:
    """The condition that a text means to Spark and numpy alike; None if they might differ."""
    if "\\" in conjunct.plain:
        return None
    known = scan.known_values
    try:
        found = checked(parse_where(conjunct.plain), conjunct.plain, known)
    except FrazilError:
        return None
    instants = scan.request.timestamps == "utc"
    sure = all(_is_sure(leaf, known.types[leaf.name], instants) for leaf in leaves(found))
    return found if sure else None


def _is_sure(leaf: Any, dtype: np.dtype[Any], instants: bool) -> bool:  # noqa: ANN401  (a Leaf)
    """Whether numpy compares as Spark does."""
    if isinstance(leaf, IsNull):
        return True
    values = leaf.values if isinstance(leaf, OneOf) else (leaf.value,)
    kind = dtype.kind
    if kind == "b":
        return all(isinstance(value, bool) for value in values)
    if kind in "iuf" and dtype.str[1:] != "u8":
        is_wide = kind in "iu" and dtype.itemsize == 8
        is_single = kind == "f" and dtype.itemsize <= 4
        return all(
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) < _EXACT
            and not (is_wide and isinstance(value, float))
            # Outside of ANSI mode Spark rounds whole numbers to the precision of the column.
            and not (is_single and isinstance(value, int) and abs(value) > _EXACT_SINGLE)
            for value in values
        )
    if not all(isinstance(value, str) for value in values):
        return False
    if kind == "M":
        return not instants and all(_TIME.fullmatch(str(value)) for value in values)
    is_same = isinstance(leaf, OneOf) or (isinstance(leaf, Compare) and leaf.sign in ("=", "!="))
    return kind == "T" and is_same


def _evaluate(
    found: Pushed,
    scan: Scan,
    axes: tuple[int, ...],
    conjuncts: Sequence[Conjunct],
    spark: SparkSession,
    alias: str,
) -> None:
    """Let Spark say where conditions hold, on a table of the coordinates alone."""
    shape = tuple(scan.shape[axis] for axis in axes)
    size = math.prod(shape)
    if size > CONDITION_LABELS:
        why = f"it is about {size} labels, and at most {CONDITION_LABELS} are looked at beforehand"
        found.left += [(each.text, why) for each in conjuncts]
        return
    names = sorted({name for each in conjuncts for name in each.names})
    frame = coordinate_frame(scan, names, axes, spark)
    condition = " AND ".join(f"({each.text})" for each in conjuncts)
    try:
        with without_pyspark_logging():
            rows = frame.alias(alias).where(condition).select(POSITION).collect()
    except spark_errors():
        why = "Spark cannot evaluate it on the coordinates alone"
        found.left += [(each.text, why) for each in conjuncts]
        return
    mask = np.zeros(size, bool)
    mask[[row[0] for row in rows]] = True
    if len(axes) == 1:
        found.narrow(axes[0], Runs.where(mask))
        found.exact += conjuncts
        return
    box = mask.reshape(shape)
    for number, axis in enumerate(axes):
        others = tuple(n for n in range(len(axes)) if n != number)
        found.narrow(axis, Runs.where(np.asarray(box.any(axis=others))))
    found.weak += conjuncts


def coordinate_frame(
    scan: Scan, names: Sequence[str], axes: tuple[int, ...], spark: SparkSession
) -> DataFrame:
    """The labels at the crossings of some axes as a small table, numbered in row order."""
    columns = [scan.coordinates[name] for name in names]
    arrays = label_arrays(scan, columns, axes)
    size = math.prod(scan.shape[axis] for axis in axes)
    kinds = schema_of(scan, columns)
    schema = t.StructType([*kinds, t.StructField(POSITION, t.LongType())])
    table = pa.Table.from_arrays([*arrays, pa.array(np.arange(size))], schema=arrow_schema(schema))
    return spark.createDataFrame(table, schema)


def label_arrays(scan: Scan, columns: Sequence[Column], axes: tuple[int, ...]) -> list[pa.Array]:
    """The labels at the crossings of some axes, in row order."""
    region = tuple(
        slice(0, axis.size if number in axes else 1) for number, axis in enumerate(scan.axes)
    )
    shape = tuple(part.stop for part in region)
    own = replace(scan, columns=tuple(columns))
    kinds = arrow_schema(schema_of(scan, columns))
    return [
        cast(column.name, flattened(each, shape, region, None), kind.type)
        for column, each, kind in zip(
            columns, columns_of(own, NarrowedRegion(region, None)), kinds, strict=True
        )
    ]


def schema_of(scan: Scan, columns: Sequence[Column]) -> t.StructType:
    """The Spark types of columns."""
    return t.StructType(
        [t.StructField(column.name, column_type(column, scan.request)) for column in columns]
    )
