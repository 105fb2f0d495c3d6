"""What Spark's jobs have in common: targets, frames of tasks, and the chunks that come back."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

import frazil
from frazil import run
from frazil.model.chunks import ChunkTable, concat
from frazil.repository import Repository
from frazil.run import Progress as Progress
from frazil.run import by_size as by_size
from frazil.run import copy_groups as copy_groups
from frazil.run import path_of as path_of
from frazil.run import scratch_array as scratch_array
from frazil.session import Session
from frazil.spark.errors import noted, told
from frazil.spark.location import Location, Target, location_of, unreachable_from_tasks
from frazil.spark.options.parsing import invalid_option
from frazil.spark.reading.read import as_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Batches: TypeAlias = Iterator[pa.RecordBatch]
Options: TypeAlias = Mapping[str, Any]
"""Options of the data source: `storage.*`, `virtual.*`, `authorize-virtual-chunk-access`."""

LEAST_TASKS: Final = 16
MOST_TASKS: Final = 10_000
BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_PARTS: Final = "parts binary"
_PART_SCHEMA: Final = pa.schema([("parts", pa.binary())])


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Chunks that a task has stored."""

    array: int
    """number of the array in the job"""
    table: ChunkTable


@dataclass(slots=True)
class Gathered:
    """Chunks that tasks have stored, by array."""

    tables: dict[int, list[ChunkTable]] = field(default_factory=dict)
    chunks: int = 0
    bytes: int = 0

    def add(self, parts: Iterable[Part]) -> None:
        """Take over what tasks returned."""
        for part in parts:
            self.tables.setdefault(part.array, []).append(part.table)
            self.chunks += len(part.table)
            self.bytes += int(part.table.length.sum())

    def table(self, array: int, ndim: int) -> ChunkTable:
        """All chunks of an array."""
        return concat(self.tables.get(array, []), ndim)


# --- arguments and places ---


def target_of(url: str, options: Options | None = None) -> Target:
    """What a URL with options of the data source names.

    Raises:
        InvalidInputError: tasks could not open it, or it names a metadata table.
    """
    given = {name: as_text(value) for name, value in (options or {}).items()}
    found = location_of(url, given)
    if (refusal := unreachable_from_tasks(found.location)) is not None:
        raise refusal
    if found.table is not None:
        raise invalid_option(f"a repository is needed, and {found.table!r} is a metadata table")
    return found


def open_or_create(location: Location) -> Repository:
    """The repository at a place, made when there is none."""
    storage = location.storage()
    if not Repository.exists(storage):
        Repository.create(storage)
    return location.open()


# --- tasks ---


def task_count(items: int, size_bytes: int, per_task: int) -> int:
    """Into how many tasks to put some work."""
    wanted = max(LEAST_TASKS, min(MOST_TASKS, -(-size_bytes // max(1, per_task))))
    return max(1, min(items, wanted))


def parts_of(frame: DataFrame, work: Callable[[Batches], Iterable[Part]]) -> Iterator[Part]:
    """What tasks return for partitions of rows, on the driver."""

    def each(batches: Batches) -> Batches:
        for part in work(batches):
            packed = pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_pydict({"parts": [packed]}, schema=_PART_SCHEMA)

    for packed in collect(map_batches(frame, each, _PARTS)).column(0):
        yield pickle.loads(packed.as_py())  # our own tasks'


def map_batches(
    frame: DataFrame, work: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Rows made of the rows of a frame by tasks whose errors can be told on the driver."""

    version = frazil.__version__

    def each(batches: Batches) -> Batches:
        with noted(version):
            yield from work(batches)

    return frame.mapInArrow(each, schema)


def collect(frame: DataFrame) -> pa.Table:
    """The rows of a frame on the driver.

    Raises:
        FrazilError: what a task failed with.
    """
    with told():
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


# --- the commit ---


def application(spark: SparkSession) -> dict[str, object]:
    """The application, for the commit."""
    app_id = spark.conf.get("spark.app.id", None)
    return {} if app_id is None else {"spark.app.id": app_id}


def commit_job(
    spark: SparkSession, session: Session, job: str, message: str, counts: Mapping[str, Any]
) -> str:
    """Commit what a job did, with what it was; other commits meanwhile are rebased upon."""
    return run.commit_job(session, job, message, {**counts, **application(spark)})
