"""Pairs the arrays of two snapshots for a comparison of values.

Arrays are paired by the id they keep when they move, then by path. Chunks are compared with
chunks where both sides are encoded alike, else regions with regions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from frazil.arrays import I64, Shape
from frazil.bulk.grid import Grid, array_layout, grid_of
from frazil.comparing.candidates import (
    LoggedArrays,
    different_chunks,
    logged_changes,
    written_chunks,
)
from frazil.comparing.records import Box, FoundBy
from frazil.errors import ErrorKind, FormatError, InvalidInputError, NodeNotFoundError
from frazil.ids import SnapshotId, is_below, node_path
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode
from frazil.transaction.context import Context
from frazil.transaction.working import WorkingState

PORTION_BYTES: Final = 4 << 20
"""Cells of one side that are in memory at a time; a chunk that is larger is taken alone."""
PORTION_CHUNKS: Final = 1 << 16
"""Chunks of one side that are looked up at a time."""
MAX_REGIONS: Final = 1 << 22
"""Regions that are compared one by one; more would take days."""
LARGEST_CHUNK: Final = 1 << 32
"""Bytes of a chunk that is read whole to be compared."""
GUESSED_ITEM: Final = 32
"""Bytes of a value, for arrays whose data type is not known here."""
ENCODING: Final = ("data_type", "chunk_grid", "codecs", "fill_value", "storage_transformers")
"""Parts of a `zarr.json` that say what the bytes of chunks mean."""


@dataclass(frozen=True, slots=True, eq=False)
class RemainingRegions:
    """All regions but some: those where neither side has chunks."""

    shape: Shape
    """of the array"""
    block: Shape
    """of a region"""
    others: I64
    """(n, ndim) the regions that are not meant"""

    @property
    def counts(self) -> Shape:
        """Regions along each axis."""
        return tuple(-(-n // size) for n, size in zip(self.shape, self.block, strict=True))

    @property
    def cells(self) -> int:
        """How many cells are meant."""
        starts = self.others * np.array(self.block, np.int64)
        sizes = np.minimum(np.array(self.block), np.array(self.shape) - starts)
        return math.prod(self.shape) - sum(map(math.prod, sizes.tolist()))

    def box(self) -> Box:
        """The smallest box around all cells that are meant; there must be one."""
        counts, edges = self.counts, []
        for axis, count in enumerate(counts):
            full = math.prod(counts) // count
            numbers, times = np.unique(self.others[:, axis], return_counts=True)
            taken = set(numbers[times == full].tolist())
            first = next(n for n in range(count) if n not in taken)
            last = next(n for n in range(count - 1, -1, -1) if n not in taken)
            size, length = self.block[axis], self.shape[axis]
            edges.append((first * size, min((last + 1) * size, length)))
        return tuple(edges)

    def first_cells(self, wanted: int) -> list[Shape]:
        """The cells with the smallest coordinates."""
        others, found = set(map(tuple, self.others.tolist())), list[Shape]()
        *rows, length = self.shape
        for row in _in_order(rows):
            above = tuple(n // size for n, size in zip(row, self.block, strict=False))
            at = 0
            while at < length and len(found) < wanted:
                if (*above, at // self.block[-1]) in others:
                    at += self.block[-1] - at % self.block[-1]
                else:
                    found.append((*row, at))
                    at += 1
            if len(found) == wanted:
                break
        return found


def _in_order(shape: Sequence[int]) -> Iterator[Shape]:
    """The indices of an array one after the other; there may be any number of them."""
    for number in range(math.prod(shape)):
        index: list[int] = []
        for length in reversed(shape):
            number, place = divmod(number, length)  # what is left of it
            index.append(place)
        yield tuple(reversed(index))


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonPart:
    """A part of a comparison that is done at one time: some chunks, a region, or the rest."""

    chunks: I64 | None = None
    box: Box = ()
    rest: RemainingRegions | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two arrays to compare; one of them may be missing."""

    old: ArrayNode | None
    new: ArrayNode | None
    found_by: FoundBy
    chunks: I64 | None = None
    """chunks that may differ; None where regions are compared"""

    @property
    def path(self) -> str:
        """Where the array is, or was."""
        node = self.new or self.old
        assert node is not None
        return node.path

    @property
    def common(self) -> Shape | None:
        """The shape that both sides have; None where they have not as many axes."""
        if self.old is None or self.new is None or len(self.old.shape) != len(self.new.shape):
            return None
        return tuple(map(min, cell_shape(self.old), cell_shape(self.new)))


def cell_shape(node: ArrayNode) -> Shape:
    """The shape of an array in cells."""
    return tuple(axis.array_length for axis in node.shape)


def are_alike(old: ArrayNode, new: ArrayNode) -> bool:
    """Whether equal references mean equal values."""
    one, other = document_of(old), document_of(new)
    return len(old.shape) == len(new.shape) and all(
        one.get(name) == other.get(name) for name in ENCODING
    )


def pair_arrays(
    old: WorkingState, new: WorkingState, paths: Sequence[str] | None = None
) -> list[tuple[ArrayNode | None, ArrayNode | None]]:
    """Arrays that belong together, by path; `paths` are arrays, or groups above them."""
    before = {node.id: node for node in old.arrays()}
    after = {node.id: node for node in new.arrays()}
    pairs: list[tuple[ArrayNode | None, ArrayNode | None]] = [
        (before[one], after[one]) for one in before.keys() & after.keys()
    ]
    lost = {node.path: node for one, node in before.items() if one not in after}
    made = {node.path: node for one, node in after.items() if one not in before}
    pairs += [(lost.get(path), made.get(path)) for path in lost.keys() | made.keys()]
    if paths is not None:
        wanted = [node_path("/" + path.strip("/")) for path in paths]
        for path in wanted:
            if path != "/" and old.tree.get(path) is None and new.tree.get(path) is None:
                raise NodeNotFoundError(f"neither snapshot has a node at {path!r}")
        pairs = [pair for pair in pairs if _is_wanted(pair, wanted)]
    # For mypy: one of both is there.
    return sorted(pairs, key=lambda pair: (pair[1] or pair[0]).path)  # type: ignore[union-attr]


def _is_wanted(pair: tuple[ArrayNode | None, ArrayNode | None], wanted: Sequence[str]) -> bool:
    return any(
        node.path == path or is_below(node.path, path)
        for node in pair
        if node is not None
        for path in wanted
    )


def plan_pairs(
    context: Context,
    first: SnapshotId,
    last: SnapshotId,
    paths: Sequence[str] | None = None,
) -> Iterator[Pair]:
    """Pairs of arrays that may differ, with the chunks that may; equal ones are left out."""
    old, new = WorkingState(context, first), WorkingState(context, last)
    logged = logged_changes(context, first, last)
    for one, other in pair_arrays(old, new, paths):
        if one is None or other is None:
            yield Pair(one, other, FoundBy.METADATA)
        elif not are_alike(one, other):
            yield Pair(one, other, FoundBy.CELLS)
        else:
            pair = _by_chunks(old, one, new, other, logged)
            if pair is not None:
                yield pair


def _by_chunks(
    old: WorkingState,
    one: ArrayNode,
    new: WorkingState,
    other: ArrayNode,
    logged: LoggedArrays | None,
) -> Pair | None:
    """Two arrays that are encoded alike; None if they are surely equal."""
    is_resized = cell_shape(one) != cell_shape(other)
    if one.id == other.id and one.manifests == other.manifests and not is_resized:
        return None
    found_by = FoundBy.MANIFESTS
    coords: I64 | None = None
    if logged is not None and one.id == other.id and one.id not in logged.unsure:
        # Manifests may differ although no log names the array, if they were rewritten.
        coords = logged.chunks.get(one.id)
        if coords is not None and coords.shape[1] == len(other.shape):
            found_by = FoundBy.LOGS
        else:
            coords = None
    if coords is None:
        coords = written_chunks(old, one, new, other)
    pair = Pair(one, other, found_by)
    coords = _within(grid_of(other), coords, pair.common)
    coords = different_chunks(old, one, new, other, coords)
    if not len(coords) and not is_resized:
        return None
    return replace(pair, chunks=coords)


def _within(grid: Grid, coords: I64, common: Shape | None) -> I64:
    """The chunks that hold cells which both sides have."""
    assert common is not None
    held = np.ones(len(coords), np.bool_)
    for axis, length in enumerate(common):
        held &= grid[axis].start_of(coords[:, axis]) < length
    return coords[held]


# --- portions ---


def comparison_parts(
    pair: Pair, old: WorkingState, new: WorkingState, *, leave_rest: bool = False
) -> Iterator[ComparisonPart]:
    """The parts of a comparison, each small enough to be in memory.

    With `leave_rest` all regions without chunks are one part, which need not be read.

    Raises:
        InvalidInputError: there are too many of them.
    """
    if pair.old is None or pair.new is None or pair.common is None:
        return
    if pair.chunks is None:
        yield from _boxes(pair.old, pair.new, old, new, leave_rest=leave_rest)
        return
    grid = grid_of(pair.new)
    if all(axis.is_regular for axis in grid):
        size = math.prod(axis.sizes[0] for axis in grid) * _itemsize(pair.old, pair.new)
        if len(pair.chunks):
            _require_room(size, pair.new)
        step = max(1, PORTION_BYTES // max(1, size))
        for at in range(0, len(pair.chunks), step):
            yield ComparisonPart(pair.chunks[at : at + step])
        return
    for row in pair.chunks:
        starts = [int(axis.start_of(row[n : n + 1])[0]) for n, axis in enumerate(grid)]
        sizes = [int(axis.size_of(row[n : n + 1])[0]) for n, axis in enumerate(grid)]
        ends = (min(a + b, c) for a, b, c in zip(starts, sizes, pair.common, strict=True))
        yield ComparisonPart(box=tuple(zip(starts, ends, strict=True)))


def _itemsize(*nodes: ArrayNode) -> int:
    """Bytes of a cell in memory; a guess where only zarr knows the data type."""
    layouts = [array_layout(node) for node in nodes]
    return max(GUESSED_ITEM if each is None else each.chain.dtype.itemsize or 1 for each in layouts)


def _boxes(
    one: ArrayNode, other: ArrayNode, old: WorkingState, new: WorkingState, *, leave_rest: bool
) -> Iterator[ComparisonPart]:
    """Regions of the shape that both have.

    Regions in which neither side has chunks are left out if both fill values are equal. Otherwise
    they are marked as such if `leave_rest`.
    """
    common = tuple(map(min, cell_shape(one), cell_shape(other)))
    if 0 in common:
        return
    chunk = _largest(one, other)
    cells = min(PORTION_BYTES // _itemsize(one, other), math.prod(chunk) * PORTION_CHUNKS)
    block = _block(common, chunk, cells)
    counts = tuple(-(-length // size) for length, size in zip(common, block, strict=True))
    touched = _touched_by_any(one, other, old, new, block, counts)
    has_same_fill = document_of(one).get("fill_value") == document_of(other).get("fill_value")
    numbers: Iterable[Any] = touched.tolist()
    if not has_same_fill and leave_rest:
        yield ComparisonPart(rest=RemainingRegions(common, block, touched))
    elif not has_same_fill:
        if math.prod(counts) > MAX_REGIONS:
            raise InvalidInputError(
                f"the array {other.path!r} has too many cells to compare all of them: its fill "
                "value has changed",
                kind=ErrorKind.INVALID_SELECTION,
                shape=common,
            )
        numbers = product(*map(range, counts))
    size = math.prod(block) * _itemsize(one, other)
    for number in numbers:
        _require_room(size, other)
        yield ComparisonPart(
            box=tuple(
                (n * size, min((n + 1) * size, length))
                for n, size, length in zip(number, block, common, strict=True)
            )
        )


def _require_room(size: int, node: ArrayNode) -> None:
    """Refuse chunks that no memory holds; what says so may be a few bytes long."""
    if size > LARGEST_CHUNK:
        raise FormatError(
            "the chunks of the array are too large to be compared", path=node.path, bytes=size
        )


def _touched_by_any(
    one: ArrayNode,
    other: ArrayNode,
    old: WorkingState,
    new: WorkingState,
    block: Shape,
    counts: Shape,
) -> I64:
    """The regions in which either side has chunks."""
    if not counts:
        return np.zeros((1, 0), np.int64)
    parts = [_touched(state, node, block, counts) for state, node in ((old, one), (new, other))]
    return np.asarray(np.unique(np.concatenate(parts), axis=0))


def _largest(*nodes: ArrayNode) -> Shape:
    """The largest chunk along each axis."""
    grids = [grid_of(node) for node in nodes]
    return tuple(max(max(axis.sizes) for axis in axes) for axes in zip(*grids, strict=True))


def _block(common: Shape, chunk: Shape, cells: int) -> Shape:
    """A region of whole chunks, as long as there is room, along the last axes first."""
    block = [min(size, length) for size, length in zip(chunk, common, strict=True)]
    for axis in range(len(block) - 1, -1, -1):
        room = max(1, cells // max(1, math.prod(block)))
        block[axis] = min(common[axis], block[axis] * room)
    return tuple(map(int, block))


def _touched(state: WorkingState, node: ArrayNode, block: Shape, counts: Shape) -> I64:
    """The regions in which an array has chunks."""
    coords, grid = state.table(node).coords.astype(np.int64), grid_of(node)
    lows, highs = [], []
    for n, axis in enumerate(grid):
        start = axis.start_of(coords[:, n])
        lows.append(start // block[n])
        highs.append((start + axis.size_of(coords[:, n]) - 1) // block[n])
    # A region is as long as a chunk or longer, so that a chunk meets two along an axis at most.
    corners = [np.stack(choice, axis=1) for choice in product(*zip(lows, highs, strict=True))]
    found = np.concatenate(corners)
    inside = (found < np.array(counts, np.int64)).all(axis=1)
    return np.asarray(np.unique(found[inside], axis=0))
