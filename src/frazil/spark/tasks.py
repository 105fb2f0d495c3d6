"""What Spark's jobs have in common: targets, frames of tasks, and the chunks that come back."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import pyarrow as pa
import zstandard

import frazil
from frazil.commit.refusals import gone
from frazil.errors import invalid_option
from frazil.ids import SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.combining import concat
from frazil.repository import Repository
from frazil.run import path_of as path_of
from frazil.session import Session
from frazil.spark.errors import mark_task_errors, raise_task_errors
from frazil.spark.location import (
    NamedTarget,
    Pinned,
    RepositoryLocation,
    named_request,
    reachable_target,
)
from frazil.spark.options.written import as_text
from frazil.spark.reading.columns import arrow_schema, row_batch
from frazil.spark.tuning import ANSWER_BYTES, LEAST_TASKS, MOST_TASKS
from frazil.tip import Tip
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Batches: TypeAlias = Iterator[pa.RecordBatch]
Options: TypeAlias = Mapping[str, Any]
"""Options of the data source: `storage.*`, `virtual.*`, `authorize-virtual-chunk-access`."""

BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANSWER: Final = "answer binary"
_ANSWER_SCHEMA: Final = pa.schema([("answer", pa.binary())])

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class StoredChunks:
    """Chunks that a task has stored."""

    array: int
    """number of the array in the job"""
    table: ChunkTable


@dataclass(slots=True)
class GatheredChunks:
    """Chunks that tasks have stored, by array."""

    tables: dict[int, list[ChunkTable]] = field(default_factory=dict)
    chunks: int = 0
    bytes: int = 0

    def add(self, parts: Iterable[StoredChunks]) -> None:
        """Take over what tasks returned."""
        for part in parts:
            self.tables.setdefault(part.array, []).append(part.table)
            self.chunks += len(part.table)
            self.bytes += int(part.table.length.sum())

    def table(self, array: int, ndim: int) -> ChunkTable:
        """All chunks of an array."""
        return concat(self.tables.get(array, []), ndim)


# --- arguments and places ---


def target_of(url: str, options: Options | None = None) -> NamedTarget:
    """What a URL with options of the data source names.

    Raises:
        InvalidInputError: tasks could not open it, or it names a metadata table.
    """
    given = {name: as_text(value) for name, value in (options or {}).items()}
    found = reachable_target(named_request(url, given))
    if found.table is not None:
        raise invalid_option(f"a repository is needed, and {found.table!r} is a metadata table")
    return found


def open_or_create(location: RepositoryLocation) -> Repository:
    """The repository at a place, made when there is none."""
    storage = location.storage()
    if not Repository.exists(storage):
        Repository.create(storage)
    return location.open()


@dataclass(frozen=True, slots=True)
class JobEnds:
    """What a job reads, and where it commits."""

    source: NamedTarget
    pinned: Pinned
    """the snapshot that is read"""
    goal: RepositoryLocation
    branch: str
    tip: Tip | None
    """what is changed; None for another repository, which may have to be made"""
    is_same: bool
    """whether the job reads and changes the same repository"""

    def writable_session(self) -> Session:
        """A session on the branch, as it was when this was made."""
        tip = self.tip or open_or_create(self.goal).tip(self.branch)
        return tip.writable_session()

    def require_source(self) -> None:
        """Refuse the result if the snapshot that it was made of has been erased or collected.

        What was read last may have been erased by then. Where the same branch is read and
        changed, the commit notices that.

        Raises:
            SnapshotNotFoundError: the snapshot is gone.
        """
        if self.is_same:
            return
        read, repository = SnapshotId.parse(self.pinned.snapshot_id), self.source.location.open()
        if not context_of(repository).refs.is_there(read):
            raise gone(read)


def ends_of(
    url: str,
    options: Options | None,
    target: str | None,
    target_options: Options | None,
    branch: str | None,
    *,
    follows_branch: bool = False,
) -> JobEnds:
    """The ends of a job that writes to another repository, or where it reads.

    `follows_branch`: a URL without a version means the branch that is written.
    """
    source = target_of(url, options)
    goal = source if target is None else target_of(target, target_options)
    into = goal.branch if branch is None else branch
    repository = source.location.open()
    tip = repository.tip(into) if target is None else None
    is_same = source.is_tip_of(into) or (follows_branch and source.ref is None)
    if tip is None or not is_same:
        return JobEnds(source, source.pin(repository), goal.location, into, tip, False)
    # What is changed must be what was read, even if a commit lands at this moment.
    pinned = Pinned(source.location, tip.snapshot_id)
    return JobEnds(source, pinned, goal.location, into, tip, True)


# --- tasks ---


def task_count(items: int, size_bytes: int, per_task: int) -> int:
    """Into how many tasks to put some work."""
    wanted = max(LEAST_TASKS, min(MOST_TASKS, -(-size_bytes // max(1, per_task))))
    return max(1, min(items, wanted))


def pickled(value: object) -> bytes:
    """A value as bytes for a column."""
    return zstandard.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def unpacked(data: bytes) -> Any:  # noqa: ANN401  (what was packed)
    """A value that the driver, or a task, of ours has packed."""
    return pickle.loads(zstandard.decompress(data))


def answers_of(frame: DataFrame, work: Callable[[Batches], Iterable[R]]) -> Iterator[R]:
    """What tasks return for partitions of rows, on the driver."""

    def each(batches: Batches) -> Batches:
        held: list[bytes] = []
        size = 0
        for answer in work(batches):
            held.append(pickled(answer))
            size += len(held[-1])
            if size > ANSWER_BYTES:
                yield pa.RecordBatch.from_pydict({"answer": held}, schema=_ANSWER_SCHEMA)
                held, size = [], 0
        if held:
            yield pa.RecordBatch.from_pydict({"answer": held}, schema=_ANSWER_SCHEMA)

    for answer in collect(map_batches(frame, each, _ANSWER)).column(0):
        yield unpacked(answer.as_py())


def map_batches(
    frame: DataFrame, work: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Rows made of the rows of a frame by tasks, whose errors are raised on the driver."""

    version = frazil.__version__

    def each(batches: Batches) -> Batches:
        with mark_task_errors(version):
            yield from work(batches)

    return frame.mapInArrow(each, schema)


def local_frame(
    spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType
) -> DataFrame:
    """A few rows as a DataFrame that Spark keeps in its plan, so that no task is needed."""
    held = pa.Table.from_batches([row_batch(rows, arrow_schema(schema))])
    return spark.createDataFrame(held, schema)


def collect(frame: DataFrame) -> pa.Table:
    """The rows of a frame on the driver."""
    with raise_task_errors():
        return frame.toArrow()


@contextlib.contextmanager
def small_batches(spark: SparkSession, size_bytes: int) -> Iterator[None]:
    """Let Spark hand tasks rows in batches of a limited size, as long as a job runs.

    It counts rows else, and a row of ours may be as large as a chunk.
    """
    before = spark.conf.get(BATCH_BYTES, None)
    spark.conf.set(BATCH_BYTES, str(size_bytes))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(BATCH_BYTES)
        else:
            spark.conf.set(BATCH_BYTES, before)


def application(spark: SparkSession) -> dict[str, object]:
    """The application, for the commit."""
    app_id = spark.conf.get("spark.app.id", None)
    return {} if app_id is None else {"spark.app.id": app_id}
