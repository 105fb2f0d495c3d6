"""INSERT, CREATE TABLE … AS, UPDATE and DELETE: each is one commit.

A row is a cell: INSERT sets the cells that the labels of its rows name, UPDATE sets those that a
condition chooses, and DELETE lets them be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlglot import TokenType

from frazil.errors import AlreadyExistsError, ErrorKind
from frazil.run import JobReport
from frazil.spark.query.destinations import (
    Destination,
    QueryRows,
    changed_cells,
    column,
    destination,
    full_variables,
    is_cellwise,
    now,
    shared_dims,
    was,
)
from frazil.spark.query.phrases import Phrase
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.sql import Statement, after_first_word, run_statement
from frazil.spark.query.tokens import TokenSpan
from frazil.spark.reading.columns import struct
from frazil.spark.reading.read import FORMAT
from frazil.spark.tasks import local_frame
from frazil.spelling import listed
from frazil.texts import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY: Final = ("select", "with", "from", "values", "table", "(")
_OPTIONS: Final = ("options", "tblproperties")
_VERSIONS: Final = (
    ("version", "as", "of"),
    ("timestamp", "as", "of"),
    ("for", "system_version"),
    ("for", "system_time"),
    ("for", "version"),
    ("for", "timestamp"),
)
_AFTER_CONDITION: Final = frozenset(
    {
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
        TokenType.DISTRIBUTE_BY,
        TokenType.LIMIT,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.SEMICOLON,
    }
)
"""what goes on after the condition of a query, but not of UPDATE and DELETE"""


def insert(statement: Statement) -> DataFrame:
    """`INSERT INTO|OVERWRITE name [WITH (options)] [(columns)|BY NAME] [REPLACE WHERE …] query`."""
    phrase = Phrase(after_first_word(statement))
    overwrite = phrase.accept("overwrite")
    if not overwrite:
        phrase.expect("into")
    phrase.accept("table")
    parts = phrase.name()
    more = phrase.pairs() if phrase.sees("with", "(") and phrase.accept("with") else {}
    by_name = phrase.accept("by", "name")
    names: list[str] | None = None
    if phrase.sees("(") and phrase.tokens.word(phrase.at + 1) not in _QUERY:
        names = [one_word(phrase, span) for span in phrase.items()]
    if phrase.accept("replace", "where"):
        if overwrite:
            raise invalid_query("REPLACE WHERE goes with INSERT INTO")
        more["replaceWhere"] = phrase.until(lambda: any(map(phrase.sees, _QUERY[:-1])))
    if not any(map(phrase.sees, _QUERY)):
        raise phrase.wrong("a query or VALUES")
    where = destination(statement, parts, more)
    if where.is_done:
        return where.answer(JobReport(None, ()))
    rows = where.rows(phrase.rest())
    chosen = _inserted(where, rows.frame, names, by_name=by_name)
    if overwrite:
        _require_all(where, chosen)
    cells = where.cast(chosen, [column(f"_{n}") for n in range(len(chosen))])
    frame = rows.frame.toDF(*[f"_{n}" for n in range(len(chosen))]).select(*cells)
    return where.write(
        QueryRows(frame, rows.readings), overwrite=overwrite or "replaceWhere" in more
    )


def one_word(phrase: Phrase, span: TokenSpan) -> str:
    """The name of a column in a list of them.

    Raises:
        InvalidInputError: it is more than a name.
    """
    if span.stop - span.first != 1:
        raise invalid_query("columns are named with commas between them")
    return phrase.tokens.all[span.first].text


def _inserted(
    where: Destination, frame: DataFrame, names: Sequence[str] | None, *, by_name: bool
) -> list[str]:
    """The columns of the table that those of a query are for."""
    table, given = where.there, frame.columns
    if by_name:
        names = given
    if names is not None:
        if len(names) != len(given):
            raise invalid_query(f"{len(names)} columns are named, and the query has {len(given)}")
        return [table.find(name) or name for name in names]
    own = table.schema(table.chosen(None)).names
    hint = "name those of the query: INSERT INTO table (a, b) SELECT …, or BY NAME"
    if len(own) != len(given):
        raise invalid_query(
            f"the table has {len(own)} columns ({', '.join(own)}), and the query {len(given)}; "
            + hint
        )
    for mine, theirs in zip(own, given, strict=True):
        if (other := table.find(theirs)) is not None and other != mine:
            raise invalid_query(
                f"columns go by their places, and {theirs!r} stands where {mine!r} is in the "
                f"table; {hint}"
            )
    return own


def _require_all(where: Destination, names: Sequence[str]) -> None:
    """Refuse to replace a table by one with fewer variables: those left out would be gone."""
    group = where.there.group
    dims = {dim for name in names if name in group.data_names for dim in group.variables[name].dims}
    lost = [
        name
        for name, each in group.variables.items()
        if name not in names and set(each.dims) & dims
    ]
    if lost:
        raise invalid_query(
            f"INSERT OVERWRITE replaces the table, and {listed(lost)} would be lost; add it, or "
            "replace a part by INSERT INTO … REPLACE WHERE condition query"
        )


def create(statement: Statement) -> DataFrame:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [PARTITIONED BY (dims)] … AS query`."""
    phrase = Phrase(after_first_word(statement))
    is_replaced = phrase.accept("or", "replace")
    if any(phrase.accept(word, "view") for word in ("temp", "temporary")):
        return _create_view(statement, phrase, is_replaced=is_replaced)
    if not phrase.accept("table"):
        raise invalid_query(
            "CREATE makes a TABLE, or a TEMPORARY VIEW, of what is read from a repository"
        )
    skips = phrase.accept("if", "not", "exists")
    parts = phrase.name()
    more: dict[str, str] = {}
    while not phrase.accept("as"):
        if phrase.accept("using"):
            source = phrase.value().lower()
            if source not in (FORMAT, "icechunk"):
                raise invalid_query(f"a table of Frazil cannot be USING {source}")
        elif phrase.accept("partitioned", "by"):
            names = [one_word(phrase, span) for span in phrase.items()]
            more["dims"] = ", ".join(map(backquoted, names))
        elif any(map(phrase.accept, _OPTIONS)):
            more |= phrase.pairs()
        elif phrase.accept("comment"):
            more["message"] = phrase.value()
        else:
            raise phrase.wrong("AS and a query")
    where = destination(statement, parts, more, may_be_new=True)
    there = () if where.table is None else where.table.group.data_names
    if where.is_done or (there and skips):
        return where.answer(JobReport(None, ()))
    if there and not is_replaced:
        raise AlreadyExistsError(
            f"{where.shown!r} is there already, with {listed(there)}; CREATE OR REPLACE TABLE "
            "replaces it, and INSERT INTO adds to it",
            kind=ErrorKind.NODE_ALREADY_EXISTS,
        )
    if not there and where.request.dims is None:
        raise invalid_query(
            "a new table needs to know which columns are dimensions: CREATE TABLE … PARTITIONED "
            "BY (time, lat, lon) AS SELECT …"
        )
    if not there and where.request.if_exists == "write":
        # Nor may another have made it while the rows were read.
        where = replace(where, request=replace(where.request, if_exists="error"))
    return where.write(where.rows(phrase.rest()), overwrite=bool(there))


def _create_view(statement: Statement, phrase: Phrase, *, is_replaced: bool) -> DataFrame:
    name = phrase.value()
    phrase.expect("as")
    if statement.is_explained:
        raise invalid_query("EXPLAIN the query of a view, and not the view")
    found = run_statement(replace(statement, text=phrase.rest()))
    (found.createOrReplaceTempView if is_replaced else found.createTempView)(backquoted(name))
    return local_frame(statement.spark, [(name,)], struct("name string"))


def update(statement: Statement) -> DataFrame:
    """`UPDATE name [AS alias] SET variable = expression, … [WHERE condition]`."""
    phrase = Phrase(after_first_word(statement))
    start = phrase.at
    parts = phrase.name()
    table = _aliased(phrase, start, "set")
    phrase.expect("set")
    where = destination(statement, parts)
    given = assignments(where, phrase, lambda: phrase.sees("where"))
    condition = _condition(phrase)
    dims = shared_dims([where.variable(name) for name in given])
    if where.is_done:
        return where.answer(JobReport(None, ()))
    query = _cells(dims, given, table, condition)
    rows = where.rows(query)
    # Other variables of the condition may have more dimensions, and so several rows for a cell.
    cells = changed_cells(where, rows, dims, [*given], may_repeat=where.has_more(rows, dims))
    return where.write(cells, is_cellwise=is_cellwise(query))


def delete(statement: Statement) -> DataFrame:
    """`DELETE FROM name [AS alias] [WHERE condition]`: the cells become missing."""
    phrase = Phrase(after_first_word(statement))
    phrase.expect("from")
    start = phrase.at
    parts = phrase.name()
    table = _aliased(phrase, start, "where")
    where = destination(statement, parts)
    variables = full_variables(where)
    names, dims = [each.name for each in variables], variables[0].dims
    condition = _condition(phrase)
    if where.is_done:
        return where.answer(JobReport(None, ()))
    query = _cells(dims, dict.fromkeys(names, "NULL"), table, condition)
    cells = changed_cells(where, where.rows(query), dims, names)
    return where.write(cells, is_cellwise=is_cellwise(query))


def _aliased(phrase: Phrase, start: int, end: str) -> str:
    """The text of a table with the name that it has in the statement.

    Raises:
        InvalidInputError: it is said to be of another version, which cannot be written.
    """
    if any(phrase.sees(*words) for words in _VERSIONS):
        raise invalid_query("only a branch can be written, and AS OF names another version")
    if phrase.accept("as") or not (phrase.is_done or phrase.sees(end)):
        phrase.value()
    return phrase.since(start)


def _condition(phrase: Phrase) -> str:
    """`WHERE condition` up to the end, if it is there.

    Raises:
        InvalidInputError: something else is.
    """
    if phrase.is_done:
        return ""
    phrase.expect("where")
    text = phrase.until(lambda: phrase.kind in _AFTER_CONDITION)
    phrase.end()
    return f"WHERE {text}"


def assignments(where: Destination, phrase: Phrase, is_end: Callable[[], bool]) -> dict[str, str]:
    """`variable = expression, …`: the expressions by variable."""
    found: dict[str, str] = {}
    while True:
        name = where.variable(phrase.name()[-1].text).name
        phrase.expect("=")
        text = phrase.until(lambda: phrase.sees(",") or is_end())
        if not text or name in found:
            raise invalid_query(f"{name!r} must be set once, to an expression")
        found[name] = text
        if not phrase.accept(","):
            return found


def _cells(dims: Sequence[str], given: dict[str, str], table: str, condition: str) -> str:
    """The query for cells as they are and as they shall be.

    Naming the variables as they are is what makes their cells the rows.
    """
    items = [backquoted(dim) for dim in dims]
    items += [f"{backquoted(name)} AS {was(n)}" for n, name in enumerate(given)]
    items += [f"({text}) AS {now(n)}" for n, text in enumerate(given.values())]
    return f"SELECT {', '.join(items)} FROM {table} {condition}"
