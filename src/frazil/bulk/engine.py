"""Carrying out a plan: references, bytes, decoding and placing, in batches and in threads.

What is in memory beside the result is bounded: the encoded bytes of the batches at work, and
one scratch for each. Chunks that are taken whole and follow each other are placed together.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil import config
from frazil.arrays import I64, Array
from frazil.bulk.chain import Chain, as_memory
from frazil.bulk.codecs import LARGE_CHUNK, wrong_size
from frazil.bulk.fetch import (
    MISSING,
    ChunkReferences,
    OneReader,
    check_length,
    fetch_into,
    require_last_byte,
)
from frazil.bulk.plan import ChunkPlan
from frazil.bulk.tuning import (
    DISK_BATCH,
    LARGE_BATCH,
    LOOKUP_ROWS,
    REMOTE_BATCH,
    REMOTE_BATCHES,
    SLOW_DISK_THREADS,
    SMALL_CHUNK,
    TINY_CHUNK,
)
from frazil.errors import FormatError, StorageError
from frazil.model.chunks import ChunkRef
from frazil.model.nodes import ArrayNode, Coordinates
from frazil.progress import Progress, Tell
from frazil.storage.base import Storage
from frazil.storage.pool import shared
from frazil.transaction.working import WorkingState

Finder: TypeAlias = Callable[[I64], ChunkReferences]
"""From coordinates of chunks to where they are."""
Bounds: TypeAlias = tuple[I64, I64, npt.NDArray[np.uint8]]
"""Where the bytes of chunks begin and end in the memory of a batch, and their kinds."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much is done at a time."""

    rows: int
    """chunks of a batch, which is a unit of work for a thread"""
    width: int
    """batches at work"""
    at_first: int | None = None
    """so many at the beginning, and more if they take long; None for all"""

    def in_runs(self, length: int) -> BatchLimits:
        """The same, where batches end with runs of chunks that are placed together."""
        return self if self.rows <= length else replace(self, rows=self.rows - self.rows % length)


def pace_for(
    storage: Storage,
    size: int,
    max_in_flight: int | None = None,
    *,
    at_first: int | None = None,
    total: int = 0,
) -> BatchLimits:
    """Batches of chunks of some size that keep a storage busy, within a limit of memory.

    Disks are fed by few threads with little each; object stores by large batches, whose chunks
    they take side by side. Only `at_first` threads of a disk begin, if that is given, and more
    follow if it is slow. If there are `total` bytes, each thread of a disk gets several batches,
    so that none is idle at the end, and larger ones where that is possible.
    """
    now = config.current()
    limit = max_in_flight or now.max_in_flight_bytes
    if storage.answers_inline:
        # One thread more than cores, because one of them usually waits for the disk.
        width = now.workers + (1 if at_first is None else SLOW_DISK_THREADS)
        wanted = min(LARGE_BATCH, max(DISK_BATCH, total // (4 * (at_first or width))))
    else:
        wanted, width = REMOTE_BATCH, REMOTE_BATCHES
    # A batch has its chunks in memory as they are, and encoded.
    width = max(1, min(width, limit // (2 * size)))
    rows = max(1, min(wanted, limit // (2 * width)) // size)
    return BatchLimits(rows, width, at_first)


class Scratch:
    """Memory that batches use one after the other: fresh memory costs as much as reading.

    Sizes are rounded up to powers of two, so that what one chunk has used fits the next. What is
    never touched takes no memory.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """Memory of at least this size."""
        rounded = 1 << max(0, size - 1).bit_length()
        with self._lock:
            free = self._free.get(rounded)
            if free:
                return free.pop()
        return np.empty(rounded, np.uint8)

    def give(self, memory: npt.NDArray[np.uint8]) -> None:
        """Take memory back."""
        with self._lock:
            self._free.setdefault(len(memory), []).append(memory)


@dataclass(frozen=True, slots=True, eq=False)
class ArraySource:
    """The array that is read."""

    state: WorkingState
    node: ArrayNode
    chain: Chain
    """of the chunks of the plan"""
    find: Finder
    find_one: Callable[[Coordinates], ChunkRef | None] | None = None
    """the same for a single chunk, where that is quicker"""


def execute(
    source: ArraySource,
    plan: ChunkPlan,
    out: Array,
    *,
    max_in_flight: int | None = None,
    progress: Tell | None = None,
) -> npt.NDArray[np.bool_]:
    """Read the chunks of a plan into an array, and tell which of them exist.

    Raises:
        FormatError: a chunk is damaged.
        StorageError: an object is missing or cannot be read.
    """
    if not plan.count:
        return np.zeros(0, bool)
    if plan.count == 1 and source.find_one is not None and _is_small(source.chain, plan):
        return _read_one(source, plan, out, source.find_one, progress)
    size = max(1, math.prod(plan.largest) * source.chain.dtype.itemsize)
    storage, total = source.state.context.storage, size * plan.count
    at_first, reader = None, None
    if storage.answers_inline and size < SMALL_CHUNK:
        # Two at least, so that one decodes or places chunks while the other reads.
        is_quick = source.chain.is_raw and size < TINY_CHUNK
        at_first = 1 if is_quick else max(2, config.current().workers)
        reader = OneReader()
    pace = pace_for(storage, size, max_in_flight, at_first=at_first, total=total)
    pace = pace.in_runs(plan.run_length)
    exists = np.zeros(plan.count, bool)
    scratch = Scratch()
    done = size = 0
    for rows in spans(range(plan.count), LOOKUP_ROWS - LOOKUP_ROWS % pace.rows or pace.rows):
        refs = source.find(plan.coords(rows))
        _check_lengths(source, plan, rows, refs)
        exists[rows.start : rows.stop] = refs.kind != MISSING
        job = _Job(source, plan, out, refs, rows.start, scratch, reader)
        width = pace.width if len(rows) > pace.rows else 1
        parts = spans(rows, pace.rows)
        with closing(shared(job.run, parts, width, at_first=pace.at_first)) as batches:
            for count, read in batches:
                done, size = done + count, size + read
                if progress is not None:
                    progress(Progress(source.node.path, done, plan.count, done, size))
    return exists


def _is_small(chain: Chain, plan: ChunkPlan) -> bool:
    return math.prod(plan.largest) * chain.dtype.itemsize < SMALL_CHUNK


def _read_one(
    source: ArraySource,
    plan: ChunkPlan,
    out: Array,
    find: Callable[[Coordinates], ChunkRef | None],
    progress: Tell | None,
) -> npt.NDArray[np.bool_]:
    """A single small chunk, without the columns that pay for many."""
    coords, chain = tuple(plan.coords(range(1))[0].tolist()), source.chain
    ref = find(coords)
    if ref is None:
        plan.fill(0, chain.fill_value, out)
    else:
        places = plan.run(range(1), out)
        try:
            check_length(ref.length, chain.encoded_limit(plan.largest))
            data = source.state.context.read_chunk(ref)
            if places is None:
                plan.put(0, chain.decode(data, plan.shape(0)), out)
            else:
                chain.decode_into(data, places[1][0, ...])
        except (FormatError, StorageError) as error:
            error.of_chunk(source.node.path, coords)
            raise
    if progress is not None:
        progress(Progress(source.node.path, 1, 1, 1, 0 if ref is None else ref.length))
    return np.array([ref is not None])


def _check_lengths(
    source: ArraySource, plan: ChunkPlan, rows: range, refs: ChunkReferences
) -> None:
    """Refuse what would make us allocate more than chunks of this array can take."""
    row = int(np.argmax(refs.length.view(np.uint64)))  # negative ones are the largest
    try:
        check_length(int(refs.length[row]), source.chain.encoded_limit(plan.largest))
        if refs.length[row] > LARGE_CHUNK:
            # A chunk as large as its array says: it must be there before memory is taken for it.
            require_last_byte(source.state, refs, row)
    except FormatError as error:
        error.of_chunk(source.node.path, plan.coords(range(rows.start + row, rows.stop))[0])
        raise


def spans(rows: range, size: int) -> Iterator[range]:
    """Cut a range into pieces."""
    for start in range(rows.start, rows.stop, size):
        yield range(start, min(start + size, rows.stop))


class _Job:
    """What threads do for one read."""

    def __init__(
        self,
        source: ArraySource,
        plan: ChunkPlan,
        out: Array,
        refs: ChunkReferences,
        first: int,
        scratch: Scratch,
        reader: OneReader | None,
    ) -> None:
        self._source = source
        self._chain = source.chain
        self._plan = plan
        self._out = out
        self._refs = refs
        self._first = first
        self._scratch = scratch
        self._reader = reader
        same_type = out.dtype == source.chain.dtype
        self._is_direct = source.chain.is_direct and same_type
        self._is_raw = source.chain.is_raw and same_type

    def run(self, rows: range) -> tuple[int, int]:
        """Read some chunks; tell how many they were, and how many bytes."""
        refs = self._refs.take(slice(rows.start - self._first, rows.stop - self._first))
        places = self._plan.run(rows, self._out)
        if places is not None and self._is_raw and places[0] == len(rows):
            straight = places[1].flags.c_contiguous
            if straight:
                self._read_straight(rows, refs, places[1])
                return len(rows), int(refs.length.sum())
        ends = np.cumsum(refs.length)
        at = ends - refs.length
        total = int(ends[-1])
        buffer = self._scratch.take(total)
        memory = memoryview(buffer)  # type: ignore[arg-type]  # an array is a buffer
        fetch_into(self._source.state, refs, memory, at, self._reader)
        row = rows.start
        while row < rows.stop:
            rest = range(row, rows.stop)
            if row > rows.start:
                places = self._plan.run(rest, self._out)
            box = self._box(rest, places)
            count = 1 if places is None else places[0]
            if box is not None:
                count = math.prod(box.shape[: box.ndim // 2])
            part = slice(row - rows.start, row - rows.start + count)
            bounds = at[part], ends[part], refs.kind[part]
            if box is not None:
                self._place_box(row, box, memory, bounds)
            elif places is not None:
                self._place_run(row, places[1], memory, bounds)
            else:
                self._place_one(row, memory, bounds)
            row += count
        self._scratch.give(buffer)
        return len(rows), total

    def _read_straight(self, rows: range, refs: ChunkReferences, places: Array) -> None:
        """Plain chunks to where they belong, without a copy."""
        size = places[0, ...].nbytes
        held = refs.kind != MISSING
        self._check_sizes(rows.start, np.where(held, refs.length, size), size)
        at = np.arange(len(rows), dtype=np.int64) * size
        fetch_into(self._source.state, refs, as_memory(places), at, self._reader)
        if not held.all():
            places[~held] = self._chain.fill_value

    def _place_one(self, row: int, memory: memoryview, bounds: Bounds) -> None:
        """A chunk of which a part is taken."""
        start, end, kind = (int(column[0]) for column in bounds)
        if kind == MISSING:
            self._plan.fill(row, self._chain.fill_value, self._out)
            return
        try:
            chunk = self._chain.decode(memory[start:end], self._plan.shape(row))
        except FormatError as error:
            raise self._named(error, row) from error.__cause__
        self._plan.put(row, chunk, self._out)

    def _place_run(self, row: int, places: Array, memory: memoryview, bounds: Bounds) -> None:
        """Whole chunks side by side."""
        starts, ends, kinds = bounds
        if self._is_raw and kinds.all():
            self._check_sizes(row, ends - starts, places[0, ...].nbytes)
            flat = np.frombuffer(memory[starts[0] : ends[-1]], self._chain.dtype)
            places[...] = flat.reshape(places.shape)
            return
        buffer = None
        targets = places
        if self._is_direct and not places[0, ...].flags.c_contiguous:
            buffer = self._scratch.take(places.nbytes)
            targets = buffer[: places.nbytes].view(self._chain.dtype).reshape(places.shape)
        self._unpack(row, targets, memory, bounds)
        if buffer is not None:
            places[...] = targets
            self._scratch.give(buffer)

    def _box(self, rows: range, run: tuple[int, Array] | None) -> Array | None:
        """The places of more chunks than those of a run, where there are more."""
        if run is None or not self._is_direct or run[0] == len(rows):
            return None
        box = self._plan.box(rows, self._out)
        return box if box is not None and box.size > run[1].size else None

    def _place_box(self, row: int, box: Array, memory: memoryview, bounds: Bounds) -> None:
        """Chunks of several runs, copied to their places in one step.

        Each step waits for Python's lock, which another thread may be reading files with.
        """
        starts, ends, kinds = bounds
        chunk = box.shape[box.ndim // 2 :]
        if self._is_raw and kinds.all():
            self._check_sizes(row, ends - starts, math.prod(chunk) * box.itemsize)
            flat = np.frombuffer(memory[starts[0] : ends[-1]], self._chain.dtype)
            box[...] = flat.reshape(box.shape)
            return
        buffer = self._scratch.take(box.nbytes)
        targets = buffer[: box.nbytes].view(self._chain.dtype).reshape(-1, *chunk)
        self._unpack(row, targets, memory, bounds)
        box[...] = targets.reshape(box.shape)
        self._scratch.give(buffer)

    def _unpack(self, row: int, targets: Array, memory: memoryview, bounds: Bounds) -> None:
        """Decode chunks, the first of which is in `row`, into one array each."""
        if self._is_direct and self._unpack_run(targets, memory, bounds):
            return
        memories = _memories(targets) if self._is_direct else None
        columns = [column.tolist() for column in bounds]
        for number, (start, end, kind) in enumerate(zip(*columns, strict=True)):
            if kind == MISSING:
                targets[number] = self._chain.fill_value
                continue
            try:
                if memories is not None:
                    self._chain.unpack_into(memory[start:end], memories[number])
                else:
                    self._chain.decode_into(memory[start:end], targets[number, ...])
            except FormatError as error:
                raise self._named(error, row + number) from error.__cause__

    def _unpack_run(self, targets: Array, memory: memoryview, bounds: Bounds) -> bool:
        """Decode chunks in one call, if all are there and their codec can."""
        starts, ends, kinds = bounds
        if not kinds.all() or not targets.flags.c_contiguous:
            return False
        return self._chain.unpack_run(
            memory[starts[0] : ends[-1]], ends - starts, as_memory(targets)
        )

    def _check_sizes(self, row: int, sizes: I64, expected: int) -> None:
        wrong = np.flatnonzero(sizes != expected)
        if len(wrong):
            number = int(wrong[0])
            raise self._named(wrong_size(int(sizes[number]), expected), row + number)

    def _named(self, error: FormatError, row: int) -> FormatError:
        """Say which chunk it is."""
        return error.of_chunk(self._source.node.path, self._plan.coords(range(row, row + 1))[0])


def _memories(places: Array) -> list[memoryview]:
    """The bytes of each of several chunks, which are contiguous one by one."""
    if not places.flags.c_contiguous:
        return [as_memory(place) for place in places]
    whole, size = as_memory(places), places[0, ...].nbytes
    return [whole[start : start + size] for start in range(0, len(whole), size)]
