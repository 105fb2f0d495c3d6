"""What one `load()` reads: axes, columns and a condition, small enough to go to every task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from frazil.cf.decoding import Decoder, Rules
from frazil.errors import InvalidInputError, invalid_option, unsuitable
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned
from frazil.spark.options.table import ReadRequest, RepositoryRequest
from frazil.spark.reading.columns import LONG, arrow_schema, arrow_type, require_cast, spark_type
from frazil.spark.reading.selecting import KnownColumns, checked, label_condition
from frazil.spark.reading.variables import (
    Group,
    TableVariable,
    common_dims,
    joint_dims,
    load_group,
    note_of,
    with_texts,
)
from frazil.spark.reading.where import Condition, both, conjuncts, leaves
from frazil.spelling import listed, meant, unknown

CELLS: Final = "cells"
LINES: Final = "lines"
CHUNKS: Final = "chunks"
AGGREGATES: Final = "aggregates"


@dataclass(frozen=True, slots=True)
class ScanAxis:
    """One dimension of the table."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Column:
    """One column: positions along an axis, or the values of a variable."""

    name: str
    axes: tuple[int, ...]
    """the axes of the table that the variable spans, in its own order"""
    variable: TableVariable | None = None
    decoder: Decoder | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded values."""
        return np.dtype("i8") if self.decoder is None else self.decoder.result


@dataclass(frozen=True)
class Scan:
    """What to read; `schema` names the chosen columns in their order."""

    pinned: Pinned
    axes: tuple[ScanAxis, ...]
    columns: tuple[Column, ...]
    """the chosen ones, in order"""
    coordinates: Mapping[str, Column]
    """what a condition may name"""
    data_names: tuple[str, ...]
    condition: Condition | None
    layout: str
    schema: t.StructType
    request: ReadRequest
    values: Mapping[str, Column] = field(default_factory=dict)
    """the data variables, which `value-where` may name"""

    @cached_property
    def known(self) -> KnownColumns:
        """What conditions may compare."""
        return KnownColumns(
            {name: column.dtype for name, column in self.coordinates.items()},
            {name: column.axes for name, column in self.coordinates.items()},
            self.data_names,
        )

    @cached_property
    def known_values(self) -> KnownColumns:
        """What conditions may compare, data variables included."""
        known = self.known
        return KnownColumns(
            {**known.types, **{name: column.dtype for name, column in self.values.items()}},
            {**known.axes, **{name: column.axes for name, column in self.values.items()}},
            values=frozenset(self.values),
        )

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that Spark expects."""
        return arrow_schema(self.schema)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def is_separable(self) -> bool:
        """Whether each part of the condition concerns one axis, and nothing else."""
        return all(map(self.known_values.is_along_one, conjuncts(self.condition)))

    def data_columns(self) -> list[Column]:
        """Columns whose chunks the partitions should follow; labels of one axis are small."""
        compared = {leaf.name for part in conjuncts(self.condition) for leaf in leaves(part)}
        needed = [self.values[name] for name in sorted(compared & self.values.keys())]
        return [
            column
            for column in {c.name: c for c in (*self.columns, *needed)}.values()
            if column.variable is not None
            and (column.name not in self.coordinates or len(column.axes) > 1)
        ]

    @property
    def cell_bytes(self) -> int:
        """Decoded bytes of a cell, without the labels of single axes."""
        return sum(c.variable.itemsize for c in self.data_columns() if c.variable) or 8

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("known", "known_values", "arrow_schema")
        return {k: v for k, v in self.__dict__.items() if k not in hidden}


def decoding_rules(request: RepositoryRequest) -> Rules:
    """How values are decoded."""
    if not isinstance(request, ReadRequest):
        return Rules(cf=request.decode_cf)
    return Rules(
        cf=request.decode_cf,
        calendars_as_text=request.other_calendars == "string",
        times=request.decode_times,
    )


def make_scan(
    session: Session,
    target: NamedTarget,
    pinned: Pinned,
    request: ReadRequest,
    asked: t.StructType | None = None,
) -> Scan:
    """Work out what a user asked for.

    Raises:
        InvalidInputError: options contradict the data or each other.
        NodeNotFoundError: a group or variable is not there.
    """
    group, single = load_group(session, target.node)
    rules = decoding_rules(request)
    group = with_texts(group) if rules.cf else group
    projected = _projection(request, asked)
    variables = _chosen(group, single, request, projected)
    dims = joint_dims(variables) if request.broadcast else common_dims(group, variables)
    axes = tuple(ScanAxis(name, size) for name, size in dims)
    asked_for = None if projected is None else {*projected, *_named_in_conditions(request)}
    coordinates = _coordinates(group, axes, rules, asked_for)
    columns = [coordinates[axis.name] for axis in axes]
    columns += [_column(v, axes, rules) for v in variables if v.name not in {a.name for a in axes}]
    if request.with_coordinates:
        taken = {column.name for column in columns}
        columns += [c for n, c in coordinates.items() if n not in taken and c.axes]
    if projected is not None:
        columns = _projected(projected, columns, coordinates, group)
    scan = Scan(
        pinned=pinned,
        axes=axes,
        columns=tuple(columns),
        coordinates=coordinates,
        data_names=group.data_names,
        condition=None,
        layout=request.layout,
        schema=_schema(columns, axes, request),
        request=request,
        values={v.name: _column(v, axes, rules) for v in variables if v.name not in coordinates},
    )
    scan = replace(scan, condition=_condition(scan))
    return scan if asked is None else replace(scan, schema=_fitting(asked, scan))


def _projection(request: ReadRequest, asked: t.StructType | None) -> tuple[str, ...] | None:
    columns = request.columns
    if asked is None:
        return columns
    names = tuple(field.name for field in asked.fields)
    if columns is not None and columns != names:
        raise invalid_option("a schema and option 'columns' choose different columns")
    return names


def _chosen(
    group: Group, single: str | None, request: ReadRequest, projected: tuple[str, ...] | None
) -> list[TableVariable]:
    """The data variables that make up the table."""
    if request.variables is not None:
        return [group.find(name) for name in request.variables]
    if single is not None:
        return [group.find(single)]
    if projected is not None:
        found = (meant(name, group.data_names) for name in projected)
        wanted = [group.variables[name] for name in found if name is not None]
        if wanted:
            return wanted
    return [group.variables[name] for name in group.data_names]


def _named_in_conditions(request: ReadRequest) -> set[str]:
    """Names of what conditions compare."""
    compared = () if request.where is None else leaves(request.where.condition)
    labelled = () if request.sel is None else request.sel.labels
    return {each.name for each in (*compared, *labelled)}


def _coordinates(
    group: Group, axes: tuple[ScanAxis, ...], rules: Rules, asked_for: Iterable[str] | None
) -> dict[str, Column]:
    """Everything that labels cells of the table: of one axis, of several, or of none."""
    found: dict[str, Column] = {}
    sizes = {axis.name: axis.size for axis in axes}
    # Spark does not tell upper from lower case in the names of columns.
    wanted = {name.casefold() for name in asked_for or ()}
    for number, axis in enumerate(axes):
        labels = group.coordinate(axis.name, axis.size)
        found[axis.name] = Column(axis.name, (number,))
        if labels is None:
            continue
        try:
            found[axis.name] = _column(labels, axes, rules)
        except InvalidInputError:
            if asked_for is None or axis.name.casefold() in wanted:
                raise  # else labels that cannot be decoded are not looked at
    for variable in group.variables.values():
        fits = all(sizes.get(d) == n for d, n in zip(variable.dims, variable.shape, strict=True))
        if variable.name in found or variable.name in group.data_names or not fits:
            continue
        try:
            found[variable.name] = _column(variable, axes, rules)
        except InvalidInputError:
            if variable.name.casefold() in wanted:
                raise  # else no query asked for what cannot be a column
    return found


def _column(variable: TableVariable, axes: tuple[ScanAxis, ...], rules: Rules) -> Column:
    numbers = {axis.name: number for number, axis in enumerate(axes)}
    spans = tuple(numbers[dim] for dim in variable.dims)
    return Column(variable.name, spans, variable, variable.decoder(rules))


def _projected(
    names: Sequence[str],
    columns: Sequence[Column],
    coordinates: Mapping[str, Column],
    group: Group,
) -> list[Column]:
    known = {**coordinates, **{column.name: column for column in columns}}
    found = [meant(name, known) for name in names]
    for name, own in zip(names, found, strict=True):
        if own is None:
            other = meant(name, group.variables)
            if other is not None:
                group_dims = ", ".join(group.variables[other].dims)
                raise unsuitable(
                    f"column {name!r} has the dimensions ({group_dims}), which are not those of "
                    "the other columns"
                )
            raise unsuitable(unknown("column", name, known))
    pairs = zip(names, found, strict=True)
    return [replace(known[own], name=name) for name, own in pairs if own is not None]


def column_type(column: Column, request: ReadRequest) -> t.DataType:
    """The Spark type of a column."""
    if column.decoder is None:
        return LONG
    return spark_type(column.dtype, instants=request.timestamps == "utc")


def _schema(
    columns: Sequence[Column], axes: tuple[ScanAxis, ...], request: ReadRequest
) -> t.StructType:
    layout = request.layout
    if layout == LINES and not axes:
        raise invalid_option("layout=lines needs at least one dimension")
    last = len(axes) - 1
    fields = []
    for column in columns:
        kind = column_type(column, request)
        if layout == LINES and last in column.axes:
            kind = t.ArrayType(kind)
        notes = note_of(column.variable) if column.variable and request.decode_cf else {}
        fields.append(t.StructField(column.name, kind, metadata=notes))
    repeated = {f.name for f in fields if sum(g.name == f.name for g in fields) > 1}
    if repeated:
        raise unsuitable(f"two columns would be named {listed(repeated)}")
    return t.StructType(fields)


def _fitting(asked: t.StructType, scan: Scan) -> t.StructType:
    """A user's schema, once it is sure that values can be turned into its types."""
    for wanted, natural in zip(asked.fields, scan.schema.fields, strict=True):
        require_cast(wanted.name, arrow_type(natural.dataType), arrow_type(wanted.dataType))
    return asked


def _condition(scan: Scan) -> Condition | None:
    found: Condition | None = None
    request = scan.request
    if request.where is not None:
        found = checked(request.where.condition, request.where.text, scan.known)
    if request.sel is not None:
        labels = request.sel.labels
        found = both(found, label_condition(labels, request.sel.text, scan.known))
    if request.isel is not None:
        # A dimension may share its name with labels, so positions go by the name of the axis.
        found = both(found, request.isel.condition({axis.name: axis.size for axis in scan.axes}))
    if request.value_where is not None:
        given = request.value_where
        found = both(found, checked(given.condition, given.text, scan.known_values))
    return found
