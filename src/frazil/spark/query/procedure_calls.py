"""CALL and VACUUM: procedures that run when the statement does, on the driver, and never again."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import TimestampNTZType
from sqlglot import TokenType

from frazil.errors import invalid_option
from frazil.spark.query.names import CATALOG, NamePart, ResolvedName, resolve_name
from frazil.spark.query.phrases import Phrase
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.sql import Statement, after_first_word, run_statement
from frazil.spark.query.tables import open_table
from frazil.spark.query.tokens import TokenSpan
from frazil.spark.table import FrazilTable
from frazil.spark.upkeep.calls import check_names, from_sql
from frazil.spark.upkeep.procedure import procedure_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_URL: Final = re.compile(r"[/:]")


def call_procedure(statement: Statement) -> DataFrame:
    """`CALL frazil.system.NAME(table => 'NAME or URL', …)`.

    Raises:
        InvalidInputError: there is no such procedure or argument.
    """
    phrase = Phrase(after_first_word(statement))
    named = [part.text for part in phrase.name()]
    if len(named) > 2 and named[1].lower() == "system":
        del named[1]
    if len(named) != 2 or named[0].lower() != CATALOG:
        raise invalid_query(
            f"CALL {CATALOG}.system.NAME(table => 'URL', …) is expected, and there is "
            f"{'.'.join(named)}"
        )
    name = named[1].lower()
    given = arguments_of(statement, phrase, ["table", *procedure_named(name).parameters])
    phrase.end()
    table, options = given.pop("table", None), given.pop("options", None)
    if not isinstance(table, str):
        raise invalid_option(f"{name} needs the argument 'table', the name or URL of a repository")
    place = place_in_text(statement, table)
    return run_procedure(statement, place, name, given, dict(options or {}))


def vacuum(statement: Statement) -> DataFrame:
    """`VACUUM frazil.NAME [RETAIN n HOURS] [DRY RUN]`, as Delta has it."""
    phrase = Phrase(after_first_word(statement))
    place = place_of(statement, phrase.name())
    given: dict[str, Any] = {}
    if phrase.accept("retain"):
        hours = phrase.value()
        if not re.fullmatch(r"\d+(\.\d+)?", hours):
            raise invalid_query(f"RETAIN takes a number of hours, and {hours!r} is none")
        phrase.expect("hours")
        given["older_than"] = datetime.now(UTC) - timedelta(hours=float(hours))
    if phrase.accept("dry", "run"):
        given["dry_run"] = True
    phrase.end()
    return run_procedure(statement, place, "vacuum", given)


def analyze_table(statement: Statement) -> DataFrame:
    """`ANALYZE TABLE name COMPUTE STATISTICS [FOR ALL COLUMNS]`, as Spark has it.

    Statistics of chunks are made of a repository, a group or an array.
    """
    phrase = Phrase(after_first_word(statement))
    phrase.expect("table")
    place = place_of(statement, phrase.name())
    phrase.expect("compute", "statistics")
    if phrase.accept("for", "columns"):
        raise invalid_query(
            "name a variable after the table: ANALYZE TABLE name.variable COMPUTE …"
        )
    phrase.accept("for", "all", "columns")
    phrase.end()
    found = open_table(place, statement.options)
    if found.metadata is not None:
        raise invalid_query(f"{found.metadata!r} is a metadata table, which has no chunks")
    return run_procedure(statement, replace(place, below=()), "analyze", {"path": found.node})


def run_procedure(
    statement: Statement,
    place: ResolvedName,
    name: str,
    arguments: dict[str, Any],
    options: dict[str, str] | None = None,
) -> DataFrame:
    """Run a procedure on a repository now, and give its rows."""
    if place.below:
        raise invalid_option(
            f"{name} is about a whole repository, and {'.'.join(place.below)!r} is in one"
        )
    check_names(name, arguments)
    given = {**statement.options, **place.options, **(options or {})}
    table = FrazilTable(statement.spark, place.url, given)
    if name in _SPREAD:
        found: DataFrame = getattr(table, name)(**arguments)
        return found
    return table.call(name, **arguments)


_SPREAD: Final = frozenset({"remove_orphan_files", "vacuum"})
"""procedures that executors help with, where there is much to do"""


def place_of(statement: Statement, parts: tuple[NamePart, ...]) -> ResolvedName:
    """What a name in a statement means.

    Raises:
        InvalidInputError: it is none of Frazil's.
    """
    if parts[0].text.lower() == CATALOG and len(parts) > 1:
        return resolve_name(parts[1:], statement.spark)
    found = statement.local(parts[0].text) if len(parts) == 1 else None
    if found is None:
        shown = ".".join(part.text for part in parts)
        raise invalid_query(f"{shown!r} is no table of Frazil; their names begin with {CATALOG!r}")
    return found


def place_in_text(statement: Statement, text: str) -> ResolvedName:
    """What a text means: a URL, or a name with or without `frazil.` before it."""
    if _URL.search(text):
        return ResolvedName(text)
    phrase = Phrase(text)
    parts = phrase.name()
    phrase.end()
    is_whole = len(parts) > 1 and parts[0].text.lower() == CATALOG
    return resolve_name(parts[1:] if is_whole else parts, statement.spark)


def arguments_of(statement: Statement, phrase: Phrase, names: list[str]) -> dict[str, Any]:
    """The arguments in parentheses, computed by Spark: any expression without columns will do."""
    texts: dict[str, str] = {}
    tokens = phrase.tokens
    for number, span in enumerate(phrase.items()):
        if tokens.kind(span.first + 1) is TokenType.FARROW:
            name, value = tokens.word(span.first), TokenSpan(span.first + 2, span.stop)
        elif number >= len(names):
            raise invalid_option(f"there are {len(names)} arguments: {', '.join(names)}")
        else:
            name, value = names[number], span
        if name in texts:
            raise invalid_option(f"the argument {name!r} is given twice")
        texts[name] = tokens.text_of(value)
    if not texts:
        return {}
    query = ", ".join(f"({text}) AS `{name}`" for name, text in texts.items())
    frame = run_statement(replace(statement, text=f"SELECT {query}"))
    row = frame.first()
    assert row is not None
    plain = {f.name for f in frame.schema if isinstance(f.dataType, TimestampNTZType)}
    return {
        name: value.replace(tzinfo=UTC) if name in plain else from_sql(value)
        for name, value in row.asDict().items()
        if value is not None
    }
