"""Where statements write to, and how: one commit on top of the snapshot that they read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, FloatType, StringType

from frazil.errors import NotFoundError, invalid_option, unsuitable
from frazil.ids import child_path
from frazil.masking import shown_url
from frazil.run import JobReport
from frazil.spark.errors import error_texts
from frazil.spark.location import NamedTarget, reachable_target
from frazil.spark.options.parsing import options_for, parse_request
from frazil.spark.options.table import OptionUse, WriteRequest
from frazil.spark.query.names import NamePart
from frazil.spark.query.procedure_calls import place_of
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.sql import Statement, names_ours, plan_of, report_lines
from frazil.spark.query.tables import OpenTable, open_table
from frazil.spark.query.tokens import Tokens
from frazil.spark.reading.columns import struct
from frazil.spark.reading.scan import decoding_rules
from frazil.spark.reading.variables import TableVariable
from frazil.spark.tasks import local_frame
from frazil.spark.writing.commit import txn_of
from frazil.spark.writing.write import write_frame
from frazil.spelling import listed, unknown
from frazil.texts import backquoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from frazil.spark.query.readings import Reading

IS_MEANT: Final = "__is_meant"
"""the column that says whether a statement does something with a row, where not with all"""
_COUNT: Final = "__count"
_PLAN: Final = struct("plan string")
_WRITTEN: Final = struct("snapshot_id string, written_chunks long, written_bytes long")


@dataclass(frozen=True, slots=True)
class QueryRows:
    """What a query gave, and the tables that it read."""

    frame: DataFrame
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class Destination:
    """A table that a statement writes."""

    statement: Statement
    shown: str
    target: NamedTarget
    request: WriteRequest
    table: OpenTable | None
    """as it is now; None when there is none"""
    base: str | None = None
    """the snapshot that a new table goes on top of, where there is one"""

    @property
    def there(self) -> OpenTable:
        """The table, which must be there."""
        assert self.table is not None
        return self.table

    @property
    def is_done(self) -> bool:
        """Whether the write was committed before, as `txnAppId` and `txnVersion` tell."""
        txn = txn_of(self.request)
        if txn is None or self.table is None or self.statement.is_explained:
            return False
        return txn.is_in(self.target.location.open(), self.target.branch)

    def variable(self, name: str) -> TableVariable:
        """A data variable of the table.

        Raises:
            InvalidInputError: there is no such variable, or it is a coordinate.
        """
        group, found = self.there.group, self.there.find(name)
        if found is not None and found not in group.data_names:
            raise invalid_query(
                f"{found!r} labels cells, and labels stay as they are; write the array with "
                "xarray or zarr"
            )
        if found is None:
            raise invalid_query(unknown("variable", name, group.data_names))
        return group.variables[found]

    def rows(self, query: str) -> QueryRows:
        """The rows of a query."""
        own = replace(
            self.statement, text=query, options=options_for(self.statement.options, OptionUse.READ)
        )
        if not names_ours(own):
            return QueryRows(own.spark.sql(query))
        plan = plan_of(own)
        run = plan.shape if own.is_explained else plan.run
        return QueryRows(run(own.spark), tuple(plan.readings))

    def cast(self, names: Sequence[str], columns: Iterable[Column]) -> list[Column]:
        """Columns as the table has those of some names."""
        known: Mapping[str, DataType] = {}
        if self.table is not None:
            own = [name for name in names if name in self.table.names]
            schema = self.table.schema(self.table.chosen(own))
            known = {field.name: field.dataType for field in schema}
        return [
            (_cast(name, column, known[name]) if name in known else column).alias(name)
            for name, column in zip(names, columns, strict=True)
        ]

    def has_more(self, rows: QueryRows, dims: Sequence[str]) -> bool:
        """Whether the table was read with more dimensions than some."""
        return any(
            not set(variable.dims) <= set(dims)
            for reading in rows.readings
            if self._is_read(reading.table)
            for variable in reading.table.variables(_named(reading))
        )

    def is_nan(self, name: str) -> bool:
        """Whether NaN is what stands for NULL in an array, and is read as NaN."""
        decoder = self.there.group.variables[name].decoder(decoding_rules(self.request))
        return decoder.source.kind == "f" and not (decoder.fills or decoder.nan_is_missing)

    def write(
        self, rows: QueryRows, *, overwrite: bool = False, is_cellwise: bool = False
    ) -> DataFrame:
        """Write rows in one commit; it is a conflict when what they were made from has changed.

        Args:
            rows: what to write.
            overwrite: whether what is there is replaced.
            is_cellwise: whether each cell is made from itself, so that chunks that both wrote are
                all that can be in conflict of the arrays that are written.
        """
        if self.statement.is_explained:
            return self._explained(rows)
        own_readings = [each for each in rows.readings if self._is_read(each.table)]
        read = Counter(
            variable.path
            for reading in own_readings
            for variable in reading.table.variables(_named(reading))
        )
        own = {child_path(self.target.node or "/", name) for name in rows.frame.columns}
        # What is read twice may be read elsewhere than in the cell that is written.
        relied = {p for p, n in read.items() if not (is_cellwise and p in own and n == 1)}
        relied |= {path for reading in own_readings for path in _label_paths(reading)}
        report = write_frame(
            rows.frame,
            self.target,
            self.request,
            overwrite=overwrite,
            base=self.base if self.table is None else self.table.pinned.snapshot_id,
            relied=tuple(sorted(relied)),
        )
        return self.answer(report)

    def _explained(self, rows: QueryRows) -> DataFrame:
        """What would be read, and what written."""
        names = ", ".join(rows.frame.columns)
        lines = [
            f"{self.shown} at {shown_url(self.target.location.url)}",
            f"  written: {names}; branch: {self.target.branch}, group: {self.target.node or '/'}",
            *(line for reading in rows.readings for line in report_lines(reading)),
        ]
        frame: DataFrame = local_frame(self.statement.spark, [("\n".join(lines),)], _PLAN)
        return frame

    def answer(self, report: JobReport) -> DataFrame:
        """What a statement tells."""
        row = (report.snapshot_id, report.chunks, report.bytes)
        return local_frame(self.statement.spark, [row], _WRITTEN)

    def _is_read(self, table: OpenTable) -> bool:
        return (
            table.metadata is None
            and table.pinned.location.url == self.target.location.url
            and table.target.is_tip_of(self.target.branch)
        )


def _named(reading: Reading) -> tuple[str, ...] | None:
    return reading.request.variables


def _label_paths(reading: Reading) -> set[str]:
    """The coordinates by which the rows of a table may have been chosen."""
    table = reading.table
    dims = {dim for each in table.variables(_named(reading)) for dim in each.dims}
    return {
        each.path
        for name, each in table.group.variables.items()
        if name not in table.group.data_names and set(each.dims) <= dims
    }


def destination(
    statement: Statement,
    parts: tuple[NamePart, ...],
    more: Mapping[str, str] | None = None,
    *,
    may_be_new: bool = False,
) -> Destination:
    """What a statement writes.

    Raises:
        NotFoundError: it is not there.
        InvalidInputError: it cannot be written.
    """
    place = place_of(statement, parts)
    shown = ".".join(part.text for part in parts)
    if "tag" in place.options:
        raise invalid_option(f"only a branch can be written, and {shown!r} names a tag")
    own = {**place.options, **statement.options}
    given = {**options_for(own, OptionUse.WRITE), **(more or {})}
    request = parse_request(WriteRequest, {"path": place.url, **given}, OptionUse.WRITE)
    target = reachable_target(request)
    branch = target.branch  # refuses tags and times
    base: str | None = None
    if may_be_new:  # found first: what others make later is in conflict with it
        base = _newest(target)
    try:
        table = open_table(place, options_for(statement.options, OptionUse.READ), shown)
        where = "" if table.metadata is not None else table.group.path
    except NotFoundError:
        if not may_be_new:
            raise
        table, where = None, ""
    if table is not None and table.metadata is not None:
        raise invalid_query(f"{shown!r} is a metadata table, which only shows what there is")
    if table is not None and table.pinned.snapshot_id != _tip(table, branch):
        raise invalid_option(f"only a branch can be written, and {shown!r} names another version")
    node = target.node or "/"
    for name in place.below:
        node = child_path(node, name)
    node = node if table is None else where
    return Destination(statement, shown, replace(target, node=node), request, table, base)


def _newest(target: NamedTarget) -> str | None:
    """The snapshot that a branch is at; None when there is none yet."""
    try:
        repository = target.location.open()
        return repository.lookup_branch(target.branch)
    except NotFoundError:
        return None


def _tip(table: OpenTable, branch: str) -> str | None:
    repository = table.target.location.open()
    return repository.lookup_branch(branch) if branch in repository.list_branches() else None


def full_variables(where: Destination) -> list[TableVariable]:
    """The variables whose cells are the rows of a table: those that have all its dimensions.

    Raises:
        InvalidInputError: the variables are no rows of one table.
    """
    variables = where.there.variables(None)
    widest = max(variables, key=lambda each: len(each.dims))
    other = [each for each in variables if not set(each.dims) <= set(widest.dims)]
    if other:
        raise invalid_query(
            f"{widest} and {other[0]} are no rows of one table; delete cells of one of them, in "
            f"{where.shown}.{widest.name}"
        )
    return [each for each in variables if len(each.dims) == len(widest.dims)]


def shared_dims(variables: Sequence[TableVariable]) -> tuple[str, ...]:
    """The dimensions that variables have.

    Raises:
        InvalidInputError: they have different ones.
    """
    found = {frozenset(each.dims) for each in variables}
    if len(found) > 1:
        raise invalid_query(
            f"{listed(map(str, variables))} do not have the same dimensions; write them by one "
            "statement each"
        )
    return variables[0].dims


def column(name: str) -> Column:
    """The column of a name."""
    return f.col(backquoted(name))


def was(number: int) -> str:
    """The column with a variable as it is."""
    return f"__was_{number}"


def now(number: int) -> str:
    """The column with a variable as it shall be."""
    return f"__now_{number}"


def changed_cells(
    where: Destination,
    rows: QueryRows,
    dims: Sequence[str],
    names: Sequence[str],
    *,
    may_repeat: bool = False,
) -> QueryRows:
    """The cells that differ, of a query with columns for the dimensions and `was` and `now`.

    Where a query may have several rows for a cell, all of them are kept, so that the writer refuses
    them. Otherwise one could win because the others equal the stored value.
    """
    frame = rows.frame
    if IS_MEANT in frame.columns:
        frame = frame.filter(column(IS_MEANT))
    columns = [column(dim) for dim in dims] + [column(now(n)) for n in range(len(names))]
    cells = where.cast([*dims, *names], columns)
    differs = f.lit(False)
    if may_repeat and where.request.duplicates == "error":
        own = Window.partitionBy(*(column(dim) for dim in dims))
        frame = frame.withColumn(_COUNT, f.count(f.lit(1)).over(own))
        differs = column(_COUNT) > 1
    for number, (name, after) in enumerate(zip(names, cells[len(dims) :], strict=True)):
        is_same = column(was(number)).eqNullSafe(after)
        if where.is_nan(name):
            is_same = is_same | (f.isnan(column(was(number))) & after.isNull())
        differs = differs | ~is_same
    return QueryRows(frame.filter(differs).select(*cells), rows.readings)


def is_cellwise(query: str) -> bool:
    """Whether each row of a query is made from one cell: a window looks at others too."""
    tokens = Tokens(query)
    return all(tokens.word(number) != "over" for number in range(len(tokens)))


def _cast(name: str, value: Column, kind: DataType) -> Column:
    """A column as another type; what that cannot hold is an error, whatever Spark is set to."""
    made = value.try_cast(kind)
    is_lost = value.isNotNull() & made.isNull()
    if isinstance(kind, FloatType):
        wide = value.try_cast(DoubleType())
        is_lost = is_lost | ((f.abs(made) == math.inf) & (f.abs(wide) != math.inf))
    before, after = error_texts(unsuitable(""))
    text = f.concat(
        f.lit(f"{before}column {name!r} has the value "),
        value.cast(StringType()),
        f.lit(f", which does not fit {kind.simpleString()}{after}"),
    )
    return f.when(is_lost, f.raise_error(text)).otherwise(made)
