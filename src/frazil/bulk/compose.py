"""Cuts a value that is written to a region into the chunks of the array, and encodes them.

Chunks that the region covers are encoded straight from the caller's array, neighbours together. Of
chunks that it covers in part, the other cells are read from the array first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Array
from frazil.bulk.chain import Chain, as_memory
from frazil.bulk.engine import Scratch
from frazil.bulk.fetch import MISSING, fetch_into, find_chunks
from frazil.bulk.pack import Encoded, Scattered
from frazil.bulk.plan import ChunkPlan
from frazil.bulk.tuning import LARGE_FILE, ROW_BYTES
from frazil.errors import FormatError
from frazil.model.nodes import ArrayNode
from frazil.storage.base import Bytes
from frazil.transaction.watching import Watch
from frazil.transaction.working import WorkingState

ChunkRun: TypeAlias = tuple[int, Array]
"""Number of chunks, and the chunks as an array (number, *shape of a chunk)."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteTarget:
    """The array that a write goes to."""

    state: WorkingState
    node: ArrayNode
    chain: Chain
    keeps_empty: bool = False
    """whether chunks that hold nothing but the fill value are stored"""


class Composer:
    """Makes the chunks of a write; those written in part keep the rest of what they were."""

    def __init__(
        self,
        target: WriteTarget,
        plan: ChunkPlan,
        coords: npt.NDArray[np.uint32],
        value: Array,
        watch: Watch | None = None,
    ) -> None:
        self._watch = watch
        self._target = target
        self._chain = target.chain
        self._plan = plan
        self._coords = coords
        self._value = value
        self._is_scalar = value.ndim == 0
        self._scratch = Scratch()
        chain = target.chain
        is_plain = chain.is_direct and value.flags.c_contiguous and value.dtype == chain.dtype
        self._memory = as_memory(value) if is_plain and not self._is_scalar else None
        # Indexing with this puts back the axes that an integer index took from the value.
        self._all_axes = tuple(
            None if axis in plan.drop_axes else slice(None) for axis in range(coords.shape[1])
        )

    def encoded(self, rows: range) -> list[Encoded]:
        """Chunks as bytes, without empty ones that are not stored."""
        whole: dict[int, ChunkRun] = {}
        odd: list[int] = []
        row = rows.start
        while row < rows.stop:
            run = self._plan.run(range(row, rows.stop), self._value)
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

    def _run(self, first: int, run: ChunkRun) -> Iterator[Encoded]:
        chain, chunks = self._chain, run[1]
        scattered = self._scattered(chunks) if chain.is_raw else None
        if scattered is not None:
            for number in self._wanted(chunks):
                parts = scattered(number)
                self._seen(first + number, chunks[number], parts.parts)
                yield first + number, parts
            return
        memory = None
        if chain.is_direct:
            chunks, memory = self._side_by_side(chunks)
        for number in self._wanted(chunks):
            data = chain.encode(chunks[number], keep_empty=self._target.keeps_empty)
            if data is not None:
                self._seen(first + number, chunks[number], (data,))
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

    def _wanted(self, chunks: Array) -> Iterator[int]:
        """The chunks to be stored: those that are not the fill value everywhere, or all."""
        chain, count = self._chain, len(chunks)
        if self._target.keeps_empty:
            suspect = [False] * count
        elif chain.dtype.kind in "biufc" and chunks.size:
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

    def _seen(self, row: int, chunk: Array, data: Sequence[Bytes]) -> None:
        if self._watch is not None:
            self._watch.see(row, chunk, data)

    # --- other chunks ---

    def _odd(self, rows: Sequence[int]) -> Iterator[Encoded]:
        chain, keeps_empty = self._chain, self._target.keeps_empty
        old = self._read([row for row in rows if not self._plan.covers(row)])
        for row in rows:
            chunk = self._chunk(row, old.get(row))
            if keeps_empty or not chain.is_fill(chunk):
                data = chain.encode(chunk, keep_empty=keeps_empty)
                if data is not None:
                    self._seen(row, chunk, (data,))
                    yield row, data

    def _read(self, rows: Sequence[int]) -> dict[int, Array]:
        """Chunks as they are now."""
        if not rows:
            return {}
        state, node = self._target.state, self._target.node
        refs = find_chunks(state, node, self._coords[rows].astype(np.int64))
        largest = self._plan.largest
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
            return self._chain.decode(data, self._plan.shape(row))
        except FormatError as error:
            error.of_chunk(self._target.node.path, self._coords[row])
            raise

    def _chunk(self, row: int, old: Array | None) -> Array:
        chain = self._chain
        in_chunk, in_value = self._plan.parts(row)
        part = self._value
        if not self._is_scalar:
            part = part[in_value]
            if self._plan.drop_axes:
                part = part[self._all_axes]
        if old is None:
            chunk = np.empty(self._plan.shape(row), chain.dtype)
            chunk[...] = chain.fill_value
        else:
            chunk = old.astype(chain.dtype)  # a copy of our own
        chunk[in_chunk] = part
        return chunk


def _address(array: Array) -> int:
    """Where in memory an array begins."""
    return int(array.__array_interface__["data"][0])
