"""Which chunks of an array may differ between two snapshots.

Transaction logs tell, where all of those between the snapshots are there and nothing was done to
the array but writing chunks. Else the references of both sides are compared, of which those in
manifests that both sides use are equal without looking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Mask
from frazil.bulk.fetch import INLINE, NATIVE, VIRTUAL, ChunkReferences, find_chunks
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import TransactionLog
from frazil.model.nodes import ArrayNode
from frazil.transaction.context import Context
from frazil.transaction.draft import unique_coords
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True, eq=False)
class LoggedArrays:
    """What the logs between two snapshots tell of arrays."""

    chunks: Mapping[NodeId, I64]
    """those written, (n, ndim) by array"""
    unsure: frozenset[NodeId]
    """arrays that were made, deleted, or given other metadata: chunks may have gone unlogged"""


def logged_changes(context: Context, first: SnapshotId, last: SnapshotId) -> LoggedArrays | None:
    """Unite the logs of all commits between two snapshots, or None when some are missing."""
    ids = _logs_between(context, first, last)
    if ids is None:
        return None
    logs = [context.assets.log(one) for one in ids]
    if any(log is None for log in logs):
        return None
    return _united([log for log in logs if log is not None])


def _logs_between(context: Context, first: SnapshotId, last: SnapshotId) -> list[SnapshotId] | None:
    """The logs on the way from one snapshot, through a common ancestor, to the other."""
    before = {entry.id: number for number, entry in enumerate(context.refs.ancestry(first))}
    ids: list[SnapshotId] = []
    base = None
    for entry in context.refs.ancestry(last):
        if entry.id in before:
            base = entry
            break
        ids += [*entry.pruned_ancestor_tx_logs, entry.id]
    if base is None:
        return None
    # Where files name their parents, expiry makes a snapshot the child of the root and nothing
    # tells what the released ones had changed.
    if base.parent_id is None and not context.generation.repo_object:
        return None
    for entry in context.refs.ancestry(first):
        if entry.id == base.id:
            break
        ids += [*entry.pruned_ancestor_tx_logs, entry.id]
    return ids


def _united(logs: Sequence[TransactionLog]) -> LoggedArrays:
    parts: dict[NodeId, list[npt.NDArray[np.uint32]]] = {}
    unsure: set[NodeId] = set()
    for log in logs:
        unsure.update(log.new_arrays, log.deleted_arrays, log.updated_arrays)
        for node_id, coords in log.updated_chunks.items():
            parts.setdefault(node_id, []).append(coords)
    for node_id, found in parts.items():
        if len({coords.shape[1] for coords in found}) > 1:
            unsure.add(node_id)
    chunks = {
        node_id: unique_coords(found).astype(np.int64)
        for node_id, found in parts.items()
        if node_id not in unsure
    }
    return LoggedArrays(chunks, frozenset(unsure))


def written_chunks(old: WorkingState, one: ArrayNode, new: WorkingState, other: ArrayNode) -> I64:
    """The chunks that manifests of one side name and that the other side does not use."""
    shared = (
        {ref.id for ref in one.manifests} & {ref.id for ref in other.manifests}
        if one.id == other.id
        else set()
    )
    parts = [
        table.coords
        for state, node in ((old, one), (new, other))
        for table in state.load_tables(node, [r for r in node.manifests if r.id not in shared])
        if len(table)
    ]
    if not parts:
        return np.zeros((0, len(other.shape)), np.int64)
    return unique_coords(parts).astype(np.int64)


def different_chunks(
    old: WorkingState, one: ArrayNode, new: WorkingState, other: ArrayNode, coords: I64
) -> I64:
    """The chunks whose references differ."""
    if not len(coords):
        return coords
    return coords[~_same(find_chunks(old, one, coords), find_chunks(new, other, coords))]


def _same(old: ChunkReferences, new: ChunkReferences) -> Mask:
    """Which rows of two columns of references are the same."""
    same: Mask = (old.kind == new.kind) & (old.length == new.length)
    is_native = old.kind == NATIVE
    same &= ~is_native | ((old.chunk_id == new.chunk_id).all(axis=1) & (old.offset == new.offset))
    by_reference = (old.kind == INLINE) | (old.kind == VIRTUAL)
    for row in np.flatnonzero(same & by_reference).tolist():
        same[row] = _ref(old, row) == _ref(new, row)
    return same


def _ref(refs: ChunkReferences, row: int) -> object:
    return refs.tables[refs.table[row]].ref(int(refs.row[row]))
