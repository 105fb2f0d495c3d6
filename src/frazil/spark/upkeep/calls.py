"""Procedures with Iceberg's argument and column names, and all procedures by name.

From Python by `call`, and as table functions once they are registered:
SELECT * FROM frazil_ancestors_of(table => 'URL')

Spark runs a table function when rows are fetched, as often as it likes. So one that changes
something only tells what it would do; `CALL` in `frazil.spark.sql` runs it at once, and once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as t

from frazil.errors import ErrorKind, NotFoundError
from frazil.run import Runner
from frazil.spark.jobs import value_diffs
from frazil.spark.location import location_of
from frazil.spark.tables import repo_tables
from frazil.spark.upkeep import fsck, verbs
from frazil.spark.upkeep.procedure import (
    INT,
    LONG,
    PROCEDURES,
    REQUIRED,
    TEXT,
    TIME,
    ProcedureTarget,
    ResultRow,
    bad_argument,
    columns,
    procedure,
    procedure_named,
)
from frazil.spark.upkeep.verbs import as_time
from frazil.spelling import listed, nearest
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOVED: Final = columns(previous_snapshot_id=TEXT, current_snapshot_id=TEXT)
REF: Final = columns(name=TEXT, type=TEXT, snapshot_id=TEXT)


# --- moving branches: no rows of the table of verbs, as each checks something else before the one
# official method, `reset_branch` ---


def _move(place: ProcedureTarget, to: str) -> list[ResultRow]:
    before = place.repository.lookup_branch(place.branch)
    if before != to:
        place.repository.reset_branch(place.branch, to, from_snapshot_id=before)
    return [(before, to)]


@procedure("point a branch to an ancestor", MOVED, on_branch=True, changes=True)
def rollback_to_snapshot(place: ProcedureTarget, snapshot_id: str) -> list[ResultRow]:
    """Point the branch to one of its ancestors."""
    to = place.repository.resolve(snapshot_id)
    if all(info.id != to for info in place.repository.ancestry(branch=place.branch)):
        raise bad_argument(
            f"snapshot {to} is no ancestor of branch {place.branch!r}; set_current_snapshot "
            "points a branch anywhere"
        )
    return _move(place, to)


@procedure("point a branch to what it was", MOVED, on_branch=True, changes=True)
def rollback_to_timestamp(place: ProcedureTarget, timestamp: datetime | str) -> list[ResultRow]:
    """Point the branch to what it was at a time."""
    when = as_time(timestamp)
    for info in place.repository.ancestry(branch=place.branch):
        if info.written_at <= when:
            return _move(place, info.id)
    raise NotFoundError(
        f"branch {place.branch!r} has no snapshot as early as {when.isoformat()}",
        kind=ErrorKind.NO_SNAPSHOT_AT_TIME,
    )


@procedure("point a branch to any snapshot", MOVED, on_branch=True, changes=True)
def set_current_snapshot(
    place: ProcedureTarget, snapshot_id: str | None = None, ref: str | None = None
) -> list[ResultRow]:
    """Point the branch to any snapshot, or to where another branch or a tag points."""
    if (snapshot_id is None) == (ref is None):
        raise bad_argument("set_current_snapshot needs one of snapshot_id and ref")
    return _move(place, place.repository.resolve(str(snapshot_id or ref)))


# --- branches and tags: no rows of the table of verbs, as the official methods return no report ---


@procedure("make a branch", REF, changes=True)
def create_branch(
    place: ProcedureTarget, branch: str, snapshot_id: str | None = None
) -> list[ResultRow]:
    """Make a branch at a snapshot; at what the URL names by default."""
    at = place.at(snapshot_id)
    place.repository.create_branch(branch, at)
    return [(branch, "BRANCH", at)]


@procedure("make a tag", REF, changes=True)
def create_tag(place: ProcedureTarget, tag: str, snapshot_id: str | None = None) -> list[ResultRow]:
    """Make a tag at a snapshot; at what the URL names by default."""
    at = place.at(snapshot_id)
    place.repository.create_tag(tag, at)
    return [(tag, "TAG", at)]


@procedure("delete a branch", REF, changes=True)
def drop_branch(place: ProcedureTarget, branch: str) -> list[ResultRow]:
    """Delete a branch."""
    at = place.repository.lookup_branch(branch)
    place.repository.delete_branch(branch)
    return [(branch, "BRANCH", at)]


@procedure("delete a tag", REF, changes=True)
def drop_tag(place: ProcedureTarget, tag: str) -> list[ResultRow]:
    """Delete a tag; its name cannot be used again."""
    at = place.repository.lookup_tag(tag)
    place.repository.delete_tag(tag)
    return [(tag, "TAG", at)]


# --- looking: Iceberg's columns are no fields of a report ---


@procedure("a snapshot and its ancestors", columns(snapshot_id=TEXT, timestamp=TIME))
def ancestors_of(place: ProcedureTarget, snapshot_id: str | None = None) -> Iterator[ResultRow]:
    """A snapshot and its ancestors, newest first."""
    at = place.at(snapshot_id)
    return ((info.id, info.written_at) for info in place.repository.ancestry(snapshot_id=at))


@procedure("what commits changed", repo_tables.CHANGES)
def changes(
    place: ProcedureTarget, start_snapshot_id: str | None = None, end_snapshot_id: str | None = None
) -> Iterator[ResultRow]:
    """What commits after a snapshot, up to another, changed."""
    start = None if start_snapshot_id is None else place.at(start_snapshot_id)
    return repo_tables.change_rows(place.repository, start, place.at(end_snapshot_id))


@procedure(
    "what kind of repository this is",
    columns(
        format=TEXT,
        id=TEXT,
        location=TEXT,
        createdAt=TIME,
        lastModified=TIME,
        numSnapshots=LONG,
        numChunks=LONG,
        sizeInBytes=LONG,
        virtualSizeInBytes=LONG,
        properties=t.MapType(TEXT, TEXT),
        specVersion=INT,
    ),
)
def detail(place: ProcedureTarget) -> list[ResultRow]:
    """What kind of repository this is, in one row."""
    repository = place.repository
    history = list(repository.ancestry(snapshot_id=place.snapshot()))
    stats = repository.chunk_storage_stats()
    files = repository.list_manifest_files(history[0].id)
    return [
        (
            "icechunk",
            history[0].id,
            repository.storage.url,
            history[-1].written_at,
            history[0].written_at,
            len(history),
            sum(file.num_chunk_refs for file in files),
            stats.native_bytes + stats.inlined_bytes,
            stats.virtual_bytes,
            list(repo_tables.texts(repository.get_metadata()).items())
            if context_of(repository).generation.repo_object
            else [],
            int(repository.spec_version),
        )
    ]


PREFIX: Final = "frazil_"
# Other procedures make themselves known when their modules are imported.
KNOWN: Final = (verbs, fsck, value_diffs)


def call(
    name: str,
    table: str,
    options: Mapping[str, str] | None,
    *,
    runner: Runner | None = None,
    **arguments: Any,  # noqa: ANN401  (those of the procedure)
) -> list[ResultRow]:
    """Run a procedure and return its rows; `runner` lets others do what it can give away.

    Raises:
        InvalidInputError: there is no such procedure or argument.
    """
    known = procedure_named(name)
    check_names(name, arguments)
    target = location_of(table, options)
    repository = target.location.open()

    def snapshot() -> str:
        return target.snapshot(repository)

    branch = target.branch if known.on_branch else ""
    chosen = {**known.parameters, **arguments}
    return list(known.run(ProcedureTarget(repository, branch, snapshot, runner), **chosen))


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
    for name, known in PROCEDURES.items():
        made: Any = udtf(_handler(name), returnType=known.returns)
        chosen.udtf.register(PREFIX + name, made)


def _handler(name: str) -> type[Any]:
    """The class that Spark runs for a procedure."""

    class Handler:
        def eval(self, *args: Any, **kwargs: Any) -> Iterator[ResultRow]:  # noqa: ANN401  (SQL)
            from frazil.spark.upkeep.calls import call_by_sql

            yield from call_by_sql(name, args, kwargs)

    return Handler


def call_by_sql(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ResultRow]:
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
