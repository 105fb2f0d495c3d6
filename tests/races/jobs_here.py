"""Jobs of `frazil.spark` as actors do them: their tasks run here, one after the other.

Spark takes longer to start than a case may last, and its tasks, in other processes, could not use
the storage of an actor. What a driver does, from the plan to the commit, is the job's own, called
by its public name; `SparkHere` only hands rows to the functions that tasks run. Real Spark meets
others in `tests/spark/test_competing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import frazil
from frazil.spark import location
from frazil.spark.location import reachable_target
from frazil.spark.options.parsing import parse_request
from frazil.spark.options.table import OptionUse, WriteRequest
from frazil.spark.options.written import as_text, spelled
from frazil.spark.writing.planner import plan_write
from frazil.spark.writing.sink import commit_tasks, write_task
from frazil.storage.by_url import storage_from_url
from tests.support.spark import read_here, stream_sink_here

Batches: TypeAlias = Iterator[pa.RecordBatch]
SCHEME: Final = "actor://"
TYPES: Final = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}

_numbers = count()
_places: WeakValueDictionary[str, frazil.Storage] = WeakValueDictionary()


def url_of(storage: frazil.Storage) -> str:
    """A URL by which jobs find the storage of an actor, as long as the actor has it."""
    url = f"{SCHEME}{next(_numbers)}"
    _places[url] = storage
    return url


def _storage_at(url: str, **options: Any) -> frazil.Storage:  # noqa: ANN401
    return _places[url] if url.startswith(SCHEME) else storage_from_url(url, **options)


# One scheme more, for as long as the process lives; all others are as they were.
pytest.MonkeyPatch().setattr(location, "storage_from_url", _storage_at)


@dataclass(frozen=True, slots=True)
class FrameHere:
    """Rows."""

    table: pa.Table

    def mapInArrow(self, work: Callable[[Batches], Batches], schema: str) -> FrameHere:
        """The rows that a function makes of these."""
        fields = [text.split() for text in schema.split(",")]
        empty = pa.schema([(name, TYPES[kind]) for name, kind in fields])
        made = [*work(iter(self.table.to_batches()))]
        return FrameHere(pa.Table.from_batches(made, made[0].schema if made else empty))

    def repartition(self, _tasks: int, *_columns: str) -> FrameHere:
        """The same rows: there is one task."""
        return self

    def sortWithinPartitions(self, *columns: str) -> FrameHere:
        """The rows in an order."""
        return FrameHere(self.table.sort_by([(name, "ascending") for name in columns]))

    def toArrow(self) -> pa.Table:
        """The rows."""
        return self.table


@dataclass(frozen=True, slots=True)
class ConfHere:
    """Settings, of which there are none."""

    def get(self, _name: str, default: str | None = None) -> str | None:
        """What is set."""
        return default

    def set(self, _name: str, _value: str) -> None:
        """Nothing here goes by it."""

    def unset(self, _name: str) -> None:
        """Nor by that."""


@dataclass(frozen=True, slots=True)
class SparkHere:
    """As much of a Spark session as jobs use."""

    conf: ConfHere = field(default_factory=ConfHere)

    def range(self, first: int, last: int, _step: int = 1, _tasks: int = 1) -> FrameHere:
        """Numbers."""
        return FrameHere(pa.table({"id": pa.array(range(first, last), pa.int64())}))


HERE: Final[Any] = SparkHere()


def rows(first: int, value: int) -> pa.Table:
    """Two rows of the table that every world has."""
    times = pa.array([first, first + 1], pa.int64())
    return pa.table({"time": times, "v": pa.array([value, value], pa.int32())})


def write_upon(
    url: str,
    change: Callable[[pa.Table], pa.Table],
    relied: tuple[str, ...] = (),
    **options: object,
) -> None:
    """What statements of SQL do: cells are read from a snapshot, and others written upon it."""
    given = {"path": url, "group": "w", **{spelled(k): as_text(v) for k, v in options.items()}}
    request = parse_request(WriteRequest, given, OptionUse.WRITE)
    target = reachable_target(request)
    base = str(target.location.open().lookup_branch("main"))
    rows = change(read_here(f"{url}@{base}", group="w").sort_by("time"))
    schema = from_arrow_schema(rows.schema)
    plan = plan_write(target, request, schema, overwrite=False, base=base)
    assert plan is not None
    plan = replace(plan, relied=relied)
    commit_tasks(plan, [write_task(plan, iter(rows.to_batches()))], None)


def stream_rows(url: str, table: pa.Table, **options: object) -> None:
    """The first micro-batch of a stream; Spark makes a writer for the tasks and one to commit."""
    how = {"append_dim": "time", **options}
    told = [stream_sink_here(url, table.schema, **how).write(iter(table.to_batches()))]
    stream_sink_here(url, table.schema, **how).commit(told, 0)
