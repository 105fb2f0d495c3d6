"""The change of one commit applied to a branch: cherry-pick, or inverted: revert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frazil.errors import ErrorKind, InvalidInputError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.merging.applying import (
    MergeOptions,
    ReportSubject,
    finish,
    plan,
    require_ability,
    settled,
    tip_to_change,
    until_still,
)
from frazil.merging.graph import expired_base, follows_expired
from frazil.merging.policies import decider
from frazil.merging.records import MergeReport, MergeStatus
from frazil.merging.states import StoredState, logged_between
from frazil.merging.three_way import MergeInputs
from frazil.model.history import SnapshotEntry
from frazil.model.lineage import CHERRY_PICKED_FROM, REVERTS
from frazil.model.marks import Marks, brought, own_marks, taken_back
from frazil.model.plain import JSON
from frazil.transaction.context import Context


def cherry_pick(
    context: Context, snapshot_id: SnapshotId, onto: str, options: MergeOptions
) -> MergeReport:
    """Make the change that a snapshot made to its parent on a branch too.

    Of a merge commit that is what the merge brought to its branch.

    Raises:
        MergeConflictError: the branch has changed the same, and the policy does not decide.
        SessionStateError: the parent of the snapshot has expired and is gone.
    """
    entry = context.refs.entry(snapshot_id)
    change = (_parent(context, entry), snapshot_id)
    subject = ReportSubject("cherry-pick", onto, snapshot_id, snapshot_id, change[:1], options)
    origin = {CHERRY_PICKED_FROM: str(snapshot_id)}
    return _replay(context, subject, change, entry.message, origin, _marks(context, entry))


def revert(
    context: Context, snapshot_id: SnapshotId, on: str, options: MergeOptions
) -> MergeReport:
    """Take the change that a snapshot made to its parent back on a branch.

    Raises:
        MergeConflictError: the branch has changed the same since, and the policy does not decide.
        SessionStateError: the parent of the snapshot has expired.
    """
    entry = context.refs.entry(snapshot_id)
    change = (snapshot_id, _parent(context, entry))
    if change[1] != entry.parent_id:
        raise expired_base(change[1])  # garbage collection may have taken chunks that it had
    subject = ReportSubject("revert", on, snapshot_id, snapshot_id, change[:1], options)
    message, origin = f'revert "{entry.message}"', {REVERTS: str(snapshot_id)}
    return _replay(context, subject, change, message, origin, taken_back(entry.metadata))


def _replay(
    context: Context,
    subject: ReportSubject,
    change: tuple[SnapshotId, SnapshotId],
    message: str,
    origin: Mapping[str, JSON],
    marks: Marks,
) -> MergeReport:
    """Make the change from one snapshot to another on a branch; `message` is the usual one."""
    decide, given = decider(subject.options.policy), subject.options.message
    require_ability(context, subject.operation, dry_run=subject.options.dry_run)
    before, after = change

    def attempt() -> MergeReport:
        ours = tip_to_change(context, subject.branch)
        now = replace(subject, ours=ours)
        sides = MergeInputs(
            StoredState(context, before),
            StoredState(context, ours),
            StoredState(context, after),
            logged_between(context, before, ours),
            logged_between(context, before, after),
        )
        planned = plan(context, sides, decide)
        if not planned.is_open and planned.changes.is_empty:
            return now.report(MergeStatus.UP_TO_DATE, ours, planned)
        words = message if given is None else given
        return finish(context, now, planned, words, origin, marks)

    return settled(until_still(attempt))


def _marks(context: Context, entry: SnapshotEntry) -> Marks:
    """The marks of the work that a commit did or took in."""
    if entry.parent_id is None or entry.pruned_ancestor_tx_logs:
        return own_marks(entry.metadata)  # it carries those of expired ancestors too
    return brought(entry.metadata, context.refs.entry(entry.parent_id).metadata)


def _parent(context: Context, entry: SnapshotEntry) -> SnapshotId:
    """The parent that a snapshot had when it was made."""
    if entry.parent_id is None:
        raise InvalidInputError(
            f"{entry.id} is the first snapshot of the repository and changed nothing",
            kind=ErrorKind.NO_SNAPSHOT,
        )
    if entry.pruned_ancestor_tx_logs:
        parent = entry.pruned_ancestor_tx_logs[-1]
        try:
            context.assets.snapshot(parent)
        except SnapshotNotFoundError:
            raise expired_base(parent) from None
        return parent
    if follows_expired(context, entry):
        raise expired_base(entry.id)
    return entry.parent_id
