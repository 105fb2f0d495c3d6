"""From the current nodes and the changes to the files a commit would write, writing none.

Format reference 4.5 (transaction log) and 4.6 (manifest building): an array has at most one
manifest per split cell, untouched manifests are kept, references outside the grid are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, concat, overlay
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Extents, ManifestRef, Node, path_order, segment_order
from frazil.session.changeset import ChangeSet, ChunkChanges

LoadTables: TypeAlias = Callable[[ArrayNode, Sequence[ManifestRef]], list[ChunkTable]]
"""Fetch the references an array has in some of its manifests."""
SplitSizes: TypeAlias = Callable[[ArrayNode], tuple[int, ...]]
"""Edge lengths of an array's split cells, in chunks."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedManifest:
    """A manifest to write."""

    id: ManifestId
    node_id: NodeId
    table: ChunkTable


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """The nodes of the new snapshot, in order, and the manifests they need written."""

    nodes: tuple[Node, ...]
    manifests: tuple[PlannedManifest, ...]


def draft(
    nodes: Iterable[Node],
    changes: ChangeSet,
    load: LoadTables,
    split_sizes: SplitSizes,
    *,
    rewrite: bool = False,
) -> Draft:
    """Work out nodes and manifests of a commit.

    `nodes` is the hierarchy as the session sees it; arrays still point to their old manifests.
    """
    planned: list[PlannedManifest] = []
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, ArrayNode) and (
            rewrite or node.id in changes.chunks or node.id in changes.updated_arrays
        ):
            fresh, kept = _array_manifests(
                node, changes.chunks.get(node.id), load, split_sizes(node), rewrite=rewrite
            )
            planned.extend(fresh)
            made = tuple(ManifestRef(item.id, item.table.extents) for item in fresh)
            node = replace(node, manifests=tuple(kept) + made)
        result.append(node)
    result.sort(key=lambda node: path_order(node.path))
    return Draft(tuple(result), tuple(planned))


def _array_manifests(
    node: ArrayNode,
    changes: ChunkChanges | None,
    load: LoadTables,
    sizes: tuple[int, ...],
    *,
    rewrite: bool,
) -> tuple[list[PlannedManifest], list[ManifestRef]]:
    """Manifests to write for one array, and the old ones to keep."""
    cells = _Cells(node.grid, sizes)
    table, dropped = changes.columns() if changes else (ChunkTable.empty(len(sizes)), None)
    table = in_grid(table, node.grid)
    touched = cells.of(table.coords)
    if dropped is not None and len(dropped):
        touched = touched | cells.of(dropped[_is_in_grid(dropped, node.grid)])
    manifests, ndim = node.manifests, len(sizes)
    homes = [None if rewrite else cells.only(ref.extents) for ref in manifests]
    # Which cells the wide ones reach into is asked of their references: extents may lie.
    wide = [i for i, home in enumerate(homes) if home is None]
    old = dict(zip(wide, load(node, [manifests[i] for i in wide]), strict=True))
    rebuild = touched | cells.of(in_grid(concat([*old.values()], ndim), node.grid).coords)
    others = [i for i, home in enumerate(homes) if home in rebuild]
    old |= zip(others, load(node, [manifests[i] for i in others]), strict=True)
    kept = [ref for i, ref in enumerate(manifests) if i not in old]
    base = in_grid(concat([*old.values()], ndim), node.grid)
    if len(table) or (dropped is not None and len(dropped)):
        gone = dropped if dropped is not None else np.zeros((0, len(sizes)), np.uint32)
        base = overlay(base, table, gone)
    fresh = [PlannedManifest(ManifestId.random(), node.id, part) for part in cells.split(base)]
    return fresh, kept


class _Cells:
    """The split cells of a grid, numbered in C order."""

    def __init__(self, grid: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self._grid = grid
        self._sizes = np.array([max(1, size) for size in sizes], np.int64)
        counts = [-(-n // max(1, size)) for n, size in zip(grid, sizes, strict=True)]
        self._is_one = max(counts, default=1) <= 1
        strides = [1] * len(counts)
        for axis in range(len(counts) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * max(1, counts[axis + 1])
        self._strides = strides

    def number(self, coords: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Cell of each row."""
        numbers = np.zeros(len(coords), np.int64)
        for axis, stride in enumerate(self._strides):
            numbers += (coords[:, axis] // self._sizes[axis]).astype(np.int64) * stride
        return numbers

    def of(self, coords: npt.NDArray[np.uint32]) -> set[int]:
        """Cells that hold any of these chunks."""
        if self._is_one:
            return {0} if len(coords) else set()
        return set(np.unique(self.number(coords)).tolist())

    def only(self, extents: Extents) -> int | None:
        """The cell a box lies in completely, or None."""
        cell = 0
        for axis, (start, end) in enumerate(extents):
            size = int(self._sizes[axis])
            if end > self._grid[axis] or start // size != (end - 1) // size:
                return None
            cell += start // size * self._strides[axis]
        return cell

    def split(self, table: ChunkTable) -> Iterator[ChunkTable]:
        """The parts of a table that fall into one cell each."""
        if not len(table):
            return
        numbers = None if self._is_one else self.number(table.coords)
        if numbers is None or (numbers[0] == numbers[-1] and (numbers == numbers[0]).all()):
            yield table
            return
        order = np.argsort(numbers, kind="stable")
        edges = np.flatnonzero(np.diff(numbers[order])) + 1
        for rows in np.split(order, edges):
            yield table.take(rows)


def _is_in_grid(coords: npt.NDArray[np.uint32], grid: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    return np.asarray((coords < np.array(grid, np.int64)).all(axis=1))


def in_grid(table: ChunkTable, grid: tuple[int, ...]) -> ChunkTable:
    """The rows whose coordinates lie in a grid."""
    if all(stop <= size for (_, stop), size in zip(table.extents, grid, strict=False)):
        return table
    return table.take(_is_in_grid(table.coords, grid))


# --- transaction logs ---


def summarise(changes: ChangeSet, snapshot_id: SnapshotId) -> TransactionLog:
    """The transaction log of a commit."""
    return TransactionLog(
        id=snapshot_id,
        new_groups=_ids(group.id for group in changes.new_groups.values()),
        new_arrays=_ids(array.id for array in changes.new_arrays.values()),
        deleted_groups=_ids(changes.deleted_groups),
        deleted_arrays=_ids(changes.deleted_arrays),
        updated_arrays=_ids(changes.updated_arrays),
        updated_groups=_ids(changes.updated_groups),
        updated_chunks={
            node_id: changes.chunks[node_id].coords()
            for node_id in sorted(changes.chunks)
            if changes.chunks[node_id]
        },
        moved_nodes=_sorted_moves(changes.moves.values()),
    )


def unite(older: TransactionLog, newer: TransactionLog) -> TransactionLog:
    """One log for two commits in a row; moves keep the first source and the last target."""
    moves: dict[NodeId, Move] = {move.node_id: move for move in older.moved_nodes}
    for move in newer.moved_nodes:
        before = moves.pop(move.node_id, None)
        source = before.source if before else move.source
        if source != move.target:
            moves[move.node_id] = replace(move, source=source)
    return TransactionLog(
        id=newer.id,
        new_groups=_ids(older.new_groups + newer.new_groups),
        new_arrays=_ids(older.new_arrays + newer.new_arrays),
        deleted_groups=_ids(older.deleted_groups + newer.deleted_groups),
        deleted_arrays=_ids(older.deleted_arrays + newer.deleted_arrays),
        updated_arrays=_ids(older.updated_arrays + newer.updated_arrays),
        updated_groups=_ids(older.updated_groups + newer.updated_groups),
        updated_chunks=_unite_chunks(older.updated_chunks, newer.updated_chunks),
        moved_nodes=_sorted_moves(moves.values()),
    )


def _unite_chunks(
    older: Mapping[NodeId, npt.NDArray[np.uint32]], newer: Mapping[NodeId, npt.NDArray[np.uint32]]
) -> dict[NodeId, npt.NDArray[np.uint32]]:
    united = {}
    for node_id in sorted(older.keys() | newer.keys()):
        parts = [log[node_id] for log in (older, newer) if node_id in log and len(log[node_id])]
        if len({part.shape[1] for part in parts}) > 1:
            parts = parts[-1:]  # the array was made anew with another rank
        if parts:
            united[node_id] = unique_coords(parts)
    return united


def unique_coords(parts: Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    """Ascending distinct rows of several coordinate lists of one rank."""
    coords = np.concatenate(parts)
    if coords.shape[1] == 0:
        return coords[:1]
    return np.unique(coords, axis=0)


def _ids(ids: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(set(ids)))


def _sorted_moves(moves: Iterable[Move]) -> tuple[Move, ...]:
    return tuple(sorted(moves, key=lambda move: segment_order(move.target)))
