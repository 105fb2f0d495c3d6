"""Spark: what its tasks do, in this process, and jobs of one session with two cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from bench.spark.data import dataset, make_files
from bench.tuning.arrays import filled
from bench.tuning.sweep import HIGH, KIB, LOW, RUNNING, Row, Work, disk, folder
from bench.tuning.tables import RANDOM, put_groups
from frazil import Repository, bulk
from frazil.bulk.grid import GridAxis
from frazil.ingestion.pipeline import ingest
from frazil.spark import session
from frazil.spark.jobs import rechunk_plan
from frazil.spark.jobs.rechunking import rechunk
from frazil.spark.query.sql import sql
from frazil.spark.reading import selecting
from frazil.spark.reading.runs import Runs
from frazil.spark.runner import SparkRunner
from frazil.spark.source import FrazilSource
from frazil.xarray import to_icechunk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def field(days: int = 60, chunk: tuple[int, ...] = (1, 180, 360)) -> str:
    """Daily fields of 64,800 cells."""
    place = folder("field")
    opened = Repository.create(place).writable_session("main")
    to_icechunk(dataset(days), opened, encoding={"t2m": {"chunks": chunk}})
    opened.commit("fields")
    return place


def read_here(place: str, **options: str) -> Work:
    """What a task of Spark reads and sends, without Spark."""
    source = FrazilSource({"path": place, **options})
    reader = source.reader(source.schema())
    parts = list(reader.partitions())

    def work() -> None:
        sink = pa.BufferOutputStream()
        stream = None
        for part in parts:
            for batch in cast("Iterator[pa.RecordBatch]", reader.read(part)):
                stream = stream or pa.ipc.new_stream(sink, batch.schema)
                stream.write_batch(batch)

    return work


@cache
def many_groups() -> str:
    """20,000 groups."""
    place = folder("groups")
    put_groups(Repository.create(place), 20_000, 0)
    return place


@cache
def many_references() -> str:
    """200,000 chunks of a byte."""
    storage = disk()
    filled(storage, 200_000, 1)
    return storage._root


def check_labels(count: int) -> Work:
    labels = RANDOM.integers(0, 10_000, 1 << 20)
    return lambda: selecting._is_one_of(labels, [*range(0, 7 * count, 7)])


def read_scattered(step: int) -> Work:
    """Every so many elements of a million, by a slice around them or one by one."""
    opened = filled(disk(), 1 << 20, 64 * KIB).readonly_session("main")
    starts = np.arange(0, 1 << 20, step)
    places = Runs(starts, starts + 1)
    return lambda: [bulk.read_region(opened, "a0", part) for part in places.pieces(1 << 20)]


def write_here(chunk: tuple[int, ...]) -> Work:
    """What a task of Spark does that writes the rows of a table."""
    source = FrazilSource({"path": field(12, chunk)})
    reader = source.reader(source.schema())
    parts = [part for each in reader.partitions() for part in reader.read(each)]
    writer = source.writer(source.schema(), False)
    return lambda: writer.write(iter(cast("list[Any]", parts)))


def cost() -> Work:
    axis = GridAxis(1 << 24, (3,))
    return lambda: rechunk_plan.axis_cost(axis, 2)


# --- jobs of a session ---


@cache
def spark() -> SparkSession:
    """The one session."""
    found = session("local[2]", config={"spark.ui.enabled": "false"})
    RUNNING.callback(found.stop)
    return found


def idle(item: object) -> int:
    """No work at all."""
    return len(str(item)) % 2


def run_items(count: int, size: int = 1) -> Work:
    """Items of some bytes, which take no time."""
    runner, items = SparkRunner(spark()), [RANDOM.bytes(size) for _ in range(count)]
    return lambda: [*runner.run(idle, items)]


def ask(text: str, place: Callable[[], str]) -> Work:
    """A query with all of its rows."""
    current, query = spark(), text.format(f"frazil.`{place()}`")
    return lambda: sql(query, current).toArrow()


def scan(split: str) -> Work:
    frame = spark().read.format("frazil").option("split-size", split).load(field(60))
    return lambda: frame.write.format("noop").mode("overwrite").save()


def take_files(count: int) -> Work:
    made = Path(folder("files"))
    make_files(made, count)
    return lambda: ingest(str(made / "*.nc"), folder("taken"))


def change_chunks() -> Work:
    current, place = spark(), field(120)
    chunks = {"time": 120, "lat": 18, "lon": 18}
    return lambda: rechunk(place, None, chunks, spark=current, target=folder("rechunked"))


def check_references() -> Work:
    repo = Repository.open(many_references())
    return lambda: repo.audit.fsck()


MEAN = "SELECT avg(t2m) FROM {}"
CELLS = "SELECT * FROM {}"
BY_PLACE = "SELECT lat, lon, avg(t2m) FROM {} GROUP BY lat, lon"
BY_MONTH = "SELECT month(time), avg(t2m) FROM {} GROUP BY month(time)"
BY_SINE = "SELECT avg(t2m) FROM {} WHERE sin(lat) > 0.5 AND sin(lat + lon) > 0.5"


ROWS = [
    Row("spark.REGION_CELLS", lambda: read_here(field())),
    Row("spark.BATCH_ROWS", lambda: read_here(field())),
    Row("spark.CHUNK_BATCH_BYTES", lambda: read_here(field(), layout="chunks")),
    Row("spark.CHUNK_BATCH_ROWS", lambda: read_here(field(60, (1, 18, 36)), layout="chunks")),
    Row("spark.BATCH_ROWS", lambda: read_here(f"{many_references()}#chunks"), note="references"),
    Row("spark.METADATA_ROWS", lambda: read_here(f"{many_groups()}#nodes")),
    Row("spark.HOLD_BYTES", partial(write_here, (1, 180, 360))),
    Row("spark.FLUSH_BYTES", partial(write_here, (1, 180, 360))),
    Row("spark.FLUSH_CHUNKS", partial(write_here, (1, 18, 36))),
    Row("spark.SORTED_FROM", partial(check_labels, 8), (LOW, HIGH)),
    Row("spark.COST_SAMPLE", cost),
    Row("spark.TASKS_PER_SLOT", partial(run_items, 64), (1, 3, 12)),
    Row("spark.WAVES", partial(run_items, 2048), (1, 8)),
    Row("spark.SMALL_ITEMS", partial(run_items, 64, KIB), (LOW, HIGH), note="64 KiB"),
    Row("spark.SMALL_ITEMS", partial(run_items, 64, 32 * KIB), (LOW, HIGH), note="2 MiB"),
    *(
        Row("spark.DENSE_RUN", partial(read_scattered, n), (LOW, HIGH), note=f"one in {n}")
        for n in (2, 4, 32)
    ),
    *(
        Row("spark.SPLIT_BYTES", partial(scan, f"{n} MiB"), (64 << 20,), note=f"{n} MiB")
        for n in (1, 8, 64)
    ),
    *(
        Row(
            "spark.EMBEDDED_BYTES",
            partial(ask, MEAN, partial(field, n, 10)),
            (LOW, HIGH),
            note=f"{n}",
        )
        for n in (60, 200)
    ),
    *(
        Row("spark.LOCAL_ROWS", partial(ask, CELLS, partial(field, n)), (LOW, HIGH), note=f"{n}")
        for n in (4, 60)
    ),
    Row("spark.LOCAL_AGGREGATES", partial(ask, BY_PLACE, field), (LOW, HIGH)),
    Row("spark.MANY_ROWS", partial(ask, BY_MONTH, field), (LOW, HIGH)),
    Row("spark.CONDITION_LABELS", partial(ask, BY_SINE, field), (LOW, HIGH)),
    Row("spark.RECHUNK_BYTES", change_chunks),
    Row("spark.DIRECT_COST", change_chunks, (0.0, 1e9)),
    Row("spark.MANY_REFS", check_references, (200_000,)),
    Row("spark.FEW_ITEMS", partial(take_files, 64), (64,), is_fresh=True, note="64 files here"),
]
