"""From the current nodes and the changes to the files a commit would write, writing none.

An array has at most one manifest per split cell, untouched manifests are kept, references outside
the grid are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import U32, Rows
from frazil.errors import ErrorKind, SessionStateError
from frazil.formats.manifest import Manifest
from frazil.formats.refs import may_fit
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.combining import concat, overlay
from frazil.model.history import NODE_FIELDS, Move, TransactionLog
from frazil.model.nodes import ArrayNode, Extents, ManifestRef, Node, path_order, segment_order
from frazil.model.tuning import FEW_CHANGES
from frazil.model.values import Diff
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.chunk_changes import ChunkChanges
from frazil.transaction.tree import NodeTree, nodes_of

LoadTables: TypeAlias = Callable[[ArrayNode, Sequence[ManifestRef]], list[ChunkTable]]
"""Fetch the references an array has in some of its manifests."""
SplitSizes: TypeAlias = Callable[[ArrayNode], tuple[int, ...]]
"""Edge lengths of an array's split cells, in chunks."""


Patch: TypeAlias = Callable[[ArrayNode, ManifestRef, ChunkTable], Manifest | None]
"""Exchange some references in the bytes of a manifest, where that is possible."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedManifest:
    """A manifest to write: the references of an array, or bytes that hold them already."""

    id: ManifestId
    node_id: NodeId
    content: ChunkTable | Manifest
    extents: Extents

    @property
    def num_refs(self) -> int:
        """How many references it has."""
        held = self.content
        return held.num_refs if isinstance(held, Manifest) else len(held)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """The nodes of the new snapshot, in order, and the manifests they need written."""

    nodes: Sequence[Node]
    manifests: tuple[PlannedManifest, ...]


def draft(
    nodes: Iterable[Node],
    changes: ChangeSet,
    load: LoadTables,
    split_sizes: SplitSizes,
    *,
    patch: Patch = lambda *_: None,
    rewrite: bool = False,
) -> Draft:
    """Work out nodes and manifests of a commit.

    `nodes` is the hierarchy as the session sees it; arrays still point to their old manifests.
    """
    planned: list[PlannedManifest] = []

    def renewed(node: Node) -> Node:
        changed = changes.chunks.get(node.id)
        if not isinstance(node, ArrayNode) or not (
            rewrite or changed is not None or node.id in changes.updated_arrays
        ):
            return node
        sizes = split_sizes(node)
        found = None if rewrite else _patched(node, changed, sizes, patch)
        fresh, kept = found or _array_manifests(node, changed, load, sizes, rewrite=rewrite)
        planned.extend(fresh)
        made = tuple(ManifestRef(item.id, item.extents) for item in fresh)
        return replace(node, manifests=tuple(kept) + made)

    edits = nodes.edits if isinstance(nodes, NodeTree) and not rewrite else None
    result: Sequence[Node]
    if edits is not None:
        base, put, removed = edits
        touched = base.of_ids(changes.chunks.keys() - {node.id for node in put.values()})
        gone = set(removed)
        both = [*put.values(), *(node for node in touched if node.path not in gone)]
        result = base.edited(map(renewed, both), removed)
    else:
        result = tuple(sorted(map(renewed, nodes), key=lambda node: path_order(node.path)))
    return Draft(result, tuple(planned))


def _patched(
    node: ArrayNode, changes: ChunkChanges | None, sizes: tuple[int, ...], patch: Patch
) -> tuple[list[PlannedManifest], list[ManifestRef]] | None:
    """Like `_array_manifests`, for a few changed chunks that one manifest already has."""
    table, dropped = changes.columns() if changes else (ChunkTable.empty(0), ())
    if len(dropped) or not 0 < len(table) <= FEW_CHANGES:
        return None
    cells = _Cells(node.grid, sizes)
    homes = [cells.only(ref.extents) for ref in node.manifests]
    touched = cells.rows(table.coords)
    here = [ref for ref, home in zip(node.manifests, homes, strict=True) if home in touched]
    if None in homes or len(here) != 1:
        return None
    manifest = patch(node, here[0], table)
    if manifest is None:
        return None
    fresh = PlannedManifest(manifest.id, node.id, manifest, here[0].extents)
    return [fresh], [ref for ref in node.manifests if ref is not here[0]]


def _array_manifests(
    node: ArrayNode,
    changes: ChunkChanges | None,
    load: LoadTables,
    sizes: tuple[int, ...],
    *,
    rewrite: bool,
) -> tuple[list[PlannedManifest], list[ManifestRef]]:
    """Manifests to write for one array, and the old ones to keep."""
    cells, ndim = _Cells(node.grid, sizes), len(sizes)
    none = ChunkTable.empty(ndim)
    table, dropped = changes.columns() if changes else (none, none.coords)
    put = dict(cells.split(in_grid(table, node.grid)))
    gone = cells.rows(dropped[_is_in_grid(dropped, node.grid)])
    manifests = node.manifests
    homes = [None if rewrite else cells.only(ref.extents) for ref in manifests]
    old: defaultdict[int, list[ChunkTable]] = defaultdict(list)

    def take(numbers: Sequence[int]) -> None:
        # Recorded extents may be wrong, so the cells of a manifest are found by its references.
        for loaded in load(node, [manifests[number] for number in numbers]):
            for cell, part in cells.split(in_grid(loaded, node.grid)):
                old[cell].append(part)

    wide = [number for number, home in enumerate(homes) if home is None]
    take(wide)
    rebuild = put.keys() | gone.keys() | old.keys()
    others = [number for number, home in enumerate(homes) if home in rebuild]
    take(others)
    parts: list[ChunkTable] = []
    for cell in sorted(rebuild | old.keys()):
        found = concat(old[cell], ndim)
        if cell in put or cell in gone:
            found = overlay(found, put.get(cell, none), gone.get(cell, none.coords))
        parts += _fitting(found) if len(found) else ()
    fresh = [PlannedManifest(ManifestId.random(), node.id, part, part.extents) for part in parts]
    taken = {*wide, *others}
    return fresh, [ref for number, ref in enumerate(manifests) if number not in taken]


class _Cells:
    """The split cells of a grid, numbered in C order."""

    def __init__(self, grid: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self._grid = grid
        self._sizes = [max(1, size) for size in sizes]
        counts = [max(1, -(-n // size)) for n, size in zip(grid, self._sizes, strict=True)]
        self._cut = [axis for axis, count in enumerate(counts) if count > 1]
        strides = [1] * len(counts)
        for axis in range(len(counts) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * counts[axis + 1]
        self._strides = strides

    def number(self, coords: U32) -> npt.NDArray[np.int64]:
        """Cell of each row."""
        numbers = np.zeros(len(coords), np.int64)
        for axis in self._cut:
            cells = coords[:, axis] // np.uint32(self._sizes[axis])
            numbers += cells.astype(np.int64) * self._strides[axis]
        return numbers

    def only(self, extents: Extents) -> int | None:
        """The cell a box lies in completely, or None."""
        cell = 0
        for axis, (start, end) in enumerate(extents):
            size = self._sizes[axis]
            if end > self._grid[axis] or start // size != (end - 1) // size:
                return None
            cell += start // size * self._strides[axis]
        return cell

    def split(self, table: ChunkTable) -> Iterator[tuple[int, ChunkTable]]:
        """The parts of a table that fall into one cell each, with the numbers of these."""
        for cell, rows in self._runs(table.coords):
            yield cell, table if rows is None else table.take(rows)

    def rows(self, coords: U32) -> dict[int, U32]:
        """The coordinates in each cell."""
        runs = self._runs(coords)
        return {cell: coords if rows is None else coords[rows] for cell, rows in runs}

    def _runs(self, coords: U32) -> Iterator[tuple[int, slice | Rows | None]]:
        """Which rows are in each cell that has some; None for all of them."""
        if not len(coords):
            return
        if not self._cut:
            yield 0, None
            return
        numbers = self.number(coords)
        steps = np.diff(numbers)
        order = None
        if (steps < 0).any():  # else these are slabs along the first axis, and no row moves
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            steps = np.diff(numbers)
        edges = [0, *(np.flatnonzero(steps) + 1).tolist(), len(coords)]
        for start, stop in pairwise(edges):
            rows = slice(start, stop) if order is None else order[start:stop]
            yield int(numbers[start]), rows if stop - start < len(coords) else None


def _fitting(table: ChunkTable) -> Iterator[ChunkTable]:
    """The table, cut into boxes if readers would refuse a manifest of that size."""
    if may_fit(table):
        yield table
        return
    extents = table.extents
    axis = next((n for n, (start, end) in enumerate(extents) if end - start > 1), None)
    if axis is None:  # the writer will say what is wrong with a single reference
        yield table
        return
    start, end = extents[axis]
    middle = (start + end) // 2
    for half in ((start, middle), (middle, end)):
        part = table.within((*extents[:axis], half, *extents[axis + 1 :]))
        if len(part):
            yield from _fitting(part)


def _is_in_grid(coords: U32, grid: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    return np.asarray((coords < np.array(grid, np.int64)).all(axis=1))


def in_grid(table: ChunkTable, grid: tuple[int, ...]) -> ChunkTable:
    """The rows whose coordinates lie in a grid."""
    if all(stop <= size for (_, stop), size in zip(table.extents, grid, strict=False)):
        return table
    return table.take(_is_in_grid(table.coords, grid))


# --- transaction logs ---


def check_sound(base: Sequence[Node], changes: ChangeSet) -> None:
    """Refuse changes that the snapshot would silently leave out, or put on top of a node.

    Rebases and merges must prevent that; this is the last check before a commit.
    """
    made = {group.id for group in changes.new_groups.values()}
    made |= {array.id for array in changes.new_arrays.values()}
    written = {node_id for node_id, chunks in changes.chunks.items() if chunks}
    ours = {*changes.updated_groups, *changes.updated_arrays, *changes.moves, *written} - made
    missing = ours - {node.id for node in nodes_of(base, ours)}
    if missing:
        raise SessionStateError(
            "cannot commit: a node this session changed is no longer there",
            kind=ErrorKind.NODE_NOT_FOUND,
            node=min(missing),
        )
    targets = {*changes.new_paths(), *(move.target for move in changes.moves.values())}
    leaving = changes.deleted_ids() | changes.moves.keys()
    tree = NodeTree(base) if targets else None
    for path in sorted(targets):
        there = None if tree is None else tree.get(path)
        if there is not None and there.id not in leaving:
            raise SessionStateError(
                "cannot commit: there is another node where this session put one",
                kind=ErrorKind.NODE_ALREADY_EXISTS,
                node=path,
            )


def summarise(
    changes: ChangeSet, snapshot_id: SnapshotId, base: Sequence[Node] | None = None
) -> TransactionLog:
    """The transaction log of a commit on top of some nodes.

    Without nodes it also lists nodes that another commit has deleted before.
    """
    gone = changes.deleted_ids()
    if base is not None:
        gone = frozenset(node.id for node in nodes_of(base, gone))
    return TransactionLog(
        id=snapshot_id,
        new_groups=_ids(group.id for group in changes.new_groups.values()),
        new_arrays=_ids(array.id for array in changes.new_arrays.values()),
        deleted_groups=_ids(gone & changes.deleted_groups.keys()),
        deleted_arrays=_ids(gone & changes.deleted_arrays.keys()),
        updated_arrays=_ids(changes.updated_arrays),
        updated_groups=_ids(changes.updated_groups),
        updated_chunks={
            node_id: changes.chunk_coords(node_id)
            for node_id in sorted({*changes.chunks, *changes.ready})
            if node_id in changes.ready or changes.chunks[node_id]
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
    nodes: dict[str, Any] = {
        name: _ids(getattr(older, name) + getattr(newer, name)) for name in NODE_FIELDS
    }
    return TransactionLog(
        id=newer.id,
        **nodes,
        updated_chunks=_unite_chunks(older.updated_chunks, newer.updated_chunks),
        moved_nodes=_sorted_moves(moves.values()),
    )


def _unite_chunks(older: Mapping[NodeId, U32], newer: Mapping[NodeId, U32]) -> dict[NodeId, U32]:
    united = {}
    for node_id in sorted(older.keys() | newer.keys()):
        parts = [log[node_id] for log in (older, newer) if node_id in log and len(log[node_id])]
        if len({part.shape[1] for part in parts}) > 1:
            parts = parts[-1:]  # the array was made anew with another rank
        if parts:
            united[node_id] = unique_coords(parts)
    return united


def unique_coords(parts: Sequence[U32]) -> U32:
    """Ascending distinct rows of several coordinate lists of one rank."""
    coords = np.concatenate(parts)
    if coords.shape[1] == 0:
        return coords[:1]
    return np.unique(coords, axis=0)


def _ids(ids: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(set(ids)))


def _sorted_moves(moves: Iterable[Move]) -> tuple[Move, ...]:
    return tuple(sorted(moves, key=lambda move: segment_order(move.target)))


def diff_of(logs: Sequence[TransactionLog], before: Iterable[Node], after: Iterable[Node]) -> Diff:
    """Unite logs, oldest first, and name nodes by their paths; `after` wins over `before`."""
    paths: dict[NodeId, str] = {node.id: node.path for node in before}
    paths.update((node.id, node.path) for node in after)

    nodes: dict[str, Any] = {
        name: {paths[one] for log in logs for one in getattr(log, name) if one in paths}
        for name in NODE_FIELDS
    }
    return Diff(
        **nodes,
        updated_chunks=_chunks(logs, paths),
        moved_nodes=[
            (move.source, move.target) for log in reversed(logs) for move in log.moved_nodes
        ],
    )


def _chunks(
    logs: Sequence[TransactionLog], paths: Mapping[NodeId, str]
) -> dict[str, list[list[int]]]:
    by_node: dict[NodeId, list[U32]] = {}
    for log in logs:
        for node_id, coords in log.updated_chunks.items():
            if node_id in paths and len(coords):
                by_node.setdefault(node_id, []).append(coords)
    return {
        paths[node_id]: unique_coords(parts).tolist()
        for node_id, parts in sorted(by_node.items(), key=lambda item: paths[item[0]])
    }
