"""The sides of a merge: nodes of a snapshot, and their chunks, fetched when they are needed.

A side is a stored snapshot, or a base that was itself merged and exists only here. Changed chunks
of an array are columns: what one table has that another has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import U32, Mask, Rows
from frazil.errors import SnapshotNotFoundError
from frazil.ids import NodeId, SnapshotId
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType
from frazil.model.combining import concat, overlay
from frazil.model.history import ManifestFile, TransactionLog
from frazil.model.lookup import lookup_for
from frazil.model.nodes import ArrayNode, ManifestRef, Node
from frazil.model.strings import merge_pools
from frazil.transaction.context import Context
from frazil.transaction.draft import in_grid, unique_coords
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True, eq=False)
class ChunkDelta:
    """What changed: references that were set, and coordinates that were deleted."""

    table: ChunkTable
    dropped: U32

    @classmethod
    def empty(cls, ndim: int) -> ChunkDelta:
        """No change."""
        return cls(ChunkTable.empty(ndim), np.zeros((0, ndim), np.uint32))

    def __len__(self) -> int:
        return len(self.table) + len(self.dropped)

    @property
    def coords(self) -> U32:
        """All coordinates that changed, ascending."""
        if not len(self.dropped):
            return self.table.coords
        return unique_coords([self.table.coords, self.dropped])

    def within(self, grid: tuple[int, ...]) -> ChunkDelta:
        """The part inside a grid."""
        inside = (self.dropped < np.array(grid, np.int64)).all(axis=1)
        return ChunkDelta(in_grid(self.table, grid), self.dropped[inside])

    def without(self, coords: U32) -> ChunkDelta:
        """The part at other coordinates than these."""
        if not len(coords) or not len(self):
            return self
        lookup = lookup_for(coords)
        return ChunkDelta(
            self.table.take(lookup.rows(self.table.coords) < 0),
            self.dropped[lookup.rows(self.dropped) < 0],
        )

    def on(self, base: ChunkTable) -> ChunkTable:
        """A table with this change made to it."""
        return overlay(base, self.table, self.dropped)

    def plus(self, table: ChunkTable) -> ChunkDelta:
        """The change with more references set, where it has none."""
        if not len(table):
            return self
        more = table.take(self.table.find_many(table.coords) < 0)
        return ChunkDelta(overlay(self.table, more, self.dropped[:0]), self.dropped)


def outside(table: ChunkTable, grid: tuple[int, ...]) -> ChunkTable:
    """The rows that lie beyond a grid."""
    return table.take(np.asarray((table.coords >= np.array(grid, np.int64)).any(axis=1)))


def at(table: ChunkTable, coords: U32) -> ChunkTable:
    """The rows at some coordinates, which ascend."""
    rows = table.find_many(coords)
    return table.take(rows[rows >= 0])


def same_refs(one: ChunkTable, one_rows: Rows, other: ChunkTable, other_rows: Rows) -> Mask:
    """Which of two lists of rows hold equal references, pair by pair."""
    a, b = one.take(one_rows), other.take(other_rows)
    same: Mask = (a.kind == b.kind) & (a.length == b.length)
    is_inline = a.kind == ChunkType.inline
    same &= is_inline | (a.offset == b.offset)
    same &= (a.chunk_id == b.chunk_id).all(axis=1)
    same &= a.last_modified == b.last_modified
    for name, pool in (("location", "locations"), ("etag", "etags")):
        _, numbers = merge_pools([getattr(a, pool), getattr(b, pool)])
        left, right = getattr(a, name), getattr(b, name)
        same &= _renumbered(left, numbers[0]) == _renumbered(right, numbers[1])
    for row in np.flatnonzero(same & is_inline).tolist():
        same[row] = _inline(a, row) == _inline(b, row)
    return same


def _renumbered(
    numbers: npt.NDArray[np.int32], new: npt.NDArray[np.int32] | None
) -> npt.NDArray[np.int32]:
    return numbers if new is None else np.append(new, np.int32(ABSENT))[numbers]


def _inline(table: ChunkTable, row: int) -> bytes:
    start = int(table.offset[row])
    return table.inline_data[start : start + int(table.length[row])]


def delta_of(before: ChunkTable, after: ChunkTable) -> ChunkDelta:
    """What must change in a table to become another."""
    rows = before.find_many(after.coords)
    known = np.flatnonzero(rows >= 0)
    changed = rows < 0
    changed[known] = ~same_refs(before, rows[known], after, known)
    gone = after.find_many(before.coords) < 0
    return ChunkDelta(after.take(changed), before.coords[gone])


def common(ours: ChunkDelta, theirs: ChunkDelta) -> tuple[U32, U32]:
    """Coordinates that both change: those changed alike, and those that clash."""
    rows = ours.table.find_many(theirs.table.coords)
    hits = np.flatnonzero(rows >= 0)
    same = same_refs(ours.table, rows[hits], theirs.table, hits)
    both = theirs.table.coords[hits]
    gone = lookup_for(ours.dropped).rows(theirs.dropped) >= 0
    alike = unique_coords([both[same], theirs.dropped[gone]])
    clashing = [
        both[~same],
        theirs.dropped[ours.table.find_many(theirs.dropped) >= 0],
        ours.dropped[theirs.table.find_many(ours.dropped) >= 0],
    ]
    return alike, unique_coords(clashing)


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
class LoggedChunks:
    """Chunks that transaction logs name, for all commits from a base to a side."""

    chunks: Mapping[NodeId, U32] = field(default_factory=dict)
    unsure: frozenset[NodeId] = frozenset()
    """arrays whose shape may have changed in between, which drops chunks that no log lists"""

    def of(self, node: ArrayNode) -> U32 | None:
        """The coordinates that may have changed; None where the logs do not tell."""
        if node.id in self.unsure:
            return None
        found = self.chunks.get(node.id)
        if found is None:
            return np.zeros((0, len(node.shape)), np.uint32)
        return found if found.shape[1] == len(node.shape) else None


def logged_between(context: Context, base: SnapshotId, tip: SnapshotId) -> LoggedChunks | None:
    """What the logs say of all commits after `base` up to `tip`.

    None if that is incomplete: a log is gone, `tip` does not descend from `base` by parents alone,
    or `base` is a root, below which expiry may have put any snapshot.
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


def _united(logs: Sequence[TransactionLog]) -> LoggedChunks:
    parts: dict[NodeId, list[U32]] = {}
    for log in logs:
        for node_id, coords in log.updated_chunks.items():
            parts.setdefault(node_id, []).append(coords)
    unsure = {node_id for log in logs for node_id in (*log.updated_arrays, *log.new_arrays)}
    unsure |= {one for one, found in parts.items() if len({c.shape[1] for c in found}) > 1}
    chunks = {one: unique_coords(found) for one, found in parts.items() if one not in unsure}
    return LoggedChunks(chunks, frozenset(unsure))


def delta_between(
    before: State, old: ArrayNode, after: State, new: ArrayNode, logged: LoggedChunks | None = None
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
