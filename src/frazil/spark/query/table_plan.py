"""How one table of a query is read: which conditions, sums and limits the source takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t
from sqlglot import TokenType, exp

from frazil.spark.errors import spark_errors, without_pyspark_logging
from frazil.spark.options.table import ReadRequest
from frazil.spark.query import here
from frazil.spark.query.beside import ELSEWHERE, NOWHERE, WhereParts, require_joinable
from frazil.spark.query.classes import terms_of
from frazil.spark.query.conditions import Conjunct, Pushed, push_conditions
from frazil.spark.query.formulas import RewrittenSelect, added
from frazil.spark.query.functions import SCALARS
from frazil.spark.query.linear import Refusal
from frazil.spark.query.readings import Reading, first_cells
from frazil.spark.query.rewriting import Where, has_aggregates, plain_names, rewrite, unknown_calls
from frazil.spark.query.scopes import TableUse
from frazil.spark.query.table_texts import null_table, table_edit
from frazil.spark.query.tables import OpenTable
from frazil.spark.query.tokens import Block, TextEdit, Tokens, TokenSpan, braced, replaced
from frazil.spark.reading.scan import AGGREGATES, Scan
from frazil.texts import backquoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OUTER: Final = frozenset({"LEFT", "RIGHT", "FULL"})


class TablePlan:
    """Works out how one table of a query is read."""

    def __init__(
        self,
        spark: SparkSession,
        tokens: Tokens,
        use: TableUse,
        table: OpenTable,
        *,
        is_single: bool = True,
    ) -> None:
        self._is_single = is_single
        """whether its SELECT has no other table of Frazil"""
        self._where = WhereParts([], {})
        self._spark = spark
        self._tokens = tokens
        self._use = use
        self._table = table
        self.edits: list[TextEdit] = []
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
            return reading.measure(self._spark)
        if use.is_renamed:
            reading.left.append(("the whole SELECT", "it gives the columns other names"))
            return reading.measure(self._spark)
        pushed = self._conditions(block, scan, reading)
        reading.request = pushed.applied(reading.request, scan)
        names = self._names(use.select)
        if self._is_alone(use.select):
            if has_aggregates(self._tokens, block):
                self._reduce(reading, block, scan, pushed, names)
            else:
                self._limit(reading, block, scan, pushed)
        elif has_aggregates(self._tokens, block):
            self._reduce(reading, block, scan, pushed, names, is_beside=True)
        return reading.measure(self._spark, self._use.alias)

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
            self._where.left.update(dict.fromkeys(spans, why))
            return Pushed()
        made = [self._conjunct(span, self._tokens.text_of(span), names, scan) for span in spans]
        whole = [each for each in made if isinstance(each, Conjunct)]
        pushed = push_conditions(scan, whole, self._spark, self._use.alias)
        for each, span in zip(made, spans, strict=True):
            if isinstance(each, str):
                pushed.left.append((self._tokens.text_of(span), each))
                self._where.left[span] = each
            elif any(each is one for one in pushed.exact):
                self._where.applied.append(span)
            else:
                self._where.left[span] = "it looks at cells"
        reading.pushed += [f"{each.text}" for each in pushed.exact]
        reading.pushed += [f"{each.text} (in part)" for each in pushed.weak]
        reading.left += pushed.left
        return pushed

    def _conjunct(
        self, span: TokenSpan, text: str, names: Mapping[int, str], scan: Scan
    ) -> Conjunct | str:
        """A condition that uses only columns of this table, or the reason why it is not one."""
        tokens = self._tokens
        if any(tokens.kind(n) is TokenType.SELECT for n in range(span.first, span.stop)):
            return "it has a query within"
        odd = [name for name, _ in tokens.calls(span) if name not in SCALARS]
        if odd:
            return f"{odd[0]}() may give another answer each time"
        starts = {start for start, at in self._column_tokens() if span.first <= at < span.stop}
        if not starts <= names.keys():
            return ELSEWHERE
        own = frozenset(names[start] for start in starts)
        if not own:
            return NOWHERE
        if any(name not in scan.coordinates and name not in scan.values for name in own):
            return "it is about a column that is not there"
        return Conjunct(text, self._plain(span), own)

    def _plain(self, span: TokenSpan) -> str:
        """A condition without the names of tables before columns."""
        tokens, alias = self._tokens, self._use.alias.lower()
        found, n = [], span.first
        while n < span.stop:
            if tokens.word(n) == alias and tokens.kind(n + 1) is TokenType.DOT:
                n += 2
                continue
            found.append(tokens.text_of(TokenSpan(n, n + 1)))
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
        others = [source for source in self._use.sources if source is not self._use.node]
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
            and len(self._use.sources) == 1
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
        self,
        reading: Reading,
        block: Block,
        scan: Scan,
        pushed: Pushed,
        names: Mapping[int, str],
        *,
        is_beside: bool = False,
    ) -> None:
        select = self._use.select
        assert select is not None
        try:
            where = self._left_conditions(block, pushed, is_beside=is_beside)
            is_apart = scan.is_separable and not pushed.values and not is_beside
            found = rewrite(
                self._tokens, block, select, scan, names, self._use.alias,
                is_apart=is_apart, where=where,
            )  # fmt: skip
            request = self._aggregated(reading.request, found)
            with without_pyspark_logging():
                edits = self._checked(block, scan, found, request)
        except Refusal as refusal:
            reading.left.append(("aggregates", str(refusal)))
            return
        except spark_errors():
            return  # Spark tells what is wrong when it is asked for all
        self.edits += edits
        reading.layout = AGGREGATES
        reading.is_apart = found.is_apart
        is_whole = found.is_total and not is_beside
        reading.is_one_row = is_whole and not block.clauses.keys() & {"group by", "having"}
        reading.request = request
        made = ", ".join(
            f"{word}({name})" for name, words in found.wanted.items() for word in sorted(words)
        )
        if found.is_apart:
            reading.pushed.append(f"count(*), extremes of {', '.join(sorted(found.labels))}")
            return
        if not is_beside:
            reading.terms = terms_of(self._tokens, scan, names, found.mentioned)
        kept = {axis for name in found.labels for axis in _axes(scan, name)}
        over = ", ".join(axis.name for n, axis in enumerate(scan.axes) if n not in kept)
        reading.pushed.append(f"{made or 'count(*)'} over {over or 'no dimension'}")

    def _left_conditions(self, block: Block, pushed: Pushed, *, is_beside: bool) -> Where | None:
        """Which conditions stay for Spark; None for none.

        Raises:
            Refusal: it must see the cells.
        """
        if not is_beside:
            if pushed.left or pushed.weak:
                raise Refusal("tasks cannot apply all conditions")
            return None
        if not self._is_single:
            raise Refusal("the SELECT has another table of Frazil")
        require_joinable(self._tokens, block, self._use, self._table)
        return self._where.beside_joins()

    def _aggregated(self, request: ReadRequest, found: RewrittenSelect) -> ReadRequest:
        """A request for aggregates instead of cells."""
        own = self._table.request
        return replace(
            request,
            layout=AGGREGATES,
            columns=tuple(found.labels) or own.columns,
            aggregates=found.aggregates() if found.wanted else own.aggregates,
        )

    def _of_cells(self, request: ReadRequest) -> ReadRequest:
        """A request for the cells that aggregates are made of."""
        own = self._table.request
        return replace(request, layout=own.layout, columns=own.columns, aggregates=own.aggregates)

    def _checked(
        self, block: Block, scan: Scan, found: RewrittenSelect, request: ReadRequest
    ) -> list[TextEdit]:
        """The edits of a rewritten SELECT, once its columns are those of the original.

        Raises:
            Refusal: they would be others.
        """
        names = plain_names(self._tokens, block, scan)
        if names is not None and found.is_total and not block.clauses.keys() - {"where"}:
            return self._named(block, found, names)
        full = null_table(scan.schema)
        asked = [self._select_text(block, "t", []).format(t=full)]
        if found.doubles:
            items = ", ".join(braced(each) for each in found.doubles)
            asked.append(
                f"SELECT {items} FROM {self._part_text(block.sources, 't')}".format(t=full)
            )
        reduced = null_table(self._table.aggregate_scan(request).schema)
        count = len(block.items)
        try:
            # Each analysis is a few calls of Java, and takes longer than most reads.
            fields = self._fields(self._made_text(block, found, found.edits, reduced), *asked)
            got, wanted, doubles = fields[:count], fields[count : 2 * count], fields[2 * count :]
            edits = self._named(block, found, [each.name for each in wanted])
        except spark_errors():  # it may be about the name of a column that has none yet
            fields = self._fields(*asked)
            wanted, doubles = fields[:count], fields[count:]
            edits = self._named(block, found, [each.name for each in wanted])
            got = self._fields(self._made_text(block, found, edits, reduced))
        if not len(got) == len(wanted) == count or len(doubles) != len(found.doubles):
            raise Refusal("its columns cannot be told apart")
        for each, kind in zip(found.doubles, doubles, strict=True):
            if not isinstance(kind.dataType, t.DoubleType):
                raise Refusal(f"{each} is {kind.dataType.simpleString()}, not double")
        if [*map(_kind, got)] != [*map(_kind, wanted)]:
            raise Refusal("its columns would have other types")
        for name, marker in found.shifted.items():
            own = self._table.scan(self._of_cells(request))
            self.shifts[marker] = partial(here.mean_near, own, name)
        return edits

    def _fields(self, *queries: str) -> list[t.StructField]:
        """The columns of queries, one after the other."""
        if len(queries) == 1:
            return self._spark.sql(queries[0]).schema.fields
        beside = " CROSS JOIN ".join(f"({query})" for query in queries)
        return self._spark.sql(f"SELECT * FROM {beside}").schema.fields

    def _named(self, block: Block, found: RewrittenSelect, names: Sequence[str]) -> list[TextEdit]:
        """The edits of a rewritten SELECT, with the names that columns had."""
        edits = list(found.edits)
        for number in found.unnamed:
            end = self._tokens.all[block.items[number].stop - 1].end + 1
            edits.append((end, end, f" AS {braced(backquoted(names[number]))}"))
        return edits

    def _made_text(
        self, block: Block, found: RewrittenSelect, edits: Sequence[TextEdit], table: str
    ) -> str:
        """A rewritten SELECT on a table."""
        made = added(self._select_text(block, "t", edits)).format(t=table)
        for marker in found.shifted.values():
            made = made.replace(marker, "0.0D")
        return made

    def _select_text(self, block: Block, name: str, edits: Sequence[TextEdit]) -> str:
        """The SELECT alone, with a frame for its table."""
        return self._part_text(block.whole, name, edits)

    def _part_text(self, span: TokenSpan, name: str, edits: Sequence[TextEdit] = ()) -> str:
        tokens = self._tokens
        start = tokens.all[span.first].start
        stop = tokens.all[span.stop - 1].end + 1
        own = [*edits, table_edit(tokens, self._use, name)]
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
        elif pushed.left or pushed.weak or pushed.values or scan.condition is not None:
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
            for axis, places in first_cells(scan, pushed.places, wanted).items():
                pushed.narrow(axis, places)
            reading.request = pushed.applied(reading.request, scan)
            reading.pushed.append(f"LIMIT {wanted}")


def _kind(each: t.StructField) -> str:
    return each.dataType.simpleString()


def _axes(scan: Scan, name: str) -> tuple[int, ...]:
    return (scan.values.get(name) or scan.coordinates[name]).axes
