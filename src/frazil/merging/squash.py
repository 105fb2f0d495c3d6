"""Squash: several commits of a branch become one, and later commits are rewritten on top of it.

New snapshots are written with the nodes and manifests of the old ones, then the branch is
pointed to them by compare-and-swap. The old ones stay until garbage collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from frazil.arrays import Coords
from frazil.commit.base import later_than
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import NodeId, SnapshotId
from frazil.merging.applying import MergeOptions, ReportSubject, require_ability, tip_to_change
from frazil.merging.records import ChangeCounts, MergeReport, MergeStatus
from frazil.merging.states import StoredState, delta_between, logged_between
from frazil.model.history import Metadata, Move, Snapshot, SnapshotEntry, TransactionLog
from frazil.model.lineage import REWRITTEN_FROM, merged_commits, other_parents, squash_metadata
from frazil.model.marks import merged_marks as united_marks
from frazil.model.marks import with_marks
from frazil.model.nodes import ArrayNode, GroupNode, Node, segment_order
from frazil.storage.assets import log_key, snapshot_key
from frazil.transaction.context import Context

SHOWN_MESSAGES = 50
"""Messages of squashed commits that the new message lists."""


def squash(
    context: Context,
    branch: str,
    after: SnapshotId,
    to: SnapshotId | None = None,
    *,
    options: MergeOptions,
) -> MergeReport:
    """Make one snapshot of those that follow `after` on a branch, up to `to` or the tip.

    Raises:
        InvalidInputError: these are not two ancestors of the branch, in this order.
        ConflictError: the branch moved meanwhile; nothing was changed.
    """
    require_ability(context, "squash", dry_run=options.dry_run)
    tip = tip_to_change(context, branch)
    lineage = _lineage(context, branch, tip, after)
    newest = tip if to is None else to
    ids = [entry.id for entry in lineage] + [after]
    if newest not in ids:
        raise _not_between(branch, newest)
    at = ids.index(newest)
    squashed, later = lineage[at:], lineage[:at]
    subject = ReportSubject("squash", branch, newest, tip, (after,), options)
    if len(squashed) < 2:
        return subject.report(MergeStatus.UP_TO_DATE, tip)
    log = difference(context, after, newest)
    paths = {node.id: node.path for node in context.assets.snapshot(newest).nodes}
    report = replace(subject.report(MergeStatus.COMMITTED), changes=ChangeCounts.of(log, paths))
    if options.dry_run:
        return report
    made = _write(context, after, log, _united(context, squashed, options))
    for entry in reversed(later):
        made = _repeat(context, made, entry)
    # Those whose manifests the new ones have: an expiry may drop them without moving the branch.
    sources = {after, newest, *(entry.id for entry in later)}
    context.refs.reset_branch(branch, made, tip, frozenset(sources))
    return replace(report, snapshot_id=str(made))


def _lineage(
    context: Context, branch: str, tip: SnapshotId, after: SnapshotId
) -> list[SnapshotEntry]:
    """The snapshots of a branch after one of them, newest first."""
    found: list[SnapshotEntry] = []
    for entry in context.refs.ancestry(tip):
        if entry.id == after:
            return found
        found.append(entry)
    raise _not_between(branch, after)


def _not_between(branch: str, snapshot_id: SnapshotId) -> InvalidInputError:
    return InvalidInputError(
        f"{snapshot_id} is not where it should be in the history of branch {branch!r}: squash "
        "needs two of its snapshots, the older one first",
        kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
    )


# --- what is written ---


def _united(context: Context, squashed: Sequence[SnapshotEntry], options: MergeOptions) -> Snapshot:
    """The newest of some snapshots, with a message and metadata for all of them."""
    messages = [entry.message for entry in reversed(squashed) if entry.message]
    if len(messages) > SHOWN_MESSAGES:
        messages = [*messages[:SHOWN_MESSAGES], "…"]
    own = {entry.id for entry in squashed}
    others = [one for entry in squashed for one in other_parents(entry.metadata)]
    metadata: dict[str, Any] = {
        **context.default_commit_metadata,
        **(options.metadata or {}),
        **squash_metadata(
            [entry.id for entry in squashed],
            [one for one in dict.fromkeys(others) if one not in own],
            [one for entry in squashed for one in merged_commits(entry.metadata)],
        ),
    }
    newest = context.assets.snapshot(squashed[0].id)
    message = "\n".join(messages) if options.message is None else options.message
    marked = with_marks(metadata, united_marks(entry.metadata for entry in squashed))
    return replace(newest, message=message, metadata=marked)


def _repeat(context: Context, parent: SnapshotId, entry: SnapshotEntry) -> SnapshotId:
    """Write a snapshot once more, upon another parent."""
    old = context.assets.snapshot(entry.id)
    log = context.assets.log(entry.id)
    if log is None:
        log = difference(context, parent, entry.id)
    metadata: Metadata = {**entry.metadata, REWRITTEN_FROM: str(entry.id)}
    again = replace(old, message=entry.message, metadata=metadata)
    return _write(context, parent, log, again, entry.pruned_ancestor_tx_logs)


def _write(
    context: Context,
    parent: SnapshotId,
    log: TransactionLog,
    like: Snapshot,
    pruned: tuple[SnapshotId, ...] = (),
) -> SnapshotId:
    """Store a snapshot with the nodes of another, and make it known; no branch points to it.

    It has the manifests of that other one, which may have been collected meanwhile.
    """
    made = SnapshotId.random()
    before = context.refs.entry(parent)
    snapshot = replace(
        like,
        id=made,
        parent_id=parent if context.generation.stores_parent else None,
        flushed_at=later_than(before.flushed_at),
    )
    files: list[Snapshot | TransactionLog] = [snapshot, replace(log, id=made)]
    context.storage.each(context.assets.save_file, files)
    context.assets.make_durable([log_key(made), snapshot_key(made)])
    context.refs.register_detached(snapshot.entry(parent, pruned), frozenset((like.id,)))
    return made


# --- what changed ---


def difference(context: Context, before: SnapshotId, after: SnapshotId) -> TransactionLog:
    """The transaction log of a commit that leads from one snapshot to another."""
    old, new = StoredState(context, before), StoredState(context, after)
    was = {node.id: node for node in old.nodes}
    now = {node.id: node for node in new.nodes}
    logged = logged_between(context, before, after)
    made = [node for node in now.values() if node.id not in was]
    gone = [node for node in was.values() if node.id not in now]
    both = [(was[node.id], node) for node in now.values() if node.id in was]
    updated = [node for earlier, node in both if earlier.user_data != node.user_data]
    chunks: dict[NodeId, Coords] = {}
    for node in made:
        if isinstance(node, ArrayNode):
            chunks[node.id] = new.table(node).coords
    for earlier, node in both:
        if isinstance(node, ArrayNode) and isinstance(earlier, ArrayNode):
            chunks[node.id] = delta_between(old, earlier, new, node, logged).coords
    moves = [
        Move(earlier.path, node.path, node.id, isinstance(node, ArrayNode))
        for earlier, node in both
        if earlier.path != node.path
    ]
    return TransactionLog(
        id=after,
        new_groups=_ids(made, GroupNode),
        new_arrays=_ids(made, ArrayNode),
        deleted_groups=_ids(gone, GroupNode),
        deleted_arrays=_ids(gone, ArrayNode),
        updated_arrays=_ids(updated, ArrayNode),
        updated_groups=_ids(updated, GroupNode),
        updated_chunks={one: chunks[one] for one in sorted(chunks) if len(chunks[one])},
        moved_nodes=tuple(sorted(moves, key=lambda move: segment_order(move.target))),
    )


def _ids(nodes: Iterable[Node], kind: type[Node]) -> tuple[NodeId, ...]:
    return tuple(sorted(node.id for node in nodes if isinstance(node, kind)))
