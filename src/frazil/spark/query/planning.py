"""From a query to what Spark is asked: its text with tables replaced, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import types as t
from sqlglot import TokenType, exp

from frazil.errors import invalid_option
from frazil.spark.errors import quiet, spark_errors
from frazil.spark.query import here
from frazil.spark.query.aggregates import (
    Refusal,
    Rewritten,
    added,
    alone,
    has_aggregates,
    rewrite,
    unknown_calls,
)
from frazil.spark.query.conditions import Conjunct, Pushed, push_conditions
from frazil.spark.query.functions import SCALARS
from frazil.spark.query.names import Place, resolve_name
from frazil.spark.query.scopes import TableUse, find_uses, is_ours, parse_query, parts_of
from frazil.spark.query.tables import OpenTable, open_table
from frazil.spark.query.tokens import Block, Edit, Span, Tokens, braced, replaced
from frazil.spark.reading.partitions import plan_blocks
from frazil.spark.reading.read import read
from frazil.spark.reading.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OUTER: Final = frozenset({"LEFT", "RIGHT", "FULL"})


@dataclass(slots=True)
class Reading:
    """How one table of a query is read."""

    table: OpenTable
    options: dict[str, str]
    layout: str = "cells"
    is_here: bool = False
    """whether it is read where the query is planned"""
    is_one_row: bool = False
    """whether there is nothing left to add, so that the aggregates are the answer"""
    pushed: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """what Spark does, and why"""
    chunks: int = 0
    all_chunks: int = 0
    bytes: int = 0
    all_bytes: int = 0

    def frame(self, spark: SparkSession) -> DataFrame:
        """The table as a DataFrame."""
        if not self.is_here:
            given: dict[str, Any] = {**self.table.reading, **self.options}
            return read(self.table.path, spark=spark, **given)
        if self.layout == "aggregates":
            plan = self.table.aggregate_scan(self.options)
            if self.is_one_row:
                return spark.createDataFrame(here.read_one_row_here(plan), plan.schema)
            # From one partition Spark groups without a shuffle.
            found = here.read_aggregates_here(plan)
            return spark.createDataFrame(found, plan.schema).coalesce(1)
        scan = self.table.scan(self.options)
        return spark.createDataFrame(here.read_cells_here(scan), scan.schema)


@dataclass(slots=True)
class QueryPlan:
    """A query for `spark.sql`, and the tables that it names as `{t0}`, `{t1}` and so on."""

    text: str
    readings: list[Reading]
    shifts: dict[str, Callable[[], float]] = field(default_factory=dict)

    def run(self, spark: SparkSession) -> DataFrame:
        """Run it."""
        text = self.text
        for name, find in self.shifts.items():
            text = text.replace(name, f"{find()!r}D".replace("eD", "e0D"))
        frames: dict[str, Any] = {
            f"t{n}": each.frame(spark) for n, each in enumerate(self.readings)
        }
        return spark.sql(text, **frames)


class Planner:
    """Plans queries in a session, with options of the source for all its tables."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        local: Callable[[str], Place | None] = lambda _: None,
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
        tree = parse_query(text)
        tokens = Tokens(text)
        self._made = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        plan = QueryPlan("", [])
        edits: list[Edit] = []
        for use in find_uses(tree, self._is_ours, self._columns):
            name = f"t{len(plan.readings)}"
            one = _TablePlan(self, tokens, use, self._open(use.node))
            reading = one.make()
            plan.readings.append(reading)
            finish = alone if reading.is_one_row else added
            own = {marker: f"{marker}{name}__" for marker in one.shifts}
            for start, stop, new in one.edits:
                text_of = finish(new)
                for marker, renamed in own.items():
                    text_of = text_of.replace(marker, renamed)
                edits.append((start, stop, text_of))
            edits.append(_table_edit(tokens, use, name))
            plan.shifts.update({own[marker]: find for marker, find in one.shifts.items()})
        plan.text = replaced(text, edits)
        return plan

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    def _is_ours(self, node: exp.Table) -> bool:
        return is_ours(node) or self._place(node) is not None

    def _place(self, node: exp.Table) -> Place | None:
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
            with quiet():
                return self._spark.table(node.sql(dialect="spark", identify=True)).columns
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
    text = braced(value.sql(dialect="spark"))
    row = spark.sql(f"SELECT unix_millis(CAST({text} AS TIMESTAMP))").first()
    return {"as-of-timestamp": str(row[0] if row else "")}


def _table_edit(tokens: Tokens, use: TableUse, name: str) -> Edit:
    """The edit that puts a frame in a table's place, under the name that it had."""
    parts = use.node.parts
    first = tokens.at(use.start)
    last = tokens.at(int(parts[-1].meta["start"]))
    assert first is not None
    assert last is not None
    if use.node.args.get("version") is not None:
        last = _version_end(tokens, last)
    new = f"{{{name}}}"
    if not use.node.alias and not use.node.args.get("sample"):
        new += f" AS `{braced(use.alias.replace('`', '``'))}`"
    return tokens.all[first].start, tokens.all[last].end + 1, new


def _version_end(tokens: Tokens, last: int) -> int:
    """The last token of a version after a table's name."""
    at = last + 1
    while tokens.word(at) != "of":
        at += 1
    at += 1
    if tokens.kind(at) not in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN):
        at += 1  # as in TIMESTAMP '2024-05-01', or a function
    return tokens.closing(at) if tokens.kind(at) is TokenType.L_PAREN else at


class _TablePlan:
    """Works out how one table of a query is read."""

    def __init__(self, planner: Planner, tokens: Tokens, use: TableUse, table: OpenTable) -> None:
        self._spark = planner.spark
        self._tokens = tokens
        self._use = use
        self._table = table
        self.edits: list[Edit] = []
        self.shifts: dict[str, Callable[[], float]] = {}

    def make(self) -> Reading:
        """How the table is read."""
        table, use = self._table, self._use
        named = None
        if use.columns is not None:
            found = (table.find(name) for name in use.columns)
            named = {name for name in found if name is not None}
        chosen = table.chosen(named)
        reading = Reading(table, chosen)
        if table.metadata is not None:
            reading.layout = "metadata"
            return reading
        scan = table.scan(chosen)
        at = self._tokens.at(use.start)
        block = None if at is None else self._tokens.block(at)
        if block is None or use.select is None or use.node.args.get("sample"):
            reading.left.append(("the whole SELECT", "it is written in an unusual way"))
            return self._finished(reading, scan)
        pushed = self._conditions(block, scan, reading)
        reading.options.update(pushed.options(scan))
        names = self._names(use.select)
        if self._is_alone(use.select):
            if has_aggregates(self._tokens, block):
                self._reduce(reading, block, scan, pushed, names)
            else:
                self._limit(reading, block, scan, pushed)
        elif has_aggregates(self._tokens, block):
            reading.left.append(("aggregates", "the SELECT has other tables too"))
        return self._finished(reading, scan)

    # --- conditions ---

    def _conditions(self, block: Block, scan: Scan, reading: Reading) -> Pushed:
        where = block.clauses.get("where")
        if where is None:
            return Pushed()
        select = self._use.select
        assert select is not None
        names = self._names(select)
        spans = self._tokens.conjuncts(where)
        if self._is_optional(select):
            why = "an outer join may find no row of this table"
            reading.left += [(self._tokens.text_of(span), why) for span in spans]
            return Pushed()
        conjuncts, left = [], []
        for span in spans:
            text = self._tokens.text_of(span)
            made = self._conjunct(span, text, names, scan)
            if isinstance(made, Conjunct):
                conjuncts.append(made)
            else:
                left.append((text, made))
        pushed = push_conditions(scan, conjuncts, self._spark, self._use.alias)
        pushed.left += left
        reading.pushed += [f"{each.text}" for each in pushed.exact]
        reading.pushed += [f"{each.text} (in part)" for each in pushed.weak]
        reading.left += pushed.left
        return pushed

    def _conjunct(
        self, span: Span, text: str, names: Mapping[int, str], scan: Scan
    ) -> Conjunct | str:
        """A condition on columns of this table alone, or why it is none."""
        tokens = self._tokens
        if any(tokens.kind(n) is TokenType.SELECT for n in range(span.first, span.stop)):
            return "it has a query within"
        odd = [name for name, _ in tokens.calls(span) if name not in SCALARS]
        if odd:
            return f"{odd[0]}() may give another answer each time"
        starts = {start for start, at in self._column_tokens() if span.first <= at < span.stop}
        if not starts <= names.keys():
            return "it is about columns of other tables"
        own = frozenset(names[start] for start in starts)
        if not own:
            return "it is about no column"
        if any(name not in scan.coordinates and name not in scan.values for name in own):
            return "it is about a column that is not there"
        return Conjunct(text, self._plain(span), own)

    def _plain(self, span: Span) -> str:
        """A condition without the names of tables before columns."""
        tokens, alias = self._tokens, self._use.alias.lower()
        found, n = [], span.first
        while n < span.stop:
            if tokens.word(n) == alias and tokens.kind(n + 1) is TokenType.DOT:
                n += 2
                continue
            found.append(tokens.text_of(Span(n, n + 1)))
            n += 1
        return " ".join(found)

    def _column_tokens(self) -> Iterator[tuple[int, int]]:
        """Where the columns of the SELECT begin: in the text, and as tokens."""
        select = self._use.select
        assert select is not None
        for column in select.find_all(exp.Column):
            start = column.parts[0].meta.get("start")
            at = None if start is None else self._tokens.at(int(start))
            if at is not None and start is not None:
                yield int(start), at

    def _names(self, select: exp.Select) -> dict[int, str]:
        """The columns that are surely of this table, by where they begin in the text."""
        found = {}
        others = [
            source for source in self._use.scope.sources.values() if source is not self._use.node
        ]
        for column in select.find_all(exp.Column):
            start = column.parts[0].meta.get("start")
            own = self._table.find(column.name)
            if start is None or own is None or len(column.parts) > 2:
                continue
            if column.find_ancestor(exp.Select) is not select:
                continue
            is_named = column.table.lower() == self._use.alias.lower()
            if is_named or (not column.table and not others):
                found[int(start)] = own
        return found

    def _is_alone(self, select: exp.Select) -> bool:
        return (
            not select.args.get("joins")
            and not select.args.get("laterals")
            and len(self._use.scope.sources) == 1
        )

    def _is_optional(self, select: exp.Select) -> bool:
        """Whether rows of this table may be missing from what WHERE looks at."""
        if select.args.get("laterals"):
            return True
        own_side = False
        source = select.args.get("from_") or select.args.get("from")
        is_first = source is not None and source.this is self._use.node
        for join in select.args.get("joins") or ():
            side = str(join.args.get("side") or "").upper()
            kind = str(join.args.get("kind") or "").upper()
            if join.this is self._use.node:
                if side in _OUTER - {"RIGHT"} or kind in ("SEMI", "ANTI"):
                    return True
                own_side = True
                continue
            if (is_first or own_side) and side in ("RIGHT", "FULL"):
                return True
        return not (is_first or own_side)

    # --- aggregates and limits ---

    def _reduce(
        self, reading: Reading, block: Block, scan: Scan, pushed: Pushed, names: Mapping[int, str]
    ) -> None:
        select = self._use.select
        assert select is not None
        if pushed.left or pushed.weak:
            reading.left.append(("aggregates", "tasks cannot apply all conditions"))
            return
        try:
            found = rewrite(self._tokens, block, select, scan, names)
            options = self._aggregate_options(reading.options, found)
            with quiet():
                edits = self._checked(block, scan, found, options)
        except Refusal as refusal:
            reading.left.append(("aggregates", str(refusal)))
            return
        except spark_errors():
            return  # Spark tells what is wrong when it is asked for all
        self.edits += edits
        reading.layout = "aggregates"
        reading.is_one_row = found.is_total and not block.clauses.keys() & {"group by", "having"}
        reading.options = options
        made = ", ".join(
            f"{word}({name})" for name, words in found.wanted.items() for word in sorted(words)
        )
        kept = {axis for name in found.labels for axis in _axes(scan, name)}
        over = ", ".join(axis.name for n, axis in enumerate(scan.axes) if n not in kept)
        reading.pushed.append(f"{made or 'count(*)'} over {over or 'no dimension'}")

    def _aggregate_options(self, options: Mapping[str, str], found: Rewritten) -> dict[str, str]:
        made = {name: value for name, value in options.items() if name != "columns"}
        made["layout"] = "aggregates"
        if found.labels:
            made["columns"] = ", ".join(f"`{name}`" for name in found.labels)
        if found.wanted:
            made["aggregates"] = found.aggregates()
        return made

    def _checked(
        self, block: Block, scan: Scan, found: Rewritten, options: Mapping[str, str]
    ) -> list[Edit]:
        """The edits of a rewritten SELECT, once its columns are those of the original."""
        tokens, spark = self._tokens, self._spark
        plan = self._table.aggregate_scan(options)
        full = _nulls(scan.schema)
        wanted = spark.sql(self._select_text(block, "t", []).format(t=full)).schema
        if found.doubles:
            alias = braced(self._use.alias.replace("`", "``"))
            items = ", ".join(braced(each) for each in found.doubles)
            kinds = spark.sql(f"SELECT {items} FROM {{t}} AS `{alias}`".format(t=full)).schema
            for each, kind in zip(found.doubles, kinds, strict=True):
                if not isinstance(kind.dataType, t.DoubleType):
                    raise Refusal(f"{each} is {kind.dataType.simpleString()}, not double")
        edits = list(found.edits)
        for number in found.unnamed:
            end = tokens.all[block.items[number].stop - 1].end + 1
            name = wanted.names[number].replace("`", "``")
            edits.append((end, end, f" AS `{braced(name)}`"))
        for name, marker in found.shifted.items():
            own = self._table.scan({k: v for k, v in options.items() if k in _ROWS})
            self.shifts[marker] = partial(here.mean_near, own, name)
        made = added(self._select_text(block, "t", edits)).format(t=_nulls(plan.schema))
        for marker in self.shifts:
            made = made.replace(marker, "0.0D")
        got = spark.sql(made).schema
        kinds_of = [field.dataType.simpleString() for field in wanted]
        if [field.dataType.simpleString() for field in got] != kinds_of:
            raise Refusal("its columns would have other types")
        return edits

    def _select_text(self, block: Block, name: str, edits: Sequence[Edit]) -> str:
        """The SELECT alone, with a frame for its table."""
        tokens = self._tokens
        start = tokens.all[block.whole.first].start
        stop = tokens.all[block.whole.stop - 1].end + 1
        own = [*edits, _table_edit(tokens, self._use, name)]
        return replaced(tokens.text[start:stop], [(a - start, b - start, new) for a, b, new in own])

    def _limit(self, reading: Reading, block: Block, scan: Scan, pushed: Pushed) -> None:
        tokens, clauses = self._tokens, block.clauses
        if "limit" not in clauses or not clauses.keys() <= {"where", "limit", "offset"}:
            if "limit" in clauses:
                reading.left.append(("LIMIT", "rows are put in order first"))
            return
        counts = [tokens.text_of(clauses[each]) for each in ("limit", "offset") if each in clauses]
        odd = [name for span in block.items for name in unknown_calls(tokens, span)]
        window = any(
            tokens.kind(n) is TokenType.OVER for s in block.items for n in range(s.first, s.stop)
        )
        if not all(each.isdecimal() for each in counts):
            reading.left.append(("LIMIT", "it is no plain number"))
        elif pushed.left or pushed.weak or pushed.values:
            reading.left.append(("LIMIT", "conditions may leave fewer rows"))
        elif odd or window:
            reading.left.append(
                (
                    "LIMIT",
                    f"{odd[0]}() may change how many rows there are" if odd else "it has a window",
                )
            )
        else:
            wanted = sum(map(int, counts))
            for axis, mask in first_cells(scan, pushed, wanted).items():
                pushed.narrow(axis, mask)
            reading.options.update(pushed.options(scan))
            reading.pushed.append(f"LIMIT {wanted}")

    # --- what it costs ---

    def _finished(self, reading: Reading, scan: Scan) -> Reading:
        limit = here.limit_of(self._spark)
        if reading.layout == "aggregates":
            plan = self._table.aggregate_scan(reading.options)
            own = plan.scan
            grid = here.whole_grid(plan) or plan.grid
            size = here.bytes_to_read(own, grid)
            rows = here.kept_rows(plan, grid)
        else:
            own = self._table.scan(reading.options)
            grid = plan_blocks(own, own.data_columns())
            size = here.bytes_to_read(own, grid)
            rows = here.rows_of(own, grid)
        most = here.MOST_ROWS * (4 if reading.layout == "aggregates" else 1)
        reading.is_here = bool(limit) and size <= limit and rows <= most
        reading.is_one_row = reading.is_one_row and reading.is_here
        for column in own.data_columns():
            assert column.variable is not None
            shape, chunk = column.variable.shape, column.variable.chunks
            counts = [-(-n // c) for n, c in zip(shape, chunk, strict=True)]
            reading.all_chunks += int(np.prod(counts, dtype=np.int64))
            reading.all_bytes += int(np.prod(shape, dtype=np.int64)) * column.variable.itemsize
            touched = 1
            part = 1
            for axis, length, size_ in zip(column.axes, chunk, shape, strict=True):
                blocks = np.asarray(grid.blocks[axis], np.int64)
                starts = blocks * grid.block[axis]
                stops = np.minimum(starts + grid.block[axis], size_)
                hit = np.zeros(-(-size_ // length) + 1, np.int64)
                np.add.at(hit, starts // length, 1)
                np.add.at(hit, (stops - 1) // length + 1, -1)
                touched *= int(np.count_nonzero(np.cumsum(hit)))
                part *= int((stops - starts).sum())
            reading.chunks += touched
            reading.bytes += part * column.variable.itemsize
        return reading


def _nulls(schema: t.StructType) -> str:
    """A table with the columns of a schema, for Spark to say what a query makes of them."""
    columns = (
        f"CAST(NULL AS {each.dataType.simpleString()}) AS `{each.name.replace('`', '``')}`"
        for each in schema
    )
    return f"(SELECT {', '.join(columns)})"


_ROWS: Final = frozenset({"variables", "broadcast", "isel", "value-where"})
"""options that choose rows"""


def _axes(scan: Scan, name: str) -> tuple[int, ...]:
    return (scan.values.get(name) or scan.coordinates[name]).axes


def first_cells(scan: Scan, pushed: Pushed, wanted: int) -> dict[int, Any]:
    """Places along axes that have enough cells between them, in as few chunks as will do."""
    places = {
        axis: np.flatnonzero(pushed.masks[axis]) if axis in pushed.masks else np.arange(size)
        for axis, size in enumerate(scan.shape)
    }
    if not places or any(not len(each) for each in places.values()):
        return {}
    block = plan_blocks(scan, scan.data_columns()).block
    chosen = {}
    for axis, each in places.items():
        first = each[0] // block[axis]
        chosen[axis] = int(np.count_nonzero(each // block[axis] == first))
    for axis in reversed(places):  # more chunks, until there are enough cells
        others = int(np.prod([n for a, n in chosen.items() if a != axis], dtype=np.int64))
        if others * chosen[axis] >= wanted:
            break
        chosen[axis] = min(len(places[axis]), -(-wanted // others))
    for axis in places:  # and fewer of a chunk, where that is more than enough
        others = int(np.prod([n for a, n in chosen.items() if a != axis], dtype=np.int64))
        chosen[axis] = max(1, min(chosen[axis], -(-wanted // others)))
    masks = {}
    for axis, count in chosen.items():
        mask = np.zeros(scan.shape[axis], bool)
        mask[places[axis][:count]] = True
        masks[axis] = mask
    return masks
