"""`analyze`: reads chunks that have no statistics yet, and stores their statistics.

A job asks the files of statistics which chunks of a version are known, has a runner read the rest,
and writes what comes back to new files. It does so from time to time, so that little is lost when
the job is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from frazil.arrays import StructRows
from frazil.bulk.fetch import ChunkReferences, check_length, fetch_into
from frazil.errors import FormatError, FrazilError, InvalidInputError, StorageError
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId, is_below, node_path
from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode
from frazil.progress import Tell
from frazil.run import LocalRunner, Runner, by_size, run_with_progress
from frazil.statistics.files import StatisticsIndex, list_files, put_together, read_index
from frazil.statistics.measuring import measure
from frazil.statistics.publishing import store_rows
from frazil.statistics.records import (
    Decoding,
    decoding_of,
    found_in,
    identified,
    row_keys,
    shapes,
)
from frazil.statistics.tuning import BYTES_AT_ONCE, HELD_ROWS, MANY_FILES, TASK_BYTES, TASK_CHUNKS
from frazil.storage.base import Bytes
from frazil.tip import require_writable
from frazil.transaction.context import Context
from frazil.transaction.verification import crc32c
from frazil.transaction.working import WorkingState

LARGEST: Final = 1 << 32
"""Bytes of a decoded chunk; larger ones are left alone."""
SHOWN_PROBLEMS: Final = 10
"""Unreadable chunks that are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What an analysis did, or would do."""

    snapshot_id: str
    arrays: int = 0
    chunks: int = 0
    """chunks that were read; in a dry run those that would be"""
    known: int = 0
    """chunks whose statistics were there already"""
    without: int = 0
    """chunks that can have none: their codecs are unknown here, or a source has no checksum"""
    failed: int = 0
    """chunks that could not be read or decoded"""
    bytes_read: int = 0
    files: int = 0
    """files that were written"""
    files_merged: int = 0
    """by how many files there are fewer, because small ones were merged"""
    problems: tuple[str, ...] = ()
    """the first few of what went wrong"""


@dataclass(frozen=True, slots=True, eq=False)
class _Portion:
    """Chunks of one array that have no statistics."""

    node: ArrayNode
    table: ChunkTable


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """What became of a portion: rows with their keys, and what went wrong."""

    rows: StructRows
    bytes_read: int
    problems: tuple[str, ...]
    failed: int


def analyze(
    context: Context,
    snapshot_id: SnapshotId,
    path: str = "/",
    *,
    dry_run: bool = False,
    runner: Runner | None = None,
    progress: Tell | None = None,
) -> Analysis:
    """Make the statistics of all chunks of a version, or of an array or group, that have none.

    Raises:
        NodeNotFoundError: there is no node at `path`.
        ReadOnlyError: nothing may be written there.
        FormatError: the `zarr.json` of an array is damaged.
    """
    if not dry_run:
        require_writable(context, "analyze")
    state = WorkingState(context, snapshot_id)
    plan = _Plan(state, node_path("/" + path.strip("/")))
    analysis = plan.analysis
    if dry_run or not plan.portions:
        return analysis
    sizes = [int(each.table.length.sum()) for each in plan.portions]
    counts = [len(each.table) for each in plan.portions]
    held: dict[bytes, list[StructRows]] = {}
    read = failed = files = 0
    problems: list[str] = []
    for number, answer in run_with_progress(
        runner or LocalRunner(), Measure(context), plan.portions, progress, "chunks",
        counts=counts, size_bytes=sum(sizes),
    ):  # fmt: skip
        of_one = held.setdefault(plan.decodings[number].id, [])
        of_one.append(answer.rows)
        read, failed = read + answer.bytes_read, failed + answer.failed
        problems += answer.problems[: SHOWN_PROBLEMS - len(problems)]
        if sum(map(len, of_one)) >= HELD_ROWS:
            decoding = plan.decodings[number].id
            files += store_rows(context, {decoding: held.pop(decoding)}, state.base_id)
    files += store_rows(context, held, state.base_id)
    place = context.place
    merged = sum(
        put_together(place, each)
        for each in {each.id for each in plan.decodings}
        if len(list_files(place, each)) >= MANY_FILES
    )
    return replace(
        analysis,
        chunks=analysis.chunks - failed,
        failed=failed,
        bytes_read=read,
        files=files,
        files_merged=merged,
        problems=tuple(problems),
    )


class _Plan:
    """Which chunks to read."""

    def __init__(self, state: WorkingState, path: str) -> None:
        self.portions: list[_Portion] = []
        self.decodings: list[Decoding] = []
        """that of each portion"""
        self.analysis = Analysis(str(state.base_id))
        self._indexes: dict[bytes, StatisticsIndex] = {}
        self._state = state
        state.node(path)
        for node in [*state.arrays()]:
            if node.path == path or is_below(node.path, path):
                self._add(node)

    def _add(self, node: ArrayNode) -> None:
        table, decoding, analysis = self._state.table(node), decoding_of(node), self.analysis
        if decoding is None:
            self.analysis = replace(
                analysis, arrays=analysis.arrays + 1, without=analysis.without + len(table)
            )
            return
        rows, can_be_known = identified(
            ChunkReferences.of(table), decoding.layout.grid, self._state.context.containers.expand
        )
        index = self._index(decoding)
        is_new = can_be_known & (index.find(rows) < 0)
        # Several places may have the same bytes; they are read once.
        keys = row_keys(rows)
        chosen = np.flatnonzero(is_new)
        chosen = np.sort(chosen[np.unique(keys[chosen], return_index=True)[1]])
        wanted = table.take(chosen)
        for part in by_size(wanted.length.tolist(), TASK_BYTES, TASK_CHUNKS):
            self.portions.append(
                _Portion(node, wanted.take(slice(part.start, part.stop)).compact())
            )
            self.decodings.append(decoding)
        self.analysis = replace(
            analysis,
            arrays=analysis.arrays + 1,
            chunks=analysis.chunks + len(chosen),
            known=analysis.known + int((can_be_known & ~is_new).sum()),
            without=analysis.without + int((~can_be_known).sum()),
            bytes_read=analysis.bytes_read + int(wanted.length.sum()),
        )

    def _index(self, decoding: Decoding) -> StatisticsIndex:
        place = self._state.context.place
        found = self._indexes.get(decoding.id)
        if found is None:
            found = read_index(place, decoding.id)
            if found.disputed:
                # One of the files is wrong, and it is unknown which: these chunks are read again.
                put_together(place, decoding.id)
            self._indexes[decoding.id] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Reads chunks and tells what they hold, wherever a runner does it."""

    context: Context

    def __call__(self, portion: _Portion) -> _Answer:
        """The rows of a portion, but for chunks that cannot be read."""
        node, refs = portion.node, ChunkReferences.of(portion.table, portion.node.path)
        decoding = decoding_of(node)
        assert decoding is not None
        rows, _ = identified(refs, decoding.layout.grid, self.context.containers.expand)
        done = np.zeros(len(rows), np.bool_)
        problems: list[str] = []
        read = 0
        full, inside = (each.tolist() for each in shapes(decoding.layout.grid, refs.coords))
        for row, data in self._chunks(refs, decoding):
            try:
                if isinstance(data, FrazilError):
                    raise data
                read += len(data)
                _enter(decoding, data, tuple(full[row]), tuple(inside[row]), rows, row)
            except (FormatError, StorageError, InvalidInputError) as error:
                if len(problems) < SHOWN_PROBLEMS:
                    problems.append(f"{node.path} {tuple(refs.coords[row].tolist())}: {error}")
            else:
                done[row] = True
        return _Answer(rows[done], read, tuple(problems), int((~done).sum()))

    def _chunks(
        self, refs: ChunkReferences, decoding: Decoding
    ) -> Iterator[tuple[int, Bytes | FrazilError]]:
        """The bytes of each chunk, or why they cannot be read."""
        state = WorkingState(self.context, INITIAL_SNAPSHOT_ID)
        limits = [
            decoding.layout.chain.encoded_limit(tuple(shape))
            for shape in shapes(decoding.layout.grid, refs.coords)[0].tolist()
        ]
        for part in by_size(refs.length.tolist(), BYTES_AT_ONCE):
            good = []
            for row in part:
                try:
                    check_length(int(refs.length[row]), limits[row])
                except FormatError as error:
                    yield row, error
                else:
                    good.append(row)
            try:
                yield from zip(good, _fetched(state, refs, good), strict=True)
            except (StorageError, InvalidInputError):
                yield from ((row, self._one(state, refs, row)) for row in good)

    def _one(self, state: WorkingState, refs: ChunkReferences, row: int) -> Bytes | FrazilError:
        try:
            return _fetched(state, refs, [row])[0]
        except (StorageError, InvalidInputError) as error:
            return error


def _fetched(state: WorkingState, refs: ChunkReferences, rows: list[int]) -> list[memoryview]:
    if not rows:
        return []
    chosen = refs.take(np.array(rows, np.intp))
    ends = np.cumsum(chosen.length)
    starts = ends - chosen.length
    memory = memoryview(bytearray(int(ends[-1])))
    fetch_into(state, chosen, memory, starts)
    return [memory[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def _enter(
    decoding: Decoding,
    data: Bytes,
    full: tuple[int, ...],
    inside: tuple[int, ...],
    rows: StructRows,
    row: int,
) -> None:
    """Enter what a chunk holds into its row.

    Raises:
        FormatError: it is damaged.
    """
    chain = decoding.layout.chain
    if math.prod(full) * max(1, chain.dtype.itemsize) > LARGEST:
        raise FormatError("the chunk is too large to be decoded here", shape=full)
    stored = chain.decode(data, full)
    values = stored[tuple(slice(0, n) for n in inside)] if full != inside else stored
    measure(decoding.decoder.decode(values), rows, row)
    rows["crc32c"][row] = crc32c(data)


def coverage(state: WorkingState, node: ArrayNode) -> tuple[int, int] | None:
    """How many written chunks of an array have statistics, and how many could have some.

    None: its codecs or its type are not known here.
    """
    decoding = decoding_of(node)
    if decoding is None:
        return None
    refs = ChunkReferences.of(state.table(node))
    rows, can_be_known = identified(refs, decoding.layout.grid, state.context.containers.expand)
    index = read_index(state.context.place, decoding.id)
    known = found_in(index.keys, row_keys(rows[can_be_known])) >= 0
    return int(known.sum()), int(can_be_known.sum())
