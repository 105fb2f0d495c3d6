"""The SQL page: one query at a time over the tables of one repository, and nothing else.

SELECT alone is not harmless in Spark: it reads files by their path (``csv.`/etc/passwd` ``), calls
methods of Java (`reflect`) and starts programs (`TRANSFORM … USING`). So a query is parsed, all
names in it are checked, and the SQL that runs is written anew from the checked parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from frazil.cli.places import as_prefix
from frazil.errors import ErrorKind, FrazilError, InvalidInputError, SessionStateError
from frazil.masking import safe
from frazil.spark.query.functions import SCALARS
from frazil.urls import parse_url
from frazil.web.asking import Answer, Ask, Page, http_status
from frazil.web.work import BusyError, PendingWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.query.run_query import QueryResult

ROWS: Final = 500
SECONDS: Final = 50.0
"""How long a query may run."""
PATIENCE: Final = 8.0
"""Seconds that a page waits for a query before it says that it is running."""
LENGTH: Final = 20_000
REFUSED: Final = frozenset({"reflect", "java_method", "try_reflect", "identifier"})
"""Functions of Spark that call Java, or make names of texts."""
_JOB: Final = "frazil-explorer"
_running = threading.Lock()


def sql_page(ask: Ask) -> Answer:
    """A form for a query, and the rows that it gives."""
    query = ask.text("q").strip()
    values = {"query": query, "version": ask.version, "rows_at_most": ROWS}
    values |= {"foreign": False, "problem": None}
    empty = {"columns": (), "rows": (), "is_cut": False, "numbers": (), "ran": False}
    if not query:
        return Page("sql.html", {**values, **empty})
    if ask.is_foreign:  # a link of another site may propose a query, and not run it
        return Page("sql.html", {**values, **empty, "foreign": True})
    try:
        explain, checked = checked_query(query)
        found = ask.long(
            ("sql", ask.snapshot_id, checked, explain),
            lambda: _run(ask, checked, explain=explain),
            PATIENCE,
            state=ask.shown.state_key(),
        )
    except FrazilError as error:  # beside the query, which one would like to mend
        problem = safe(str(error))
        return Page("sql.html", {**values, **empty, "problem": problem}, http_status(error))
    if isinstance(found, PendingWork):  # the first one waits for Spark to start
        return Page("working.html", {"what": "Running the query"}, 202)
    shown = {
        "columns": found.columns,
        "numbers": found.are_numbers,
        "rows": list(found.texts(null="NULL")),
        "is_cut": found.is_cut,
        "ran": True,
    }
    return Page("sql.html", {**values, **shown})


def checked_query(query: str) -> tuple[bool, str]:
    """Whether a query is to be explained, and the query as it may be run.

    Raises:
        InvalidInputError: it cannot be read, or is more than a question about this repository.
    """
    from frazil.spark.query.sql import require_sqlglot
    from frazil.spark.sessions import require_pyspark

    require_sqlglot()
    require_pyspark()
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    if len(query) > LENGTH:
        raise _refused(f"it has more than {LENGTH:,} characters")
    first, _, rest = query.partition(" ")
    is_explained = first.lower() == "explain"
    try:
        found = [each for each in parse(rest if is_explained else query, dialect="spark") if each]
    except SqlglotError as error:
        raise _refused(f"it cannot be read: {str(error).splitlines()[0]}") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise _refused("only one SELECT is run here, or EXPLAIN SELECT")
    tree = found[0]
    for hint in [*tree.find_all(exp.Hint)]:
        hint.pop()
    for node in tree.walk():
        match node:
            case exp.Table():
                if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
                    raise _refused(
                        "tables are those of this repository, by their short names: data, "
                        "snapshots, nodes, …"
                    )
            case exp.QueryTransform() | exp.Command() | exp.DDL() | exp.DML():
                if not isinstance(node, exp.Query):
                    raise _refused("only SELECT is run here")
            case exp.Into() | exp.Lock() | exp.Placeholder() | exp.Parameter():
                raise _refused("only SELECT is run here, without INTO and parameters")
            case exp.Func():
                is_odd = isinstance(node, exp.Anonymous)
                name = (node.name if is_odd else node.sql_name()).lower()
                if name in REFUSED or (is_odd and name not in _functions()):
                    raise _refused(f"the function {name} is not allowed here")
    return is_explained, tree.sql(dialect="spark", comments=False)


@cache
def _functions() -> frozenset[str]:
    """Spark's own functions; others are of the session, and may do anything."""
    from pyspark.sql import functions

    return frozenset(functions.__all__) | SCALARS


def _run(ask: Ask, query: str, *, explain: bool) -> QueryResult:
    from frazil.spark.sessions import require_java, session

    require_java()
    from frazil.spark.query.run_query import run_query

    if not _running.acquire(blocking=False):
        raise BusyError("another query is running; one is run at a time")
    try:
        spark = session()
        _only_known_tables(spark)
        shown = ask.shown
        with _bounded(spark):
            return run_query(
                query,
                f"{parse_url(shown.url).url}@{ask.snapshot_id}",
                spark=spark,
                limit=ROWS,
                explain=explain,
                is_closed=True,
                authorize=[as_prefix(word) for word in shown.authorize if shown.knows(word)],
            )
    finally:
        _running.release()


def _only_known_tables(spark: SparkSession) -> None:
    """A name that is no table of the repository must not mean a file."""
    with suppress(Exception):  # a session that we did not start may refuse it
        spark.conf.set("spark.sql.runSQLOnFiles", "false")


@contextmanager
def _bounded(spark: SparkSession) -> Iterator[None]:
    """Cancel the jobs of a query that runs too long."""
    context = spark.sparkContext
    late = threading.Event()

    def cancel() -> None:
        late.set()
        context.cancelJobGroup(_JOB)

    context.setJobGroup(_JOB, "a query of the explorer", interruptOnCancel=True)
    timer = threading.Timer(SECONDS, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise BusyError(f"the query was stopped after {SECONDS:g} s") from error
        raise
    finally:
        timer.cancel()


def _refused(why: str) -> InvalidInputError:
    return InvalidInputError(f"the query is not run: {why}", kind=ErrorKind.INVALID_EXPRESSION)


def sql_off(ask: Ask) -> Answer:
    """What the page says where queries are not allowed."""
    raise SessionStateError("queries are switched off; `frazil serve --sql` allows them")


PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {"sql": sql_page}
OFF: Final[Mapping[str, Callable[[Ask], Answer]]] = {"sql": sql_off}
