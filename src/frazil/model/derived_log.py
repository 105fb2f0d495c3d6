"""What a commit must have changed, worked out from the snapshots before and after it.

For repositories that keep no transaction logs. Nodes are compared by id, and where ids are small
numbers, which may be given again after a deletion, by what they are as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Coords
from frazil.ids import NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.documents import document_of
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Node, segment_order

LoadTable: TypeAlias = Callable[[ArrayNode], ChunkTable]
"""Fetch all references of an array that lie in its grid."""


def derived_log(
    id: SnapshotId, before: Iterable[Node], after: Iterable[Node], load: LoadTable
) -> TransactionLog:
    """The log of a commit that led from some nodes to others."""
    old = {node.id: node for node in before}
    new = {node.id: node for node in after}
    kept = {one: (old[one], new[one]) for one in old.keys() & new.keys()}
    kept = {one: pair for one, pair in kept.items() if is_same_node(*pair)}
    fresh = [node for node in new.values() if node.id not in kept]
    gone = [node for node in old.values() if node.id not in kept]
    changed = [after for before, after in kept.values() if not _is_equal(before, after)]
    return TransactionLog(
        id=id,
        new_groups=_groups(fresh),
        new_arrays=_arrays(fresh),
        deleted_groups=_groups(gone),
        deleted_arrays=_arrays(gone),
        updated_arrays=_arrays(changed),
        updated_groups=_groups(changed),
        updated_chunks=_chunks(kept, fresh, load),
        moved_nodes=moves_between(old, new),
    )


def moves_between(old: Mapping[NodeId, Node], new: Mapping[NodeId, Node]) -> tuple[Move, ...]:
    """Nodes that have changed their paths."""
    found = [
        Move(old[one].path, new[one].path, one, isinstance(new[one], ArrayNode))
        for one in old.keys() & new.keys()
        if old[one].path != new[one].path and is_same_node(old[one], new[one])
    ]
    return tuple(sorted(found, key=lambda move: segment_order(move.target)))


def is_same_node(before: Node, after: Node) -> bool:
    """Whether an id still means the same node: one place, or one thing that has moved."""
    if isinstance(before, ArrayNode) != isinstance(after, ArrayNode):
        return False
    return before.path == after.path or _is_equal(before, after)


def _is_equal(before: Node, after: Node) -> bool:
    if before.user_data == after.user_data:
        return True
    # The order of attributes is no difference.
    return document_of(before) == document_of(after)


def _groups(nodes: Iterable[Node]) -> tuple[NodeId, ...]:
    return tuple(sorted(node.id for node in nodes if not isinstance(node, ArrayNode)))


def _arrays(nodes: Iterable[Node]) -> tuple[NodeId, ...]:
    return tuple(sorted(node.id for node in nodes if isinstance(node, ArrayNode)))


# --- chunks ---


def _chunks(
    kept: Mapping[NodeId, tuple[Node, Node]], fresh: Iterable[Node], load: LoadTable
) -> dict[NodeId, Coords]:
    found: dict[NodeId, Coords] = {}
    for node in fresh:
        if isinstance(node, ArrayNode) and node.manifests:
            found[node.id] = load(node).coords
    for one, (before, after) in kept.items():
        if not isinstance(before, ArrayNode) or not isinstance(after, ArrayNode):
            continue
        if len(before.shape) != len(after.shape):
            found[one] = load(after).coords
        elif before.manifests != after.manifests or before.grid != after.grid:
            found[one] = changed_coords(load(before), load(after))
    return {one: coords for one, coords in sorted(found.items()) if len(coords)}


def changed_coords(before: ChunkTable, after: ChunkTable) -> Coords:
    """Coordinates of chunks that were set, deleted or replaced, ascending."""
    places = before.find_many(after.coords)
    gone = np.ones(len(before), np.bool_)
    gone[places[places >= 0]] = False
    is_new = places < 0
    known = np.flatnonzero(~is_new)
    differs = (_facts(before)[places[known]] != _facts(after)[known]).any(axis=1)
    is_new[known[differs]] = True
    coords = np.concatenate([before.coords[gone], after.coords[is_new]])
    if coords.shape[1] == 0:
        return coords[:1]
    return coords[np.lexsort(coords.T[::-1])]


def _facts(table: ChunkTable) -> npt.NDArray[np.int64]:
    """Numbers that tell references apart: equal ones have equal rows."""
    facts = np.zeros((len(table), 9), np.int64)
    is_inline = table.kind == ChunkType.inline
    facts[:, 0] = table.kind
    facts[:, 1] = np.where(is_inline, 0, table.offset).astype(np.int64)
    facts[:, 2] = table.length.astype(np.int64)
    facts[:, 3:6] = np.ascontiguousarray(table.chunk_id).view(np.uint32).reshape(-1, 3)
    facts[:, 6] = _hashes(table.location, table.locations)
    facts[:, 7] = _hashes(table.etag, table.etags)
    facts[:, 8] = table.last_modified
    for row in np.flatnonzero(is_inline).tolist():
        start, size = int(table.offset[row]), int(table.length[row])
        facts[row, 8] = hash(bytes(table.inline_data[start : start + size]))
    return facts


def _hashes(numbers: npt.NDArray[np.int32], pool: Iterable[str]) -> npt.NDArray[np.int64]:
    """A number for each text, the same in every pool; 0 for none."""
    return np.array([*map(hash, pool), 0], np.int64)[numbers]
