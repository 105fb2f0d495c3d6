"""Procedures on repositories, with Iceberg's argument and column names.

Each is a plain function from a repository to rows. `FrazilTable` calls them; `register` makes
them table functions: `SELECT * FROM frazil_expire_snapshots(table => 'URL', dry_run => true)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import types as t

from frazil.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError
from frazil.maintenance.expire import plan_expiry
from frazil.maintenance.garbage import list_phases, plan_collection
from frazil.maintenance.listing import Objects
from frazil.maintenance.walk import WalkLimits
from frazil.repository import Repository
from frazil.spark import repo_tables
from frazil.spark.location import location_of
from frazil.spark.options import moment, nearest
from frazil.spark.variables import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row: TypeAlias = tuple[Any, ...]

PREFIX: Final = "frazil_"
EXPIRE_AGE: Final = timedelta(days=5)
ORPHAN_AGE: Final = timedelta(days=3)
REQUIRED: Final = object()
"""the default of a parameter that must be given"""

_TEXT: Final = t.StringType()
_LONG: Final = t.LongType()
_INT: Final = t.IntegerType()


def _struct(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


_MOVED: Final = _struct(previous_snapshot_id=_TEXT, current_snapshot_id=_TEXT)
_REF: Final = _struct(name=_TEXT, type=_TEXT, snapshot_id=_TEXT)


@dataclass(frozen=True, slots=True)
class Place:
    """The repository that a procedure works on, and the branch that the URL named."""

    repository: Repository
    branch: str
    snapshot: Callable[[], str]
    """the snapshot that the URL means"""


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure: its parameters after `table`, its columns, and what it does."""

    parameters: Mapping[str, Any]
    """with their defaults"""
    returns: t.StructType
    run: Callable[..., Iterable[Row]]
    meaning: str


def call(name: str, table: str, options: Mapping[str, str] | None, **arguments: Any) -> list[Row]:  # noqa: ANN401
    """Run a procedure and return its rows.

    Raises:
        InvalidInputError: there is no such procedure or argument.
    """
    procedure = PROCEDURES[name]
    _check_names(name, procedure, arguments)
    target = location_of(table, options)
    repository = target.location.open()

    def snapshot() -> str:
        return target.snapshot(repository)

    branch = target.branch if name in _CHANGES_A_BRANCH else ""
    chosen = {**procedure.parameters, **arguments}
    return list(procedure.run(Place(repository, branch, snapshot), **chosen))


def _check_names(name: str, procedure: Procedure, arguments: Mapping[str, Any]) -> None:
    known = ["table", *procedure.parameters, "options"]
    for given in arguments:
        if given not in procedure.parameters:
            raise _bad(f"{name} has no argument {given!r}{nearest(given, known)} "
                       f"(there are {', '.join(known)})")  # fmt: skip
    for needed, default in procedure.parameters.items():
        if default is REQUIRED and arguments.get(needed) is None:
            raise _bad(f"{name} needs the argument {needed!r}")


def _bad(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION)


def as_time(value: datetime | str | None, default: datetime) -> datetime:
    """A time as text (UTC unless it names a zone) or as a datetime (likewise)."""
    match value:
        case None:
            return default
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case _:
            try:
                return moment(str(value))
            except ValueError as error:
                raise _bad(f"{value!r} is no time: {error}") from None


# --- moving branches ---


def _move(place: Place, to: str) -> list[Row]:
    before = place.repository.lookup_branch(place.branch)
    if before != to:
        place.repository.reset_branch(place.branch, to, from_snapshot_id=before)
    return [(before, to)]


def rollback_to_snapshot(place: Place, snapshot_id: str) -> list[Row]:
    """Point the branch to one of its ancestors."""
    to = place.repository.resolve(snapshot_id)
    if all(info.id != to for info in place.repository.ancestry(branch=place.branch)):
        raise _bad(
            f"snapshot {to} is no ancestor of branch {place.branch!r}; set_current_snapshot "
            "points a branch anywhere"
        )
    return _move(place, to)


def rollback_to_timestamp(place: Place, timestamp: datetime | str) -> list[Row]:
    """Point the branch to what it was at a time."""
    when = as_time(timestamp, datetime.now(UTC))
    for info in place.repository.ancestry(branch=place.branch):
        if info.written_at <= when:
            return _move(place, info.id)
    raise NotFoundError(
        f"branch {place.branch!r} has no snapshot as early as {when.isoformat()}",
        kind=ErrorKind.NO_SNAPSHOT_AT_TIME,
    )


def set_current_snapshot(
    place: Place, snapshot_id: str | None = None, ref: str | None = None
) -> list[Row]:
    """Point the branch to any snapshot, or to where another branch or a tag points."""
    if (snapshot_id is None) == (ref is None):
        raise _bad("set_current_snapshot needs one of snapshot_id and ref")
    return _move(place, place.repository.resolve(str(snapshot_id or ref)))


def fast_forward(place: Place, branch: str, to: str) -> list[Row]:
    """Move a branch to where another is, if it only lags behind."""
    repository = place.repository
    before, after = repository.lookup_branch(branch), repository.resolve(to)
    if all(info.id != before for info in repository.ancestry(snapshot_id=after)):
        raise ConflictError(
            message=f"branch {branch!r} cannot be fast-forwarded to {to!r}: it has commits of "
            "its own",
            kind=ErrorKind.BRANCH_UPDATE_CONFLICT,
        )
    if before != after:
        repository.reset_branch(branch, after, from_snapshot_id=before)
    return [(branch, before, after)]


# --- branches and tags ---


def create_branch(place: Place, branch: str, snapshot_id: str | None = None) -> list[Row]:
    """Make a branch at a snapshot; at what the URL names by default."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    place.repository.create_branch(branch, at)
    return [(branch, "BRANCH", at)]


def create_tag(place: Place, tag: str, snapshot_id: str | None = None) -> list[Row]:
    """Make a tag at a snapshot; at what the URL names by default."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    place.repository.create_tag(tag, at)
    return [(tag, "TAG", at)]


def drop_branch(place: Place, branch: str) -> list[Row]:
    """Delete a branch."""
    at = place.repository.lookup_branch(branch)
    place.repository.delete_branch(branch)
    return [(branch, "BRANCH", at)]


def drop_tag(place: Place, tag: str) -> list[Row]:
    """Delete a tag; its name cannot be used again."""
    at = place.repository.lookup_tag(tag)
    place.repository.delete_tag(tag)
    return [(tag, "TAG", at)]


# --- upkeep ---


def expire_snapshots(
    place: Place,
    older_than: datetime | str | None = None,
    retain_last: int = 1,
    dry_run: bool = False,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
) -> list[Row]:
    """Release old snapshots from the history; their files go with remove_orphan_files."""
    cutoff = as_time(older_than, datetime.now(UTC) - EXPIRE_AGE)
    if retain_last < 1:
        raise _bad("retain_last must be at least 1")
    for branch in place.repository.list_branches() if retain_last > 1 else ():
        for number, info in enumerate(place.repository.ancestry(branch=branch), 1):
            if number == retain_last:
                cutoff = min(cutoff, info.written_at)
                break
    lost = {
        "delete_expired_branches": delete_expired_branches,
        "delete_expired_tags": delete_expired_tags,
    }
    if dry_run:
        released = len(plan_expiry(place.repository.context, cutoff, **lost).released)
    else:
        released = len(place.repository.expire_snapshots(cutoff, **lost))
    return [(0, 0, 0, 0, 0, 0, released)]


def remove_orphan_files(
    place: Place,
    older_than: datetime | str | None = None,
    dry_run: bool = False,
    max_concurrent_deletes: int = 10,
) -> list[Row]:
    """Delete old files that no snapshot needs, and name them."""
    cutoff = as_time(older_than, datetime.now(UTC) - ORPHAN_AGE)
    repository = place.repository
    context = repository.context
    plan = plan_collection(context, list_phases(context, cutoff), WalkLimits())
    garbage = plan.older(context.storage, cutoff).garbage
    doomed = [key for keys in map(Objects.keys, garbage) for key in keys]
    if not dry_run:
        repository.garbage_collect(cutoff, max_concurrent_deletes=max_concurrent_deletes)
    url = repository.storage.url.rstrip("/")
    return [(f"{url}/{key}",) for key in sorted(doomed)]


def rewrite_manifests(place: Place, message: str = "rewrite manifests") -> list[Row]:
    """Build the manifests of a branch anew by the present settings."""
    repository = place.repository
    before = {m.id for m in repository.list_manifest_files(repository.lookup_branch(place.branch))}
    made = repository.rewrite_manifests(message, branch=place.branch)
    after = {m.id for m in repository.list_manifest_files(made)}
    return [(len(before - after), len(after - before))]


def rewrite_data_files(
    place: Place,
    path: str = "/",
    dry_run: bool = False,
    message: str = "compact chunks",
) -> list[Row]:
    """Put small chunks into shared objects, and write packs with much dead space anew."""
    done = place.repository.compact_chunks(place.branch, path, message=message, dry_run=dry_run)
    return [(done.objects_before, done.objects_after, done.bytes_rewritten, 0, 0)]


# --- looking ---


def ancestors_of(place: Place, snapshot_id: str | None = None) -> Iterator[Row]:
    """A snapshot and its ancestors, newest first."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    return ((info.id, info.written_at) for info in place.repository.ancestry(snapshot_id=at))


def changes(
    place: Place, start_snapshot_id: str | None = None, end_snapshot_id: str | None = None
) -> Iterator[Row]:
    """What commits after a snapshot, up to another, changed."""
    resolve = place.repository.resolve
    start = None if start_snapshot_id is None else resolve(start_snapshot_id)
    end = place.snapshot() if end_snapshot_id is None else resolve(end_snapshot_id)
    return repo_tables.changes(place.repository, start, end)


def detail(place: Place) -> list[Row]:
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
            if repository.context.generation.repo_object
            else [],
            int(repository.spec_version),
        )
    ]


PROCEDURES: Final[dict[str, Procedure]] = {
    "rollback_to_snapshot": Procedure(
        {"snapshot_id": REQUIRED}, _MOVED, rollback_to_snapshot, "point a branch to an ancestor"
    ),
    "rollback_to_timestamp": Procedure(
        {"timestamp": REQUIRED}, _MOVED, rollback_to_timestamp, "point a branch to what it was"
    ),
    "set_current_snapshot": Procedure(
        {"snapshot_id": None, "ref": None},
        _MOVED,
        set_current_snapshot,
        "point a branch to any snapshot",
    ),
    "fast_forward": Procedure(
        {"branch": REQUIRED, "to": REQUIRED},
        _struct(branch_updated=_TEXT, previous_ref=_TEXT, updated_ref=_TEXT),
        fast_forward,
        "move a branch that lags behind",
    ),
    "create_branch": Procedure(
        {"branch": REQUIRED, "snapshot_id": None}, _REF, create_branch, "make a branch"
    ),
    "create_tag": Procedure({"tag": REQUIRED, "snapshot_id": None}, _REF, create_tag, "make a tag"),
    "drop_branch": Procedure({"branch": REQUIRED}, _REF, drop_branch, "delete a branch"),
    "drop_tag": Procedure({"tag": REQUIRED}, _REF, drop_tag, "delete a tag"),
    "expire_snapshots": Procedure(
        {
            "older_than": None,
            "retain_last": 1,
            "dry_run": False,
            "delete_expired_branches": False,
            "delete_expired_tags": False,
        },
        _struct(
            deleted_data_files_count=_LONG,
            deleted_position_delete_files_count=_LONG,
            deleted_equality_delete_files_count=_LONG,
            deleted_manifest_files_count=_LONG,
            deleted_manifest_lists_count=_LONG,
            deleted_statistics_files_count=_LONG,
            expired_snapshots_count=_LONG,
        ),
        expire_snapshots,
        "release old snapshots",
    ),
    "remove_orphan_files": Procedure(
        {"older_than": None, "dry_run": False, "max_concurrent_deletes": 10},
        _struct(orphan_file_location=_TEXT),
        remove_orphan_files,
        "delete files that nothing needs",
    ),
    "rewrite_manifests": Procedure(
        {"message": "rewrite manifests"},
        _struct(rewritten_manifests_count=_INT, added_manifests_count=_INT),
        rewrite_manifests,
        "build manifests anew",
    ),
    "rewrite_data_files": Procedure(
        {"path": "/", "dry_run": False, "message": "compact chunks"},
        _struct(
            rewritten_data_files_count=_INT,
            added_data_files_count=_INT,
            rewritten_bytes_count=_LONG,
            failed_data_files_count=_INT,
            removed_delete_files_count=_INT,
        ),
        rewrite_data_files,
        "put small chunks into shared objects",
    ),
    "ancestors_of": Procedure(
        {"snapshot_id": None},
        _struct(snapshot_id=_TEXT, timestamp=t.TimestampType()),
        ancestors_of,
        "a snapshot and its ancestors",
    ),
    "changes": Procedure(
        {"start_snapshot_id": None, "end_snapshot_id": None},
        repo_tables.CHANGES,
        changes,
        "what commits changed",
    ),
    "detail": Procedure(
        {},
        _struct(
            format=_TEXT,
            id=_TEXT,
            location=_TEXT,
            createdAt=t.TimestampType(),
            lastModified=t.TimestampType(),
            numSnapshots=_LONG,
            numChunks=_LONG,
            sizeInBytes=_LONG,
            virtualSizeInBytes=_LONG,
            properties=t.MapType(_TEXT, _TEXT),
            specVersion=_INT,
        ),
        detail,
        "what kind of repository this is",
    ),
}
_CHANGES_A_BRANCH: Final = frozenset(
    ["rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot",
     "rewrite_manifests", "rewrite_data_files"]
)  # fmt: skip


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
        def eval(self, *args: Any, **kwargs: Any) -> Iterator[Row]:  # noqa: ANN401
            from frazil.spark.procedures import call_by_sql

            yield from call_by_sql(name, args, kwargs)

    return Handler


def call_by_sql(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    """Run a procedure with the arguments that SQL gave."""
    names = ["table", *PROCEDURES[name].parameters]
    if len(args) > len(names):
        raise _bad(f"{name} takes {len(names)} arguments: {listed(names)}")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    table, options = given.pop("table", None), given.pop("options", None)
    if not isinstance(table, str):
        raise _bad(f"{name} needs the argument 'table', the URL of a repository")
    chosen = {key: _from_sql(value) for key, value in given.items() if value is not None}
    return call(name, table, options, **chosen)


def _from_sql(value: object) -> object:
    """Spark hands a TIMESTAMP over in the time zone of the worker."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)
    return value
