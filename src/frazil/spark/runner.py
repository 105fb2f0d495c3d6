"""One function over many items on executors, for work that is described by plain records.

Items and answers go as pickled values in Arrow columns: no RDD, no broadcast, so that Spark
Connect does it too. A long list is done in several jobs, and progress is known after each.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import zstandard

from frazil.spark.sessions import session
from frazil.spark.tasks import application, collect, map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

WAVES: Final = 8
"""A very long list is done in so many jobs,"""
WAVE_ITEMS: Final = 256
"""a shorter one in jobs of about so many items, since each takes a while to start."""
TASKS_PER_SLOT: Final = 3
CLUSTER_SLOTS: Final = 64
"""Tasks that a cluster is taken to run at once where it does not tell."""
ANSWER_BYTES: Final = 32 << 20
SMALL_ITEMS: Final = 256 << 10
"""Items with so many bytes in all go with the function of a job."""
_LOCAL: Final = re.compile(r"local(?:-cluster)?\[(\d+|\*)")
_SCHEMA: Final = pa.schema([("number", pa.int64()), ("item", pa.binary())])
_ANSWERS: Final = "number long, item binary"


class SparkRunner:
    """Runs work on a Spark session: the one given, else the active or a new one when needed."""

    def __init__(self, spark: SparkSession | None = None, master: str | None = None) -> None:
        self._spark = spark
        self._master = master

    @property
    def spark(self) -> SparkSession:
        """The session, started on first use."""
        if self._spark is None:
            self._spark = session(self._master)
        return self._spark

    def facts(self) -> dict[str, object]:
        """The application, for the commit, if there was work for it."""
        return {} if self._spark is None else application(self._spark)

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, R]]:
        """Answers with the numbers of their items, job after job.

        Raises:
            FrazilError: what a task failed with.
        """
        count = len(items)
        waves = max(1, min(WAVES, count // WAVE_ITEMS))
        bounds = [count * wave // waves for wave in range(waves + 1)]
        for first, last in pairwise(bounds):
            if last > first:
                yield from self._wave(work, items, range(first, last))

    def _wave(
        self, work: Callable[[T], R], items: Sequence[T], numbers: range
    ) -> Iterator[tuple[int, R]]:
        tasks = min(len(numbers), TASKS_PER_SLOT * slots(self.spark))
        together = _packed([items[number] for number in numbers])
        if len(together) <= SMALL_ITEMS:
            # Few bytes go to all tasks with the work, and no shuffle has to hand them out.
            frame = self.spark.range(numbers.start, numbers.stop, 1, tasks)
            given: _Each = _Numbered(work, together, numbers.start)
        else:
            frame, given = self._items(items, numbers, tasks), _Each(work)
        del together
        answers = collect(map_batches(frame, given, _ANSWERS))
        for batch in answers.to_batches():
            for number, answer in zip(*batch.columns, strict=True):
                yield number.as_py(), _unpacked(answer.as_py())  # our own tasks'

    def _items(self, items: Sequence[T], numbers: range, tasks: int) -> DataFrame:
        given = pa.table(
            {"number": [*numbers], "item": [_packed(items[number]) for number in numbers]},
            schema=_SCHEMA,
        )
        return self.spark.createDataFrame(given).repartition(tasks)


class _Each:
    """Does the work for every row; a class, so that it pickles with what it holds."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers: list[int] = []
        answers: list[bytes] = []
        size = 0
        for number, item in self._given(batches):
            numbers.append(number)
            answers.append(_packed(self._work(item)))
            size += len(answers[-1])
            if size > ANSWER_BYTES:
                yield _batch(numbers, answers)
                numbers, answers, size = [], [], 0
        if numbers:
            yield _batch(numbers, answers)

    def _given(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in _SCHEMA.names]
            for number, item in zip(*columns, strict=True):
                yield number, _unpacked(item)


class _Numbered(_Each):
    """The same for rows that are numbers of items which came along."""

    def __init__(self, work: Callable[[Any], Any], items: bytes, first: int) -> None:
        super().__init__(work)
        self._items = items
        self._first = first

    def _given(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
        items = _unpacked(self._items)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield number, items[number - self._first]


def _batch(numbers: list[int], answers: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": numbers, "item": answers}, schema=_SCHEMA)


def _packed(value: object) -> bytes:
    return zstandard.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(data: bytes) -> Any:  # noqa: ANN401  (what was packed)
    return pickle.loads(zstandard.decompress(data))


def slots(spark: SparkSession) -> int:
    """How many tasks a session runs at once, as far as its settings tell."""
    told = spark.conf.get("spark.default.parallelism", None)
    if told and told.isdigit():
        return max(1, int(told))
    found = _LOCAL.match(spark.conf.get("spark.master", None) or "")
    if found is None:
        return CLUSTER_SLOTS
    return os.cpu_count() or 1 if found[1] == "*" else max(1, int(found[1]))
