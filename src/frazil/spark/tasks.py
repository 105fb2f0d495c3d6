"""What jobs have in common: numbered tasks on executors, columns of references back, one commit.

A job is a range of numbers and a picklable function from a number to chunks that it stored.
Tasks write objects under fresh names and return where they are; nothing refers to them before
the driver commits, so that a job that fails leaves garbage and an untouched branch.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

import frazil
from frazil.formats.zarr_meta import ArrayMeta, parse_node
from frazil.ids import INITIAL_SNAPSHOT_ID, NodeId, parent_path
from frazil.model.chunks import ChunkTable, concat
from frazil.model.nodes import ArrayNode
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.errors import noted, told
from frazil.spark.location import Location, Target, location_of, unreachable_from_tasks
from frazil.spark.options.parsing import invalid_option
from frazil.spark.reading.read import as_text
from frazil.spelling import nearest
from frazil.transaction.changeset import ArrayData
from frazil.transaction.context import Context
from frazil.transaction.tree import array_node
from frazil.transaction.working import WorkingState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""
Batches: TypeAlias = Iterator[pa.RecordBatch]
Options: TypeAlias = Mapping[str, Any]
"""Options of the data source: `storage.*`, `virtual.*`, `authorize-virtual-chunk-access`."""

LEAST_TASKS: Final = 16
MOST_TASKS: Final = 10_000
WAVES: Final = 10
"""A long job is done in about so many steps, after each of which progress is told."""
LEAST_WAVE: Final = 64
"""Tasks below which a job is one step."""
EMPTY_GROUP: Final = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_PARTS: Final = "array int, chunks long, bytes long, columns binary"
_PART_SCHEMA: Final = pa.schema(
    [("array", pa.int32()), ("chunks", pa.int64()), ("bytes", pa.int64()), ("columns", pa.binary())]
)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Chunks that a task has stored."""

    array: int
    """number of the array in the job"""
    table: ChunkTable

    def batch(self) -> pa.RecordBatch:
        """One row; the columns of the table go as one value, not as a row for each chunk."""
        packed = pickle.dumps(self.table.compact(), pickle.HIGHEST_PROTOCOL)
        row = [[self.array], [len(self.table)], [int(self.table.length.sum())], [packed]]
        arrays = [pa.array(v, f.type) for v, f in zip(row, _PART_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_PART_SCHEMA)


Work: TypeAlias = Callable[[int], Iterable[Part]]


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a job did."""

    snapshot_id: str | None
    """the commit; None when there was nothing to do"""
    arrays: tuple[str, ...]
    """paths of the arrays that it made or changed"""
    chunks: int = 0
    bytes: int = 0
    """as they are stored"""
    tasks: int = 0
    shuffled: tuple[str, ...] = ()
    """arrays whose cells went through Spark's shuffle"""


@dataclass(slots=True)
class Gathered:
    """Chunks that tasks have stored, by array."""

    tables: dict[int, list[ChunkTable]] = field(default_factory=dict)
    chunks: int = 0
    bytes: int = 0

    def add(self, answers: pa.Table) -> None:
        """Take over what tasks returned."""
        for array, chunks, size, columns in zip(
            *(answers.column(name).to_pylist() for name in _PART_SCHEMA.names), strict=True
        ):
            self.tables.setdefault(array, []).append(pickle.loads(columns))  # our own tasks'
            self.chunks += chunks
            self.bytes += size

    def table(self, array: int, ndim: int) -> ChunkTable:
        """All chunks of an array."""
        return concat(self.tables.get(array, []), ndim)


# --- arguments and places ---


def require_known(given: Mapping[str, object], kind: type[object]) -> None:
    """Refuse keyword arguments that are none of a TypedDict.

    Raises:
        TypeError: as Python does for functions that name their arguments.
    """
    known = [*kind.__annotations__]
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}{nearest(name, known)}")


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


def path_of(group: str | None, name: str) -> str:
    """The path of an array of a group; names may be paths below it."""
    parts = [part for part in f"{group or ''}/{name}".split("/") if part]
    return "/" + "/".join(parts)


def copy_groups(source: WorkingState, target: WorkingState, path: str) -> None:
    """Make the group at a path, and those above it, as they are elsewhere."""
    for above in (*reversed(_above(path)), path):
        if target.tree.get(above) is None:
            found = source.tree.get(above)
            target.set_metadata(above, EMPTY_GROUP if found is None else found.user_data)


def _above(path: str) -> list[str]:
    found = []
    while path != "/":
        path = parent_path(path)
        found.append(path)
    return found


# --- tasks ---


def scratch_array(context: Context, path: str, document: bytes) -> tuple[WorkingState, ArrayNode]:
    """A state and an array to store chunks with; the hierarchy is never looked at."""
    state = WorkingState(context, INITIAL_SNAPSHOT_ID)
    state.editable = True
    meta = parse_node(document, spec=context.generation.spec)
    assert isinstance(meta, ArrayMeta)
    data = ArrayData(NodeId.random(), document, meta.shape, meta.dimension_names)
    return state, array_node(path, data)


def by_size(sizes: Iterable[int], limit: int, most: int = 1 << 16) -> Iterator[range]:
    """Neighbouring items in groups of at most some bytes, and at most so many."""
    first = number = total = 0
    for number, size in enumerate(sizes, 1):
        if number - 1 > first and (total + size > limit or number - 1 - first >= most):
            yield range(first, number - 1)
            first, total = number - 1, 0
        total += size
    if number > first:
        yield range(first, number)


def task_count(items: int, size_bytes: int, per_task: int) -> int:
    """Into how many tasks to put some work."""
    wanted = max(LEAST_TASKS, min(MOST_TASKS, -(-size_bytes // max(1, per_task))))
    return max(1, min(items, wanted))


def run_numbered(
    spark: SparkSession,
    count: int,
    work: Work,
    *,
    tasks: int,
    what: str = "blocks",
    progress: Progress | None = None,
    gathered: Gathered | None = None,
) -> Gathered:
    """Do `work` for every number below `count` on executors, and gather what it stored."""

    def each(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in work(number):
                    yield part.batch()

    found = Gathered() if gathered is None else gathered
    tell = progress or (lambda *_: None)
    waves = 1 if tasks < LEAST_WAVE else WAVES
    bounds = [count * wave // waves for wave in range(waves + 1)]
    tell(what, 0, count)
    for first, last in pairwise(bounds):
        if last > first:
            numbers = spark.range(first, last, 1, max(1, min(last - first, -(-tasks // waves))))
            found.add(collect(map_batches(numbers, each, _PARTS)))
            tell(what, last, count)
    return found


def parts_frame(frame: DataFrame, work: Callable[[Batches], Iterable[Part]]) -> DataFrame:
    """The rows that tasks return for partitions of rows."""

    def each(batches: Batches) -> Batches:
        for part in work(batches):
            yield part.batch()

    return map_batches(frame, each, _PARTS)


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


def commit_job(
    spark: SparkSession,
    session: Session,
    job: str,
    message: str,
    counts: Mapping[str, Any],
) -> str:
    """Commit what a job did, with what it was; other commits meanwhile are rebased upon."""
    metadata = {"frazil.job": job, **counts}
    app_id = spark.conf.get("spark.app.id", None)
    if app_id is not None:
        metadata["spark.app.id"] = app_id
    return session.commit(message, metadata, rebase_with=ConflictDetector())
