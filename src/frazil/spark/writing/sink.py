"""`df.write.format("frazil")` and `writeStream`: tasks that may hold parts of one chunk.

Spark hands rows over as they are partitioned. A task stores the chunks for which it has all rows.
Other rows, and rows whose position depends on other tasks, it sets aside: in its commit message if
they are few, else in an object. The driver merges them before its one commit, up to a limit;
`frazil.spark.write` merges them on executors instead. Nothing refers to objects of failed or
repeated tasks; garbage collection deletes them.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from frazil.arrays import I64, Mask
from frazil.cf.decoding import Values
from frazil.errors import (
    ErrorKind,
    FrazilError,
    SessionStateError,
    invalid_option,
    unsuitable,
)
from frazil.ids import ChunkId
from frazil.run import JobReport
from frazil.spark.errors import mark_task_errors
from frazil.spark.location import reachable_target
from frazil.spark.options.parsing import parse_request
from frazil.spark.options.table import OptionUse, WriteRequest
from frazil.spark.tuning import HOLD_BYTES, MESSAGE_BYTES
from frazil.spark.worker import repository
from frazil.spark.writing.chunk_writer import ChunkRows, ChunkWriter, WrittenChunks
from frazil.spark.writing.commit import Txn, commit_write, txn_of
from frazil.spark.writing.placing import PlacedRows, chunks_and_cells, distinct, place_rows
from frazil.spark.writing.plan import ChunkGroup, WritePlan
from frazil.spark.writing.planner import plan_write
from frazil.storage.assets import CHUNK, chunk_key
from frazil.storage.base import Storage, require_deleted
from frazil.transaction.opened import context_of

log = logging.getLogger(__name__)

ALL_GROUPS: Final = -1
QUERY_ID: Final = "sql.streaming.queryId"
"""The property of tasks that Spark keeps the id of a streaming query in."""


@dataclass(frozen=True, slots=True)
class SpilledRows:
    """Rows that a task has set aside, as an Arrow stream."""

    group: int
    """number of the chunk group whose columns they have"""
    data: bytes | None
    key: str | None
    """of the object that holds them instead"""
    size: int
    """bytes of the rows in memory"""

    def table(self, storage: Storage) -> pa.Table:
        """The rows.

        Raises:
            SessionStateError: the object is gone.
        """
        data = self.data if self.key is None else storage.get(self.key)
        if data is None:
            raise SessionStateError(
                "rows that a task has set aside are gone: the write took so long that a garbage "
                "collection took them for garbage; write them again",
                kind=ErrorKind.OBJECT_NOT_FOUND,
                key=self.key,
            )
        with pa.ipc.open_stream(data) as stream:
            return stream.read_all()


@dataclass(slots=True)
class TaskMessage(WriterCommitMessage):
    """What one task did."""

    base: str
    """the snapshot that its plan was made for"""
    written: list[WrittenChunks] = field(default_factory=list)
    aside: list[SpilledRows] = field(default_factory=list)
    labels: dict[str, Values] = field(default_factory=dict)
    """new labels by dimension, as they are stored"""
    began: float = field(default_factory=time.time)
    """when its plan was made"""
    query: str | None = None
    """the id of the streaming query that it belongs to, which its checkpoint keeps"""


# --- tasks ---


def write_task(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
    """Store the chunks that the rows of a partition fill, and set the others aside.

    Raises:
        InvalidInputError: a row does not fit.
    """
    message = TaskMessage(plan.pinned.snapshot_id, began=plan.began)
    held: list[pa.RecordBatch] = []
    size = 0
    with mark_task_errors():
        for batch in batches:
            held.append(batch.select(plan.columns))
            size += batch.nbytes
            if size >= HOLD_BYTES:
                _put(plan, pa.Table.from_batches(held), message)
                held, size = [], 0
        if held:
            _put(plan, pa.Table.from_batches(held), message)
    return message


def _put(plan: WritePlan, table: pa.Table, message: TaskMessage) -> None:
    placed = place_rows(plan, table)
    for axis, new in zip(plan.axes, placed.new, strict=True):
        if new is not None:
            before = message.labels.get(axis.name, new)
            message.labels[axis.name] = distinct(np.concatenate([before, new]))
    # Which of several rows counts is decided where all of them are.
    if plan.request.duplicates != "error" or (plan.has_new_arrays and not plan.is_resolved):
        _set_aside(plan, ALL_GROUPS, table, message)
        return
    for number, group in enumerate(plan.groups):
        names = [axis.name for axis in plan.axes]
        names += [plan.arrays[array].name for array in group.arrays]
        rest = _put_whole(plan, group, table, placed, message)
        if rest.any():
            left = table.select(names) if rest.all() else table.select(names).filter(pa.array(rest))
            _set_aside(plan, number, left, message)


def _put_whole(
    plan: WritePlan, group: ChunkGroup, table: pa.Table, placed: PlacedRows, message: TaskMessage
) -> Mask:
    """Store chunks that are whole, and tell which rows are in none of them."""
    grid = plan.arrays[group.arrays[0]].grid
    chunk, cell = chunks_and_cells(group, grid, placed.places, table.num_rows)
    is_known = placed.is_known
    if is_known is not None:
        chunk = np.where(is_known, chunk, -1)
    numbers, inverse, counts = np.unique(chunk, return_inverse=True, return_counts=True)
    is_whole = (counts == _cells(plan, group, numbers)) & (numbers >= 0)
    inside = is_whole[inverse]
    if inside.any():
        values = tuple(
            plan.arrays[number].encoder.encode(
                table.column(plan.arrays[number].name).filter(pa.array(inside))
            )
            for number in group.arrays
        )
        rows = ChunkRows(chunk[inside], cell[inside], values).sorted()
        message.written.extend(ChunkWriter(plan, group).write([rows]))
    return np.asarray(~inside)


def _cells(plan: WritePlan, group: ChunkGroup, numbers: I64) -> I64:
    """How many cells chunks have; those that may grow have all that fit in."""
    found = np.ones(len(numbers), np.int64)
    left = numbers.copy()
    grid = plan.arrays[group.arrays[0]].grid
    for axis, along in reversed(list(zip(group.axes, grid, strict=True))):
        left, own = np.divmod(left, max(along.count, 1))
        start, size = along.start_of(own), along.size_of(own)
        grows = plan.axes[axis].grows and not plan.is_resolved
        found *= size if grows else np.minimum(start + size, along.length) - start
    return found


def _set_aside(plan: WritePlan, group: int, table: pa.Table, message: TaskMessage) -> None:
    _require_few(plan, sum(each.size for each in message.aside) + table.nbytes)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    data = sink.getvalue().to_pybytes()
    if len(data) <= MESSAGE_BYTES:
        message.aside.append(SpilledRows(group, data, None, table.nbytes))
        return
    key = chunk_key(ChunkId.random())
    context_of(repository(plan.pinned.location)).storage.put(key, data, CHUNK)
    message.aside.append(SpilledRows(group, None, key, table.nbytes))


def _require_few(plan: WritePlan, size: int) -> None:
    """Refuse to put more rows together in one process than it may hold.

    Raises:
        InvalidInputError: with the ways that work.
    """
    limit = plan.request.max_driver_bytes
    if size <= limit:
        return
    why = "its rows do not fill whole chunks of a task"
    if plan.has_new_arrays and not plan.is_resolved:
        why = "the labels of a new table are known only when all rows are"
    raise unsuitable(
        f"more than {limit:,} bytes of rows would have to go through the driver, since {why}; "
        "frazil.spark.write(df, url, …) lets executors put them together, option 'coords' tells "
        "the labels of all dimensions of a new table, and 'max-driver-bytes' allows more"
    )


def _settled(plan: WritePlan) -> WritePlan:
    """A plan whose labels are all known, so that tasks can store chunks, also of a new table."""
    if plan.is_resolved or any(axis.grows for axis in plan.axes):
        return plan
    return plan.resolve({})


# --- the driver ---


def commit_tasks(
    plan: WritePlan, messages: Sequence[WriterCommitMessage | None], txn: Txn | None
) -> JobReport:
    """Put together what tasks did, and commit it.

    Raises:
        InvalidInputError: rows of several tasks are for one cell.
        ConflictError: the branch has moved in a way that the write does not go with.
    """
    sent = [message for message in messages if isinstance(message, TaskMessage)]
    place_of = plan.pinned.location.open()
    if txn is not None and txn.is_in(place_of, plan.branch):
        return JobReport(None, tuple(array.path for array in plan.arrays))
    aside = [each for message in sent for each in message.aside]
    _require_few(plan, sum(each.size for each in aside))
    if not plan.is_resolved:
        plan = plan.resolve(_all_labels(plan, sent))
    written = [each for message in sent for each in message.written]
    storage = context_of(place_of).storage
    for number, group in enumerate(plan.groups):
        rows = [
            _placed_rows(plan, group, each.table(storage))
            for each in aside
            if each.group in (ALL_GROUPS, number)
        ]
        if rows:
            written.extend(ChunkWriter(plan, group).write([ChunkRows.joined(rows)]))
    # The plan may be a new one, made for the commit of a micro-batch.
    began = min([plan.began, *(message.began for message in sent)])
    report = commit_write(replace(plan, began=began), written, txn=txn)
    keys = [each.key for each in aside if each.key is not None]
    if keys:
        _tidy_up(storage, keys)
    return report


def _tidy_up(storage: Storage, keys: Sequence[str]) -> None:
    """Delete temporary objects of a write; it is committed, so that a failure is no error."""
    try:
        require_deleted(storage.delete_many(keys))
    except FrazilError as error:
        log.warning("temporary objects of a write are left to garbage collection: %s", error)


def _all_labels(plan: WritePlan, messages: Sequence[TaskMessage]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for axis in plan.axes:
        parts = [message.labels[axis.name] for message in messages if axis.name in message.labels]
        if parts:
            found[axis.name] = distinct(np.concatenate(parts))
    return found


def _placed_rows(plan: WritePlan, group: ChunkGroup, table: pa.Table) -> ChunkRows:
    arrays = [plan.arrays[number] for number in group.arrays]
    where = place_rows(plan, table).places
    chunk, cell = chunks_and_cells(group, arrays[0].grid, where, table.num_rows)
    values = tuple(array.encoder.encode(table.column(array.name)) for array in arrays)
    return ChunkRows(chunk, cell, values)


# --- what Spark calls ---


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        request = parse_request(WriteRequest, given, OptionUse.WRITE)
        target, self.txn = reachable_target(request), txn_of(request)
        # Made once: tasks and the commit speak of the same snapshot.
        plan = plan_write(target, request, schema, overwrite=overwrite)
        self.plan = None if plan is None else _settled(plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Store the rows of a partition."""
        if self.plan is None:
            return TaskMessage("")
        return write_task(self.plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks did."""
        if self.plan is not None:
            commit_tasks(self.plan, messages, self.txn)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything as it is; other tasks may still be writing, and garbage is collected."""


class StreamSink(DataSourceStreamArrowWriter):
    """Writes micro-batches, each of them once."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self.request = parse_request(WriteRequest, given, OptionUse.STREAM_WRITE)
        self.target = reachable_target(self.request)
        self.schema = schema
        self.overwrite = overwrite
        self.series = _series(self.request)
        self.plan = self._planned(None)

    def _planned(self, base: str | None) -> WritePlan:
        plan = plan_write(
            self.target, self.request, self.schema, overwrite=self.overwrite, base=base
        )
        assert plan is not None  # ifExists has no meaning for streams
        return _settled(plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Store the rows of a partition."""
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(QUERY_ID)
        return replace(write_task(self.plan, iterator), query=query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a micro-batch, unless it was committed before."""
        # Spark makes a new writer for this; only the tasks know what they wrote on top of.
        sent = [message for message in messages if isinstance(message, TaskMessage)]
        bases = {message.base for message in sent}
        # With a new checkpoint it is another query, which begins with batch 0 again.
        query = next((message.query for message in sent if message.query), None)
        is_named = self.request.txn_app is not None or query is None
        txn = Txn(self.series if is_named else f"query-{query}", batchId)
        if not bases or txn.is_in(self.target.location.open(), self.plan.branch):
            return
        if len(bases) > 1:
            raise invalid_option("the tasks of a micro-batch were planned for several snapshots")
        base = bases.pop()
        plan = self.plan if base == self.plan.pinned.snapshot_id else self._planned(base)
        commit_tasks(plan, messages, txn)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave everything as it is; garbage is collected."""


def _series(request: WriteRequest) -> str:
    """The name of the series that micro-batches belong to, where Spark gives them none."""
    if request.txn_app is not None:
        return request.txn_app
    if request.checkpoint is None:
        raise invalid_option(
            "a stream needs 'checkpointLocation' or 'txnAppId' among its options, which names it, "
            "so that no micro-batch is written twice"
        )
    place = request.checkpoint.rstrip("/").encode()
    return "checkpoint-" + hashlib.sha256(place).hexdigest()[:32]
