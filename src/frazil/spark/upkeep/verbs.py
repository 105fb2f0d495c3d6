"""Procedures that are verbs of a repository, under Iceberg's names where it has them.

A row of the table says which parameters the procedure takes, under which names and in which order,
and where in the report its columns are.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pyspark.sql import types as t

from frazil.maintenance.ages import parse_age
from frazil.merging.policies import Policy, parse_policy
from frazil.operations import VERBS, Parameter
from frazil.spark.options.texts import moment
from frazil.spark.upkeep.procedure import (
    INT,
    LONG,
    PROCEDURES,
    TEXT,
    Place,
    Procedure,
    Row,
    bad_argument,
    columns,
    procedure,
)

EXPIRE_AGE: Final = timedelta(days=5)
Columns: TypeAlias = Mapping[str, tuple[t.DataType, str | int]]
"""by name: the type, and where in the report the value is, or a number that it always is"""

MERGED: Final[Columns] = {
    "branch": (TEXT, "branch"),
    "source_snapshot_id": (TEXT, "source"),
    "previous_snapshot_id": (TEXT, "previous_snapshot_id"),
    "current_snapshot_id": (TEXT, "snapshot_id"),
    "status": (TEXT, "status"),
    "changed_nodes_count": (LONG, "changes.nodes"),
    "changed_chunks_count": (LONG, "changes.chunk_count"),
    "conflicts_count": (LONG, "conflicts.__len__"),
}
PICKED: Final[Columns] = {
    "source_snapshot_id": (TEXT, "source"),
    "current_snapshot_id": (TEXT, "snapshot_id"),
}
MOVED: Final[Columns] = {
    "branch_updated": (TEXT, "branch"),
    "previous_ref": (TEXT, "previous_snapshot_id"),
    "updated_ref": (TEXT, "snapshot_id"),
}
EXPIRED: Final[Columns] = {
    "deleted_data_files_count": (LONG, "files.chunks_deleted"),
    "deleted_position_delete_files_count": (LONG, 0),
    "deleted_equality_delete_files_count": (LONG, 0),
    "deleted_manifest_files_count": (LONG, "files.manifests_deleted"),
    "deleted_manifest_lists_count": (LONG, "files.snapshots_deleted"),
    "deleted_statistics_files_count": (LONG, 0),
    "expired_snapshots_count": (LONG, "snapshots.__len__"),
}
REWRITTEN: Final[Columns] = {
    "rewritten_manifests_count": (INT, "removed"),
    "added_manifests_count": (INT, "added"),
}
COMPACTED: Final[Columns] = {
    "rewritten_data_files_count": (INT, "objects_before"),
    "added_data_files_count": (INT, "objects_after"),
    "rewritten_bytes_count": (LONG, "bytes_rewritten"),
    "failed_data_files_count": (INT, 0),
    "removed_delete_files_count": (INT, 0),
}
SHARES: Final[Columns] = {
    "name": (TEXT, "name"),
    "type": (TEXT, "kind"),
    **{
        name: (LONG, name)
        for name in (
            "chunks",
            "referenced_bytes",
            "unique_bytes",
            "shared_bytes",
            "reclaimable_bytes",
            "stranded_bytes",
            "inline_bytes",
            "virtual_bytes",
        )
    },
}


@dataclass(frozen=True, slots=True)
class VerbProcedure:
    """How a verb is a procedure."""

    name: str
    verb: str
    meaning: str
    columns: Columns
    takes: str
    """parameters in SQL's order, blanks between them; `theirs=ours` where names differ"""
    branch: str = ""
    """the parameter that is the branch of the URL"""
    each: str = ""
    """where in the report the items are of which each is a row; else it is one row"""
    ago: timedelta | None = None
    """how long ago a time is that is not given"""
    defaults: Mapping[str, object] = field(default_factory=dict)

    def known(self) -> Procedure:
        """The procedure."""
        parameters = {theirs: VERBS[self.verb].parameters[ours] for theirs, ours in self.names()}
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        own = [
            inspect.Parameter(
                theirs,
                kind,
                default=self.defaults.get(theirs, None if self._is_time(ours) else ours.default),
                annotation=_annotation(ours, is_optional=self._is_time(ours)),
            )
            for theirs, ours in parameters.items()
        ]
        returns = columns(**{name: kind for name, (kind, _) in self.columns.items()})
        run, has_branch = partial(_run, self), bool(self.branch)
        return Procedure(self.name, inspect.Signature(own), returns, run, self.meaning, has_branch)

    def names(self) -> Iterable[tuple[str, str]]:
        """Names of parameters: here, and in the verb."""
        pairs = (each.partition("=") for each in self.takes.split())
        return [(theirs, ours or theirs) for theirs, _, ours in pairs]

    def _is_time(self, parameter: Parameter) -> bool:
        return self.ago is not None and parameter.kind == "datetime"


def _run(row: VerbProcedure, place: Place, **texts: Any) -> Iterable[Row]:  # noqa: ANN401  (SQL)
    verb = VERBS[row.verb]
    given: dict[str, Any] = {}
    for theirs, ours in row.names():
        kind, value = verb.parameters[ours].kind, texts[theirs]
        if kind == "datetime" and row.ago is not None:
            given[ours] = as_time(value, datetime.now(UTC) - row.ago)
        else:
            given[ours] = value if value is None or kind not in READERS else READERS[kind](value)
    if row.branch:
        given[row.branch] = place.branch
    if "find_chunks" in verb.parameters:
        given["find_chunks"] = place.find_chunks
    report = verb.on(place.repository)(**given)
    return map(partial(row_of, row.columns), attrgetter(row.each)(report) if row.each else [report])


def row_of(found: Columns, report: object) -> Row:
    """A report as a row."""
    return tuple(
        where if isinstance(where, int) else _value(report, where) for _, where in found.values()
    )


def _value(report: object, where: str) -> object:
    value = attrgetter(where)(report)
    if where.endswith("__len__"):
        return value()
    return value.value if isinstance(value, Enum) else value


# --- values from SQL ---


def as_time(value: datetime | str | None, default: datetime | None = None) -> datetime:
    """A time as text or as a datetime, both UTC unless they name a zone; now by default."""
    match value:
        case None:
            return default or datetime.now(UTC)
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case _:
            try:
                return moment(str(value))
            except ValueError as error:
                raise bad_argument(f"{value!r} is no time: {error}") from None


def as_age(value: timedelta | str | None) -> timedelta | None:
    """An age as text, such as `12h`, or as a timedelta."""
    return parse_age(value) if isinstance(value, str) else value


def as_policy(text: str) -> Policy:
    """A policy as SQL writes it: words and rules with commas between them."""
    return parse_policy([each for each in text.split(",") if each.strip()])


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "datetime": as_time,
    "datetime | None": as_time,
    "timedelta | None": as_age,
    "Policy": as_policy,
}
"""from what SQL gives to the kinds of parameters that verbs have"""
_ANNOTATIONS: Final = {
    "datetime": "datetime | str",
    "datetime | None": "datetime | str | None",
    "timedelta | None": "timedelta | str | None",
    "Policy": "str",
    "By": "str",
}


def _annotation(parameter: Parameter, *, is_optional: bool) -> str:
    told = _ANNOTATIONS.get(parameter.kind, parameter.kind.replace("Version", "str"))
    return f"{told} | None" if is_optional else told


# --- the table ---

TABLE: Final = (
    VerbProcedure(
        "merge",
        "versions.merge",
        "merge a version into a branch",
        MERGED,
        "source policy message dry_run",
        branch="into",
    ),
    VerbProcedure(
        "cherrypick_snapshot",
        "versions.cherry_pick",
        "make the change of one commit on a branch too",
        PICKED,
        "snapshot_id=snapshot policy message",
        branch="onto",
    ),
    VerbProcedure(
        "revert",
        "versions.revert",
        "take the change of one commit back",
        PICKED,
        "snapshot_id=snapshot policy message",
        branch="on",
    ),
    VerbProcedure(
        "squash",
        "versions.squash",
        "make one commit of several",
        MERGED,
        "from_snapshot_id=after to_snapshot_id=to message dry_run",
        branch="branch",
    ),
    VerbProcedure(
        "fast_forward",
        "versions.fast_forward",
        "move a branch that lags behind",
        MOVED,
        "branch to",
    ),
    VerbProcedure(
        "expire_snapshots",
        "space.expire",
        "release old snapshots, and delete what only they need",
        EXPIRED,
        "older_than retain_last dry_run delete_expired_branches=delete_branches "
        "delete_expired_tags=delete_tags delete_files max_concurrent_deletes unsafe_minimum_age",
        ago=EXPIRE_AGE,
        defaults={"delete_files": True},
    ),
    VerbProcedure(
        "rewrite_manifests",
        "space.rewrite_manifests",
        "build manifests anew",
        REWRITTEN,
        "message",
        branch="branch",
    ),
    VerbProcedure(
        "rewrite_data_files",
        "space.compact",
        "put small chunks into shared objects",
        COMPACTED,
        "path dry_run message",
        branch="branch",
    ),
    VerbProcedure(
        "storage_shares",
        "space.shares",
        "whose bytes they are: by array, snapshot or branch",
        SHARES,
        "by older_than",
        each="owners",
    ),
)
PROCEDURES.update({each.name: each.known() for each in TABLE})


CONFLICTS: Final = columns(
    kind=TEXT,
    path=TEXT,
    name=TEXT,
    ours=TEXT,
    theirs=TEXT,
    chunk_count=LONG,
    chunks=t.ArrayType(t.ArrayType(LONG)),
    resolution=TEXT,
)


@procedure("what a merge would meet", CONFLICTS, on_branch=True)
def merge_conflicts(place: Place, source: str, policy: str = "fail") -> list[Row]:
    """The conflicts that merging a version into the branch would meet."""
    merge = place.repository.versions.merge
    found = merge(source, place.branch, policy=as_policy(policy), dry_run=True).rows()
    sides = ("ours", "theirs")
    return [
        tuple(json.dumps(row[name]) if name in sides else row[name] for name in CONFLICTS.names)
        for row in found
    ]
