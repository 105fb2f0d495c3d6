"""Procedures that bring versions together, and the conflicts between them as rows.

Names of arguments and columns are Iceberg's where it has them.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import types as t

from frazil.merging.policies import Policy, parse_policy
from frazil.merging.records import MergeReport
from frazil.spark.upkeep.procedure import LONG, TEXT, Place, Row, columns, procedure

PICKED: Final = columns(source_snapshot_id=TEXT, current_snapshot_id=TEXT)
MERGED: Final = columns(
    branch=TEXT,
    source_snapshot_id=TEXT,
    previous_snapshot_id=TEXT,
    current_snapshot_id=TEXT,
    status=TEXT,
    changed_nodes_count=LONG,
    changed_chunks_count=LONG,
    conflicts_count=LONG,
)
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
MOVED: Final = columns(branch_updated=TEXT, previous_ref=TEXT, updated_ref=TEXT)


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


@procedure("merge a version into a branch", MERGED, on_branch=True)
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


@procedure("what a merge would meet", CONFLICTS, on_branch=True)
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


@procedure("make the change of one commit on a branch too", PICKED, on_branch=True)
def cherrypick_snapshot(
    place: Place, snapshot_id: str, policy: str = "fail", message: str | None = None
) -> list[Row]:
    """Make the change of one commit on the branch too."""
    report = place.repository.cherry_pick(
        snapshot_id, place.branch, policy=_policy(policy), message=message
    )
    return [(report.source, report.snapshot_id)]


@procedure("take the change of one commit back", PICKED, on_branch=True)
def revert(
    place: Place, snapshot_id: str, policy: str = "fail", message: str | None = None
) -> list[Row]:
    """Take the change of one commit back on the branch."""
    report = place.repository.revert(
        snapshot_id, place.branch, policy=_policy(policy), message=message
    )
    return [(report.source, report.snapshot_id)]


@procedure("make one commit of several", MERGED, on_branch=True)
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


@procedure("move a branch that lags behind", MOVED)
def fast_forward(place: Place, branch: str, to: str) -> list[Row]:
    """Move a branch to where another is, if it only lags behind."""
    report = place.repository.fast_forward(branch, to)
    return [(branch, report.previous_snapshot_id, report.snapshot_id)]
