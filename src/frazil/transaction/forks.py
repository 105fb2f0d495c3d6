"""Merging a fork into its session: which changes are taken, and what cannot be combined.

A fork may have seen some of the session's changes and not others; nodes are distinguished by
their ids. Where both wrote a chunk the fork's is taken, which is how workers divide their work.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, SessionStateError
from frazil.formats.zarr_meta import read_alike
from frazil.ids import NodeId, paths_above
from frazil.model.values import ConflictDetector
from frazil.transaction.changeset import ArrayData, ChangeSet
from frazil.transaction.committing import NodeIds
from frazil.transaction.rebasing import rebase_to
from frazil.transaction.tree import nodes_of
from frazil.transaction.working import WorkingState


def merge_changes(ours: ChangeSet, theirs: ChangeSet) -> None:
    """Take over the changes of a fork; on equal chunks the fork's win.

    Raises:
        SessionStateError: both changed the same node differently, or one deleted what the other
            changed. Nothing is taken over then.
    """
    _require_mergeable(ours, theirs)
    ours.take(theirs)


def _require_mergeable(ours: ChangeSet, theirs: ChangeSet) -> None:
    if ours.moves or theirs.moves:
        raise _unmergeable("sessions that move nodes cannot be merged")
    for one, other in ((ours, theirs), (theirs, ours)):
        _check_nodes(one, other)
        _check_deletions(one, other)
        _check_places(one, other)
    shifted = theirs.shifted & {node_id for node_id, chunks in ours.chunks.items() if chunks}
    if shifted:
        raise _unmergeable("one session shifted an array the other wrote to", str(min(shifted)))


def _check_nodes(ours: ChangeSet, theirs: ChangeSet) -> None:
    taken = theirs.new_groups | theirs.new_arrays
    for path, node in (ours.new_groups | ours.new_arrays).items():
        if taken.get(path, node) != node:
            raise _unmergeable("both sessions created this node", path)
    for node_id, group in ours.updated_groups.items():
        if theirs.updated_groups.get(node_id, group) != group:
            raise _unmergeable("both sessions updated this group", str(node_id))
    for node_id, array in ours.updated_arrays.items():
        if theirs.updated_arrays.get(node_id, array) != array:
            raise _unmergeable("both sessions updated this array", str(node_id))


def _check_deletions(ours: ChangeSet, theirs: ChangeSet) -> None:
    gone = theirs.deleted_groups.keys() & ours.updated_groups.keys()
    if gone:
        path = theirs.deleted_groups[min(gone)]
        raise _unmergeable("one session deleted a group the other updated", path)
    gone = theirs.deleted_arrays.keys() & (ours.updated_arrays.keys() | ours.chunks.keys())
    if gone:
        path = theirs.deleted_arrays[min(gone)]
        raise _unmergeable("one session deleted an array the other changed", path)
    made = {data.id for data in ours.new_groups.values()}
    made |= {data.id for data in ours.new_arrays.values()}
    for path, node_id in theirs.deleted():
        if node_id in made:
            raise _unmergeable("one session deleted a node the other created", path)


def _check_places(ours: ChangeSet, theirs: ChangeSet) -> None:
    """Nodes that one side made need the groups around them."""
    deleted = {path for path, _ in theirs.deleted()} - theirs.new_groups.keys()
    if not deleted and not theirs.new_arrays:
        return
    for path in ours.new_paths():
        for around in paths_above(path):
            if around in theirs.new_arrays:
                raise _unmergeable(
                    "one session made an array where the other needs a group", around
                )
            if around in ours.new_groups:
                break
            if around in deleted:
                raise _unmergeable("one session deleted a group the other put a node into", around)


def require_same_meaning(
    ours: ChangeSet, theirs: ChangeSet, document_of: Callable[[bool, NodeId], bytes | None]
) -> None:
    """Check that chunks of each side are still decoded correctly with the metadata of the other.

    `document_of` returns the metadata that an array had when our session, or theirs, began.

    Raises:
        SessionStateError: one side gave an array other metadata than the other wrote for.
    """
    for is_ours, one, other in ((True, ours, theirs), (False, theirs, ours)):
        arrays, own = _described(other), _described(one)
        # Arrays that one side wrote to, and whose metadata only the other side changed.
        for node_id in sorted((arrays.keys() & one.chunks.keys()) - one.updated_arrays.keys()):
            chunks, now = one.chunks[node_id], arrays[node_id]
            meant = own[node_id].user_data if node_id in own else document_of(is_ours, node_id)
            if chunks.ndim != len(now.shape) or not (
                meant is None or read_alike(meant, now.user_data)
            ):
                raise _unmergeable("one session changed how the chunks of the other are read")
            outside = _outside(chunks.columns()[0].coords, now)
            covered = other.chunks[node_id].coords().tolist() if node_id in other.chunks else []
            if any(coords not in covered for coords in outside.tolist()):
                raise _unmergeable("one session cut off chunks of the other", str(node_id))


def _described(changes: ChangeSet) -> Mapping[NodeId, ArrayData]:
    made = {data.id: data for data in changes.new_arrays.values()}
    return made | changes.updated_arrays


def _outside(coords: npt.NDArray[np.uint32], array: ArrayData) -> npt.NDArray[np.uint32]:
    counts = np.array([max(size.num_chunks, 1) for size in array.shape], np.int64)
    return coords[(coords >= counts).any(axis=1)]


def _unmergeable(problem: str, where: str | None = None) -> SessionStateError:
    facts = {"node": where} if where else {}
    return SessionStateError(
        f"sessions cannot be merged: {problem}", kind=ErrorKind.MERGE_FAILED, **facts
    )


# --- the whole of it ---


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
