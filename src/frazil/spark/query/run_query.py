"""SQL on one repository: its variables and metadata tables as views of short names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from math import prod
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.spark import tasks
from frazil.spark.errors import in_one_sentence, raise_task_errors, without_pyspark_logging
from frazil.spark.location import open_pinned
from frazil.spark.query.names import ResolvedName
from frazil.spark.query.sql import Statement, explain_statement, run_statement, source_options
from frazil.spark.reading.read import read
from frazil.spark.reading.variables import load_group, with_texts
from frazil.spark.sessions import session as spark_session
from frazil.spark.tables.metadata import TABLES
from frazil.spark.tasks import Options
from frazil.spark.tuning import FEW_CELLS
from frazil.spelling import nearest
from frazil.texts import json_float

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

DATA: Final = "data"
Views: TypeAlias = dict[str, tuple[str, dict[str, Any]]]
"""What to read each view from, and with which options."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """The views of a repository, and how many cells the arrays of the group have."""

    views: Views
    cells: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, as Python values."""

    columns: tuple[str, ...]
    are_numbers: tuple[bool, ...]
    rows: Sequence[tuple[Any, ...]]
    is_cut: bool
    """whether there were more"""

    def plain(self) -> list[dict[str, Any]]:
        """The rows as JSON can hold them."""
        return [dict(zip(self.labels, map(_plain, row), strict=True)) for row in self.rows]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns, each another one: `n` and `n_2` where two are called `n`."""
        return _distinct(self.columns)

    def texts(self, *, null: str) -> Iterator[list[str]]:
        """The rows as text."""
        for row in self.rows:
            yield [null if value is None else _text(value) for value in row]


def run_query(
    query: str,
    url: str | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    group: str | None = None,
    limit: int = 0,
    explain: bool = False,
    is_closed: bool = False,
    short_lived: bool = False,
    authorize: Iterable[str] = (),
    options: Options | None = None,
) -> QueryResult:
    """Run SQL on a repository and fetch the rows.

    Args:
        query: what to select; see `register_views` for the names of tables, beside which those
            of `frazil.spark.sql` mean the same here.
        url: `URL[@version]`.
        spark: the session to use; the active or an embedded one by default.
        master: where that one is to run.
        group: the group whose variables are views; the root by default.
        limit: fetch at most so many rows; 0 fetches all.
        explain: give the lines of the report on the query instead of its rows.
        is_closed: refuse all tables that are not views of the repository.
        short_lived: whether a session that is started for this query is used for no other one.
        authorize: prefixes of virtual chunk containers that may be read.
        options: options of the data source, such as `storage.region`.

    Raises:
        InvalidInputError: Spark does not understand the query, or it names other tables.
        FrazilError: what reading the repository failed with.
    """
    given = dict(options or {})
    if prefixes := [*authorize]:
        given["authorize-virtual-chunk-access"] = prefixes
    # What is not there is noticed before Spark starts.
    sources = None if url is None else _sources(url, group, given)
    views = {} if sources is None else sources.views
    if is_closed:
        _require_views(query, views)
    is_small = sources is not None and sources.cells <= FEW_CELLS
    with _importing_meanwhile("frazil.spark.query.planning"):
        chosen = spark or spark_session(master, short_lived=short_lived and is_small)
    local, feeds = _local(views), not is_closed
    statement = Statement(query, chosen, source_options(given), local, has_feeds=feeds)
    return _result(statement, views, limit, explain=explain)


@contextmanager
def _importing_meanwhile(module: str) -> Iterator[None]:
    """Import a module, which is needed afterwards, while Java starts: a third of a second."""

    def load() -> None:
        with suppress(ImportError):  # told where it is used
            import_module(module)

    thread = Thread(target=load, daemon=True)
    thread.start()
    yield
    thread.join()


def _result(statement: Statement, views: Views, limit: int, *, explain: bool) -> QueryResult:
    """Run or explain a statement and fetch rows, with the names of views where it is wrong."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        with raise_task_errors(), without_pyspark_logging():
            if explain:
                text = explain_statement(statement)
                lines = [(line,) for line in text.splitlines()]
                return QueryResult(("plan",), (False,), lines, False)
            frame = run_statement(statement)
            schema = frame.schema
            rows = _fetched(frame, limit)
    except (AnalysisException, ParseException) as error:
        tables = f"; views are {', '.join(sorted(views))}" if views else ""
        raise InvalidInputError(
            f"{in_one_sentence(error)}{tables}",
            kind=ErrorKind.INVALID_EXPRESSION,
        ) from error
    is_cut = bool(limit) and len(rows) > limit
    kept = [tuple(row) for row in (rows[:limit] if limit else rows)]
    are_numbers = tuple(field.dataType.typeName() in _NUMBERS for field in schema.fields)
    return QueryResult(tuple(schema.names), are_numbers, kept, is_cut)


def _fetched(frame: DataFrame, limit: int) -> list[Row]:
    """The rows of a frame, and one more than asked for where there is one."""
    return (frame.limit(limit + 1) if limit else frame).collect()


_NUMBERS: Final = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "decimal", "tinyint", "smallint",
     "int", "bigint"}
)  # fmt: skip


def register_views(
    spark: SparkSession,
    url: str,
    *,
    group: str | None = None,
    options: Options | None = None,
) -> list[str]:
    """Make temporary views of a repository, and tell their names.

    `data` has the cells of the group's data variables, where these share dimensions. Every array
    of the group is a view of its own name, and every metadata table (`snapshots`, `chunks`, …)
    too; an array of such a name wins.

    Raises:
        InvalidInputError: the data variables do not share dimensions.
    """
    views = _sources(url, group, options).views
    for name, frame in _frames(spark, views, options or {}, views).items():
        frame.createOrReplaceTempView(f"`{name}`")
    return sorted(views)


def _frames(
    spark: SparkSession, views: Views, options: Options, names: Iterable[str]
) -> dict[str, DataFrame]:
    """What those views show that have one of the names; each of them takes a moment."""
    wanted = {name.lower() for name in names}
    return {
        name: read(place, spark=spark, **{**options, **more})
        for name, (place, more) in views.items()
        if name.lower() in wanted
    }


def _sources(url: str, group: str | None, options: Options | None) -> _Sources:
    """What tables there are: the place and options to read each of them with."""
    target = tasks.target_of(url, options)
    repository = target.location.open()
    session = open_pinned(target.pin(repository), repository)
    place, _, node = url.partition("#/")
    top = tasks.path_of(group if group is not None else node, "")
    inside = {} if top == "/" else {"group": top}
    found: Views = {name: (f"{place}#{name}", {}) for name in TABLES}
    contents = with_texts(load_group(session, top)[0])
    if contents.data_names:
        found[DATA] = (place, inside)
    for name in contents.variables:
        found[name] = (place, {**inside, "variables": [name]})
    return _Sources(found, sum(prod(each.shape) for each in contents.variables.values()))


def _require_views(query: str, views: Views) -> None:
    from frazil.spark.query.scopes import invalid_query, outer_tables, parse_query

    known = {name.lower() for name in views}
    for name in outer_tables(parse_query(query)):
        if name.lower() not in known:
            raise invalid_query(
                f"there is no table {name!r} in the repository{nearest(name, views)}; there are "
                f"{', '.join(sorted(views))}"
            )


def _local(views: Views) -> Callable[[str], ResolvedName | None]:
    """Names of views as `frazil.spark.sql` takes them."""
    by_name = {name.lower(): name for name in views}

    def local(name: str) -> ResolvedName | None:
        own = by_name.get(name.lower())
        if own is None:
            return None
        place, more = views[own]
        below = [part for part in str(more.get("group", "")).split("/") if part]
        return ResolvedName(place, {}, (*below, *more.get("variables", ())))

    return local


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, with a number after those that were there before."""
    found: list[str] = []
    for name in names:
        label, number = name, 1
        while label in found or (number > 1 and label in names):
            number += 1
            label = f"{name}_{number}"
        found.append(label)
    return tuple(found)


def _plain(value: object) -> object:
    match value:
        case float():
            return json_float(value)  # as in Spark's own JSON; null would be NULL
        case bytes() | bytearray():
            return base64.b64encode(bytes(value)).decode()
        case datetime() | date():
            return value.isoformat()
        case timedelta() | Decimal():
            return str(value)
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case tuple() | list():
            fields = getattr(value, "__fields__", None)
            if fields is not None:
                return dict(zip(_distinct(fields), map(_plain, value), strict=True))
            return [_plain(each) for each in value]
        case _:
            return value


def _text(value: object) -> str:
    match value:
        case float():
            return f"{value:.10g}"
        case bytes() | bytearray():
            return bytes(value).hex()
        case _:
            return str(value)
