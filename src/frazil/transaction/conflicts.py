"""Which of our changes conflict with a commit of others.

*Ours* is the change set of a session, *theirs* the transaction log of one commit made since the
session began, with the hierarchy of its snapshot. Nodes are compared by their ids: there may
be another node at a path by now. Where no conflict is found, the result must have the changes of
both sides, and our log must list all of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from frazil.arrays import Coords
from frazil.flatbuf.tuning import FEW_COORDS
from frazil.formats.zarr_meta import read_alike, regular_chunk_shape
from frazil.ids import NodeId, is_below, parent_path, paths_above
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Coordinates, GroupNode, Node
from frazil.model.values import Conflict, ConflictType
from frazil.transaction.changeset import ArrayData, ChangeSet
from frazil.transaction.tree import NodeTree, nodes_of


class LazyHierarchy(Mapping[str, Node]):
    """The hierarchy of a snapshot; it is read when the first node is asked for.

    Most sessions only write chunks and never need the nodes of others.
    """

    def __init__(self, load: Callable[[], Sequence[Node]]) -> None:
        self._load = load

    @cached_property
    def _nodes(self) -> Sequence[Node]:
        return self._load()

    @cached_property
    def _tree(self) -> NodeTree:
        return NodeTree(self._nodes)

    def __getitem__(self, path: str) -> Node:
        found = self._tree.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.paths())

    def __len__(self) -> int:
        return len(self._nodes)

    def below(self, path: str) -> list[Node]:
        """All nodes below a path."""
        return self._tree.descendants(path)

    def of_ids(self, ids: Set[NodeId]) -> list[Node]:
        """Those of some nodes that still exist."""
        return nodes_of(self._nodes, ids) if ids else []


@dataclass(frozen=True, slots=True)
class Mine:
    """Our side: the changes, and the hierarchy that they were made in."""

    changes: ChangeSet
    tree: Callable[[], NodeTree]
    path_of: Callable[[NodeId], str]
    """paths of nodes of our base and of new ones, by id"""


@dataclass(frozen=True, slots=True)
class Theirs:
    """One commit of another session: what it changed, and the hierarchy it left."""

    log: TransactionLog
    view: LazyHierarchy

    @property
    def new_ids(self) -> frozenset[NodeId]:
        """Nodes that came with the commit."""
        return frozenset((*self.log.new_groups, *self.log.new_arrays))

    def new_nodes(self) -> list[Node]:
        """The same, without nodes that were deleted again."""
        return self.view.of_ids(self.new_ids)


def detect_conflicts(mine: Mine, theirs: Theirs) -> list[Conflict]:
    """All conflicts, in the order of the checks."""
    if theirs.log.moved_nodes:
        return [Conflict(ConflictType.MoveOperationCannotBeRebased, "")]
    ours = mine.changes
    return [
        *_new_nodes(mine, theirs),
        *_moves(ours, theirs),
        *_metadata(mine, theirs.log),
        *_chunks(mine, theirs),
        *_deletes(ours, theirs),
    ]


# --- new nodes ---


def _new_nodes(mine: Mine, theirs: Theirs) -> Iterator[Conflict]:
    ours, view = mine.changes, theirs.view
    replaced = {path for path, _ in ours.deleted()}
    for path in ours.new_paths():
        # What is there now where we put another node in the place of one is told by `_deletes`.
        if path not in replaced and view.get(path) is not None:
            yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, path)
        invalid = _array_above(path, view) or _lost_parent(path, mine, view)
        if invalid is not None:
            yield Conflict(ConflictType.NewNodeInInvalidGroup, invalid)
    if ours.new_arrays:
        parents = {parent_path(node.path) for node in theirs.new_nodes()}
        around = {path for parent in parents for path in _upward(parent)} - replaced
        for path in sorted(around & ours.new_arrays.keys()):
            yield Conflict(ConflictType.NewNodeInInvalidGroup, path)


def _array_above(path: str, view: LazyHierarchy) -> str | None:
    return next((one for one in paths_above(path) if isinstance(view.get(one), ArrayNode)), None)


def _lost_parent(path: str, mine: Mine, view: LazyHierarchy) -> str | None:
    """The group we put a node into, if they deleted it."""
    parent = parent_path(path)
    if path == "/" or parent in mine.changes.new_groups or view.get(parent) is not None:
        return None
    return parent if mine.tree().get(parent) is not None else None


# --- moves ---


def _moves(ours: ChangeSet, theirs: Theirs) -> Iterator[Conflict]:
    if not ours.moves:
        return
    view, lost = theirs.view, lost_moves(ours, theirs)
    for node_id in lost:
        if not _goes_along(ours.moves[node_id], ours, lost):
            source = ours.moves[node_id].source
            yield Conflict(ConflictType.MoveOperationCannotBeRebased, source)
    left = [move for node_id, move in ours.moves.items() if node_id not in lost]
    follow = followers(ours, theirs)
    moving = {move.node_id for move in (*left, *follow)}
    targets = {move.target for move in left}
    for move in follow:
        if move.target in targets:
            yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, move.target)
    groups = {move.target for move in left if not move.is_array}
    for move in left:
        there = view.get(move.target)
        for node in [*([] if there is None else [there]), *view.below(move.target)]:
            if node.id not in moving:
                yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, node.path)
        parent = parent_path(move.target)
        found = view.get(parent)
        if parent in groups or (isinstance(found, GroupNode) and found.id not in moving):
            continue
        yield Conflict(ConflictType.NewNodeInInvalidGroup, parent)


def lost_moves(ours: ChangeSet, theirs: Theirs) -> set[NodeId]:
    """Nodes we moved that are no longer there."""
    return ours.moves.keys() - {node.id for node in theirs.view.of_ids(ours.moves.keys())}


def _goes_along(move: Move, ours: ChangeSet, lost: Set[NodeId]) -> bool:
    """Whether a node moved only because one of its parent groups did, which still exists."""
    return any(
        not group.is_array
        and group.node_id not in lost
        and is_below(move.source, group.source)
        and move.target == group.target + move.source[len(group.source) :]
        for group in ours.moves.values()
    )


def followers(ours: ChangeSet, theirs: Theirs) -> list[Move]:
    """Moves for nodes that they created below groups we moved: these must move along."""
    if not ours.moves:
        return []
    fresh = theirs.new_ids
    found = []
    for node in theirs.new_nodes():
        if node.id in ours.moves:
            continue
        home = theirs.view.get(parent_path(node.path))
        while home is not None and home.id in fresh and home.path != "/":
            home = theirs.view.get(parent_path(home.path))
        move = None if home is None else ours.moves.get(home.id)
        if move is not None:
            target = move.target + node.path[len(move.source) :]
            found.append(Move(node.path, target, node.id, isinstance(node, ArrayNode)))
    return found


# --- metadata and chunks ---


def _metadata(mine: Mine, log: TransactionLog) -> Iterator[Conflict]:
    ours, path_of = mine.changes, mine.path_of
    both = (ours.updated_arrays.keys() & set(log.updated_arrays)) | (
        ours.updated_groups.keys() & set(log.updated_groups)
    )
    for node_id in sorted(both):
        yield Conflict(ConflictType.ZarrMetadataDoubleUpdate, path_of(node_id))
    for node_id in sorted(ours.updated_arrays.keys() & set(log.deleted_arrays)):
        yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedArray, path_of(node_id))
    for node_id in sorted(ours.updated_groups.keys() & set(log.deleted_groups)):
        yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedGroup, path_of(node_id))


def _chunks(mine: Mine, theirs: Theirs) -> Iterator[Conflict]:
    ours, log, path_of = mine.changes, theirs.log, mine.path_of
    written = {node_id for node_id, changes in ours.chunks.items() if changes}
    for node_id in sorted(written & set(log.deleted_arrays)):
        yield Conflict(ConflictType.ChunksUpdatedInDeletedArray, path_of(node_id))
    misread = set(_misread(ours, theirs))
    for node_id in sorted(written & set(log.updated_arrays) | misread):
        yield Conflict(ConflictType.ChunksUpdatedInUpdatedArray, path_of(node_id))
    cut = cut_off(ours, theirs)
    for node_id in sorted({*(written & log.updated_chunks.keys()), *cut} - misread):
        common = set(cut.get(node_id, ()))
        if node_id in written:
            common |= set(common_coords(ours.chunks[node_id].coords(), log.updated_chunks[node_id]))
        if common:
            yield Conflict(ConflictType.ChunkDoubleUpdate, path_of(node_id), sorted(common))


def _misread(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeId]:
    """Arrays whose chunks they wrote while we changed how chunks are decoded, or shifted them."""
    chunks = {node_id for node_id, coords in theirs.log.updated_chunks.items() if len(coords)}
    yield from ours.shifted & chunks
    for node in theirs.view.of_ids(ours.updated_arrays.keys() & chunks):
        if not read_alike(ours.updated_arrays[node.id].user_data, node.user_data):
            yield node.id


def cut_off(ours: ChangeSet, theirs: Theirs) -> dict[NodeId, list[Coordinates]]:
    """Chunks they wrote that lie, wholly or in part, outside the shape we gave an array."""
    found = {}
    for node in theirs.view.of_ids(ours.updated_arrays.keys() & theirs.log.updated_chunks.keys()):
        coords = theirs.log.updated_chunks[node.id]
        if isinstance(node, ArrayNode) and coords.shape[1] == len(node.shape):
            outside = _outside(coords, node, ours.updated_arrays[node.id])
            if outside.any():
                found[node.id] = sorted(map(tuple, coords[outside].tolist()))
    return found


def _outside(coords: Coords, node: ArrayNode, ours: ArrayData) -> npt.NDArray[np.bool_]:
    outside = np.zeros(len(coords), np.bool_)
    if len(ours.shape) != len(node.shape):
        return outside
    lengths = regular_chunk_shape(node.user_data)
    for axis, (old, new) in enumerate(zip(node.shape, ours.shape, strict=True)):
        if new.array_length < old.array_length:
            # A chunk that our shape cuts counts as outside, unless chunks differ in length.
            whole = new.array_length // lengths[axis] if lengths else new.num_chunks
            outside |= coords[:, axis] >= whole
    return outside


def common_coords(ours: Coords, theirs: Coords) -> list[Coordinates]:
    """Coordinates in both lists, ascending."""
    if not len(ours) or not len(theirs) or ours.shape[1] != theirs.shape[1]:
        return []
    fewer, more = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    if fewer.shape[1] == 0:
        return [()]
    if len(more) > FEW_COORDS:
        low, high = fewer.min(axis=0), fewer.max(axis=0)
        more = more[((more >= low) & (more <= high)).all(axis=1)]
    wanted = set(map(tuple, fewer.tolist()))
    return sorted({c for c in map(tuple, more.tolist()) if c in wanted})


# --- deletions ---


def _deletes(ours: ChangeSet, theirs: Theirs) -> Iterator[Conflict]:
    log = theirs.log
    changed = {*log.updated_arrays, *log.updated_groups, *log.updated_chunks, *theirs.new_ids}
    added = additions(ours, theirs)
    for kind, deleted in (
        (ConflictType.DeleteOfUpdatedArray, ours.deleted_arrays),
        (ConflictType.DeleteOfUpdatedGroup, ours.deleted_groups),
    ):
        for node_id, path in deleted.items():
            there = theirs.view.get(path) if node_id in changed else None
            is_changed = there is not None and there.id == node_id
            if is_changed or any(node.path == path or is_below(node.path, path) for node in added):
                yield Conflict(kind, path)


def additions(ours: ChangeSet, theirs: Theirs) -> list[Node]:
    """Nodes they created at or below paths that we deleted, which our delete did not include."""
    gone = ours.deleted_ids()
    if not gone:
        return []
    paths = {path for path, _ in ours.deleted()}
    fresh = [node for node in theirs.new_nodes() if node.id not in gone]
    return [node for node in fresh if not paths.isdisjoint(_upward(node.path))]


def _upward(path: str) -> Iterable[str]:
    return (path, *paths_above(path))
