"""Arrays in other chunks, within a limit of memory for each task.

Where blocks of target chunks can be read without decoding much twice, each task reads such
blocks and writes them. Otherwise every source chunk is decoded once, and its pieces go through
Spark's shuffle to the task that puts a target chunk together.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from frazil.arrays import Array, Shape
from frazil.bulk.chain import Chain
from frazil.bulk.compose import WriteTarget
from frazil.bulk.grid import ArrayLayout, layout_of
from frazil.bulk.pack import write_encoded
from frazil.bulk.plan import box_plan
from frazil.bulk.read import read_region
from frazil.bulk.write import write_chunks, write_region
from frazil.errors import invalid_option
from frazil.ids import parent_path
from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode
from frazil.progress import Progress, Tell, silent
from frazil.run import JobReport, commit_job, copy_groups, path_of, run_with_progress, scratch_array
from frazil.session import Session
from frazil.spark import tasks, worker
from frazil.spark.jobs.rechunk_plan import ChunkRequest, RechunkPlan, SliceBox, plan_array
from frazil.spark.location import Pinned, RepositoryLocation
from frazil.spark.reading.columns import row_batch
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Batches, GatheredChunks, Options, StoredChunks
from frazil.spark.tuning import FLUSH_BYTES, LEAST_TASKS, MAX_MEMORY, MEMORY_SHARE, MOST_TASKS
from frazil.spelling import listed, unknown
from frazil.texts import size
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECES: Final = "part long, chunk long, box binary, cells binary"
_PIECE_SCHEMA: Final = pa.schema(
    [("part", pa.int64()), ("chunk", pa.int64()), ("box", pa.binary()), ("cells", pa.binary())]
)


def rechunk(
    url: str,
    variables: str | Iterable[str] | None,
    chunks: ChunkRequest,
    *,
    spark: SparkSession | None = None,
    target: str | None = None,
    branch: str | None = None,
    group: str | None = None,
    compressor: str | None = None,
    checksum: bool = False,
    message: str | None = None,
    max_memory: int | str = MAX_MEMORY,
    options: Options | None = None,
    target_options: Options | None = None,
    progress: Tell | None = None,
) -> JobReport:
    """Write arrays anew in other chunks, in one commit.

    Args:
        url: `URL[@version]` of the repository to read.
        variables: names of arrays, or paths below the group; None for all with one of the
            dimensions that `chunks` names, coordinates excepted.
        chunks: chunk length by dimension (others stay as they are), or for all axes in order;
            -1 means the whole axis.
        spark: the session to use; the active or an embedded one by default.
        target: another repository to write to, which is made when there is none, with the
            coordinates of the arrays; by default the arrays are replaced where they are.
        branch: the branch to commit to; that of the URL written to, or `main`, by default.
        group: the group of the arrays; the root by default.
        compressor: such as `zstd:5`, `blosc:lz4` or `none`; codecs stay as they are by default.
        checksum: let the new chunks end in a CRC-32C, so that damage is seen when they are read.
        message: of the commit.
        max_memory: bytes that a task may use, such as `256m`.
        options: options of the data source for `url`, such as `storage.region`.
        target_options: the same for `target`.
        progress: is called with the current step and the progress so far.

    Arrays in shards get plain chunks. Attributes, dimensions and fill values stay.

    Raises:
        InvalidInputError: there is no such array or dimension, or chunks exceed `max_memory`.
        RebaseFailedError: another commit has changed the arrays meanwhile.
    """
    runner = SparkRunner(spark)
    limit = size(max_memory) if isinstance(max_memory, str) else max_memory
    ends = tasks.ends_of(url, options, target, target_options, branch, follows_branch=True)
    session = worker.session_at(ends.pinned)
    top = group if group is not None else ends.source.node
    arrays = [_array(session, path_of(top, n)) for n in _names(session, top, variables, chunks)]
    plans = [plan_array(each, chunks, compressor, limit, checksum=checksum) for each in arrays]
    writing = ends.writable_session()
    gathered = GatheredChunks()
    work = [Rechunked(n, ends.pinned, ends.goal, plan, limit) for n, plan in enumerate(plans)]
    readers = sum(_run(runner, each, gathered, progress) for each in work)
    for number, plan in enumerate(plans):
        table = gathered.table(number, len(plan.shape))
        _put(writing, session if target is not None else None, plan, table)
    ends.require_source()
    return _commit(writing, plans, gathered, runner, readers, message)


def _commit(
    writing: Session,
    plans: Sequence[RechunkPlan],
    gathered: GatheredChunks,
    runner: SparkRunner,
    readers: int,
    message: str | None,
) -> JobReport:
    paths = tuple(plan.path for plan in plans)
    text = message or f"Rechunk {', '.join(paths)}"
    counts = {"added-chunks": gathered.chunks, "added-bytes": gathered.bytes}
    commit = commit_job(writing, "rechunk", text, {**counts, **runner.facts()})
    shuffled = tuple(plan.path for plan in plans if plan.needs_shuffle)
    return JobReport(commit, paths, gathered.chunks, gathered.bytes, readers, shuffled)


# --- choosing ---


def _names(
    session: Session, group: str | None, variables: str | Iterable[str] | None, chunks: ChunkRequest
) -> list[str]:
    if variables is not None:
        return [variables] if isinstance(variables, str) else list(dict.fromkeys(variables))
    top = path_of(group, "")
    prefix = top if top == "/" else f"{top}/"
    dims = {dim.casefold() for dim in chunks} if isinstance(chunks, Mapping) else None
    found = []
    for node in session.state.arrays():
        name = node.path[len(prefix) :]
        if not node.path.startswith(prefix) or "/" in name:
            continue
        own = [dim for dim in node.dimension_names or () if dim]
        if own != [name] and (dims is None or dims & {dim.casefold() for dim in own}):
            found.append(name)
    if not found:
        raise invalid_option(
            f"no variable of group {top!r} has a dimension of {listed(map(str, chunks))}"
        )
    return found


def _array(session: Session, path: str) -> ArrayNode:
    paths = [node.path for node in session.state.arrays()]
    if path not in paths:
        raise invalid_option(unknown("array", path, paths))
    return session.state.array(path)


def _put(writing: Session, source: Session | None, plan: RechunkPlan, table: ChunkTable) -> None:
    """Make the array of a plan; what it needs beside itself comes from `source`."""
    state = writing.state
    if source is not None:
        copy_groups(source.state, state, parent_path(plan.path))
    if state.tree.get(plan.path) is not None:
        state.delete_node(plan.path)
    state.set_metadata(plan.path, plan.document)
    named = [dim for dim in state.array(plan.path).dimension_names or () if dim]
    writing.rely_on_dimensions(parent_path(plan.path), *named)
    state.set_table(state.array(plan.path), table)
    if source is not None:
        _copy_coordinates(source, writing, plan.path)


def _copy_coordinates(source: Session, writing: Session, path: str) -> None:
    """Write the coordinates along the dimensions of an array that are not there yet."""
    folder = parent_path(path)
    for dim in source.state.array(path).dimension_names or ():
        place = path_of(folder, dim or "")
        found = source.state.tree.get(place) if dim else None
        if not isinstance(found, ArrayNode) or writing.state.tree.get(place) is not None:
            continue
        writing.state.set_metadata(place, found.user_data)
        write_region(writing, place, ..., read_region(source, place))


# --- the work of tasks ---


def _run(
    runner: SparkRunner, work: Rechunked, gathered: GatheredChunks, progress: Tell | None
) -> int:
    """Rechunk one array; give the number of tasks that read."""
    plan = work.plan
    count = prod(plan.blocks)
    readers = tasks.task_count(count, plan.size_bytes, work.limit)
    if not plan.needs_shuffle:
        for _, found in run_with_progress(runner, work, range(count), progress, plan.path):
            gathered.add(found)
        return readers
    chunk_bytes = max(1, prod(plan.chunks) * plan.item_bytes)
    # Neighbours meet in one task, so that they are packed together.
    per_part = max(1, min(work.limit, plan.size_bytes // LEAST_TASKS) // chunk_bytes)
    parts = -(-prod(plan.grid) // per_part)
    tell = progress or silent
    tell(Progress(plan.path, 0, count))
    with tasks.small_batches(runner.spark, max(1 << 20, work.limit // MEMORY_SHARE)):
        pieces = tasks.map_batches(
            runner.spark.range(0, count, 1, readers),
            lambda batches: work.pieces(batches, per_part),
            _PIECES,
        )
        sorted_pieces = pieces.repartition(min(parts, MOST_TASKS), "part")
        sorted_pieces = sorted_pieces.sortWithinPartitions("chunk")
        gathered.add(tasks.answers_of(sorted_pieces, work.assembled))
    tell(Progress(plan.path, count, count))
    return readers


@dataclass(frozen=True, slots=True)
class Rechunked:
    """The tasks of one array; small, for it goes to all of them."""

    number: int
    pinned: Pinned
    goal: RepositoryLocation
    plan: RechunkPlan
    limit: int

    def __call__(self, number: int) -> list[StoredChunks]:
        """Read a block and write its chunks."""
        box = self.plan.box(number)
        cells = self._read(box)
        state, node = self._scratch()
        cut = box_plan(self._layout().grid, box)
        target = WriteTarget(state, node, self._layout().chain, keeps_empty=False)
        write_chunks(target, cut, cells.reshape(cut.full_shape), max_in_flight=self._room())
        changes = state.changes.chunks.get(node.id)
        table = ChunkTable.empty(len(node.shape)) if changes is None else changes.columns()[0]
        return [StoredChunks(self.number, table.compact())] if len(table) else []

    def pieces(self, batches: Batches, per_part: int) -> Batches:
        """Decode blocks and cut them along the target chunks."""
        chain = self._layout().chain
        for batch in batches:
            for number in batch.column(0).to_pylist():
                box = self.plan.box(number)
                cells = self._read(box)
                cut = box_plan(self._layout().grid, box)
                coords = cut.coords(range(cut.count))
                numbers = np.ravel_multi_index(tuple(coords.T), self.plan.grid)
                for row, chunk in enumerate(numbers.tolist()):
                    in_chunk, in_block = cut.parts(row)
                    piece = cells[in_block]
                    if chain.is_fill(piece):
                        continue
                    bounds = [[part.start, part.stop] for part in in_chunk]
                    where = np.array(bounds, np.int64).tobytes()
                    made = (chunk // per_part, chunk, where, _packed(piece))
                    yield row_batch([made], _PIECE_SCHEMA)

    def assembled(self, batches: Batches) -> Iterator[StoredChunks]:
        """Put pieces, which come chunk by chunk, together and store the chunks."""
        state, node = self._scratch()
        chain = self._layout().chain
        held: list[tuple[int, Any]] = []
        size_held = 0
        for chunk, cells in self._chunks(batches, chain):
            data = chain.encode(cells)
            if data is None:
                continue
            held.append((chunk, bytes(data)))
            size_held += len(held[-1][1])
            if size_held >= min(FLUSH_BYTES, self._room()):
                yield self._stored(state, node, held)
                held, size_held = [], 0
        if held:
            yield self._stored(state, node, held)

    def _chunks(self, batches: Batches, chain: Chain) -> Iterator[tuple[int, Array]]:
        rows = ((batch, row) for batch in batches for row in range(batch.num_rows))
        for chunk, pieces in groupby(rows, lambda at: at[0].column(1)[at[1]].as_py()):
            cells = np.empty(self.plan.chunks, chain.dtype)
            cells[...] = chain.fill_value
            for batch, row in pieces:
                bounds = np.frombuffer(batch.column(2)[row].as_buffer(), np.int64).reshape(-1, 2)
                place = tuple(slice(a, b) for a, b in bounds.tolist())
                shape = tuple(b - a for a, b in bounds.tolist())
                cells[place] = _unpacked(batch.column(3)[row].as_buffer(), chain, shape)
            yield chunk, cells

    def _stored(
        self, state: WorkingState, node: ArrayNode, held: list[tuple[int, bytes]]
    ) -> StoredChunks:
        numbers = [chunk for chunk, _ in held]
        coords = np.stack(np.unravel_index(numbers, self.plan.grid), axis=1).astype(np.uint32)
        table = write_encoded(state, node, coords, [data for _, data in held])
        return StoredChunks(self.number, table.compact())

    def _read(self, box: SliceBox) -> Array:
        session = worker.session_at(self.pinned)
        return read_region(session, self.plan.path, box, max_in_flight=self._room())

    def _room(self) -> int:
        return max(1, self.limit // MEMORY_SHARE)

    def _scratch(self) -> tuple[WorkingState, ArrayNode]:
        context = context_of(worker.repository(self.goal))
        return scratch_array(context, self.plan.path, self.plan.document)

    def _layout(self) -> ArrayLayout:
        found = layout_of(self.plan.document)
        assert found is not None
        return found


def _packed(cells: Array) -> bytes:
    """Cells as bytes; objects, such as texts, by pickling."""
    if cells.dtype.hasobject or cells.dtype.kind == "T":
        return pickle.dumps(cells.tolist(), pickle.HIGHEST_PROTOCOL)
    return cells.tobytes()


def _unpacked(data: Any, chain: Chain, shape: Shape) -> Array:  # noqa: ANN401  (a buffer)
    if chain.dtype.hasobject or chain.dtype.kind == "T":
        return np.array(pickle.loads(data), chain.dtype).reshape(shape)
    return np.frombuffer(data, chain.dtype).reshape(shape)
