"""One function over many items on executors, for work that is described by plain records.

Items and answers go as pickled values in Arrow columns: no RDD, no broadcast, so that Spark
Connect does it too. A long list is done in several jobs, and progress is known after each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from frazil.spark.sessions import session
from frazil.spark.tasks import Batches, answers_of, application, pickled, unpacked
from frazil.spark.tuning import SMALL_ITEMS, TASKS_PER_SLOT, WAVE_ITEMS, WAVES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

_LOCAL: Final = re.compile(r"local(?:-cluster)?\[(\d+|\*)")
_SCHEMA: Final = pa.schema([("number", pa.int64()), ("item", pa.binary())])


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
        """Answers with the numbers of their items, job after job."""
        count = len(items)
        waves = max(1, min(WAVES, count // WAVE_ITEMS))
        bounds = [count * wave // waves for wave in range(waves + 1)]
        for first, last in pairwise(bounds):
            if last > first:
                yield from self._wave(work, items, range(first, last))

    def _wave(
        self, work: Callable[[T], R], items: Sequence[T], numbers: range
    ) -> Iterator[tuple[int, R]]:
        together = pickled([items[number] for number in numbers])
        if len(together) <= SMALL_ITEMS:
            # Few bytes go to all tasks with the work, and no shuffle has to hand them out.
            tasks = tasks_for(self.spark, len(numbers))
            frame = self.spark.range(numbers.start, numbers.stop, 1, tasks)
            yield from answers_of(frame, partial(_numbered, work, together, numbers.start))
        else:
            del together
            part = [items[number] for number in numbers]
            frame = items_frame(self.spark, part, numbers.start)
            yield from answers_of(frame, partial(_each, work))


def items_frame(spark: SparkSession, items: Sequence[Any], first: int = 0) -> DataFrame:
    """Items and their numbers as rows, spread over tasks; `over_items` reads them there."""
    numbers = range(first, first + len(items))
    given = pa.table({"number": [*numbers], "item": [*map(pickled, items)]}, schema=_SCHEMA)
    return spark.createDataFrame(given).repartition(tasks_for(spark, len(items)))


def over_items(batches: Batches) -> Iterator[tuple[int, Any]]:
    """The numbers and items of rows that `items_frame` made, in a task."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in _SCHEMA.names]
        for number, item in zip(*columns, strict=True):
            yield number, unpacked(item)


def tasks_for(spark: SparkSession, items: int) -> int:
    """Tasks that items are spread over."""
    return max(1, min(items, TASKS_PER_SLOT * slots(spark)))


def _each(work: Callable[[Any], R], batches: Batches) -> Iterator[tuple[int, R]]:
    """The work for every row, in a task."""
    for number, item in over_items(batches):
        yield number, work(item)


def _numbered(
    work: Callable[[Any], R], items: bytes, first: int, batches: Batches
) -> Iterator[tuple[int, R]]:
    """The same for rows that are numbers of items which came along."""
    given = unpacked(items)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield number, work(given[number - first])


def slots(spark: SparkSession) -> int:
    """How many tasks a session runs at once, as far as its settings tell."""
    parallelism = spark.conf.get("spark.default.parallelism", None)
    if parallelism and parallelism.isdigit():
        return max(1, int(parallelism))
    found = _LOCAL.match(spark.conf.get("spark.master", None) or "")
    if found is None:
        return 64  # a cluster whose settings do not tell: of middle size
    return os.cpu_count() or 1 if found[1] == "*" else max(1, int(found[1]))
