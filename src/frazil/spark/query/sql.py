"""`frazil.spark.sql`: queries that name repositories, with what they need of them read and no more.

Spark does not tell a source written in Python which rows, columns and sums a query needs. So the
query is looked at first, each Frazil table in it is read with the options it needs, and Spark
runs the query on what was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import ErrorKind, SessionStateError
from frazil.masking import MaskedRecord, shown_url
from frazil.spark.errors import raise_task_errors
from frazil.spark.options.written import as_text, spelled, storage_texts
from frazil.spark.query.names import CATALOG, ResolvedName
from frazil.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.query.planning import QueryPlan
    from frazil.spark.query.readings import Reading


_BLANK: Final = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_EXPLAIN: Final = re.compile(
    rf"^{_BLANK}*explain({_BLANK}+(extended|formatted|codegen|cost))?(?!\w){_BLANK}*",
    re.IGNORECASE | re.DOTALL,
)

_DOTTED: Final = re.compile(rf"\b{CATALOG}\s*\.", re.IGNORECASE)
_OUR_TABLES: Final = re.compile(
    rf"^\s*show\s+tables\s+(in|from)\s+{CATALOG}\s*;?\s*$", re.IGNORECASE
)
_FEED: Final = re.compile(r"\btable_changes\s*\(", re.IGNORECASE)
_WORD: Final = re.compile(rf"{_BLANK}*(\w+|\()", re.DOTALL)


@dataclass(frozen=True, slots=True, repr=False)
class Statement(MaskedRecord):
    """What is to be run, and where."""

    text: str
    spark: SparkSession
    options: Mapping[str, str] = field(default_factory=dict)
    """of the source, for every Frazil table"""
    local: Callable[[str], ResolvedName | None] = lambda _: None
    """what names without `frazil.` mean, before Spark is asked"""
    has_feeds: bool = True
    """whether `table_changes` means a change feed"""
    is_explained: bool = False
    """whether the answer is only what it would read and write (`EXPLAIN`)"""


Handler: TypeAlias = "Callable[[Statement], DataFrame]"


def sql(
    query: str,
    spark: SparkSession | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401  (those of the data source)
) -> DataFrame:
    """Run SQL that names repositories, beside Spark's own tables.

    ``frazil.`URL[@version][#/group]` `` is a table, and so is `frazil.NAME` after
    `attach(NAME, URL)`. Chunks, columns and dimensions that the query does not need are not read;
    `EXPLAIN SELECT …` tells what is.

    Args:
        query: a query in Spark's SQL.
        spark: the session to use; the active or an embedded one by default.
        storage_options: arguments of the storage, such as `region`.
        options: options of the data source with `_` for `-`, for every Frazil table of the query.

    Raises:
        InvalidInputError: the query cannot be read.
        FrazilError: there is no such repository, version, group or table.
        pyspark.errors.AnalysisException: Spark does not understand the query.
    """
    return run_statement(
        Statement(query, spark or session(), source_options(options, storage_options))
    )


def explain(
    query: str,
    spark: SparkSession | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401  (those of the data source)
) -> str:
    """What of a query the source does, what is left to Spark and why, and how much is read."""
    statement = Statement(query, spark or session(), source_options(options, storage_options))
    return explain_statement(statement)


def source_options(
    options: Mapping[str, Any], storage_options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Options of the source as text."""
    given = {spelled(name): as_text(v) for name, v in options.items() if v is not None}
    return {**storage_texts(storage_options), **given}


# --- kinds of statements ---


def run_statement(statement: Statement) -> DataFrame:
    """Run a statement in the way of its kind."""
    require_sqlglot()
    with raise_task_errors():
        if statement.has_feeds and _FEED.search(statement.text):
            statement = _with_feeds(statement)
        if not names_ours(statement):
            return statement.spark.sql(statement.text)
        handler = _HANDLERS.get(_first_word(statement))
        if handler is None:
            from frazil.spark.query.scopes import invalid_query

            words = ", ".join(word.upper() for word in _HANDLERS if word.isalpha())
            raise invalid_query(
                f"{_first_word(statement).upper()} is not supported for tables of Frazil; what "
                f"begins with one of these words is: {words}"
            )
        return handler(statement)


def _with_feeds(statement: Statement) -> Statement:
    """A statement with views in the place of change feeds."""
    # The words after EXPLAIN are no tokens.
    words = _EXPLAIN.match(statement.text)
    before = words[0] if words else ""
    own = replace(statement, text=statement.text.removeprefix(before))
    return replace(statement, text=f"{before}{_of('feeds', 'with_feeds')(own)}")


def _query(statement: Statement) -> DataFrame:
    return plan_of(statement).run(statement.spark)


def _of(module: str, function: str) -> Callable[[Statement], Any]:
    """A function of a module of this package, imported when it is needed."""
    found: Callable[[Statement], Any] = getattr(import_module(f"{__package__}.{module}"), function)
    return found


def _by(module: str, function: str) -> Handler:
    """What another module does."""

    def handler(statement: Statement) -> DataFrame:
        found: DataFrame = _of(module, function)(statement)
        return found

    return handler


def _table(statement: Statement) -> DataFrame:
    """`TABLE name`, which is short for a SELECT."""
    return _query(replace(statement, text=f"SELECT * FROM {_after_words(statement, 'table')}"))


def _describe(statement: Statement) -> DataFrame:
    """`DESCRIBE name`: its columns and their types; DETAIL and HISTORY of it as Delta has them."""
    own = replace(statement, text=_after_words(statement, "describe", "desc"))
    if (word := _first_word(own)) in ("detail", "history"):
        return _by("refs", f"describe_{word}")(replace(own, text=_after_words(own, word)))
    name = _after_words(statement, "describe", "desc", "table", "extended")
    plan = plan_of(replace(statement, text=f"SELECT * FROM {name}"))
    (reading,) = plan.readings
    rows = [
        (f.name, f.dataType.simpleString(), None) for f in reading.table.schema(reading.request)
    ]
    return statement.spark.createDataFrame(
        rows, "col_name string, data_type string, comment string"
    )


def _after_words(statement: Statement, *words: str) -> str:
    """The text of a statement after its first words."""
    from frazil.spark.query.tokens import Tokens

    tokens = Tokens(statement.text)
    at = 0
    while tokens.word(at) in words:
        at += 1
    return statement.text[tokens.all[at].start :] if at < len(tokens) else ""


def _explain(statement: Statement) -> DataFrame:
    found = explain_statement(statement)
    return statement.spark.createDataFrame([(found,)], "plan string")


_HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("select", "with", "from", "values", "("), _query),
    "table": _table,
    "describe": _describe,
    "desc": _describe,
    "explain": _explain,
    "show": _by("refs", "show"),
    "alter": _by("refs", "alter_table"),
    "call": _by("procedure_calls", "call_procedure"),
    "vacuum": _by("procedure_calls", "vacuum"),
    "analyze": _by("procedure_calls", "analyze_table"),
    "insert": _by("changing", "insert"),
    "create": _by("changing", "create"),
    "update": _by("changing", "update"),
    "delete": _by("changing", "delete"),
    "merge": _by("merging", "merge_into"),
}
"""what is done, by the first word of a statement"""
_WRITING: Final = ("insert", "create", "update", "delete", "merge")
_QUERIES: Final = ("select", "with", "from", "values", "(", "table")


def plan_of(statement: Statement) -> QueryPlan:
    """How a query is run."""
    from frazil.spark.query.planning import Planner

    return Planner(statement.spark, statement.options, statement.local).plan(statement.text)


def require_sqlglot() -> None:
    """Check that the parser of SQL is there.

    Raises:
        SessionStateError: it is not.
    """
    if find_spec("sqlglot") is None:
        raise SessionStateError(
            "sqlglot is not installed: pip install 'frazil[spark]'",
            kind=ErrorKind.SPARK_UNAVAILABLE,
        )


def names_ours(statement: Statement) -> bool:
    """Whether a statement may name a Frazil table; what Spark alone reads need not be readable."""
    from sqlglot import TokenType
    from sqlglot.errors import TokenError

    from frazil.spark.query.tokens import Tokens

    text = _EXPLAIN.sub("", statement.text)
    try:
        tokens = Tokens(text)
    except TokenError:
        return CATALOG in text.lower()
    if tokens.kind(0) in (TokenType.COMMAND, TokenType.SHOW):  # its words are no tokens
        return _DOTTED.search(text) is not None or _OUR_TABLES.search(text) is not None
    for number in range(len(tokens)):
        word = tokens.word(number)
        if word == CATALOG and tokens.kind(number + 1) is TokenType.DOT:
            return True
        if statement.local(word) is not None:
            return True
    return False


def _first_word(statement: Statement) -> str:
    found = _WORD.match(statement.text)
    return found[1].lower() if found else ""


def after_first_word(statement: Statement) -> str:
    """What a statement says after its first word."""
    found = _WORD.match(statement.text)
    return statement.text[found.end() :] if found else ""


# --- EXPLAIN ---

NO_TABLE: Final = "no Frazil table is read; Spark runs the query as it is"


def explain_statement(statement: Statement) -> str:
    """The report on a query, with Spark's plan of the rest; what writes is not done.

    Raises:
        InvalidInputError: it is something else.
    """
    own = replace(statement, text=_EXPLAIN.sub("", statement.text), is_explained=True)
    word = _first_word(own)
    if word in _WRITING:
        row = _HANDLERS[word](own).first()
        return str(row[0]) if row else ""
    if word not in _QUERIES:
        from frazil.spark.query.scopes import invalid_query

        raise invalid_query(
            f"EXPLAIN tells what queries read and what statements write, and {word.upper()} is "
            "neither"
        )
    query = f"SELECT * FROM {_after_words(own, 'table')}" if word == "table" else own.text
    plan = plan_of(replace(own, text=query))
    lines = [line for reading in plan.readings for line in report_lines(reading)]
    lines = lines or [NO_TABLE]
    words = _EXPLAIN.match(statement.text)
    if words is not None and words[2]:
        lines += ["", plan.explained(statement.spark, words[2].upper())]
    return "\n".join(lines)


def report_lines(reading: Reading) -> list[str]:
    """What is read of a table, and how."""
    table = reading.table
    what = table.metadata or reading.layout
    found = [
        f"{table.shown} at {shown_url(table.pinned.location.url)}",
        f"  snapshot: {table.pinned.snapshot_id}, group: {table.node}, rows: {what}",
    ]
    if reading.request.columns is not None:
        found.append(f"  columns: {', '.join(reading.request.columns)}")
    found += [f"  pushed: {each}" for each in reading.pushed]
    found += [f"  left to Spark: {what} ({why})" for what, why in reading.left]
    if table.metadata is None:
        cost = reading.cost()
        found.append(
            f"  to read: {cost.chunks} of {cost.all_chunks} chunks, "
            f"{cost.stored_bytes:,} bytes as they are stored, "
            f"{cost.bytes:,} of {cost.all_bytes:,} bytes when decoded, "
            f"{reading.rows:,} rows at most"
        )
        if cost.spared:
            how = "answered from" if reading.is_answered else "ruled out by"
            found.append(f"  {how} statistics: {cost.spared} chunks")
        found.append(f"  read by: {'this process' if reading.is_here else 'tasks of Spark'}")
    return found
