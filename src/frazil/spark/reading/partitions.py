"""How the cells of a scan are cut into partitions.

The array is seen as a grid of blocks, which are chunks or whole numbers of them. Along each axis
only blocks remain that the condition can touch; the rest is never looked at. A partition is a
range of numbers of remaining blocks, so it stays tiny however many there are; a task turns its
range into a few boxes and reads them one by one, so memory does not grow with the partition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.spark.reading.axis_masks import full_runs
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.selecting import label_condition
from frazil.spark.reading.stored import Places, compact
from frazil.spark.reading.where import pointing
from frazil.spark.tuning import LEAST_TASKS, REGION_CELLS, SMALLEST_SPLIT, SPLIT_BYTES
from frazil.spelling import meant

Blocks: TypeAlias = range | npt.NDArray[np.int64]
Region: TypeAlias = tuple[Places, ...]
"""Places along each axis; what is at their crossings is read."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockGrid:
    """The blocks to read: along each axis their numbers, and what a block is."""

    shape: tuple[int, ...]
    block: tuple[int, ...]
    blocks: tuple[Blocks, ...]
    chosen: npt.NDArray[np.int64] | None = None
    """those of their crossings, by number in row order, that are read; None for all"""

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of remaining blocks along each axis."""
        return tuple(map(len, self.blocks))

    @property
    def total(self) -> int:
        """Number of remaining blocks."""
        return math.prod(self.counts) if self.chosen is None else len(self.chosen)

    @property
    def cells(self) -> int:
        """Cells of a whole block."""
        return math.prod(self.block)

    def regions(self, start: int, stop: int, limit: int = REGION_CELLS) -> Iterator[Region]:
        """The regions that a range of blocks covers, none with more cells than the limit."""
        most = max(limit // self.cells, 1)
        for low, high in self._runs(start, stop):
            for first, lengths in boxes(self.counts, low, high, most):
                yield tuple(
                    self._places(axis, at, at + length)
                    for axis, (at, length) in enumerate(zip(first, lengths, strict=True))
                )

    def _runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """A range of the blocks that are read as ranges of all."""
        if self.chosen is None:
            yield start, stop
            return
        chosen = self.chosen[start:stop]
        for run in np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1):
            if len(run):
                yield int(run[0]), int(run[-1]) + 1

    def _places(self, axis: int, start: int, stop: int) -> Places:
        chosen, size, end = self.blocks[axis][start:stop], self.block[axis], self.shape[axis]
        first, last = int(chosen[0]), int(chosen[-1])
        if last - first + 1 == len(chosen):
            return slice(first * size, min((last + 1) * size, end))
        starts = np.asarray(chosen, np.int64)[:, None] * size
        numbers = (starts + np.arange(size)).ravel()
        return compact(numbers[numbers < end])


def boxes(
    counts: Sequence[int], start: int, stop: int, limit: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a range of numbers in row order into boxes of at most `limit` each, in order."""
    strides = [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]
    while start < stop:
        first = tuple(start // stride % n for stride, n in zip(strides, counts, strict=True))
        room = min(stop - start, limit)
        axis = next(
            (a for a, s in enumerate(strides) if s <= room and start % s == 0), len(counts) - 1
        )
        if not counts:
            yield (), ()
            return
        length = min(room // strides[axis], counts[axis] - first[axis])
        lengths = (*(1 for _ in range(axis)), length, *counts[axis + 1 :])
        yield first, lengths
        start += length * strides[axis]


# --- planning, on the driver ---


def plan_blocks(scan: Scan, columns: Sequence[Column]) -> BlockGrid:
    """The blocks that a scan has to look into."""
    block = block_shape(scan.shape, columns, scan.request.split_size or SPLIT_BYTES)
    blocks = tuple(_axis_blocks(scan, axis, block[axis]) for axis in range(len(scan.axes)))
    return BlockGrid(scan.shape, block, blocks)


def plan_ranges(scan: Scan, grid: BlockGrid) -> list[tuple[int, int]]:
    """Ranges of blocks, one for each partition."""
    request = scan.request
    block_bytes = max(grid.cells * scan.cell_bytes, 1)
    per = request.chunks_per_partition
    if per is None:
        split = request.split_size
        if split is None:
            share = grid.total * block_bytes // LEAST_TASKS
            split = min(SPLIT_BYTES, max(SMALLEST_SPLIT, share))
        per = max(split // block_bytes, 1)
    per = max(per, -(-grid.total // request.max_partitions))
    return [(at, min(at + per, grid.total)) for at in range(0, grid.total, per)]


def block_shape(
    shape: Sequence[int], columns: Sequence[Column], split_bytes: int = SPLIT_BYTES
) -> tuple[int, ...]:
    """A block that holds whole chunks of all columns, as far as they go together."""
    found = [1] * len(shape)
    fetched = [column for column in columns if column.variable is not None and column.axes]
    for column in fetched:
        for axis, chunk in zip(column.axes, _unit(column, split_bytes), strict=True):
            both = math.lcm(found[axis], chunk)
            # Chunks that never meet are cut at the larger one; the smaller is then read twice.
            found[axis] = both if both <= 4 * max(found[axis], chunk) else max(found[axis], chunk)
    if not fetched:
        found = _without_chunks(shape)
    return tuple(max(min(size, max(n, 1)), 1) for size, n in zip(found, shape, strict=True))


def _unit(column: Column, split_bytes: int) -> tuple[int, ...]:
    """The chunk of a column, or the parts it can be decoded in when it is a large shard."""
    variable = column.variable
    assert variable is not None
    whole = math.prod(variable.chunks) * variable.itemsize
    return variable.inner_chunks if whole > split_bytes else variable.chunks


def _without_chunks(shape: Sequence[int]) -> list[int]:
    """A block for columns that need no chunks: as much of the last axes as is read at once."""
    room, found = REGION_CELLS, []
    for size in reversed(shape):
        found.append(max(min(size, room), 1))
        room = max(room // max(size, 1), 1)
    return found[::-1]


def require_labels(scan: Scan) -> None:
    """Refuse labels of a `sel` that no place has, as xarray does.

    Raises:
        InvalidInputError: with the label that is missing.
    """
    if scan.request.sel is None:
        return
    text = scan.request.sel.text
    for labels in scan.request.sel.labels:
        axes = scan.known.axes[meant(labels.name, scan.known.axes) or labels.name]
        for value in labels.values if len(axes) == 1 else ():
            one = label_condition([replace(labels, values=(value,))], text, scan.known)
            found = full_runs(scan, one, axes[0])
            if found is not None and not found:
                problem = f"{labels.name!r} has no label {value}"
                raise pointing(text, labels.at, problem, "sel")


def _axis_blocks(scan: Scan, axis: int, size: int) -> Blocks:
    """Numbers of the blocks along an axis that the condition can touch."""
    length = scan.axes[axis].size
    count = -(-length // size)
    runs = full_runs(scan, scan.condition, axis) if length else None
    if runs is None:
        return range(count)
    places = runs.blocks(size).places()
    return range(places.start, places.stop) if isinstance(places, slice) else places


def rows_of(scan: Scan, grid: BlockGrid) -> int:
    """How many rows a scan can have at most in these blocks."""
    chosen = (full_runs(scan, scan.condition, axis) for axis in range(len(scan.axes)))
    places = (
        size if runs is None else runs.count for size, runs in zip(scan.shape, chosen, strict=True)
    )
    return min(grid.total * grid.cells, math.prod(places))
