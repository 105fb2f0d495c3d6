"""What a session has changed and not yet committed.

A `ChangeSet` is mutable, picklable and mergeable. It knows nothing of the base snapshot: the caller
says whether the node is old or new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from frazil.ids import NodeId, SnapshotId
from frazil.model.history import ManifestFile, Move
from frazil.model.nodes import ArrayNode, Dimension, ManifestRef, Node
from frazil.transaction.chunk_changes import ChunkChanges, sorted_coords
from frazil.transaction.tuning import MANY_CHANGES


@dataclass(frozen=True, slots=True)
class GroupData:
    """A group as a session made it."""

    id: NodeId
    user_data: bytes


@dataclass(frozen=True, slots=True)
class ArrayData:
    """An array as a session made or changed it."""

    id: NodeId
    user_data: bytes
    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class ReadyManifests:
    """Manifests of a new array that are already stored; the commit refers to them unchanged."""

    refs: tuple[ManifestRef, ...]
    files: tuple[ManifestFile, ...]
    coords: npt.NDArray[np.uint32]
    """of all their chunks, ascending"""


N = TypeVar("N", GroupData, ArrayData)
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class ChangeSet:
    """Uncommitted changes of one session."""

    new_groups: dict[str, GroupData] = field(default_factory=dict)
    new_arrays: dict[str, ArrayData] = field(default_factory=dict)
    updated_groups: dict[NodeId, GroupData] = field(default_factory=dict)
    updated_arrays: dict[NodeId, ArrayData] = field(default_factory=dict)
    chunks: dict[NodeId, ChunkChanges] = field(default_factory=dict)
    ready: dict[NodeId, ReadyManifests] = field(default_factory=dict)
    """of arrays created in this session; references in `chunks` take precedence"""
    deleted_groups: dict[NodeId, str] = field(default_factory=dict)
    """id to path"""
    deleted_arrays: dict[NodeId, str] = field(default_factory=dict)
    moves: dict[NodeId, Move] = field(default_factory=dict)
    """net moves of a rearrange session"""
    shifted: set[NodeId] = field(default_factory=set)
    """arrays whose chunks were all shifted; chunks that another commit adds would need it too"""
    touched: bool = False
    """set by chunk writes and moves, even if later ones undo them"""
    sources: set[SnapshotId] = field(default_factory=set)
    """snapshots whose chunks the changes refer to; the commit fails if one is gone"""
    began: float = field(default_factory=time.time, compare=False)
    """time of the first change, or earlier, in seconds since 1970"""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever changed."""
        return not (self.touched or self.changes_nodes or any(self.chunks.values()))

    @property
    def is_large(self) -> bool:
        """Whether its commit takes so long that other writers should not wait for it."""
        return sum(map(len, self.chunks.values())) > MANY_CHANGES

    @property
    def changes_nodes(self) -> bool:
        """Whether any node was created, updated, moved or deleted; chunks do not count."""
        return bool(
            self.new_groups
            or self.new_arrays
            or self.updated_groups
            or self.updated_arrays
            or self.deleted_groups
            or self.deleted_arrays
            or self.moves
        )

    def set_group(self, path: str, data: GroupData, *, is_new: bool) -> None:
        """Record a group's metadata."""
        if is_new or path in self.new_groups:
            self.new_groups[path] = data
        else:
            self.updated_groups[data.id] = data

    def set_array(self, path: str, data: ArrayData, *, is_new: bool) -> None:
        """Record an array's metadata."""
        if is_new or path in self.new_arrays:
            self.new_arrays[path] = data
        else:
            self.updated_arrays[data.id] = data

    def delete_group(self, path: str, node_id: NodeId) -> None:
        """Record the deletion of a group."""
        self.updated_groups.pop(node_id, None)
        made_here = self.new_groups.get(path)
        if made_here is not None and made_here.id == node_id:
            del self.new_groups[path]
        else:
            self.deleted_groups[node_id] = path

    def delete_array(self, path: str, node_id: NodeId) -> None:
        """Record the deletion of an array and its chunks."""
        self.updated_arrays.pop(node_id, None)
        self.forget_chunks(node_id)
        made_here = self.new_arrays.get(path)
        if made_here is not None and made_here.id == node_id:
            del self.new_arrays[path]
        else:
            self.deleted_arrays[node_id] = path

    def delete(self, node: Node) -> None:
        """Record the deletion of a node."""
        gone = self.delete_array if isinstance(node, ArrayNode) else self.delete_group
        gone(node.path, node.id)

    def forget_chunks(self, node_id: NodeId) -> None:
        """Take back all that was recorded of an array's chunks."""
        self.chunks.pop(node_id, None)
        self.ready.pop(node_id, None)
        self.shifted.discard(node_id)

    def chunk_coords(self, node_id: NodeId) -> npt.NDArray[np.uint32]:
        """Coordinates of all chunks of an array that were set or deleted, ascending."""
        changed, ready = self.chunks.get(node_id), self.ready.get(node_id)
        if ready is None:
            assert changed is not None
            return changed.coords()
        if not changed:
            return ready.coords
        return sorted_coords(np.concatenate([ready.coords, changed.coords()]))

    def chunk_changes(self, node_id: NodeId, ndim: int) -> ChunkChanges:
        """The chunk table of an array, made when missing; the caller will write to it."""
        self.touched = True
        found = self.chunks.get(node_id)
        if found is None:
            found = self.chunks[node_id] = ChunkChanges(ndim)
        return found

    def record_move(self, source: str, target: str, node_id: NodeId, *, is_array: bool) -> None:
        """Record that a node changed its path, keeping only the net effect."""
        self.touched = True
        before = self.moves.pop(node_id, None)
        origin = before.source if before else source
        if origin != target:
            self.moves[node_id] = Move(origin, target, node_id, is_array)

    def new_paths(self) -> Iterator[str]:
        """Paths of nodes made in this session."""
        yield from self.new_groups
        yield from self.new_arrays

    def deleted(self) -> Iterator[tuple[str, NodeId]]:
        """Nodes deleted in this session."""
        for node_id, path in (self.deleted_groups | self.deleted_arrays).items():
            yield path, node_id

    def deleted_ids(self) -> frozenset[NodeId]:
        """Ids of nodes deleted in this session."""
        return frozenset((*self.deleted_groups, *self.deleted_arrays))

    def renamed(self, ids: Mapping[NodeId, NodeId]) -> ChangeSet:
        """The same changes with some node ids replaced."""

        def new(node_id: NodeId) -> NodeId:
            return ids.get(node_id, node_id)

        def nodes(made: Mapping[K, N]) -> dict[K, N]:
            return {key: replace(data, id=new(data.id)) for key, data in made.items()}

        def by_id(found: Mapping[NodeId, V]) -> dict[NodeId, V]:
            return {new(node_id): value for node_id, value in found.items()}

        return ChangeSet(
            new_groups=nodes(self.new_groups),
            new_arrays=nodes(self.new_arrays),
            updated_groups=nodes(by_id(self.updated_groups)),
            updated_arrays=nodes(by_id(self.updated_arrays)),
            chunks=by_id(self.chunks),
            ready=by_id(self.ready),
            deleted_groups=by_id(self.deleted_groups),
            deleted_arrays=by_id(self.deleted_arrays),
            moves={new(one): replace(move, node_id=new(one)) for one, move in self.moves.items()},
            shifted={new(node_id) for node_id in self.shifted},
            touched=self.touched,
            sources=set(self.sources),
            began=self.began,
        )

    def of_nodes(self) -> ChangeSet:
        """A copy of the changes of nodes, without those of their chunks."""
        return ChangeSet(
            new_groups=dict(self.new_groups),
            new_arrays=dict(self.new_arrays),
            updated_groups=dict(self.updated_groups),
            updated_arrays=dict(self.updated_arrays),
            deleted_groups=dict(self.deleted_groups),
            deleted_arrays=dict(self.deleted_arrays),
            began=self.began,
        )

    def of_chunks(self) -> ChangeSet:
        """The changes of chunks alone."""
        return ChangeSet(
            chunks=self.chunks, touched=self.touched, sources=self.sources, began=self.began
        )

    def take(self, other: ChangeSet) -> None:
        """Add changes that do not conflict with these; for chunks that both set, `other` wins."""
        self.new_groups.update(other.new_groups)
        self.new_arrays.update(other.new_arrays)
        # To a fork, nodes that its session had created but not committed are old ones.
        _take_updates(self.new_groups, other.updated_groups)
        _take_updates(self.new_arrays, other.updated_arrays)
        self.updated_groups.update(other.updated_groups)
        self.updated_arrays.update(other.updated_arrays)
        self.deleted_groups.update(other.deleted_groups)
        self.deleted_arrays.update(other.deleted_arrays)
        self.ready.update(other.ready)
        for node_id, changes in other.chunks.items():
            self.chunk_changes(node_id, changes.ndim).update(changes)
        self.shifted |= other.shifted
        self.touched |= other.touched
        self.sources |= other.sources
        self.began = min(self.began, other.began)


def _take_updates(made: dict[str, N], updates: Mapping[NodeId, N]) -> None:
    """Apply updates of nodes that were created in this session to the created nodes."""
    if updates:
        made.update({path: updates[old.id] for path, old in made.items() if old.id in updates})
