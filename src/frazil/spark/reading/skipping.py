"""Which blocks a condition on values can hold in, by the statistics of their chunks.

A block stays unless statistics rule it out. Chunks without statistics stay, so does what statistics
cannot tell, and the condition itself is checked again where values are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from frazil.arrays import Mask
from frazil.spark.reading.known import among_axes, chunk_counts, look_up
from frazil.spark.reading.partitions import BlockGrid
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.selecting import SIGNS, literal
from frazil.spark.reading.where import All, Any_, Compare, Condition, IsNull, Leaf, OneOf, leaves
from frazil.spark.tuning import KNOWN_BLOCKS
from frazil.statistics.lookup import Summaries


def without_excluded(scan: Scan, grid: BlockGrid) -> BlockGrid:
    """The grid without blocks in which no cell can meet the condition on values."""
    condition = scan.condition
    if condition is None or not 0 < grid.total <= KNOWN_BLOCKS:
        return grid
    if not any(leaf.name in scan.values for leaf in leaves(condition)):
        return grid
    found = _Blocks(scan, grid).may_hold(condition)
    if found is None or found.all():
        return grid
    return replace(grid, chosen=np.flatnonzero(np.broadcast_to(found, grid.counts)))


class _Blocks:
    """Looks up statistics, once for each variable."""

    def __init__(self, scan: Scan, grid: BlockGrid) -> None:
        self._scan = scan
        self._grid = grid
        self._known: dict[str, Summaries | None] = {}

    def may_hold(self, condition: Condition) -> Mask | None:
        """For each block whether a condition can hold in it; None when it can in all."""
        match condition:
            case All(parts):
                given = [mask for mask in map(self.may_hold, parts) if mask is not None]
                return reduce(np.logical_and, given) if given else None
            case Any_(parts):
                masks = [self.may_hold(part) for part in parts]
                given = [mask for mask in masks if mask is not None]
                return reduce(np.logical_or, given) if len(given) == len(masks) else None
            case leaf if leaf.name in self._scan.values:
                column = self._scan.values[leaf.name]
                known = self._summaries(leaf.name, column)
                mask = None if known is None else may_hold(leaf, known, column.dtype)
                return None if mask is None else self._by_block(column, mask)
            case _:
                return None

    def _summaries(self, name: str, column: Column) -> Summaries | None:
        if name not in self._known:
            self._known[name] = self._look_up(column)
        return self._known[name]

    def _look_up(self, column: Column) -> Summaries | None:
        if column.variable is None:
            return None
        return look_up(self._scan, column, [np.arange(n) for n in chunk_counts(column)])

    def _by_block(self, column: Column, mask: Mask) -> Mask:
        """From the chunks of a variable to the blocks of the table."""
        assert column.variable is not None
        found = mask.reshape(chunk_counts(column))
        for number, axis in enumerate(column.axes):
            size, chunk = self._grid.block[axis], column.variable.chunks[number]
            blocks = np.asarray(self._grid.blocks[axis], np.int64)
            ends = np.minimum((blocks + 1) * size, self._grid.shape[axis])
            before = np.insert(np.cumsum(found, axis=number), 0, 0, axis=number)
            most = np.take(before, (ends - 1) // chunk + 1, axis=number)
            found = most > np.take(before, blocks * size // chunk, axis=number)
        return among_axes(found, column, len(self._grid.counts))


def may_hold(leaf: Leaf, known: Summaries, dtype: np.dtype[Any]) -> Mask | None:
    """For each chunk whether a comparison can hold in it; None if that is unknown."""
    if isinstance(leaf, IsNull):
        return ~known.known | ((known.count if leaf.negated else known.missing) > 0)
    if dtype.kind not in "biufM":
        return None
    # Values without extremes are such as have no order, or NaN alone.
    untold = ~known.known | (~known.has_extremes & (known.count > known.nan))
    match leaf:
        case Compare(sign=sign, value=value):
            found = _compared(known, sign, _number(literal(value, dtype)))
        case OneOf(values=values, negated=False):
            wanted = [_number(literal(value, dtype)) for value in values]
            found = reduce(np.logical_or, (_compared(known, "=", each) for each in wanted))
        case OneOf():
            found = known.count > 0
        case _:
            return None
    return untold | found


def _compared(known: Summaries, sign: str, value: Any) -> Mask:  # noqa: ANN401  (a number)
    """Whether some value of each chunk can compare so; NaN is greater than every number."""
    low, high, has_nan = known.min, known.max, known.nan > 0
    if value != value:
        return known.count > 0
    found: Mask
    match sign:
        case "=":
            found = known.has_extremes & (low <= value) & (high >= value)
        case "!=":
            found = has_nan | (known.has_extremes & ((low != value) | (high != value)))
        case "<" | "<=":
            found = known.has_extremes & SIGNS[sign](low, value)
        case _:
            found = has_nan | (known.has_extremes & SIGNS[sign](high, value))
    return found


def _number(value: Any) -> Any:  # noqa: ANN401  (what numpy compares)
    """A value as statistics keep it: times are microseconds."""
    if isinstance(value, np.datetime64):
        return int(value.astype("M8[us]").astype(np.int64))
    return int(value) if isinstance(value, bool) else value
