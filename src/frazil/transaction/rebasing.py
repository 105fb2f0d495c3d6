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
from frazil.model.values import (
    BasicConflictSolver,
    Conflict,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)
from frazil.storage.pool import fan_out
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.conflicts import (
    LazyHierarchy,
    Mine,
    Theirs,
    additions,
    common_coords,
    cut_off,
    detect_conflicts,
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
    found.reverse()
    names = [name for entry in found for name in _log_names(entry, base)]
    load = state.context.assets.log
    # On a local disk most of the time is decoding, which threads do not speed up.
    loaded = map(load, names) if state.context.storage.answers_inline else fan_out(load, names)
    logs = dict(zip(names, loaded, strict=True))
    return [(entry, list(_logs(entry, base, logs))) for entry in found]


def _log_names(entry: SnapshotEntry, base: SnapshotId) -> tuple[SnapshotId, ...]:
    """Logs a commit stands for: those of pruned ancestors after our base, then its own."""
    pruned = entry.pruned_ancestor_tx_logs
    if base in pruned:
        pruned = pruned[pruned.index(base) + 1 :]
    return (*pruned, entry.id)


def _logs(
    entry: SnapshotEntry, base: SnapshotId, logs: Mapping[SnapshotId, TransactionLog | None]
) -> Iterator[TransactionLog]:
    """The same, loaded."""
    for snapshot_id in _log_names(entry, base):
        log = logs[snapshot_id]
        if log is not None:
            yield log
        elif snapshot_id != entry.id or entry.parent_id is not None:
            which = (
                "a commit is missing" if snapshot_id == entry.id else "an expired commit is gone"
            )
            raise SessionStateError(
                f"cannot rebase: the transaction log of {which}",
                kind=ErrorKind.REBASE_TX_LOG_PRUNED,
                snapshot=snapshot_id,
            )


def _pass(
    state: WorkingState, snapshot_id: SnapshotId, logs: list[TransactionLog], solver: ConflictSolver
) -> None:
    """Go past one commit, or fail leaving the session as it is."""
    view = LazyHierarchy(lambda: state.context.assets.snapshot(snapshot_id).nodes)

    @cache
    def paths() -> Mapping[NodeId, str]:
        return {**{node.id: node.path for node in state.base.nodes}, **state.tree.ids()}

    def path_of(node_id: NodeId) -> str:
        return paths().get(node_id, str(node_id))

    with state.lock:
        if state.reliance:
            base = LazyHierarchy(lambda: state.base.nodes)
            _refuse(snapshot_id, broken(state.reliance, base, view, logs))
        # Solutions for one log are undone if a later log cannot be solved.
        changes = state.changes if len(logs) < 2 else copy.deepcopy(state.changes)
        for log in logs:
            theirs = Theirs(log, view)
            conflicts = detect_conflicts(Mine(changes, lambda: state.tree, path_of), theirs)
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
    if conflicts:
        if not isinstance(solver, BasicConflictSolver) or not _can_solve(solver, conflicts):
            return conflicts
        if solver.on_chunk_conflict == VersionSelection.UseTheirs:
            if cut_off(ours, theirs):
                return conflicts  # their chunks lie outside our shape
            _drop_common_chunks(ours, theirs.log)
    for node in additions(ours, theirs):
        ours.delete(node)  # nodes they created below it are deleted too, and listed in our log
    _adjust_moves(ours, theirs)
    return []


def _can_solve(solver: BasicConflictSolver, conflicts: list[Conflict]) -> bool:
    allowed = {
        ConflictType.ChunkDoubleUpdate: solver.on_chunk_conflict != VersionSelection.Fail,
        ConflictType.DeleteOfUpdatedArray: not solver.fail_on_delete_of_updated_array,
        ConflictType.DeleteOfUpdatedGroup: not solver.fail_on_delete_of_updated_group,
    }
    return all(allowed.get(conflict.conflict_type, False) for conflict in conflicts)


def _drop_common_chunks(ours: ChangeSet, log: TransactionLog) -> None:
    """Undo our writes to chunks they wrote too; by node id: the array may be deleted by now."""
    for node_id in ours.chunks.keys() & log.updated_chunks.keys():
        changes = ours.chunks[node_id]
        common = common_coords(changes.coords(), log.updated_chunks[node_id])
        if common:
            changes.forget(set(common))


def _adjust_moves(ours: ChangeSet, theirs: Theirs) -> None:
    """Move nodes they created below a group we moved; drop moves of nodes they deleted."""
    if not ours.moves:
        return
    follow = followers(ours, theirs)
    for node_id in lost_moves(ours, theirs):
        del ours.moves[node_id]
    for move in follow:
        ours.record_move(move.source, move.target, move.node_id, is_array=move.is_array)
