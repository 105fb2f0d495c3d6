"""Which of our changes clash with somebody's commit, and what a solver may do about it.

Pure rules of format reference 6. *Ours* is the change set of a session, *theirs* the transaction
log of one commit made since the session began, with the nodes of its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from frazil.ids import NodeId, is_below, parent_path
from frazil.model.history import TransactionLog
from frazil.model.nodes import ArrayNode, Coordinates, Node
from frazil.model.values import (
    BasicConflictSolver,
    Conflict,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)
from frazil.session.changeset import ChangeSet


@dataclass(frozen=True, slots=True)
class Theirs:
    """One commit of somebody else: what it changed, and the hierarchy it left."""

    log: TransactionLog
    nodes: Mapping[str, Node]


def detect(ours: ChangeSet, theirs: Theirs, path_of: Callable[[NodeId], str]) -> list[Conflict]:
    """All conflicts, in the order of the checks; `path_of` names nodes of our base."""
    if theirs.log.moved_nodes:
        return [Conflict(ConflictType.MoveOperationCannotBeRebased, "")]
    return [
        *_new_nodes(ours, theirs),
        *_moved_targets(ours, theirs),
        *_metadata(ours, theirs.log, path_of),
        *_chunks(ours, theirs.log, path_of),
        *_deletes(ours, theirs),
    ]


def _new_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[Conflict]:
    deleted = {path for path, _ in ours.deleted()}
    for path in ours.new_paths():
        if path in theirs.nodes and path not in deleted:
            yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, path)
        blocker = _array_above(path, theirs.nodes)
        if blocker is not None and blocker not in deleted:
            yield Conflict(ConflictType.NewNodeInInvalidGroup, blocker)


def _moved_targets(ours: ChangeSet, theirs: Theirs) -> Iterator[Conflict]:
    """A node they made where we moved one to must not vanish silently."""
    for move in ours.moves.values():
        there = theirs.nodes.get(move.target)
        if there is not None and there.id not in ours.moves:
            yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, move.target)
        blocker = _array_above(move.target, theirs.nodes)
        if blocker is not None and theirs.nodes[blocker].id not in ours.moves:
            yield Conflict(ConflictType.NewNodeInInvalidGroup, blocker)


def _array_above(path: str, nodes: Mapping[str, Node]) -> str | None:
    while path != "/":
        path = parent_path(path)
        if isinstance(nodes.get(path), ArrayNode):
            return path
    return None


def _metadata(
    ours: ChangeSet, log: TransactionLog, path_of: Callable[[NodeId], str]
) -> Iterator[Conflict]:
    both = (ours.updated_arrays.keys() & set(log.updated_arrays)) | (
        ours.updated_groups.keys() & set(log.updated_groups)
    )
    for node_id in sorted(both):
        yield Conflict(ConflictType.ZarrMetadataDoubleUpdate, path_of(node_id))
    for node_id in sorted(ours.updated_arrays.keys() & set(log.deleted_arrays)):
        yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedArray, path_of(node_id))
    for node_id in sorted(ours.updated_groups.keys() & set(log.deleted_groups)):
        yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedGroup, path_of(node_id))


def _chunks(
    ours: ChangeSet, log: TransactionLog, path_of: Callable[[NodeId], str]
) -> Iterator[Conflict]:
    written = {node_id for node_id, changes in ours.chunks.items() if changes}
    for node_id in sorted(written & set(log.deleted_arrays)):
        yield Conflict(ConflictType.ChunksUpdatedInDeletedArray, path_of(node_id))
    for node_id in sorted(written & set(log.updated_arrays)):
        yield Conflict(ConflictType.ChunksUpdatedInUpdatedArray, path_of(node_id))
    for node_id in sorted(written & log.updated_chunks.keys()):
        common = _common(ours.chunks[node_id].coords(), log.updated_chunks[node_id])
        if common:
            yield Conflict(ConflictType.ChunkDoubleUpdate, path_of(node_id), common)


def _common(
    ours: np.ndarray[tuple[int, ...], np.dtype[np.uint32]],
    theirs: np.ndarray[tuple[int, ...], np.dtype[np.uint32]],
) -> list[Coordinates]:
    """Coordinates in both lists, ascending."""
    if not len(ours) or not len(theirs) or ours.shape[1] != theirs.shape[1]:
        return []
    fewer, more = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    if fewer.shape[1] == 0:
        return [()]
    low, high = fewer.min(axis=0), fewer.max(axis=0)
    near = more[((more >= low) & (more <= high)).all(axis=1)]
    wanted = set(map(tuple, fewer.tolist()))
    return sorted({c for c in map(tuple, near.tolist()) if c in wanted})


def _deletes(ours: ChangeSet, theirs: Theirs) -> Iterator[Conflict]:
    log = theirs.log
    changed_arrays = set(log.updated_arrays) | log.updated_chunks.keys()
    changed_groups = set(log.updated_groups)
    fresh = set(log.new_groups) | set(log.new_arrays)
    for path in ours.deleted_arrays.values():
        node = theirs.nodes.get(path)
        if node is not None and node.id in changed_arrays:
            yield Conflict(ConflictType.DeleteOfUpdatedArray, path)
    for node_id, path in ours.deleted_groups.items():
        node = theirs.nodes.get(path)
        has_new = node is not None and node.id == node_id and _below(path, theirs.nodes, fresh)
        if node is not None and (node.id in changed_groups or has_new):
            yield Conflict(ConflictType.DeleteOfUpdatedGroup, path)


def _below(path: str, nodes: Mapping[str, Node], chosen: set[NodeId]) -> list[Node]:
    return [node for node in nodes.values() if node.id in chosen and is_below(node.path, path)]


# --- solving ---


def solve(
    solver: ConflictSolver, ours: ChangeSet, theirs: Theirs, conflicts: list[Conflict]
) -> list[Conflict]:
    """Patch our changes so that they go on top of theirs; return what could not be solved.

    Nothing is patched unless everything can be.
    """
    if not conflicts:
        _follow_moves(ours, theirs)
        return []
    if not isinstance(solver, BasicConflictSolver):
        return conflicts
    unsolved = [conflict for conflict in conflicts if not _is_solvable(solver, conflict)]
    if unsolved:
        return conflicts
    if solver.on_chunk_conflict == VersionSelection.UseTheirs:
        _drop_common_chunks(ours, theirs.log)
    for conflict in conflicts:
        if conflict.conflict_type == ConflictType.DeleteOfUpdatedGroup:
            _delete_additions(ours, theirs, conflict.path)
    return []


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


def _drop_common_chunks(ours: ChangeSet, log: TransactionLog) -> None:
    """Take back our writes to chunks they wrote; by id, for the array may be gone since."""
    for node_id in ours.chunks.keys() & log.updated_chunks.keys():
        changes = ours.chunks[node_id]
        common = _common(changes.coords(), log.updated_chunks[node_id])
        if common:
            changes.forget(set(common))


def _delete_additions(ours: ChangeSet, theirs: Theirs, group: str) -> None:
    """What they put into a group we delete goes with it; it would have no parent otherwise."""
    fresh = set(theirs.log.new_groups) | set(theirs.log.new_arrays)
    for node in _below(group, theirs.nodes, fresh):
        if isinstance(node, ArrayNode):
            ours.delete_array(node.path, node.id)
        else:
            ours.delete_group(node.path, node.id)


def _follow_moves(ours: ChangeSet, theirs: Theirs) -> None:
    """Nodes they made below a group we moved move with it."""
    moved_groups = [move for move in ours.moves.values() if not move.is_array]
    fresh = set(theirs.log.new_groups) | set(theirs.log.new_arrays)
    for move in moved_groups:
        for node in _below(move.source, theirs.nodes, fresh):
            if node.id not in ours.moves:
                target = move.target + node.path[len(move.source) :]
                ours.record_move(node.path, target, node.id, is_array=isinstance(node, ArrayNode))
