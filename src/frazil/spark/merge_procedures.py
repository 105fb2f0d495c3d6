"""Procedures that bring versions together, and the conflicts between them as rows.

Names of arguments and columns are Iceberg's where it has them.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import types as t

from frazil.merging.policies import Policy, parse_policy
from frazil.merging.records import MergeReport
from frazil.spark.procedures import Place, Row

_TEXT: Final = t.StringType()
_LONG: Final = t.LongType()

PICKED: Final = t.StructType(
    [
        t.StructField("source_snapshot_id", _TEXT),
        t.StructField("current_snapshot_id", _TEXT),
    ]
)
MERGED: Final = t.StructType(
    [
        t.StructField("branch", _TEXT),
        t.StructField("source_snapshot_id", _TEXT),
        t.StructField("previous_snapshot_id", _TEXT),
        t.StructField("current_snapshot_id", _TEXT),
        t.StructField("status", _TEXT),
        t.StructField("changed_nodes_count", _LONG),
        t.StructField("changed_chunks_count", _LONG),
        t.StructField("conflicts_count", _LONG),
    ]
)
CONFLICTS: Final = t.StructType(
    [
        t.StructField("kind", _TEXT),
        t.StructField("path", _TEXT),
        t.StructField("name", _TEXT),
        t.StructField("ours", _TEXT),
        t.StructField("theirs", _TEXT),
        t.StructField("chunk_count", _LONG),
        t.StructField("chunks", t.ArrayType(t.ArrayType(_LONG))),
        t.StructField("resolution", _TEXT),
    ]
)


def _policy(text: str) -> Policy:
    """A policy as SQL writes it: words and rules with commas between them."""
    return parse_policy([each for each in text.split(",") if each.strip()])


def _merged(report: MergeReport) -> list[Row]:
    changes = report.changes
    nodes = changes.new_nodes + changes.deleted_nodes + changes.updated_nodes + changes.moved_nodes
    return [
        (
            report.branch,
            report.source,
            report.previous_snapshot_id,
            report.snapshot_id,
            str(report.status),
            nodes,
            sum(changes.chunks.values()),
            len(report.conflicts),
        )
    ]


def merge(
    place: Place,
    source: str,
    policy: str = "fail",
    message: str | None = None,
    dry_run: bool = False,
) -> list[Row]:
    """Merge a version into the branch."""
    report = place.repository.merge(
        source, place.branch, policy=_policy(policy), message=message, dry_run=dry_run
    )
    return _merged(report)


def merge_conflicts(place: Place, source: str, policy: str = "fail") -> list[Row]:
    """The conflicts that merging a version into the branch would meet."""
    report = place.repository.merge(source, place.branch, policy=_policy(policy), dry_run=True)
    return [
        (
            each["kind"],
            each["path"],
            each["name"],
            json.dumps(each["ours"]),
            json.dumps(each["theirs"]),
            each["chunk_count"],
            each["chunks"],
            each["resolution"],
        )
        for each in report.rows()
    ]


def cherrypick_snapshot(
    place: Place, snapshot_id: str, policy: str = "fail", message: str | None = None
) -> list[Row]:
    """Make the change of one commit on the branch too."""
    report = place.repository.cherry_pick(
        snapshot_id, place.branch, policy=_policy(policy), message=message
    )
    return [(report.source, report.snapshot_id)]


def revert(
    place: Place, snapshot_id: str, policy: str = "fail", message: str | None = None
) -> list[Row]:
    """Take the change of one commit back on the branch."""
    report = place.repository.revert(
        snapshot_id, place.branch, policy=_policy(policy), message=message
    )
    return [(report.source, report.snapshot_id)]


def squash(
    place: Place,
    from_snapshot_id: str,
    to_snapshot_id: str | None = None,
    message: str | None = None,
    dry_run: bool = False,
) -> list[Row]:
    """Make one commit of those after a snapshot, up to another or the tip of the branch."""
    report = place.repository.squash(
        place.branch, from_snapshot_id, to_snapshot_id, message=message, dry_run=dry_run
    )
    return _merged(report)


def fast_forward(place: Place, branch: str, to: str) -> list[Row]:
    """Move a branch to where another is, if it only lags behind."""
    report = place.repository.fast_forward(branch, to)
    return [(branch, report.previous_snapshot_id, report.snapshot_id)]
