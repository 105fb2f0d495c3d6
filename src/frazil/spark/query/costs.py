"""What a read costs: how many chunks it touches, and how many bytes these have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from frazil.arrays import Mask
from frazil.bulk.fetch import find_chunks
from frazil.spark.reading.known import chunk_counts
from frazil.spark.reading.partitions import BlockGrid
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.worker import session_at


@dataclass(frozen=True, slots=True)
class Cost:
    """Chunks and bytes to read, and those that there are."""

    chunks: int = 0
    all_chunks: int = 0
    bytes: int = 0
    """of cells, when decoded"""
    all_bytes: int = 0
    stored_bytes: int = 0
    """of whole chunks, as they are stored"""
    spared: int = 0
    """chunks that the read would need without statistics"""


def cost_of(scan: Scan, before: BlockGrid, grid: BlockGrid) -> Cost:
    """What it costs to read the blocks of a grid; `before` is the grid without statistics."""
    chunks = size = stored = all_chunks = all_size = needed = 0
    for column in scan.data_columns():
        assert column.variable is not None
        touched = _touched(column, grid)
        chunks += int(np.count_nonzero(touched))
        needed += int(np.count_nonzero(_touched(column, before)))
        size += _cells(column, grid) * column.variable.itemsize
        stored += _stored(scan, column, touched)
        all_chunks += touched.size
        all_size += math.prod(column.variable.shape) * column.variable.itemsize
    return Cost(chunks, all_chunks, size, all_size, stored, needed - chunks)


def _blocks(column: Column, grid: BlockGrid) -> Mask:
    """The blocks to read along a variable's own axes, in its own order."""
    if grid.chosen is None:
        return np.ones([len(grid.blocks[axis]) for axis in column.axes], np.bool_)
    whole = np.zeros(grid.counts, np.bool_)
    whole.reshape(-1)[grid.chosen] = True
    others = tuple(axis for axis in range(len(grid.counts)) if axis not in column.axes)
    found: Mask = np.asarray(np.any(whole, axis=others))
    return found.transpose(np.argsort(np.argsort(column.axes)))


def _touched(column: Column, grid: BlockGrid) -> Mask:
    """For each chunk of a variable whether a block that is read has cells of it."""
    assert column.variable is not None
    found = _blocks(column, grid)
    for number, axis in enumerate(column.axes):
        size, chunk = grid.block[axis], column.variable.chunks[number]
        starts = np.asarray(grid.blocks[axis], np.int64) * size
        first = np.arange(chunk_counts(column)[number]) * chunk
        low = np.searchsorted(starts + size, first, "right")
        high = np.searchsorted(starts, first + chunk, "left")
        before = np.insert(np.cumsum(found, axis=number), 0, 0, axis=number)
        found = np.take(before, np.maximum(high, low), axis=number) > np.take(
            before, low, axis=number
        )
    return found


def _cells(column: Column, grid: BlockGrid) -> int:
    """Cells of a variable in the blocks that are read."""
    found = _blocks(column, grid).astype(np.int64)
    for number, axis in enumerate(column.axes):
        starts = np.asarray(grid.blocks[axis], np.int64) * grid.block[axis]
        lengths = np.minimum(starts + grid.block[axis], grid.shape[axis]) - starts
        found = found * lengths.reshape([-1 if n == number else 1 for n in range(found.ndim)])
    return int(found.sum())


def _stored(scan: Scan, column: Column, touched: Mask) -> int:
    """Bytes of chunks by what the manifests tell; chunks never written have none."""
    assert column.variable is not None
    state = session_at(scan.pinned).state
    node = state.array(column.variable.path)
    coords = np.argwhere(touched)
    if column.variable.letters:  # the last axis of texts is no axis of the table
        last = np.arange(node.grid[-1])
        coords = np.concatenate(
            [np.repeat(coords, len(last), axis=0), np.tile(last, len(coords))[:, None]], axis=1
        )
    return int(find_chunks(state, node, coords).length.sum()) if len(coords) else 0
