"""Finding the row of a chunk in a table whose rows ascend by coordinates.

Three ways, by density of the bounding box: the row is the linear index itself (full box), a
dense array of rows, or binary search over linear keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import prod
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, U32, Rows
from frazil.model.nodes import Coordinates
from frazil.model.tuning import DENSE_CELLS, DENSE_SHARE

ABSENT: Final = -1
MAX_KEY: Final = 2**63 - 1


class Lookup(Protocol):
    """Rows by coordinates; -1 where there is none."""

    def row(self, coords: Coordinates) -> int:
        """Row of one chunk."""

    def rows(self, coords: npt.NDArray[np.integer]) -> Rows:
        """Rows of many chunks; `coords` is (m, ndim)."""


def lookup_for(coords: U32) -> Lookup:
    """Choose and build the lookup of a table; `coords` is (n, ndim), ascending, without repeats."""
    n, ndim = coords.shape
    if not n or not ndim:
        return _Constant(0 if n else ABSENT)
    low = [int(coords[:, axis].min()) for axis in range(ndim)]
    sizes = [int(coords[:, axis].max()) - low[axis] + 1 for axis in range(ndim)]
    cells = prod(sizes)
    if cells == n:
        return _FullBox(low, sizes)
    if cells <= DENSE_CELLS and cells <= n * DENSE_SHARE:
        return _Dense(low, sizes, coords)
    return _Sorted(low, sizes, coords)


class _Constant:
    """The answer of an empty table, and of the one chunk of a scalar."""

    def __init__(self, answer: int) -> None:
        self._answer = answer

    def row(self, coords: Coordinates) -> int:
        return self._answer

    def rows(self, coords: npt.NDArray[np.integer]) -> Rows:
        return np.full(len(coords), self._answer, np.intp)


class _FullBox:
    """Every cell of the box is taken: the row is the linear index."""

    def __init__(self, low: Sequence[int], sizes: Sequence[int]) -> None:
        self._axes = tuple(zip(low, sizes, strict=True))

    def row(self, coords: Coordinates) -> int:
        index = 0
        for c, (low, size) in zip(coords, self._axes, strict=True):
            c -= low
            if not 0 <= c < size:
                return ABSENT
            index = index * size + c
        return index

    def rows(self, coords: npt.NDArray[np.integer]) -> Rows:
        index, inside = _linear(coords, self._axes)
        return index if inside.all() else np.where(inside, index, ABSENT)


class _Dense(_FullBox):
    """A row number for each cell of the box."""

    def __init__(self, low: Sequence[int], sizes: Sequence[int], coords: U32) -> None:
        super().__init__(low, sizes)
        cells = np.full(prod(sizes), ABSENT, np.int32)
        cells[_linear(coords, self._axes)[0]] = np.arange(len(coords), dtype=np.int32)
        self._cells = cells
        self._view = memoryview(cells)  # type: ignore[arg-type]  # an array is a buffer

    def row(self, coords: Coordinates) -> int:
        index = super().row(coords)
        return index if index < 0 else self._view[index]

    def rows(self, coords: npt.NDArray[np.integer]) -> Rows:
        index, inside = _linear(coords, self._axes)
        if inside.all():
            return self._cells[index].astype(np.intp)
        return np.where(inside, self._cells[np.where(inside, index, 0)], ABSENT).astype(np.intp)


class _Sorted:
    """Binary search over linear keys.

    Axes are folded into one 63-bit key; where that would overflow, the distinct values of the
    folded axes are numbered and folding goes on from those numbers. The last numbers are rows.
    """

    def __init__(self, low: Sequence[int], sizes: Sequence[int], coords: U32) -> None:
        self._levels: list[tuple[int, int, tuple[tuple[int, int], ...], I64, memoryview]] = []
        prefix = np.zeros(len(coords), np.int64)
        span, first = 1, 0
        for axis in range(len(low) + 1):
            if axis < len(low) and span * sizes[axis] <= MAX_KEY:
                span *= sizes[axis]
                continue
            axes = tuple(zip(low[first:axis], sizes[first:axis], strict=True))
            keys = _linear(coords[:, first:axis], axes, prefix)[0]
            is_new = np.ones(len(keys), bool)
            np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
            distinct = keys[is_new]
            view = memoryview(distinct)  # type: ignore[arg-type]  # an array is a buffer
            self._levels.append((first, axis, axes, distinct, view))
            prefix = np.cumsum(is_new) - 1
            if axis < len(low):
                span, first = len(distinct) * sizes[axis], axis

    def row(self, coords: Coordinates) -> int:
        found = 0
        for first, last, axes, _, keys in self._levels:
            for c, (low, size) in zip(coords[first:last], axes, strict=True):
                c -= low
                if not 0 <= c < size:
                    return ABSENT
                found = found * size + c
            wanted, found = found, bisect_left(keys, found)
            if found == len(keys) or keys[found] != wanted:
                return ABSENT
        return found

    def rows(self, coords: npt.NDArray[np.integer]) -> Rows:
        inside = np.ones(len(coords), bool)
        found = np.zeros(len(coords), np.int64)
        for first, last, axes, keys, _ in self._levels:
            wanted, fits = _linear(coords[:, first:last], axes, found)
            found = np.searchsorted(keys, wanted)
            found[found == len(keys)] = 0
            inside &= fits & (keys[found] == wanted)
        return np.where(inside, found, ABSENT)


def _linear(
    coords: npt.NDArray[np.integer], axes: Sequence[tuple[int, int]], prefix: I64 | None = None
) -> tuple[I64, npt.NDArray[np.bool_]]:
    """C-order index in a box, after `prefix`; and whether each coordinate lies in the box.

    Indices of coordinates outside are meaningless.
    """
    n = len(coords)
    inside = np.ones(n, bool)
    index = np.zeros(n, np.int64) if prefix is None else prefix
    for axis, (low, size) in enumerate(axes):
        local = coords[:, axis].astype(np.int64) - low
        inside &= (local >= 0) & (local < size)
        index = index * size + local
    return index, inside


def is_ascending(coords: U32) -> bool:
    """Tell whether rows ascend strictly, compared axis by axis."""
    n, ndim = coords.shape
    if n < 2:
        return True
    if not ndim:
        return False
    undecided = np.ones(n - 1, bool)
    for axis in range(ndim):
        before, after = coords[:-1, axis], coords[1:, axis]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
        if not undecided.any():
            return True
    return False


def ascending_order(coords: U32) -> Rows | None:
    """The order that makes rows ascend, or None when they do already."""
    if is_ascending(coords):
        return None
    n, ndim = coords.shape
    if not ndim:
        return np.arange(n)
    low = coords.min(axis=0).tolist()
    sizes = (coords.max(axis=0).astype(np.int64) + 1 - low).tolist()
    if prod(sizes) <= MAX_KEY:
        # A stable sort merges runs that are in order already, which is the usual case here.
        keys = _linear(coords, tuple(zip(low, sizes, strict=True)))[0]
        return np.argsort(keys, kind="stable")
    return np.lexsort(coords.T[::-1])


def are_distinct(coords: U32) -> bool:
    """Tell whether no row is there twice."""
    order = ascending_order(coords)
    return order is None or is_ascending(coords[order])
