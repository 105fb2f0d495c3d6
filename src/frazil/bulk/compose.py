"""From a value to encoded chunks: which part of it goes where, and what the rest of a chunk is.

Chunks that are written whole are encoded from where they are in the caller's array, many at once
where they lie side by side; of others the rest is read first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.bulk.chain import Chain, as_memory
from frazil.bulk.codecs import Array, Shape
from frazil.bulk.engine import Scratch
from frazil.bulk.fetch import MISSING, fetch_into, find_chunks
from frazil.bulk.pack import LARGE_FILE, Encoded, Scattered
from frazil.bulk.plan import BoxPlan, PointPlan
from frazil.errors import FormatError
from frazil.model.nodes import ArrayNode
from frazil.transaction.working import WorkingState

Run: TypeAlias = tuple[int, Array]
"""Number of chunks, and the chunks as an array (number, *shape of a chunk)."""
ROW_BYTES: Final = 4096
"""Rows of at least so many bytes are stored from where they are, without joining them."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The array that a write goes to."""

    state: WorkingState
    node: ArrayNode
    chain: Chain
    keeps_empty: bool = False
    """whether chunks that hold nothing but the fill value are stored"""


class Source(Protocol):
    """What of a value goes where, chunk by chunk."""

    @property
    def coords(self) -> npt.NDArray[np.uint32]:
        """Coordinates of the chunks, (n, ndim)."""

    @property
    def drop_axes(self) -> Shape:
        """Axes of the chunks that the value does not have."""

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""

    @property
    def run_length(self) -> int:
        """Number of chunks that follow each other along an axis."""

    def run(self, rows: range, value: Array) -> Run | None:
        """Chunks from the first row on that are whole and side by side in the value."""

    def shape(self, row: int) -> Shape:
        """Shape of a chunk, also beyond the end of the array."""

    def parts(self, row: int) -> tuple[Any, Any]:
        """Selections in a chunk and in the value."""

    def covers(self, row: int) -> bool:
        """Whether all elements of a chunk are written that the array has."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Selections that somebody else has made, one for each chunk."""

    coords: npt.NDArray[np.uint32]
    shapes: Sequence[Shape]
    in_chunk: Sequence[Any]
    in_value: Sequence[Any]
    is_whole: Sequence[bool]
    """whether all elements of a chunk are written that the array has"""
    drop_axes: Shape = ()

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""
        return max(set(self.shapes), key=prod, default=())

    @property
    def run_length(self) -> int:
        """Nothing is known of neighbours before they are looked at."""
        return 1

    def run(self, rows: range, value: Array) -> Run | None:
        """Chunks side by side along the last axis, as zarr lists those of a region."""
        row = rows.start
        if not self.is_whole[row] or self.drop_axes or not value.ndim:
            return None
        place, shape = self.in_value[row], self.shapes[row]
        chunk = value[place]
        if chunk.shape != shape:
            return None
        if not shape or not all(isinstance(item, slice) for item in place):
            return 1, chunk[None]
        above, end = place[:-1], place[-1].stop
        count = 1
        for after in range(row + 1, rows.stop):
            other = self.in_value[after]
            step = other[-1]
            if other[:-1] != above or (step.start, step.stop) != (end, end + shape[-1]):
                break
            if not self.is_whole[after] or self.shapes[after] != shape:
                break
            count, end = count + 1, step.stop
        if count == 1:
            return 1, chunk[None]
        wide = value[(*above, slice(place[-1].start, end))]
        split = wide.reshape(*wide.shape[:-1], count, shape[-1])  # a view, without a copy
        return count, np.moveaxis(split, -2, 0)

    def shape(self, row: int) -> Shape:
        """Shape of a chunk."""
        return self.shapes[row]

    def parts(self, row: int) -> tuple[Any, Any]:
        """Selections in a chunk and in the value."""
        return self.in_chunk[row], self.in_value[row]

    def covers(self, row: int) -> bool:
        """Whether a chunk is written whole."""
        return self.is_whole[row]


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A selection cut along the chunks; the value has all axes."""

    plan: BoxPlan | PointPlan
    coords: npt.NDArray[np.uint32]
    drop_axes: Shape = ()

    @property
    def largest(self) -> Shape:
        """Shape of a chunk that no other is larger than."""
        return self.plan.largest

    @property
    def run_length(self) -> int:
        """Number of chunks that follow each other along an axis."""
        return self.plan.run_length

    def run(self, rows: range, value: Array) -> Run | None:
        """Chunks that are whole and side by side in the value."""
        return self.plan.run(rows, value)

    def shape(self, row: int) -> Shape:
        """Shape of a chunk."""
        return self.plan.shape(row)

    def parts(self, row: int) -> tuple[Any, Any]:
        """Selections in a chunk and in the value."""
        return self.plan.parts(row)

    def covers(self, row: int) -> bool:
        """Whether a chunk is written whole."""
        return self.plan.covers(row)


class Composer:
    """Makes the chunks of a write; those written in part keep the rest of what they were."""

    def __init__(self, target: Target, source: Source, value: Array) -> None:
        self._target = target
        self._chain = target.chain
        self._source = source
        self._value = value
        self._is_scalar = value.ndim == 0
        self._scratch = Scratch()
        chain = target.chain
        is_plain = chain.is_direct and value.flags.c_contiguous and value.dtype == chain.dtype
        self._memory = as_memory(value) if is_plain and not self._is_scalar else None
        # Indexing with this puts back the axes that an integer index took from the value.
        self._all_axes = tuple(
            None if axis in source.drop_axes else slice(None)
            for axis in range(source.coords.shape[1])
        )

    def encoded(self, rows: range) -> list[Encoded]:
        """Chunks as bytes, without those that need not be stored."""
        whole: dict[int, Run] = {}
        odd: list[int] = []
        row = rows.start
        while row < rows.stop:
            run = self._source.run(range(row, rows.stop), self._value)
            if run is None:
                odd.append(row)
                row += 1
            else:
                whole[row] = run
                row += run[0]
        made = [chunk for first, run in whole.items() for chunk in self._run(first, run)]
        if odd:
            made.extend(self._odd(odd))
            made.sort(key=lambda chunk: chunk[0])
        return made

    # --- whole chunks side by side ---

    def _run(self, first: int, run: Run) -> Iterator[Encoded]:
        chain, chunks = self._chain, run[1]
        scattered = self._scattered(chunks) if chain.is_raw else None
        if scattered is not None:
            for number in self._wanted(chunks):
                yield first + number, scattered(number)
            return
        memory = None
        if chain.is_direct:
            chunks, memory = self._side_by_side(chunks)
        for number in self._wanted(chunks):
            data = chain.encode(chunks[number], keep_empty=self._target.keeps_empty)
            if data is not None:
                yield first + number, data
        if memory is not None:
            self._scratch.give(memory)

    def _side_by_side(self, chunks: Array) -> tuple[Array, npt.NDArray[np.uint8] | None]:
        """Chunks in one piece of memory, and that memory if it may be used again."""
        if chunks.dtype == self._chain.dtype and chunks.flags.c_contiguous:
            return chunks, None
        if self._chain.is_raw:
            return np.ascontiguousarray(chunks, self._chain.dtype), None  # is what will be stored
        size = chunks.size * self._chain.dtype.itemsize
        memory = self._scratch.take(size)
        copy = memory[:size].view(self._chain.dtype).reshape(chunks.shape)
        copy[...] = chunks
        return copy, memory

    def _scattered(self, chunks: Array) -> Callable[[int], Scattered] | None:
        """How to get large plain chunks from where they are, if they lie there in long rows."""
        if self._memory is None or chunks[0].nbytes < LARGE_FILE:
            return None
        axis, size = chunks.ndim, chunks.itemsize
        while axis > 1 and chunks.strides[axis - 1] == size:
            axis -= 1
            size *= chunks.shape[axis]
        if axis == 1 or size < ROW_BYTES:
            return None
        memory, begin = self._memory, _address(chunks) - _address(self._value)
        starts = np.zeros(chunks.shape[1:axis], np.int64)
        for outer in range(1, axis):
            steps = np.arange(chunks.shape[outer]) * chunks.strides[outer]
            starts += steps.reshape(-1, *(1,) * (axis - 1 - outer))
        rows = starts.ravel()

        def chunk(number: int) -> Scattered:
            places = (rows + (begin + number * chunks.strides[0])).tolist()
            return Scattered([memory[at : at + size] for at in places], size * len(places))

        return chunk

    def _wanted(self, chunks: Array) -> Iterable[int]:
        return range(len(chunks)) if self._target.keeps_empty else self._filled(chunks)

    def _filled(self, chunks: Array) -> Iterator[int]:
        """The chunks that are not the fill value everywhere."""
        chain, count = self._chain, len(chunks)
        if chain.dtype.kind in "biufc" and chunks.size:
            # Most chunks differ in the first element already, which is seen of all at once.
            corner: Any = (slice(None), *(0,) * (chunks.ndim - 1))
            firsts = chunks[corner]
            fill = np.asarray(chain.fill_value, chain.dtype)
            suspect = ((firsts == fill) | ((firsts != firsts) & (fill != fill))).tolist()
        else:
            suspect = [True] * count
        for number in range(count):
            if not suspect[number] or not chain.is_fill(chunks[number]):
                yield number

    # --- other chunks ---

    def _odd(self, rows: Sequence[int]) -> Iterator[Encoded]:
        chain, keeps_empty = self._chain, self._target.keeps_empty
        old = self._read([row for row in rows if not self._source.covers(row)])
        for row in rows:
            chunk = self._chunk(row, old.get(row))
            if keeps_empty or not chain.is_fill(chunk):
                data = chain.encode(chunk, keep_empty=keeps_empty)
                if data is not None:
                    yield row, data

    def _read(self, rows: Sequence[int]) -> dict[int, Array]:
        """Chunks as they are now."""
        if not rows:
            return {}
        state, node = self._target.state, self._target.node
        refs = find_chunks(state, node, self._source.coords[rows].astype(np.int64))
        largest = self._source.largest
        refs.check_lengths(self._chain.encoded_limit(largest), largest)
        ends = np.cumsum(refs.length)
        memory = memoryview(bytearray(int(ends[-1])))
        fetch_into(state, refs, memory, ends - refs.length)
        found = zip(rows, refs.kind.tolist(), refs.length.tolist(), ends.tolist(), strict=True)
        return {
            row: self._decoded(row, memory[end - length : end])
            for row, kind, length, end in found
            if kind != MISSING
        }

    def _decoded(self, row: int, data: memoryview) -> Array:
        try:
            return self._chain.decode(data, self._source.shape(row))
        except FormatError as error:
            error.of_chunk(self._target.node.path, self._source.coords[row])
            raise

    def _chunk(self, row: int, old: Array | None) -> Array:
        chain = self._chain
        in_chunk, in_value = self._source.parts(row)
        part = self._value
        if not self._is_scalar:
            part = part[in_value]
            if self._source.drop_axes:
                part = part[self._all_axes]
        if old is None:
            chunk = np.empty(self._source.shape(row), chain.dtype)
            chunk[...] = chain.fill_value
        else:
            chunk = old.astype(chain.dtype)  # a copy of our own
        chunk[in_chunk] = part
        return chunk


def _address(array: Array) -> int:
    """Where in memory an array begins."""
    return int(array.__array_interface__["data"][0])
