"""What a session takes over from a fork that is merged into it."""

from __future__ import annotations

import copy

from frazil.ids import NodeId
from frazil.model.values import ConflictDetector
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.mergeable import merge_changes, require_same_meaning
from frazil.transaction.numbering import NodeIds
from frazil.transaction.rebasing import rebase_to
from frazil.transaction.tree import nodes_of
from frazil.transaction.working import WorkingState


def merge_state(ours: WorkingState, theirs: WorkingState, origins: NodeIds, *, fork: bool) -> None:
    """Take over the changes of another session, or of a `fork` of this one.

    `origins` are the ids, in the session, of nodes that a fork knows by numbers.

    Raises:
        SessionStateError: the changes do not go together.
        RebaseFailedError: the fork changed what a commit since then has changed.
    """
    changes = _caught_up(ours, theirs, origins) if fork else theirs.changes
    numbers = {node_id: number for number, node_id in origins.items()}
    # Not with the context of the other: that of each worker has caches of its own.
    assets = ours.context.assets

    def document(is_ours: bool, node_id: NodeId) -> bytes | None:
        """The metadata that an array had when this session began, or the other one."""
        if is_ours:
            found = nodes_of(ours.base.nodes, {node_id})
        else:
            known = numbers.get(node_id, node_id)
            found = nodes_of(assets.snapshot(theirs.base_id).nodes, {known})
        return found[0].user_data if found else None

    with ours.editing():
        require_same_meaning(ours.changes, changes, document)
        merge_changes(ours.changes, changes)
        ours.reliance |= theirs.reliance
        ours.move_base(ours.base_id)


def _caught_up(ours: WorkingState, fork: WorkingState, origins: NodeIds) -> ChangeSet:
    """The changes of a fork, on top of the commits that the session has been rebased to."""
    changes = fork.changes.renamed(origins) if origins else fork.changes
    began, now = fork.known_base, ours.known_base
    if began == now or changes.is_empty:
        return changes
    behind = WorkingState(ours.context, began, copy.deepcopy(changes))
    behind.reliance = fork.reliance
    rebase_to(behind, now, ConflictDetector())
    return behind.changes
