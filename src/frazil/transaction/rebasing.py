"""Putting a session's changes on top of commits made since it began."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache

from frazil.errors import (
    ConflictError,
    ErrorKind,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import SnapshotEntry, TransactionLog
from frazil.model.nodes import ArrayNode
from frazil.model.values import (
    BasicConflictSolver,
    Conflict,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.conflicts import (
    Mine,
    Theirs,
    View,
    additions,
    common_coords,
    cut_off,
    detect,
    followers,
    lost_moves,
)
from frazil.transaction.reliance import broken
from frazil.transaction.working import WorkingState


def rebase(state: WorkingState, branch: str, solver: ConflictSolver) -> int:
    """Move the base of a session commit by commit to the tip of its branch.

    Returns the number of commits that were passed. On failure the session stays valid on the
    last commit that went well.

    Raises:
        RebaseFailedError: a conflict the solver does not solve.
    """
    try:
        tip = state.context.refs.branch_tip(branch)
    except RefNotFoundError:
        return 0
    return rebase_to(state, tip, solver)


def rebase_to(state: WorkingState, tip: SnapshotId, solver: ConflictSolver) -> int:
    """The same, up to a snapshot that descends from the base.

    Raises:
        RebaseFailedError: a conflict the solver does not solve.
        ConflictError: it does not descend from the base.
    """
    if tip == state.base_id:
        return 0
    newer = _newer(state, tip)
    for entry, logs in newer:
        _pass(state, entry.id, logs, solver)
    return len(newer)


def _newer(
    state: WorkingState, tip: SnapshotId
) -> list[tuple[SnapshotEntry, list[TransactionLog]]]:
    """Commits after our base, oldest first, each with the logs to replay for it."""
    base = state.base_id
    found: list[SnapshotEntry] = []
    for entry in state.context.refs.ancestry(tip):
        if entry.id == base:
            break
        found.append(entry)
        if base in entry.pruned_ancestor_tx_logs:
            break  # our base has expired; what came after it is in the pruned logs
    else:
        raise ConflictError(
            expected_parent=str(base),
            actual_parent=str(tip),
            message="the snapshot this session is based on is no longer in the history of its "
            "branch, which was reset or expired; start a new session",
        )
    return [(entry, list(_logs(state, entry, base))) for entry in reversed(found)]


def _logs(state: WorkingState, entry: SnapshotEntry, base: SnapshotId) -> Iterator[TransactionLog]:
    """Logs a commit stands for: those of pruned ancestors after our base, then its own."""
    pruned = entry.pruned_ancestor_tx_logs
    if base in pruned:
        pruned = pruned[pruned.index(base) + 1 :]
    for snapshot_id in pruned:
        log = state.context.assets.log(snapshot_id)
        if log is None:
            raise SessionStateError(
                "cannot rebase: the transaction log of an expired commit is gone",
                kind=ErrorKind.REBASE_TX_LOG_PRUNED,
                snapshot=snapshot_id,
            )
        yield log
    log = state.context.assets.log(entry.id)
    if log is None and entry.parent_id is not None:
        raise SessionStateError(
            "cannot rebase: the transaction log of a commit is missing",
            kind=ErrorKind.REBASE_TX_LOG_PRUNED,
            snapshot=entry.id,
        )
    if log is not None:
        yield log


def _pass(
    state: WorkingState, snapshot_id: SnapshotId, logs: list[TransactionLog], solver: ConflictSolver
) -> None:
    """Go past one commit, or fail leaving the session as it is."""
    view = View(lambda: state.context.assets.snapshot(snapshot_id).nodes)

    @cache
    def paths() -> Mapping[NodeId, str]:
        return {**{node.id: node.path for node in state.base.nodes}, **state.tree.ids()}

    def path_of(node_id: NodeId) -> str:
        return paths().get(node_id, str(node_id))

    with state.lock:
        if state.reliance:
            base = View(lambda: state.base.nodes)
            _refuse(snapshot_id, broken(state.reliance, base, view, logs))
        # What was solved for one log must not stay when a later one cannot be.
        changes = state.changes if len(logs) < 2 else copy.deepcopy(state.changes)
        for log in logs:
            theirs = Theirs(log, view)
            conflicts = detect(Mine(changes, lambda: state.tree, path_of), theirs)
            _refuse(snapshot_id, solve(solver, changes, theirs, conflicts))
        state.changes = changes
        state.move_base(snapshot_id)


def _refuse(snapshot_id: SnapshotId, unsolved: list[Conflict]) -> None:
    if unsolved:
        raise RebaseFailedError(
            str(snapshot_id),
            unsolved,
            message=f"rebase failed: the changes of this session conflict with snapshot "
            f"{snapshot_id} ({len(unsolved)} conflicts)",
        )


# --- solving ---


def solve(
    solver: ConflictSolver, ours: ChangeSet, theirs: Theirs, conflicts: list[Conflict]
) -> list[Conflict]:
    """Patch our changes so that they go on top of theirs; return what could not be solved.

    Nothing is patched unless everything can be.
    """
    if conflicts and not _are_solvable(solver, ours, theirs, conflicts):
        return conflicts
    if conflicts and _prefers_theirs(solver):
        _drop_common_chunks(ours, theirs.log)
    _delete_additions(ours, theirs)
    _adjust_moves(ours, theirs)
    return []


def _are_solvable(
    solver: ConflictSolver, ours: ChangeSet, theirs: Theirs, conflicts: list[Conflict]
) -> bool:
    if not isinstance(solver, BasicConflictSolver):
        return False
    if not all(_is_solvable(solver, conflict) for conflict in conflicts):
        return False
    # Their chunks cannot be kept where our shape has no place for them.
    return not (_prefers_theirs(solver) and cut_off(ours, theirs))


def _is_solvable(solver: BasicConflictSolver, conflict: Conflict) -> bool:
    match conflict.conflict_type:
        case ConflictType.ChunkDoubleUpdate:
            return solver.on_chunk_conflict != VersionSelection.Fail
        case ConflictType.DeleteOfUpdatedArray:
            return not solver.fail_on_delete_of_updated_array
        case ConflictType.DeleteOfUpdatedGroup:
            return not solver.fail_on_delete_of_updated_group
        case _:
            return False


def _prefers_theirs(solver: ConflictSolver) -> bool:
    return (
        isinstance(solver, BasicConflictSolver)
        and solver.on_chunk_conflict == VersionSelection.UseTheirs
    )


def _drop_common_chunks(ours: ChangeSet, log: TransactionLog) -> None:
    """Take back our writes to chunks they wrote; by id, for the array may be gone since."""
    for node_id in ours.chunks.keys() & log.updated_chunks.keys():
        changes = ours.chunks[node_id]
        common = common_coords(changes.coords(), log.updated_chunks[node_id])
        if common:
            changes.forget(set(common))


def _delete_additions(ours: ChangeSet, theirs: Theirs) -> None:
    """What they put where we delete goes too, and our log tells so."""
    for node in additions(ours, theirs):
        if isinstance(node, ArrayNode):
            ours.delete_array(node.path, node.id)
        else:
            ours.delete_group(node.path, node.id)


def _adjust_moves(ours: ChangeSet, theirs: Theirs) -> None:
    """Nodes they made below a group we moved go along; those they deleted do not."""
    if not ours.moves:
        return
    follow = followers(ours, theirs)
    for node_id in lost_moves(ours, theirs):
        del ours.moves[node_id]
    for move in follow:
        ours.record_move(move.source, move.target, move.node_id, is_array=move.is_array)
