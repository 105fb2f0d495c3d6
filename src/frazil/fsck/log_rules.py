"""The rules of one transaction log, alone and against what really changed.

A log may list more than the difference of two snapshots: chunks that were rewritten unchanged, and
nodes that were created and deleted again. It must not list less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import U32, Mask, Rows
from frazil.formats.txlog import ID_LISTS
from frazil.fsck.files import CheckedFile, RepositoryFiles, ascends
from frazil.fsck.findings import REPORTED_NODES, SHOWN_CHUNKS, Code, Finding
from frazil.ids import NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.combining import concat
from frazil.model.history import Move, Snapshot, TransactionLog
from frazil.model.lookup import are_distinct, ascending_order, lookup_for
from frazil.model.nodes import ArrayNode, Coordinates, ManifestRef, Node, segment_order
from frazil.model.strings import StringPool
from frazil.storage.assets import log_key

Nodes: TypeAlias = Mapping[NodeId, Node]


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What one or more logs together say has happened."""

    new_groups: frozenset[NodeId]
    new_arrays: frozenset[NodeId]
    deleted: frozenset[NodeId]
    updated: frozenset[NodeId]
    chunks: Mapping[NodeId, Sequence[U32]]
    moves: tuple[Move, ...]

    @property
    def new(self) -> frozenset[NodeId]:
        """All nodes that are called new."""
        return self.new_groups | self.new_arrays

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said to have happened."""
        lists = (self.new, self.deleted, self.updated, self.chunks, self.moves)
        return not any(map(len, lists))


def claims_of(logs: Iterable[TransactionLog]) -> Claims:
    """Put logs together."""
    logs = tuple(logs)
    chunks: dict[NodeId, list[U32]] = {}
    for log in logs:
        for node_id, coords in log.updated_chunks.items():
            chunks.setdefault(node_id, []).append(coords)

    def united(*names: str) -> frozenset[NodeId]:
        return frozenset(one for log in logs for name in names for one in getattr(log, name))

    return Claims(
        new_groups=united("new_groups"),
        new_arrays=united("new_arrays"),
        deleted=united("deleted_groups", "deleted_arrays"),
        updated=united("updated_groups", "updated_arrays"),
        chunks=chunks,
        moves=tuple(move for log in logs for move in log.moved_nodes),
    )


# --- the file ---


def check_log_file(snapshot_id: SnapshotId, read: CheckedFile[TransactionLog]) -> Iterator[Finding]:
    """Check a log by itself."""
    key = log_key(snapshot_id)
    yield from read.findings
    if read.content is None or read.root is None:
        return
    if read.content.id != snapshot_id:
        yield Finding(Code.LOG_ID, key, f"it is of snapshot {read.content.id}")
    for slot, name in enumerate(ID_LISTS, 1):
        if not ascends(read.root.structs(slot, NodeId.width)):
            yield Finding(Code.LOG_ORDER, key, name)
    arrays = [
        table.required_bytes(0, NodeId.width, "node_id")
        for table in read.root.tables(7, "updated_chunks")
    ]
    if not ascends(arrays):
        yield Finding(Code.LOG_ORDER, key, "updated_chunks")
    targets = [segment_order(move.target) for move in read.content.moved_nodes]
    if targets != sorted(targets):
        yield Finding(Code.LOG_MOVE_ORDER, key)


# --- against the snapshots ---


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A snapshot, its parent, and the changes between them that logs list."""

    key: str
    """of the log"""
    parent: Snapshot
    snapshot: Snapshot
    claims: Claims
    is_complete: bool = True
    """whether the logs of all commits in between are there"""
    is_single: bool = True
    """whether there is only one commit in between"""


def check_change(change: Change, files: RepositoryFiles) -> Iterator[Finding]:
    """Check that everything that changed between two snapshots is in the logs."""
    old = {node.id: node for node in change.parent.nodes}
    new = {node.id: node for node in change.snapshot.nodes}
    yield from _known(change, old, new)
    if not change.is_complete:
        return
    yield from _coming_and_going(change, old, new)
    yield from _updates(change, old, new)
    yield from _moves(change, old, new)
    yield from _chunks(change, old, new, files)


def _known(change: Change, old: Nodes, new: Nodes) -> Iterator[Finding]:
    claims = change.claims
    named = claims.new | claims.deleted | claims.updated | claims.chunks.keys()
    for one in sorted(named - old.keys() - new.keys()):
        # Nodes that were created and deleted in between are listed as new and as deleted.
        if change.is_complete and not (one in claims.new and one in claims.deleted):
            yield Finding(Code.LOG_UNKNOWN_NODE, change.key, f"node {one}")
    # So are nodes that were deleted and restored by a revert, in logs of several commits.
    for one in sorted((claims.deleted - claims.new) & new.keys()):
        yield Finding(Code.LOG_DELETED, change.key, "it is still there", new[one].path)
    for one in sorted((claims.new - claims.deleted) & new.keys() & old.keys()):
        yield Finding(Code.LOG_NEW, change.key, "it was there before", new[one].path)
    for kinds, is_array in ((claims.new_groups, False), (claims.new_arrays, True)):
        for one in sorted(kinds & new.keys()):
            if isinstance(new[one], ArrayNode) != is_array:
                kind = "a new array" if is_array else "a new group"
                yield Finding(Code.LOG_NEW, change.key, f"it is called {kind}", new[one].path)


def _coming_and_going(change: Change, old: Nodes, new: Nodes) -> Iterator[Finding]:
    for one in sorted(new.keys() - old.keys() - change.claims.new)[:REPORTED_NODES]:
        yield Finding(Code.LOG_NEW, change.key, "it is not called new", new[one].path)
    for one in sorted(old.keys() - new.keys() - change.claims.deleted)[:REPORTED_NODES]:
        yield Finding(Code.LOG_DELETED, change.key, "it is not called deleted", old[one].path)


def _updates(change: Change, old: Nodes, new: Nodes) -> Iterator[Finding]:
    for one in sorted((old.keys() & new.keys()) - change.claims.updated):
        if old[one].user_data != new[one].user_data:
            yield Finding(Code.LOG_UPDATED, change.key, "its zarr.json differs", new[one].path)


def _moves(change: Change, old: Nodes, new: Nodes) -> Iterator[Finding]:
    moved = {move.node_id for move in change.claims.moves}
    for one in sorted((old.keys() & new.keys()) - moved):
        if old[one].path != new[one].path:
            was = f"it was at {old[one].path}"
            yield Finding(Code.LOG_MOVED, change.key, was, new[one].path)
    for move in change.claims.moves if change.is_single else ():
        is_there = move.node_id in new and new[move.node_id].path == move.target
        is_gone = move.node_id not in new and move.node_id in change.claims.deleted
        was_there = move.node_id not in old or old[move.node_id].path == move.source
        if not (is_there or is_gone) or not was_there:
            way = f"by the log {move.source} went to {move.target}"
            yield Finding(Code.LOG_MOVED, change.key, way, move.target)


def _chunks(change: Change, old: Nodes, new: Nodes, files: RepositoryFiles) -> Iterator[Finding]:
    for one in sorted(new):
        node = new[one]
        if not isinstance(node, ArrayNode):
            continue
        changed = changed_between(old.get(one), node, files)
        if changed is None or not len(changed):
            continue
        lacking = _lacking(changed[_in_grid(changed, node.grid)], change.claims.chunks.get(one))
        if len(lacking):
            some: tuple[Coordinates, ...] = tuple(map(tuple, lacking[:SHOWN_CHUNKS].tolist()))
            yield Finding(Code.LOG_CHUNKS, change.key, "", node.path, some, len(lacking))


def changed_between(before: Node | None, after: ArrayNode, files: RepositoryFiles) -> U32 | None:
    """Chunks that have another reference than before; None when a manifest cannot be read."""
    old: Sequence[ManifestRef] = before.manifests if isinstance(before, ArrayNode) else ()
    kept = {ref.id for ref in old} & {ref.id for ref in after.manifests}
    pairs = []
    for refs in (old, after.manifests):
        tables = [files.tables(ref.id, after.id) for ref in refs if ref.id not in kept]
        if any(table is None for table in tables):
            return None
        pairs.append(_joined([table for table in tables if table is not None and len(table)]))
    first, second = pairs
    return None if first is None or second is None else changed_chunks(first, second)


def _joined(tables: Sequence[ChunkTable]) -> ChunkTable | None:
    """Tables as one; None when they do not go together, which other rules report."""
    ranks = {table.ndim for table in tables}
    if len(ranks) > 1:
        return None
    if len(tables) > 1 and not are_distinct(np.concatenate([each.coords for each in tables])):
        return None
    return concat(list(tables), ranks.pop() if ranks else 0)


def _in_grid(coords: U32, grid: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Chunks that went because the array shrank need not be in the log."""
    inside = np.full(len(coords), coords.shape[1] == len(grid))
    if inside.all():
        for axis, count in enumerate(grid):
            inside &= coords[:, axis] < count
    return inside


def _lacking(changed: U32, logged: Sequence[U32] | None) -> U32:
    for coords in logged or ():
        if not len(changed):
            break
        if not len(coords) or coords.shape[1] != changed.shape[1]:
            continue
        order = ascending_order(coords)
        known = coords if order is None else coords[order]
        changed = changed[lookup_for(known).rows(changed) < 0]
    return changed


# --- references that differ ---


def changed_chunks(old: ChunkTable, new: ChunkTable) -> U32:
    """Coordinates of chunks that came, went or changed, (n, ndim) in no order.

    Where the number of axes differs, all chunks of the new table count.
    """
    if not len(old) or (len(new) and old.ndim != new.ndim):
        return new.coords
    if not len(new):
        return old.coords
    rows = new.find_many(old.coords)
    is_kept = rows >= 0
    came = old.find_many(new.coords) < 0
    here, there = np.flatnonzero(is_kept), rows[is_kept]
    differs = _differ(old, here, new, there)
    parts = [old.coords[~is_kept], new.coords[came], old.coords[here[differs]]]
    return np.concatenate(parts)


def _differ(old: ChunkTable, here: Rows, new: ChunkTable, there: Rows) -> Mask:
    kind = old.kind[here]
    differs: Mask = (kind != new.kind[there]) | (old.length[here] != new.length[there])
    is_inline = kind == ChunkType.inline
    differs |= ~is_inline & (old.offset[here] != new.offset[there])
    differs |= (old.chunk_id[here] != new.chunk_id[there]).any(axis=1) & (kind == ChunkType.native)
    is_virtual = kind == ChunkType.virtual
    if is_virtual.any():
        differs |= is_virtual & _virtual_differ(old, here, new, there)
    for place in np.flatnonzero(is_inline & ~differs).tolist():
        differs[place] = old.ref(int(here[place])) != new.ref(int(there[place]))
    return differs


def _virtual_differ(old: ChunkTable, here: Rows, new: ChunkTable, there: Rows) -> Mask:
    differs: Mask = old.last_modified[here] != new.last_modified[there]
    for numbers, others, texts, other_texts in (
        (old.location[here], new.location[there], old.locations, new.locations),
        (old.etag[here], new.etag[there], old.etags, new.etags),
    ):
        same = _numbers([*texts, *other_texts])
        # The last place is that of rows without a text, whose number is -1.
        first = np.append(same[: len(texts)], -1)
        second = np.append(same[len(texts) :], -1)
        differs |= first[numbers] != second[others]
    return differs


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.int32]:
    if not texts:
        return np.zeros(0, np.int32)
    return StringPool.distinct(texts)[0]
