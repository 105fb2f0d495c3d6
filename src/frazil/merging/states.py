"""The sides of a merge: nodes of a snapshot, and their chunks, fetched when they are needed.

A side is a stored snapshot, or a base that was itself merged and exists only here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import SnapshotNotFoundError
from frazil.ids import NodeId, SnapshotId
from frazil.merging.chunk_deltas import ChunkDelta, at, delta_of
from frazil.model.chunks import ChunkTable, concat
from frazil.model.history import ManifestFile, TransactionLog
from frazil.model.nodes import ArrayNode, ManifestRef, Node
from frazil.transaction.context import Context
from frazil.transaction.draft import in_grid, unique_coords
from frazil.transaction.working import WorkingState

U32: TypeAlias = npt.NDArray[np.uint32]

MANY_COMMITS: Final = 256
"""From so many commits on, comparing manifests is quicker than reading their logs."""


class StoredState:
    """A snapshot of the repository."""

    def __init__(self, context: Context, snapshot_id: SnapshotId) -> None:
        context.generation.require_lasting_ids("putting histories together")
        self.snapshot_id = snapshot_id
        self._state = WorkingState(context, snapshot_id)

    @property
    def nodes(self) -> Sequence[Node]:
        """All groups and arrays."""
        return self._state.base.nodes

    @property
    def manifest_files(self) -> Mapping[bytes, ManifestFile]:
        """The manifests that the snapshot lists."""
        return self._state.manifest_files

    def table(self, node: ArrayNode) -> ChunkTable:
        """All references of an array."""
        return self._state.table(node)

    def part(self, node: ArrayNode, refs: Sequence[ManifestRef]) -> ChunkTable:
        """The references of an array that are in some of its manifests."""
        tables = self._state.load_tables(node, refs)
        return in_grid(concat(tables, len(node.shape)), node.grid)


@dataclass(frozen=True, slots=True, eq=False)
class MergedState:
    """A base that was made by merging several."""

    nodes: Sequence[Node]
    tables: Mapping[NodeId, Callable[[], ChunkTable]]

    def table(self, node: ArrayNode) -> ChunkTable:
        """All references of an array."""
        return in_grid(self.tables[node.id](), node.grid)


State: TypeAlias = StoredState | MergedState


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """Chunks that transaction logs name, for all commits from a base to a side."""

    chunks: Mapping[NodeId, U32] = field(default_factory=dict)
    unsure: frozenset[NodeId] = frozenset()
    """arrays whose shape may have changed on the way, which drops chunks without a word"""

    def of(self, node: ArrayNode) -> U32 | None:
        """The coordinates that may have changed; None where the logs do not tell."""
        if node.id in self.unsure:
            return None
        found = self.chunks.get(node.id)
        if found is None:
            return np.zeros((0, len(node.shape)), np.uint32)
        return found if found.shape[1] == len(node.shape) else None


def logged_between(context: Context, base: SnapshotId, tip: SnapshotId) -> Logged | None:
    """What the logs say of all commits after `base` up to `tip`.

    None if that is not the whole story: a log is gone, `tip` does not descend from `base` by
    parents alone, or `base` is a root, to which expiry may have moved anybody.
    """
    logs: list[TransactionLog] = []
    if tip != base and _is_root_or_gone(context, base):
        return None
    for count, entry in enumerate(context.refs.ancestry(tip)):
        if entry.id == base:
            return _united(logs)
        if count == MANY_COMMITS:
            return None
        for snapshot_id in (entry.id, *entry.pruned_ancestor_tx_logs):
            log = context.assets.log(snapshot_id)
            if log is None:
                return None
            logs.append(log)
    return None


def _is_root_or_gone(context: Context, snapshot_id: SnapshotId) -> bool:
    try:
        return context.refs.entry(snapshot_id).parent_id is None
    except SnapshotNotFoundError:
        return True


def _united(logs: Sequence[TransactionLog]) -> Logged:
    parts: dict[NodeId, list[U32]] = {}
    for log in logs:
        for node_id, coords in log.updated_chunks.items():
            parts.setdefault(node_id, []).append(coords)
    unsure = {node_id for log in logs for node_id in (*log.updated_arrays, *log.new_arrays)}
    unsure |= {one for one, found in parts.items() if len({c.shape[1] for c in found}) > 1}
    chunks = {one: unique_coords(found) for one, found in parts.items() if one not in unsure}
    return Logged(chunks, frozenset(unsure))


def delta_between(
    before: State, old: ArrayNode, after: State, new: ArrayNode, logged: Logged | None = None
) -> ChunkDelta:
    """How the chunks of an array changed from one state to another.

    Coordinates beyond the later grid are not deleted: the array has no say about them.
    """
    ndim = len(new.shape)
    if ndim != len(old.shape):
        return delta_of(ChunkTable.empty(ndim), after.table(new))
    coords = None if logged is None or old.id != new.id else logged.of(new)
    if coords is not None and not len(coords):
        return ChunkDelta.empty(ndim)
    left, right = _differing(before, old, after, new)
    left = in_grid(left, new.grid)
    if coords is not None:
        left, right = at(left, coords), at(right, coords)
    return delta_of(left, right)


def _differing(
    before: State, old: ArrayNode, after: State, new: ArrayNode
) -> tuple[ChunkTable, ChunkTable]:
    """The references of both, without those in manifests that both have."""
    stored = isinstance(before, StoredState) and isinstance(after, StoredState)
    if not stored or old.id != new.id:
        return before.table(old), after.table(new)
    assert isinstance(before, StoredState)
    assert isinstance(after, StoredState)
    shared = {ref.id for ref in old.manifests} & {ref.id for ref in new.manifests}
    left = [ref for ref in old.manifests if ref.id not in shared]
    right = [ref for ref in new.manifests if ref.id not in shared]
    return before.part(old, left), after.part(new, right)
