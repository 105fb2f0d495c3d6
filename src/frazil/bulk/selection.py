"""Selections, cut along the chunks of each axis.

An `AxisSelection` has one entry for each chunk that a selection touches along one axis. The
number of entries of a region is the sum over its axes, not the product.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import EllipsisType
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.bulk.grid import Grid, GridAxis
from frazil.bulk.tuning import CUTS_KEPT
from frazil.errors import SelectionError

Part: TypeAlias = slice | I64
"""A selection along one axis of a chunk or of the result."""


class Slices(Sequence[slice]):
    """Many slices, each made when it is asked for: there may be one for each of many chunks."""

    __slots__ = ("_starts", "_step", "_stops")

    def __init__(self, starts: I64, stops: I64, step: int | None = None) -> None:
        self._starts = starts
        self._stops = stops
        self._step = step

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> slice: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[slice]: ...
    def __getitem__(self, index: int | slice) -> slice | Sequence[slice]:
        if isinstance(index, slice):
            return Slices(self._starts[index], self._stops[index], self._step)
        return slice(int(self._starts[index]), int(self._stops[index]), self._step)


@dataclass(frozen=True, slots=True, eq=False)
class AxisSelection:
    """What a selection along one axis takes of which chunks."""

    chunks: I64
    """(m,) the chunks that are touched"""
    sizes: I64
    """(m,) their lengths"""
    in_chunk: Sequence[Part]
    """what is taken of each"""
    in_result: Sequence[Part]
    """where it goes"""
    is_whole: npt.NDArray[np.bool_]
    """(m,) whether a chunk is taken as it is, from its first to its last element"""
    covers: npt.NDArray[np.bool_]
    """(m,) the same, but for elements beyond the end of the array"""
    items: int
    """length of the result"""
    is_dropped: bool = False
    """whether the result lacks this axis"""
    has_arrays: bool = False
    """whether parts may be arrays of numbers"""

    def alike_from(self, first: int, limit: int) -> int:
        """How many chunks from one on, up to a limit, are taken whole and have its size."""
        part = slice(first, first + limit)
        same = self.is_whole[part] & (self.sizes[part] == self.sizes[first])
        return len(same) if same.all() else int(np.argmin(same))


def cut_slice(axis: GridAxis, chosen: slice) -> AxisSelection:
    """Cut a slice."""
    start, stop, step = chosen.indices(axis.length)
    if step < 1:
        raise SelectionError("only slices with a positive step can be read")
    items = max(0, -(-(stop - start) // step))
    if not items:
        none = np.zeros(0, np.int64)
        return AxisSelection(none, none, (), (), none.astype(bool), none.astype(bool), 0)
    last = start + (items - 1) * step
    if axis.is_regular:
        size = axis.sizes[0]
        if start // size == last // size:
            return _one_chunk(axis, slice(start, last + 1, step), items)
        if last // size - start // size < CUTS_KEPT:
            return _cut_few(axis, start, items, step)
    return _cut_many(axis, start, items, step)


@lru_cache(4096)
def _cut_few(axis: GridAxis, start: int, items: int, step: int) -> AxisSelection:
    """The same for few chunks, cached: reading block by block repeats the same cuts."""
    return _cut_many(axis, start, items, step)


def _cut_many(axis: GridAxis, start: int, items: int, step: int) -> AxisSelection:
    last = start + (items - 1) * step
    ends = axis.chunk_of(np.array([start, last]))
    if items <= ends[1] - ends[0]:
        # Steps over whole chunks: only those with an element are looked at.
        chunks = axis.chunk_of(start + step * np.arange(items))
        chunks = chunks[np.append(True, chunks[1:] != chunks[:-1])]
    else:
        chunks = np.arange(ends[0], ends[1] + 1)
    begin, sizes = axis.start_of(chunks), axis.size_of(chunks)
    first = np.maximum(0, -(-(begin - start) // step))
    after = np.minimum(items, -(-(begin + sizes - start) // step))
    if step > 1:
        touched = after > first
        chunks, begin, sizes = chunks[touched], begin[touched], sizes[touched]
        first, after = first[touched], after[touched]
    low = start + first * step - begin
    high = start + (after - 1) * step + 1 - begin
    straight = (low == 0) & (step == 1)
    return AxisSelection(
        chunks,
        sizes,
        Slices(low, high, step),
        Slices(first, after),
        is_whole=straight & (high == sizes),
        covers=straight & (high == np.minimum(sizes, axis.length - begin)),
        items=items,
    )


def _one_chunk(axis: GridAxis, chosen: slice, items: int) -> AxisSelection:
    """Cut a slice of a single chunk; plain numbers are quicker than arrays of one."""
    size = axis.sizes[0]
    chunk, low = divmod(chosen.start, size)
    high = low + chosen.stop - chosen.start
    straight = low == 0 and items == high
    return AxisSelection(
        np.array([chunk]),
        np.array([size]),
        (slice(low, high, chosen.step),),
        (slice(0, items),),
        is_whole=np.array([straight and high == size]),
        covers=np.array([straight and high == min(size, axis.length - chunk * size)]),
        items=items,
    )


def cut_integer(axis: GridAxis, chosen: int) -> AxisSelection:
    """Cut a single index, whose axis the result will lack."""
    index = chosen + axis.length if chosen < 0 else chosen
    if not 0 <= index < axis.length:
        raise SelectionError("index out of bounds", index=chosen, length=axis.length)
    return replace(cut_slice(axis, slice(index, index + 1)), is_dropped=True)


def cut_array(axis: GridAxis, chosen: npt.NDArray[Any]) -> AxisSelection:
    """Cut an array of indices in any order, or a mask.

    Raises:
        SelectionError: it has more than one axis, other values, or indices out of bounds.
    """
    indices = as_indices(chosen, axis.length)
    chunk = axis.chunk_of(indices)
    order = None
    if (chunk[1:] < chunk[:-1]).any():
        order = np.argsort(chunk, kind="stable")
        indices, chunk = indices[order], chunk[order]
    heads = np.flatnonzero(np.diff(chunk, prepend=-1))
    chunks = chunk[heads]
    bounds = np.append(heads, len(chunk)).tolist()
    begin, sizes = axis.start_of(chunks), axis.size_of(chunks)
    spans = [slice(a, b) for a, b in pairwise(bounds)]
    no = np.zeros(len(chunks), bool)
    return AxisSelection(
        chunks,
        sizes,
        [indices[span] - first for span, first in zip(spans, begin.tolist(), strict=True)],
        spans if order is None else [order[span] for span in spans],
        is_whole=no,
        covers=no,
        items=len(indices),
        has_arrays=True,
    )


def as_indices(chosen: npt.NDArray[Any], length: int) -> I64:
    """Indices from 0 on, from a mask or from indices that may count from the end."""
    if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
        if chosen.size or chosen.ndim != 1:
            raise SelectionError(
                "arrays that select along an axis have one axis and are integers or a mask"
            )
        chosen = chosen.astype(np.int64)
    if chosen.dtype.kind == "b":
        if len(chosen) != length:
            raise SelectionError("a mask has the wrong length", found=len(chosen), length=length)
        return np.flatnonzero(chosen)
    return in_bounds(chosen, length)


def in_bounds(chosen: npt.NDArray[np.integer], length: int) -> I64:
    """Indices of any shape, counted from 0 on."""
    indices = chosen.astype(np.int64)
    indices = np.where(indices < 0, indices + length, indices)
    if indices.size and (indices.min() < 0 or indices.max() >= length):
        raise SelectionError("index out of bounds", length=length)
    return indices


# --- selections of users ---


def expanded(selection: object, ndim: int) -> tuple[Any, ...]:
    """A selection with one item for each axis."""
    items = selection if isinstance(selection, tuple) else (selection,)
    dots = [n for n, item in enumerate(items) if isinstance(item, EllipsisType)]
    if len(dots) > 1:
        raise SelectionError("an index can only have a single ellipsis ('...')")
    rest = ndim - (len(items) - len(dots))
    if rest < 0:
        raise SelectionError("too many indices for array", axes=ndim, found=len(items) - len(dots))
    at = dots[0] if dots else len(items)
    return (*items[:at], *(slice(None),) * rest, *items[at + len(dots) :])


def is_index(item: object) -> bool:
    """Whether an item of a selection is a single index."""
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def is_array(item: object) -> bool:
    """Whether an item of a selection is a list or array of indices, or a mask."""
    return isinstance(item, (list, np.ndarray)) or (
        hasattr(item, "__array__") and not np.isscalar(item)
    )


def cut_item(axis: GridAxis, item: object) -> AxisSelection:
    """What an item of a basic or orthogonal selection takes along its axis."""
    if isinstance(item, slice):
        return cut_slice(axis, item)
    if is_index(item):
        # For mypy: `is_index` has seen to it.
        return cut_integer(axis, operator.index(item))  # type: ignore[arg-type]
    if is_array(item):
        array = np.asarray(item)
        return cut_integer(axis, int(array)) if array.ndim == 0 else cut_array(axis, array)
    raise SelectionError(f"cannot select by {type(item).__name__}")


def blocks_as_slices(grid: Grid, selection: object) -> tuple[slice, ...]:
    """The elements of whole chunks, which are selected by their numbers.

    Raises:
        SelectionError: it is no selection of chunks.
    """
    items = expanded(selection, len(grid))
    return tuple(_block(axis, item) for axis, item in zip(grid, items, strict=True))


def _block(axis: GridAxis, item: object) -> slice:
    count = axis.count
    if is_index(item):
        number = operator.index(item)  # type: ignore[arg-type]  # `is_index` has seen to it
        number = number + count if number < 0 else number
        if not 0 <= number < count:
            raise SelectionError("block index out of bounds", index=number, blocks=count)
        low, high = number, number + 1
    elif isinstance(item, slice):
        low, high, step = item.indices(count)
        if step != 1:
            raise SelectionError("only slices of blocks with step 1 can be read")
        high = max(low, high)
    else:
        raise SelectionError(f"cannot select blocks by {type(item).__name__}")
    if low == high:
        return slice(0, 0)
    start, last = axis.start_of(np.array([low, high - 1])).tolist()
    size = int(axis.size_of(np.array([high - 1]))[0])
    return slice(start, min(last + size, axis.length))
