"""One commit's change made elsewhere, forwards (cherry-pick) or backwards (revert)."""

from __future__ import annotations

from frazil.errors import ErrorKind, InvalidInputError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.merging.applying import (
    Subject,
    Wish,
    finish,
    plan,
    require_ability,
    settled,
    tip_of,
    until_still,
)
from frazil.merging.graph import expired_base, was_adopted
from frazil.merging.lineage import CHERRY_PICKED_FROM, REVERTS
from frazil.merging.policies import FAIL, Decide, Policy, decider
from frazil.merging.records import MergeReport, MergeStatus
from frazil.merging.states import StoredState, logged_between
from frazil.merging.three_way import Sides
from frazil.model.history import SnapshotEntry
from frazil.model.marks import own_marks, taken_back
from frazil.transaction.context import Context


def cherry_pick(
    context: Context,
    snapshot_id: SnapshotId,
    onto: str,
    policy: Policy = FAIL,
    wish: Wish | None = None,
) -> MergeReport:
    """Make the change that a snapshot made to its parent on a branch too.

    Of a merge commit that is what the merge brought to its branch.

    Raises:
        MergeConflictError: the branch has changed the same, and the policy does not decide.
        SessionStateError: the parent of the snapshot has expired and is gone.
    """
    entry = context.refs.entry(snapshot_id)
    parent = _parent(context, entry)
    message = wish.message if wish and wish.message is not None else entry.message
    return _replay(
        context,
        Subject("cherry-pick", onto, snapshot_id, snapshot_id, (parent,), wish or Wish()),
        (parent, snapshot_id),
        decider(policy),
        (message, CHERRY_PICKED_FROM),
    )


def revert(
    context: Context,
    snapshot_id: SnapshotId,
    on: str,
    policy: Policy = FAIL,
    wish: Wish | None = None,
) -> MergeReport:
    """Take the change that a snapshot made to its parent back on a branch.

    Raises:
        MergeConflictError: the branch has changed the same since, and the policy does not decide.
        SessionStateError: the parent of the snapshot has expired.
    """
    entry = context.refs.entry(snapshot_id)
    parent = _parent(context, entry)
    if parent != entry.parent_id:
        raise expired_base(parent)  # garbage collection may have taken chunks that it had
    message = wish.message if wish and wish.message is not None else f'revert "{entry.message}"'
    return _replay(
        context,
        Subject("revert", on, snapshot_id, snapshot_id, (snapshot_id,), wish or Wish()),
        (snapshot_id, parent),
        decider(policy),
        (message, REVERTS),
    )


def _replay(
    context: Context,
    subject: Subject,
    change: tuple[SnapshotId, SnapshotId],
    decide: Decide,
    words: tuple[str, str],
) -> MergeReport:
    """Make the change from one snapshot to another on a branch; `words` are message and key."""
    require_ability(context, subject.operation, dry_run=subject.wish.dry_run)
    before, after = change
    message, key = words
    metadata = context.refs.entry(subject.source).metadata
    marks = own_marks(metadata) if key == CHERRY_PICKED_FROM else taken_back(metadata)

    def attempt() -> MergeReport:
        ours = tip_of(context, subject.branch)
        now = Subject(
            subject.operation, subject.branch, subject.source, ours, (before,), subject.wish
        )
        sides = Sides(
            StoredState(context, before),
            StoredState(context, ours),
            StoredState(context, after),
            logged_between(context, before, ours),
            logged_between(context, before, after),
        )
        planned = plan(context, sides, decide)
        if not planned.is_open and planned.changes.is_empty:
            return now.report(MergeStatus.UP_TO_DATE, ours, planned)
        return finish(context, now, planned, message, {key: str(subject.source)}, marks)

    return settled(until_still(attempt))


def _parent(context: Context, entry: SnapshotEntry) -> SnapshotId:
    """The parent that a snapshot had when it was made.

    Raises:
        InvalidInputError: it had none.
        SessionStateError: it has expired and is gone.
    """
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
    is_root = context.refs.entry(entry.parent_id).parent_id is None
    if is_root and was_adopted(context, entry.id, entry.parent_id):
        raise expired_base(entry.id)
    return entry.parent_id
