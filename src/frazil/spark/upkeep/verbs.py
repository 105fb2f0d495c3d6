"""Procedures that are verbs of a repository, under Iceberg's names where it has them.

A row of the table says which parameters the procedure takes, under which names and in which order,
and where in the report its columns are.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Final

from pyspark.sql import types as t

from frazil.merging.policies import Policy, parse_policy
from frazil.operations import VERBS, Effect, Parameter, Verb
from frazil.spark.upkeep.procedure import (
    INT,
    LONG,
    PROCEDURES,
    TEXT,
    Procedure,
    ProcedureTarget,
    ResultRow,
    bad_argument,
    columns,
    procedure,
)
from frazil.texts import age, moment, parse_as

EXPIRE_AGE: Final = timedelta(days=5)
ORPHAN_AGE: Final = timedelta(days=3)

# Columns, blanks between them: the name, `:` its type if that is not text, and `=` where in the
# report the value is, or a number that it always is, if that has another name.
MERGED: Final = """branch source_snapshot_id=source previous_snapshot_id
current_snapshot_id=snapshot_id status changed_nodes_count:long=changes.nodes
changed_chunks_count:long=changes.chunk_count conflicts_count:long=conflicts.__len__"""
PICKED: Final = "source_snapshot_id=source current_snapshot_id=snapshot_id"
MOVED: Final = "branch_updated=branch previous_ref=previous_snapshot_id updated_ref=snapshot_id"
EXPIRED: Final = """deleted_data_files_count:long=files.chunks_deleted
deleted_position_delete_files_count:long=0 deleted_equality_delete_files_count:long=0
deleted_manifest_files_count:long=files.manifests_deleted
deleted_manifest_lists_count:long=files.snapshots_deleted
deleted_statistics_files_count:long=0 expired_snapshots_count:long=snapshots.__len__"""
REWRITTEN: Final = "rewritten_manifests_count:int=removed added_manifests_count:int=added"
COMPACTED: Final = """rewritten_data_files_count:int=objects_before
added_data_files_count:int=objects_after rewritten_bytes_count:long=bytes_rewritten
failed_data_files_count:int=0 removed_delete_files_count:int=0"""
ANALYZED: Final = """snapshot_id analyzed_chunks_count:long=chunks known_chunks_count:long=known
chunks_without_statistics_count:long=without failed_chunks_count:long=failed
read_bytes_count:long=bytes_read"""
SHARES: Final = """name type=kind chunks:long referenced_bytes:long unique_bytes:long
shared_bytes:long reclaimable_bytes:long stranded_bytes:long inline_bytes:long virtual_bytes:long"""
TYPES: Final = {"": TEXT, "long": LONG, "int": INT}
_COLUMN: Final = re.compile(r"(\w+)(?::(\w+))?(?:=(\S+))?")


@dataclass(frozen=True, slots=True)
class VerbProcedure:
    """How a verb is a procedure."""

    verb: str
    """with the parameter that is the branch or version of the URL in parentheses, if any"""
    meaning: str
    columns: str
    takes: str
    """parameters in SQL's order, blanks between them; `theirs=ours` where names differ"""
    each: str = ""
    """the field of the report whose items become rows; by default the report is one row"""
    ago: timedelta | None = None
    """the age that stands for a time that is not given"""
    defaults: Mapping[str, object] = field(default_factory=dict)

    def known(self, name: str) -> Procedure:
        """The procedure."""
        verb, _, branch = self.verb.rstrip(")").partition("(")
        parameters = {theirs: VERBS[verb].parameters[ours] for theirs, ours in _pairs(self.takes)}
        own = [self._declared(theirs, ours) for theirs, ours in parameters.items()]
        found = _COLUMN.findall(self.columns)
        returns = columns(**{column: TYPES[kind] for column, kind, _ in found})
        run = partial(_run, self, VERBS[verb], branch, parameters)
        changes = VERBS[verb].effect is not Effect.READS
        on_branch = bool(branch) and VERBS[verb].parameters[branch].kind != "VersionName"
        signature, spreads = inspect.Signature(own), "runner" in VERBS[verb].parameters
        return Procedure(name, signature, returns, run, self.meaning, on_branch, changes, spreads)

    def _declared(self, name: str, parameter: Parameter) -> inspect.Parameter:
        kind, default = parameter.kind, self.defaults.get(name, parameter.default)
        if self.ago is not None and kind == "datetime":
            kind, default = "datetime | None", None
        annotation = ANNOTATIONS.get(kind, kind.replace("VersionName", "str"))
        by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, by_place, default=default, annotation=annotation)


def _pairs(names: str) -> list[tuple[str, str]]:
    parts = (each.partition("=") for each in names.split())
    return [(theirs, ours or theirs) for theirs, _, ours in parts]


def _run(
    row: VerbProcedure,
    verb: Verb,
    branch: str,
    parameters: Mapping[str, Parameter],
    place: ProcedureTarget,
    /,
    **texts: Any,  # noqa: ANN401  (SQL's)
) -> Iterable[ResultRow]:
    given: dict[str, Any] = {}
    if branch:
        any_version = verb.parameters[branch].kind == "VersionName"
        given[branch] = place.snapshot() if any_version else place.branch
    for theirs, ours in parameters.items():
        value = texts[theirs]
        if row.ago is not None and ours.kind == "datetime":
            value = as_time(value, datetime.now(UTC) - row.ago)
        reader = READERS.get(ours.kind)
        given[ours.name] = value if value is None or reader is None else reader(value)
    if "runner" in verb.parameters:
        given["runner"] = place.runner
    report = verb.on(place.repository)(**given)
    items = attrgetter(row.each)(report) if row.each else [report]
    return (row_of(row.columns, item) for item in items)


def row_of(columns: str, report: object) -> ResultRow:
    """A report as a row of some columns."""
    return tuple(_value(report, where or name) for name, _, where in _COLUMN.findall(columns))


def _value(report: object, where: str) -> object:
    if where.isdigit():
        return int(where)
    value = attrgetter(where)(report)
    if where.endswith("__"):
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
    return parse_as("an age", age, value) if isinstance(value, str) else value


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
ANNOTATIONS: Final = {
    "datetime": "datetime | str",
    "datetime | None": "datetime | str | None",
    "timedelta | None": "timedelta | str | None",
    "Policy": "str",
    "UsageBy": "str",
}
"""what a parameter of the verb is called in Spark"""


# --- the table ---

TABLE: Final = {
    "merge": VerbProcedure(
        "versions.merge(into)",
        "merge a version into a branch",
        MERGED,
        "source policy message dry_run",
    ),
    "cherrypick_snapshot": VerbProcedure(
        "versions.cherry_pick(onto)",
        "make the change of one commit on a branch too",
        PICKED,
        "snapshot_id=snapshot policy message",
    ),
    "revert": VerbProcedure(
        "versions.revert(on)",
        "take the change of one commit back",
        PICKED,
        "snapshot_id=snapshot policy message",
    ),
    "squash": VerbProcedure(
        "versions.squash(branch)",
        "make one commit of several",
        MERGED,
        "from_snapshot_id=after to_snapshot_id=to message dry_run",
    ),
    "fast_forward": VerbProcedure(
        "versions.fast_forward", "move a branch that lags behind", MOVED, "branch to"
    ),
    "expire_snapshots": VerbProcedure(
        "space.expire",
        "release old snapshots, and delete what only they need",
        EXPIRED,
        "older_than retain_last dry_run delete_expired_branches=delete_branches "
        "delete_expired_tags=delete_tags delete_files max_concurrent_deletes unsafe_minimum_age",
        ago=EXPIRE_AGE,
        defaults={"delete_files": True},
    ),
    "remove_orphan_files": VerbProcedure(
        "space.collect_garbage",
        "delete files that nothing needs",
        "orphan_file_location=__str__",
        "older_than dry_run max_concurrent_deletes unsafe_minimum_age",
        each="files",
        ago=ORPHAN_AGE,
    ),
    "rewrite_manifests": VerbProcedure(
        "space.rewrite_manifests(branch)", "build manifests anew", REWRITTEN, "message"
    ),
    "rewrite_data_files": VerbProcedure(
        "space.compact(branch)",
        "put small chunks into shared objects",
        COMPACTED,
        "path dry_run message",
    ),
    "analyze": VerbProcedure(
        "audit.analyze(version)",
        "read chunks that have no statistics yet, and keep what they hold",
        ANALYZED,
        "path dry_run",
    ),
    "storage_shares": VerbProcedure(
        "space.shares",
        "whose bytes they are: by array, snapshot or branch",
        SHARES,
        "by older_than",
        each="owners",
    ),
}
TABLE["vacuum"] = replace(
    TABLE["remove_orphan_files"], meaning="another name of `remove_orphan_files`"
)
PROCEDURES.update({name: row.known(name) for name, row in TABLE.items()})
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
def merge_conflicts(place: ProcedureTarget, source: str, policy: str = "fail") -> list[ResultRow]:
    """The conflicts that merging a version into the branch would meet."""
    merge = place.repository.versions.merge
    found = merge(source, place.branch, policy=as_policy(policy), dry_run=True).rows()
    sides = ("ours", "theirs")
    return [
        tuple(json.dumps(row[name]) if name in sides else row[name] for name in CONFLICTS.names)
        for row in found
    ]
