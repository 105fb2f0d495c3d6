"""`table_changes('NAME or URL', from[, to])` in a query: the change feed of a repository."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import InvalidInputError
from frazil.spark.query.phrases import Phrase
from frazil.spark.query.procedure_calls import arguments_of, place_in_text
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.tables import open_table
from frazil.spark.reading.changes import LATEST
from frazil.spark.reading.read import read

if TYPE_CHECKING:
    from frazil.spark.query.sql import Statement

FUNCTION: Final = "table_changes"
_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ARGUMENTS: Final = ["table", "start", "end"]


def with_feeds(statement: Statement) -> str:
    """The text of a statement with views in the place of change feeds.

    Raises:
        InvalidInputError: the arguments are not as they must be.
        FrazilError: there is no such snapshot.
    """
    phrase, at = Phrase(statement.text), 0
    found: list[str] = []
    tokens = phrase.tokens
    for number in range(len(tokens) - 1):
        if tokens.word(number) != FUNCTION or tokens.word(number + 1) != "(":
            continue
        phrase.at = number + 1
        given = arguments_of(statement, phrase, _ARGUMENTS)
        view = _view(statement, given)
        if view is not None:
            found += [statement.text[at : tokens.all[number].start], view]
            at = tokens.all[phrase.at - 1].end + 1
    return "".join([*found, statement.text[at:]])


def _view(statement: Statement, arguments: dict[str, object]) -> str | None:
    """The name of the view with a feed; None for a table that is not of Frazil."""
    table, start, end = (arguments.get(name) for name in _ARGUMENTS)
    if not isinstance(table, str):
        raise invalid_query(f"{FUNCTION} takes the name or URL of a repository first")
    try:
        place = place_in_text(statement, table)
    except InvalidInputError:
        return None
    options = {**statement.options, **_since(start), "readChangeFeed": "true"}
    if end is not None:
        options["endingVersion"] = str(end)
    opened = open_table(place, {})
    repository = opened.target.location.open()
    for named in (start, end):
        if isinstance(named, str) and named != LATEST:
            repository.resolve(named)  # now, and not when the rows are asked for
    given: dict[str, Any] = {**opened.source_options(opened.request), **options}
    frame = read(opened.path, spark=statement.spark, **given)
    key = repr((opened.path, sorted(options.items())))
    name = f"__frazil_changes_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    frame.createOrReplaceTempView(name)
    return name


def _since(start: object) -> dict[str, str]:
    match start:
        case datetime():
            return {"startingTimestamp": start.isoformat()}
        case str():
            return {"startingVersion": start}
        case 0:
            return {"startingTimestamp": _ALL.isoformat()}
        case _:
            raise invalid_query(
                f"{FUNCTION} takes the first snapshot whose changes count: its id, a branch or "
                "tag, a TIMESTAMP, or 0 for all"
            )
