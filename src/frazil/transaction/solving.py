"""What a solver may do about conflicts, and what a rebase must carry along in any case."""

from __future__ import annotations

from frazil.model.history import TransactionLog
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
    Theirs,
    additions,
    common_coords,
    cut_off,
    followers,
    lost_moves,
)


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
