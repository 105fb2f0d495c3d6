"""From a query to what Spark is asked: its text with tables replaced, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from frazil.errors import invalid_option
from frazil.spark.errors import spark_errors, without_pyspark_logging
from frazil.spark.query.dialect import DIALECT
from frazil.spark.query.formulas import added, alone
from frazil.spark.query.literals import row_text
from frazil.spark.query.names import ResolvedName, resolve_name
from frazil.spark.query.readings import Reading
from frazil.spark.query.scopes import (
    find_uses,
    invalid_query,
    is_repository_table,
    parse_query,
    parts_of,
)
from frazil.spark.query.table_plan import TablePlan
from frazil.spark.query.table_texts import table_edit
from frazil.spark.query.tables import OpenTable, open_table
from frazil.spark.query.tokens import TextEdit, Tokens, braced, replaced
from frazil.spelling import listed, unknown

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_UNKNOWN_COLUMN: Final = "UNRESOLVED_COLUMN"
"""how Spark's name of that error begins"""
_QUOTES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"


@dataclass(slots=True)
class QueryPlan:
    """A query for `spark.sql`, and the tables that it names as `{t0}`, `{t1}` and so on."""

    text: str
    readings: list[Reading]
    shifts: dict[str, Callable[[], float]] = field(default_factory=dict)

    def run(self, spark: SparkSession) -> DataFrame:
        """Run it.

        Raises:
            InvalidInputError: it names a column that none of its tables has.
        """
        from pyspark.errors import AnalysisException

        try:
            return self._run(spark)
        except AnalysisException as error:
            if (text := self._unknown_column(error)) is None:
                raise
            raise invalid_query(text) from None

    def _unknown_column(self, error: PySparkException) -> str | None:
        """What is wrong with the name of a column; Spark knows only columns that are read."""
        if not (error.getCondition() or "").startswith(_UNKNOWN_COLUMN):
            return None
        whole = (error.getMessageParameters() or {}).get("objectName", "")
        name = whole.rpartition(".")[2].strip("`")
        if any(each.table.find(name) for each in self.readings):
            return None  # there is one, though not where it is named
        known = [column for each in self.readings for column in each.table.names]
        tables = listed({each.table.shown for each in self.readings})
        return unknown("column", name, known, f" in {tables}")

    def _run(self, spark: SparkSession) -> DataFrame:
        text = self.text
        for name, find in self.shifts.items():
            text = text.replace(name, f"{find()!r}D".replace("eD", "e0D"))
        rows = [each.row() if each.is_one_row else None for each in self.readings]
        written = [None if row is None else row_text(row) for row in rows]
        if None not in written:
            # Spark has the answer when it has read this: it need not be given tables.
            return spark.sql(text.format(**{f"t{n}": each for n, each in enumerate(written)}))
        frames: dict[str, Any] = {
            f"t{n}": each.frame(spark) if row is None else spark.createDataFrame(row, each.schema)
            for n, (each, row) in enumerate(zip(self.readings, rows, strict=True))
        }
        return spark.sql(text, **frames)

    def explained(self, spark: SparkSession, how: str) -> str:
        """Spark's own plan of it, for which nothing is read."""
        row = self.shape(spark, f"EXPLAIN {how} ").first()
        return str(row[0]) if row else ""

    def shape(self, spark: SparkSession, before: str = "") -> DataFrame:
        """The same with tables that have no rows where these would be read at once."""
        text = before + self.text
        for name in self.shifts:
            text = text.replace(name, "0.0D")
        frames: dict[str, Any] = {
            f"t{n}": each.shape_of(spark) for n, each in enumerate(self.readings)
        }
        return spark.sql(text, **frames)


class Planner:
    """Plans queries in a session, with options of the source for all its tables."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        local: Callable[[str], ResolvedName | None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._local = local
        """what names without `frazil.` mean, before Spark is asked"""
        self._made: set[str] = set()
        """tables that the query makes itself, by WITH"""
        self._opened: dict[int, OpenTable] = {}
        self._same: dict[object, OpenTable] = {}

    def plan(self, text: str) -> QueryPlan:
        """Plan a query.

        Raises:
            InvalidInputError: it cannot be read.
            FrazilError: there is no such repository, version or table.
        """
        if '"' in text and self._spark.conf.get(_QUOTES, "false") == "true":
            raise invalid_option(f"names stand in backquotes here, also where {_QUOTES} is true")
        tree = parse_query(text)
        tokens = Tokens(text)
        self._made = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        plan = QueryPlan("", [])
        edits: list[TextEdit] = []
        uses = find_uses(tree, self._is_ours, self._columns)
        for use in uses:
            name = f"t{len(plan.readings)}"
            is_single = sum(other.select is use.select for other in uses) == 1
            table = self._open(use.node)
            one = TablePlan(self._spark, tokens, use, table, is_single=is_single)
            reading = one.make()
            plan.readings.append(reading)
            finish = alone if reading.is_one_row else added
            own = {marker: f"{marker}{name}__" for marker in one.shifts}
            for start, stop, new in one.edits:
                text_of = finish(new)
                for marker, renamed in own.items():
                    text_of = text_of.replace(marker, renamed)
                edits.append((start, stop, text_of))
            edits.append(table_edit(tokens, use, name))
            plan.shifts.update({own[marker]: find for marker, find in one.shifts.items()})
        plan.text = replaced(text, edits)
        return plan

    def _is_ours(self, node: exp.Table) -> bool:
        return is_repository_table(node) or self._place(node) is not None

    def _place(self, node: exp.Table) -> ResolvedName | None:
        parts = parts_of(node)
        if len(parts) > 1 or parts[0].text.lower() in self._made:
            return None
        return self._local(parts[0].text)

    def _open(self, node: exp.Table) -> OpenTable:
        if id(node) not in self._opened:
            parts = parts_of(node)
            version = _version(node, self._spark)
            key = (parts, tuple(version.items()))
            if key not in self._same:
                place = self._place(node) or resolve_name(parts[1:], self._spark)
                shown = ".".join(f"`{p.text}`" if p.is_quoted else p.text for p in parts)
                self._same[key] = open_table(place, {**self._options, **version}, shown)
            self._opened[id(node)] = self._same[key]
        return self._opened[id(node)]

    def _columns(self, node: exp.Table) -> Sequence[str] | None:
        if self._is_ours(node):
            return self._open(node).names
        try:
            with without_pyspark_logging():
                return self._spark.table(node.sql(dialect=DIALECT, identify=True)).columns
        except spark_errors():
            return None


def _version(node: exp.Table, spark: SparkSession) -> dict[str, str]:
    """Options of the source for VERSION AS OF and TIMESTAMP AS OF."""
    found = node.args.get("version")
    if found is None:
        return {}
    value = found.expression
    is_time = str(found.name).upper() == "TIMESTAMP"
    if isinstance(value, exp.Literal):
        return {"as-of-timestamp" if is_time else "snapshot-id": value.name}
    if not is_time:
        raise invalid_option("VERSION AS OF takes a branch, a tag or a snapshot as text")
    text = braced(value.sql(dialect=DIALECT))
    row = spark.sql(f"SELECT unix_millis(CAST({text} AS TIMESTAMP))").first()
    return {"as-of-timestamp": str(row[0] if row else "")}
