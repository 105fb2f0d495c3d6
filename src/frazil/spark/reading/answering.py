"""Blocks of which statistics tell the aggregates, so that nothing of them is read.

They do where a selection takes whole blocks, where these hold whole chunks, all of which are known,
and where a block has one label of each axis that is kept. All other blocks are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import numpy as np

from frazil.arrays import I64, Mask
from frazil.cf.decoding import Values
from frazil.spark.reading.axis_masks import full_runs
from frazil.spark.reading.known import among_axes, chunk_counts, look_up
from frazil.spark.reading.partitions import BlockGrid
from frazil.spark.reading.reducing import COUNT, LOW, MAX, MIN, SUM, GroupAggregates, Reduced, bound
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.where import leaves
from frazil.spark.tuning import KNOWN_BLOCKS
from frazil.statistics.lookup import Summaries

ANSWERABLE: Final = frozenset({COUNT, SUM, MIN, MAX})
"""aggregates that statistics have"""
SAFE_SUM: Final = 2.0**62


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """What is left to read of a grid, and what is known of the rest."""

    grid: BlockGrid
    held: GroupAggregates | None = None
    """aggregates of all blocks that are not read, for each of their labels"""


def answer(
    scan: Scan,
    columns: Sequence[Column],
    wanted: Sequence[Sequence[str]],
    kept: Sequence[int],
    grid: BlockGrid,
) -> Answered:
    """Look up the aggregates that are wanted of some variables, for labels of the axes kept."""
    whole = _whole_blocks(scan, columns, wanted, kept, grid)
    if whole is None or not whole.any():
        return Answered(grid)
    parts = []
    for column, words in zip(columns, wanted, strict=True):
        part = _Part.of(scan, column, words, grid)
        if part is None:
            return Answered(grid)
        whole = whole & part.known
        parts.append(part)
    if not whole.any():
        return Answered(grid)
    axes = tuple(axis for axis in range(len(grid.counts)) if axis not in kept)
    cells = reduce(np.multiply, (_lengths(grid, axis) for axis in range(len(grid.counts))))
    region = tuple(
        np.asarray(blocks, np.int64) if axis in kept else slice(0, 1)
        for axis, blocks in enumerate(grid.blocks)
    )
    held = GroupAggregates(
        region,
        np.asarray(np.sum(np.where(whole, cells, 0), axis=axes)),
        [part.reduced(whole, axes) for part in parts],
    )
    return Answered(replace(grid, chosen=np.flatnonzero(~whole)), held)


def _whole_blocks(
    scan: Scan,
    columns: Sequence[Column],
    wanted: Sequence[Sequence[str]],
    kept: Sequence[int],
    grid: BlockGrid,
) -> Mask | None:
    """The blocks that statistics may tell all of; None when there is no such block."""
    if not columns or grid.chosen is not None or not 0 < grid.total <= KNOWN_BLOCKS:
        return None
    if not all(ANSWERABLE.issuperset(words) for words in wanted):
        return None
    if any(grid.block[axis] != 1 for axis in kept):
        return None
    if not all(_has_whole_chunks(scan, column, grid) for column in columns):
        return None
    condition = scan.condition
    if condition is not None and (
        not scan.is_separable or any(leaf.name in scan.values for leaf in leaves(condition))
    ):
        return None
    whole = np.ones(grid.counts, np.bool_)
    for axis, blocks in enumerate(grid.blocks):
        runs = full_runs(scan, condition, axis)
        if runs is not None:
            starts = np.asarray(blocks, np.int64) * grid.block[axis]
            stops = np.minimum(starts + grid.block[axis], grid.shape[axis])
            is_taken: Mask = runs.before(stops) - runs.before(starts) == stops - starts
            whole &= _along(is_taken, axis, len(grid.counts))
    return whole


def _has_whole_chunks(scan: Scan, column: Column, grid: BlockGrid) -> bool:
    """Whether every block holds whole chunks of a variable."""
    variable = column.variable
    if variable is None or variable.name not in scan.values:
        return False
    return all(
        grid.block[axis] % chunk == 0 or grid.block[axis] >= length
        for axis, chunk, length in zip(column.axes, variable.chunks, variable.shape, strict=True)
    )


def _along(values: Values, axis: int, ndim: int) -> Values:
    """Values along one axis of a table."""
    return values.reshape([-1 if each == axis else 1 for each in range(ndim)])


def _lengths(grid: BlockGrid, axis: int) -> Values:
    """How long blocks are along an axis."""
    starts = np.asarray(grid.blocks[axis], np.int64) * grid.block[axis]
    stops = np.minimum(starts + grid.block[axis], grid.shape[axis])
    return _along(stops - starts, axis, len(grid.counts))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The statistics of one variable for each block, those of its chunks put together."""

    dtype: np.dtype[Any]
    known: Mask
    count: Values
    least: Values | None = None
    most: Values | None = None
    total: Values | None = None
    low: Values | None = None

    @classmethod
    def of(cls, scan: Scan, column: Column, wanted: Sequence[str], grid: BlockGrid) -> _Part | None:
        """Look up the chunks of all blocks; None when nothing is known of them."""
        chunks = [_chunks_of(grid, column, number) for number in range(len(column.axes))]
        found = look_up(scan, column, [numbers for numbers, _ in chunks], is_written=True)
        if found is None:
            return None
        shape = [len(numbers) for numbers, _ in chunks]

        def joined(pick: np.ufunc, values: Values) -> Values:
            made = values.reshape(shape)
            for axis, (_, firsts) in enumerate(chunks):
                made = pick.reduceat(made, firsts, axis=axis)
            return among_axes(made, column, len(grid.counts))

        others = [axis for axis in range(len(grid.counts)) if axis not in column.axes]
        # A variable that lacks a dimension is repeated along it.
        times = np.ones(1, np.int64)
        for axis in others:
            times = times * _lengths(grid, axis)
        dtype, known = column.dtype, found.known.copy()
        least = most = total = low = None
        if SUM in wanted:
            known &= found.has_sum
            halves = [each for each in _totals(found, dtype) if each is not None]
            if not _can_be_added(halves, times):
                return None
            total, low = [*(joined(np.add, each) * times for each in halves), None][:2]
        if MIN in wanted or MAX in wanted:
            known &= found.has_extremes | (found.count == found.nan)
            pairs = zip((_least(dtype), _most(dtype)), _extremes(found, dtype), strict=True)
            least, most = (joined(how.pick, values) for how, values in pairs)
        known = joined(np.logical_and, known)
        return cls(dtype, known, joined(np.add, found.count) * times, least, most, total, low)

    def reduced(self, whole: Mask, axes: tuple[int, ...]) -> Reduced:
        """The aggregates of some blocks, over some axes."""

        def over(how: _Pick, values: Values | None) -> Values | None:
            if values is None:
                return None
            chosen = np.where(whole, values, values.dtype.type(how.none))
            return np.asarray(how.pick.reduce(chosen, axis=axes))

        def extreme(how: _Pick, values: Values | None) -> Values | None:
            found = over(how, values)
            return found if found is None or self.dtype.kind != "M" else found.view(self.dtype)

        return Reduced(
            np.asarray(np.sum(np.where(whole, self.count, 0), axis=axes)),
            over(_ADD, self.total),
            over(_ADD, self.low),
            extreme(_least(self.dtype), self.least),
            extreme(_most(self.dtype), self.most),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Pick:
    """How values become one, and what does not matter to others."""

    pick: np.ufunc
    none: Any


_ADD: Final = _Pick(np.add, 0)


def _least(dtype: np.dtype[Any]) -> _Pick:
    return (
        _Pick(np.fmin, np.nan)
        if dtype.kind == "f"
        else _Pick(np.minimum, bound(_plain(dtype), True))
    )


def _most(dtype: np.dtype[Any]) -> _Pick:
    return (
        _Pick(np.maximum, -np.inf)
        if dtype.kind == "f"
        else _Pick(np.maximum, bound(_plain(dtype), False))
    )


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which values are compared."""
    return np.dtype(np.int64) if dtype.kind == "M" else dtype


def _chunks_of(grid: BlockGrid, column: Column, number: int) -> tuple[I64, I64]:
    """The chunks along one axis of a variable that blocks hold, and which are the first of one."""
    assert column.variable is not None
    axis, count = column.axes[number], chunk_counts(column)[number]
    each = -(-grid.block[axis] // column.variable.chunks[number])
    first = np.asarray(grid.blocks[axis], np.int64) * each
    lengths = np.minimum(first + each, count) - first
    starts = np.cumsum(lengths) - lengths
    return np.repeat(first - starts, lengths) + np.arange(int(lengths.sum())), starts


def _can_be_added(parts: Sequence[Values], times: I64) -> bool:
    """Whether sums of whole numbers stay within 64 bits, however they are put together."""
    most = float(times.max(initial=0))
    return all(
        part.dtype.kind == "f" or float(np.abs(part.astype("f8")).sum()) * most < SAFE_SUM
        for part in parts
    )


def _extremes(found: Summaries, dtype: np.dtype[Any]) -> tuple[Values, Values]:
    """The extremes of chunks as values; those without any do not matter to others."""
    has, plain = found.has_extremes, _plain(dtype)
    least = np.where(has, found.min.astype(plain), plain.type(_least(dtype).none))
    most = np.where(has, found.max.astype(plain), plain.type(_most(dtype).none))
    if dtype.kind == "f":
        # NaN is greater than every number; where there is nothing else, it is both.
        most = np.where(found.nan > 0, plain.type(np.nan), most)
    return least, most


def _totals(found: Summaries, dtype: np.dtype[Any]) -> tuple[Values, Values | None]:
    """The sums of chunks, those of 64 bits in two halves."""
    if dtype.kind == "f":
        return np.where(found.nan > 0, np.nan, found.sum), None
    total = found.sum.astype(np.int64)
    return (total >> 32, total & LOW) if dtype.itemsize == 8 else (total, None)
