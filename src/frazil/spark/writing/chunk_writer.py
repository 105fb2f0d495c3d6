"""Builds chunks from rows: takes rows in the order of their chunks, returns references.

A chunk is put together once, from the rows that it has and, where those leave gaps, from what is
there now. Memory holds one chunk of each array and what is about to be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Mask
from frazil.bulk.pack import write_encoded
from frazil.bulk.read import read_region
from frazil.cf.decoding import Values
from frazil.errors import InvalidInputError, unsuitable
from frazil.model.chunks import ChunkTable
from frazil.run import scratch_array
from frazil.spark.tuning import FLUSH_BYTES, FLUSH_CHUNKS
from frazil.spark.worker import repository, session_at
from frazil.spark.writing.placing import chunk_coords
from frazil.spark.writing.plan import ArrayPlan, ChunkGroup, WritePlan
from frazil.statistics.recording import Held, Recorder
from frazil.storage.base import Bytes
from frazil.transaction.opened import context_of


@dataclass(frozen=True, slots=True, eq=False)
class WrittenChunks:
    """Chunks of an array that a task has stored, and those that hold nothing any more."""

    array: int
    table: ChunkTable
    absent: npt.NDArray[np.uint32]
    known: Held = field(default_factory=dict)
    """statistics, where they were asked for"""

    @property
    def coords(self) -> npt.NDArray[np.uint32]:
        """All chunks that were looked at."""
        return np.concatenate([self.table.coords, self.absent])


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRows:
    """Some rows of a group, in the order of their chunks."""

    chunk: I64
    cell: I64
    values: tuple[Values, ...]
    """for each array of the group, as they are stored"""

    def sorted(self) -> ChunkRows:
        """The same rows by chunk, those of one chunk in their order."""
        if (np.diff(self.chunk) >= 0).all():
            return self
        order = np.argsort(self.chunk, kind="stable")
        return ChunkRows(
            self.chunk[order], self.cell[order], tuple(values[order] for values in self.values)
        )

    @classmethod
    def joined(cls, parts: Sequence[ChunkRows]) -> ChunkRows:
        """The rows of several parts, those of one chunk in the order of the parts."""
        if len(parts) == 1:
            return parts[0].sorted()
        values = zip(*(each.values for each in parts), strict=True)
        return cls(
            np.concatenate([each.chunk for each in parts]),
            np.concatenate([each.cell for each in parts]),
            tuple(map(np.concatenate, values)),
        ).sorted()

    def runs(self) -> Iterator[tuple[int, slice]]:
        """The chunks with their rows."""
        if not len(self.chunk):
            return
        edges = [0, *(np.flatnonzero(np.diff(self.chunk)) + 1).tolist(), len(self.chunk)]
        for start, stop in pairwise(edges):
            yield int(self.chunk[start]), slice(start, stop)


@dataclass(slots=True)
class _Ready:
    """Encoded chunks of one array that wait to be stored."""

    coords: list[tuple[int, ...]] = field(default_factory=list)
    data: list[Bytes] = field(default_factory=list)
    absent: list[tuple[int, ...]] = field(default_factory=list)
    size: int = 0
    chunks: list[Values] = field(default_factory=list)
    """of which statistics are wanted"""


class ChunkWriter:
    """Puts the chunks of a group of arrays together and stores them."""

    def __init__(self, plan: WritePlan, group: ChunkGroup) -> None:
        self._plan = plan
        self._group = group
        self._arrays = [plan.arrays[number] for number in group.arrays]
        self._grid = self._arrays[0].grid
        self._ready = [_Ready() for _ in self._arrays]
        self._context = context_of(repository(plan.pinned.location))

    def write(self, sorted_rows: Iterable[ChunkRows]) -> Iterator[WrittenChunks]:
        """Store the chunks of rows that come in the order of their chunks.

        Raises:
            InvalidInputError: two rows have the same cell.
        """
        runs = ((chunk, rows, run) for rows in sorted_rows for chunk, run in rows.runs())
        for number, same in groupby(runs, itemgetter(0)):
            held = [(rows.cell[run], [v[run] for v in rows.values]) for _, rows, run in same]
            self._compose(number, held)
            yield from self._flushed(FLUSH_BYTES)
        yield from self._flushed(0)

    def clear(self, numbers: Iterable[int]) -> Iterator[WrittenChunks]:
        """Empty the cells of chunks that are replaced, or new, and have no row."""
        nothing = np.zeros(0, np.int64)
        for number in numbers:
            empty = [np.zeros(0, array.encoder.stored) for array in self._arrays]
            self._compose(number, [(nothing, empty)])
            yield from self._flushed(FLUSH_BYTES)
        yield from self._flushed(0)

    def _compose(self, number: int, held: Sequence[tuple[I64, list[Values]]]) -> None:
        coords = chunk_coords(self._grid, number)
        at = [np.array([c]) for c in coords]
        starts = [int(axis.start_of(c)[0]) for axis, c in zip(self._grid, at, strict=True)]
        shape = tuple(int(axis.size_of(c)[0]) for axis, c in zip(self._grid, at, strict=True))
        box = tuple(
            slice(start, min(start + size, axis.length))
            for start, size, axis in zip(starts, shape, self._grid, strict=True)
        )
        cells = held[0][0] if len(held) == 1 else np.concatenate([cell for cell, _ in held])
        is_given = np.zeros(prod(shape), bool)
        is_given[cells] = True
        given = int(is_given.sum())
        if given < len(cells) and self._plan.request.duplicates == "error":
            raise self._duplicate(cells, shape, starts)
        is_whole = given == prod(part.stop - part.start for part in box)
        masks = self._masks(box)
        if masks is not None and given < prod(int(mask.sum()) for mask in masks):
            self._require_blanks()
        for which, array in enumerate(self._arrays):
            parts = [values[which] for _, values in held]
            values = parts[0] if len(parts) == 1 else np.concatenate(parts)
            chunk = self._before(array, shape, box, is_whole=is_whole)
            order = (
                slice(None, None, -1) if self._plan.request.duplicates == "first" else slice(None)
            )
            chunk.reshape(-1)[cells[order]] = values[order]
            self._keep(which, array, coords, chunk)

    def _before(
        self, array: ArrayPlan, shape: tuple[int, ...], box: tuple[slice, ...], *, is_whole: bool
    ) -> Values:
        """The chunk as it is before rows are put into it."""
        chunk = np.empty(shape, array.layout.chain.dtype)
        chunk[...] = array.blank
        masks = self._masks(box)
        is_replaced = masks is not None and all(mask.all() for mask in masks)
        if is_whole or array.is_new or is_replaced:
            return chunk
        old = tuple(
            slice(part.start, min(part.stop, size))
            for part, size in zip(box, array.old_shape, strict=True)
        )
        if all(part.start < part.stop for part in old):
            here = tuple(slice(0, part.stop - part.start) for part in old)
            chunk[here] = read_region(session_at(self._plan.pinned), array.path, old)
        if masks is not None:
            inside = np.ix_(*(np.flatnonzero(mask) for mask in masks))
            chunk[inside] = array.blank
        return chunk

    def _masks(self, box: tuple[slice, ...]) -> list[Mask] | None:
        """The places of a chunk that are replaced, along each axis; None when none are."""
        region = self._plan.region
        if region is None:
            return None
        return [region[axis][part] for axis, part in zip(self._group.axes, box, strict=True)]

    def _require_blanks(self) -> None:
        """Refuse to empty cells of arrays that have no fill value for missing cells."""
        for array in self._arrays:
            if array.encoder.fill is None and array.encoder.stored.kind in "biu":
                raise unsuitable(
                    f"cells of {array.name!r} are to be replaced and have no row, and nothing "
                    f"stands for missing values in an array of {array.encoder.stored}; give a row "
                    "for each of them"
                )

    def _keep(self, which: int, array: ArrayPlan, coords: tuple[int, ...], chunk: Values) -> None:
        chain, ready = array.layout.chain, self._ready[which]
        if chain.is_fill(chunk) or (data := chain.encode(chunk)) is None:
            ready.absent.append(coords)
            return
        ready.coords.append(coords)
        ready.data.append(data)
        ready.size += len(data)
        if self._plan.request.statistics:
            ready.chunks.append(chunk)
            ready.size += chunk.nbytes

    def _flushed(self, limit: int) -> Iterator[WrittenChunks]:
        """Store what waits, once there is enough of it."""
        held = sum(ready.size for ready in self._ready)
        count = max(len(ready.coords) + len(ready.absent) for ready in self._ready)
        if limit and held < limit and count < FLUSH_CHUNKS:
            return
        for which, ready in enumerate(self._ready):
            if ready.coords or ready.absent:
                yield self._stored(which, ready)
                self._ready[which] = _Ready()

    def _stored(self, which: int, ready: _Ready) -> WrittenChunks:
        array = self._arrays[which]
        ndim = len(array.dims)
        state, node = scratch_array(self._context, array.path, array.document)
        coords = np.array(ready.coords, np.uint32).reshape(len(ready.coords), ndim)
        table = ChunkTable.empty(ndim)
        recorder = Recorder(self._context.containers.expand)
        if ready.coords:
            table = write_encoded(state, node, coords, ready.data)
        if ready.chunks and (watch := recorder.begin(node, coords)) is not None:
            for row, (chunk, data) in enumerate(zip(ready.chunks, ready.data, strict=True)):
                watch.see(row, chunk, (data,))
            watch.stored(table)
        absent = np.array(ready.absent, np.uint32).reshape(len(ready.absent), ndim)
        return WrittenChunks(self._group.arrays[which], table, absent, recorder.held)

    def _duplicate(
        self, cells: I64, shape: tuple[int, ...], starts: Sequence[int]
    ) -> InvalidInputError:
        ordered = np.sort(cells)
        cell = int(ordered[:-1][ordered[1:] == ordered[:-1]][0])
        inside: Any = np.unravel_index(cell, shape) if shape else ()
        where = {
            self._plan.axes[axis].name: int(start) + int(place)
            for axis, start, place in zip(self._group.axes, starts, inside, strict=True)
        }
        return duplicate_error(
            "several rows are for the cell at "
            + (", ".join(f"{name}[{place}]" for name, place in where.items()) or "()")
        )


def duplicate_error(problem: str) -> InvalidInputError:
    """The error for rows that contradict each other."""
    return unsuitable(f"{problem}; take one of them with duplicates=first or duplicates=last")
