"""Procedures by name: from Python by `call`, and as table functions once they are registered.

SELECT * FROM frazil_ancestors_of(table => 'URL')

Spark runs a table function when rows are fetched, as often as it likes. So one that changes
something only tells what it would do; `CALL` in `frazil.spark.sql` runs it at once, and once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from frazil.run import Runner
from frazil.spark.jobs import value_diffs
from frazil.spark.location import location_of
from frazil.spark.upkeep import fsck, procedures, verbs
from frazil.spark.upkeep.procedure import (
    PROCEDURES,
    REQUIRED,
    Place,
    Row,
    bad_argument,
    procedure_named,
)
from frazil.spelling import listed, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = "frazil_"
# The procedures make themselves known when their modules are imported.
KNOWN: Final = (procedures, verbs, fsck, value_diffs)


def call(
    name: str,
    table: str,
    options: Mapping[str, str] | None,
    *,
    runner: Runner | None = None,
    **arguments: Any,  # noqa: ANN401  (those of the procedure)
) -> list[Row]:
    """Run a procedure and return its rows; `runner` lets others do what it can give away.

    Raises:
        InvalidInputError: there is no such procedure or argument.
    """
    procedure = procedure_named(name)
    check_names(name, arguments)
    target = location_of(table, options)
    repository = target.location.open()

    def snapshot() -> str:
        return target.snapshot(repository)

    branch = target.branch if procedure.on_branch else ""
    chosen = {**procedure.parameters, **arguments}
    return list(procedure.run(Place(repository, branch, snapshot, runner), **chosen))


def check_names(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a procedure does not have, and lacking ones.

    Raises:
        InvalidInputError: there is one.
    """
    procedure = procedure_named(name)
    known = ["table", *procedure.parameters, "options"]
    for given in arguments:
        if given not in procedure.parameters:
            raise bad_argument(f"{name} has no argument {given!r}{nearest(given, known)} "
                       f"(there are {', '.join(known)})")  # fmt: skip
    for needed, default in procedure.parameters.items():
        if default is REQUIRED and arguments.get(needed) is None:
            raise bad_argument(f"{name} needs the argument {needed!r}")


# --- as table functions ---


def register(spark: SparkSession | None = None) -> None:
    """Make every procedure a table function of a session, named `frazil_…`.

    The data source itself needs no registration where Frazil is installed.
    """
    from pyspark.sql.functions import udtf

    from frazil.spark.sessions import session

    chosen = spark or session()
    for name, procedure in PROCEDURES.items():
        made: Any = udtf(_handler(name), returnType=procedure.returns)
        chosen.udtf.register(PREFIX + name, made)


def _handler(name: str) -> type[Any]:
    """The class that Spark runs for a procedure."""

    class Handler:
        def eval(self, *args: Any, **kwargs: Any) -> Iterator[Row]:  # noqa: ANN401  (SQL)
            from frazil.spark.upkeep.calls import call_by_sql

            yield from call_by_sql(name, args, kwargs)

    return Handler


def call_by_sql(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    """Run a procedure with the arguments that SQL gave."""
    names = ["table", *procedure_named(name).parameters]
    if len(args) > len(names):
        raise bad_argument(f"{name} takes {len(names)} arguments: {listed(names)}")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    table, options = given.pop("table", None), given.pop("options", None)
    if not isinstance(table, str):
        raise bad_argument(f"{name} needs the argument 'table', the URL of a repository")
    chosen: dict[str, Any] = {k: from_sql(v) for k, v in given.items() if v is not None}
    if procedure_named(name).changes and not chosen.get("dry_run"):
        raise bad_argument(
            f"{name} changes the repository, and Spark may run a table function many times; run "
            f"CALL frazil.system.{name}(…) with frazil.spark.sql, or FrazilTable's method {name}"
        )
    return call(name, table, options, **chosen)


def from_sql(value: object) -> object:
    """Spark hands a TIMESTAMP over in the time zone of the worker."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)
    return value
