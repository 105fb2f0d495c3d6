"""Procedures by name: from Python by `call`, and from SQL once they are registered.

SELECT * FROM frazil_expire_snapshots(table => 'URL', dry_run => true)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as t

from frazil.comparing.values import MAX_SAMPLES
from frazil.maintenance.garbage import FindChunks
from frazil.maintenance.walk import native_chunks
from frazil.spark import (
    merge_procedures,
    procedures,
    repo_tables,
    rule_checks,
    space_procedures,
    value_diffs,
)
from frazil.spark.location import location_of
from frazil.spark.procedures import Place, Row, bad_argument
from frazil.spelling import listed, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = "frazil_"
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
class Procedure:
    """One procedure: its parameters after `table`, its columns, and what it does."""

    parameters: Mapping[str, Any]
    """with their defaults"""
    returns: t.StructType
    run: Callable[..., Iterable[Row]]
    meaning: str


def call(
    name: str,
    table: str,
    options: Mapping[str, str] | None,
    *,
    find_chunks: FindChunks = native_chunks,
    **arguments: Any,  # noqa: ANN401  (those of the procedure)
) -> list[Row]:
    """Run a procedure and return its rows; `find_chunks` tells what manifests refer to.

    Raises:
        InvalidInputError: there is no such procedure or argument.
    """
    procedure = procedure_named(name)
    _check_names(name, procedure, arguments)
    target = location_of(table, options)
    repository = target.location.open()

    def snapshot() -> str:
        return target.snapshot(repository)

    branch = target.branch if name in _CHANGES_A_BRANCH else ""
    chosen = {**procedure.parameters, **arguments}
    return list(procedure.run(Place(repository, branch, snapshot, find_chunks), **chosen))


def procedure_named(name: str) -> Procedure:
    """A procedure.

    Raises:
        InvalidInputError: there is no such.
    """
    if name not in PROCEDURES:
        raise bad_argument(f"there is no procedure {name!r}{nearest(name, PROCEDURES)}")
    return PROCEDURES[name]


def _check_names(name: str, procedure: Procedure, arguments: Mapping[str, Any]) -> None:
    known = ["table", *procedure.parameters, "options"]
    for given in arguments:
        if given not in procedure.parameters:
            raise bad_argument(f"{name} has no argument {given!r}{nearest(given, known)} "
                       f"(there are {', '.join(known)})")  # fmt: skip
    for needed, default in procedure.parameters.items():
        if default is REQUIRED and arguments.get(needed) is None:
            raise bad_argument(f"{name} needs the argument {needed!r}")


PROCEDURES: Final[dict[str, Procedure]] = {
    "rollback_to_snapshot": Procedure(
        {"snapshot_id": REQUIRED},
        _MOVED,
        procedures.rollback_to_snapshot,
        "point a branch to an ancestor",
    ),
    "rollback_to_timestamp": Procedure(
        {"timestamp": REQUIRED},
        _MOVED,
        procedures.rollback_to_timestamp,
        "point a branch to what it was",
    ),
    "set_current_snapshot": Procedure(
        {"snapshot_id": None, "ref": None},
        _MOVED,
        procedures.set_current_snapshot,
        "point a branch to any snapshot",
    ),
    "fast_forward": Procedure(
        {"branch": REQUIRED, "to": REQUIRED},
        _struct(branch_updated=_TEXT, previous_ref=_TEXT, updated_ref=_TEXT),
        merge_procedures.fast_forward,
        "move a branch that lags behind",
    ),
    "cherrypick_snapshot": Procedure(
        {"snapshot_id": REQUIRED, "policy": "fail", "message": None},
        merge_procedures.PICKED,
        merge_procedures.cherrypick_snapshot,
        "make the change of one commit on a branch too",
    ),
    "revert": Procedure(
        {"snapshot_id": REQUIRED, "policy": "fail", "message": None},
        merge_procedures.PICKED,
        merge_procedures.revert,
        "take the change of one commit back",
    ),
    "merge": Procedure(
        {"source": REQUIRED, "policy": "fail", "message": None, "dry_run": False},
        merge_procedures.MERGED,
        merge_procedures.merge,
        "merge a version into a branch",
    ),
    "merge_conflicts": Procedure(
        {"source": REQUIRED, "policy": "fail"},
        merge_procedures.CONFLICTS,
        merge_procedures.merge_conflicts,
        "what a merge would meet",
    ),
    "squash": Procedure(
        {
            "from_snapshot_id": REQUIRED,
            "to_snapshot_id": None,
            "message": None,
            "dry_run": False,
        },
        merge_procedures.MERGED,
        merge_procedures.squash,
        "make one commit of several",
    ),
    "create_branch": Procedure(
        {"branch": REQUIRED, "snapshot_id": None}, _REF, procedures.create_branch, "make a branch"
    ),
    "create_tag": Procedure(
        {"tag": REQUIRED, "snapshot_id": None}, _REF, procedures.create_tag, "make a tag"
    ),
    "drop_branch": Procedure({"branch": REQUIRED}, _REF, procedures.drop_branch, "delete a branch"),
    "drop_tag": Procedure({"tag": REQUIRED}, _REF, procedures.drop_tag, "delete a tag"),
    "expire_snapshots": Procedure(
        {
            "older_than": None,
            "retain_last": 1,
            "dry_run": False,
            "delete_expired_branches": False,
            "delete_expired_tags": False,
            "delete_files": True,
            "max_concurrent_deletes": 10,
            "unsafe_minimum_age": None,
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
        procedures.expire_snapshots,
        "release old snapshots, and delete what only they need",
    ),
    "remove_orphan_files": Procedure(
        {
            "older_than": None,
            "dry_run": False,
            "max_concurrent_deletes": 10,
            "unsafe_minimum_age": None,
        },
        _struct(orphan_file_location=_TEXT),
        procedures.remove_orphan_files,
        "delete files that nothing needs",
    ),
    "rewrite_manifests": Procedure(
        {"message": "rewrite manifests"},
        _struct(rewritten_manifests_count=_INT, added_manifests_count=_INT),
        procedures.rewrite_manifests,
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
        procedures.rewrite_data_files,
        "put small chunks into shared objects",
    ),
    "ancestors_of": Procedure(
        {"snapshot_id": None},
        _struct(snapshot_id=_TEXT, timestamp=t.TimestampType()),
        procedures.ancestors_of,
        "a snapshot and its ancestors",
    ),
    "changes": Procedure(
        {"start_snapshot_id": None, "end_snapshot_id": None},
        repo_tables.CHANGES,
        procedures.changes,
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
        procedures.detail,
        "what kind of repository this is",
    ),
    "fsck": Procedure(
        {"all_history": True, "deep": False, "virtual": False},
        rule_checks.FINDINGS,
        rule_checks.fsck_procedure,
        "rules of the format that are broken",
    ),
    "diff_values": Procedure(
        {
            "start_snapshot_id": REQUIRED,
            "end_snapshot_id": None,
            "paths": None,
            "max_samples": MAX_SAMPLES,
        },
        value_diffs.ARRAYS,
        value_diffs.diff_values_procedure,
        "how values differ between two versions, by array",
    ),
    "storage_shares": Procedure(
        {"by": "array", "older_than": None},
        space_procedures.SHARES,
        space_procedures.storage_shares,
        "whose bytes they are: by array, snapshot or branch",
    ),
}
_CHANGES_A_BRANCH: Final = frozenset(
    ["rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot",
     "rewrite_manifests", "rewrite_data_files", "merge", "merge_conflicts",
     "cherrypick_snapshot", "revert", "squash"]
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
        def eval(self, *args: Any, **kwargs: Any) -> Iterator[Row]:  # noqa: ANN401  (SQL)
            from frazil.spark.calls import call_by_sql

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
    chosen: dict[str, Any] = {k: _from_sql(v) for k, v in given.items() if v is not None}
    return call(name, table, options, **chosen)


def _from_sql(value: object) -> object:
    """Spark hands a TIMESTAMP over in the time zone of the worker."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)
    return value
