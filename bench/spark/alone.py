"""Work that needs a Spark of its own: a small driver, or none started yet.

    python -m bench.spark.alone FOLDER references COUNT
    python -m bench.spark.alone FOLDER parquet

prints one JSON text.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CHUNKS_PER_FILE = 10_000
COUNT = "SELECT count(*) FROM data"


def parquet(folder: Path) -> dict[str, Any]:
    """Start Spark as anybody does, and count rows."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    frame = spark.getOrCreate().read.parquet(str(folder / "parquet"))
    frame.createOrReplaceTempView("data")
    return {"result": frame.sparkSession.sql(COUNT).collect()[0][0]}


def describe(count: int, task: Any) -> Any:
    """What the scan of a file with so many chunks would give."""
    from frazil.ingestion.parsers import Format
    from frazil.ingestion.records import FileReferences, FileScan, FileVariable, Identity

    number = int(Path(task.url).stem)
    numbers = np.arange(count)
    meaning = {
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "data_type": "float32",
        "fill_value": 0.0,
    }
    encoding = json.dumps(meaning, sort_keys=True)
    references = FileReferences.of_file(task.url, numbers, numbers * 4096, np.full(count, 4096))
    days = np.array([number], "i8")
    time_encoding = json.dumps(meaning | {"data_type": "int64", "fill_value": 0}, sort_keys=True)
    return FileScan(
        task.url,
        Format.HDF5,
        Identity(4096 * count, None, 1_700_000_000),
        (
            FileVariable("time", ("time",), (1,), (1,), time_encoding, "{}", None, days),
            FileVariable(
                "a", ("time", "x"), (1, 1024 * count), (1, 1024), encoding, "{}", references
            ),
        ),
    )


class Synthetic:
    """Runs an ingest on Spark with files that are described rather than looked at."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner

    def facts(self) -> dict[str, object]:
        """As Spark tells them."""
        found: dict[str, object] = self.runner.facts()
        return found

    def run(
        self, work: Callable[[Any], Any], items: Sequence[Any], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, Any]]:
        """Do the work on executors; scans are made up."""
        from frazil.ingestion.scan import scan

        made = partial(describe, CHUNKS_PER_FILE) if getattr(work, "func", work) is scan else work
        found: Iterator[tuple[int, Any]] = self.runner.run(made, items, size_bytes=size_bytes)
        return found


def references(folder: Path, number: str) -> dict[str, Any]:
    """The time and memory of an ingest of so many references, apart from looking at files."""
    from frazil.ingestion.pipeline import run_request
    from frazil.ingestion.request import IngestRequest
    from frazil.spark import session
    from frazil.spark.runner import SparkRunner
    from frazil.storage.by_url import storage_from_url

    count = int(number)
    spark = session("local[2]", config={"spark.driver.memory": "1g"})
    files = folder / "described"
    files.mkdir(exist_ok=True)
    names = [files / f"{number}.nc" for number in range(-(-count // CHUNKS_PER_FILE))]
    for name in names:
        name.touch()
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    target = folder / "references"
    shutil.rmtree(target, ignore_errors=True)
    begin = time.perf_counter()
    request = IngestRequest(files=[str(name) for name in names])
    done = run_request(storage_from_url(str(target)), request, Synthetic(SparkRunner(spark)))
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spark.stop()
    return {
        "seconds": seconds,
        "references": done.virtual_chunks,
        "base_bytes": before * 1024,
        "peak_bytes": peak * 1024,
    }


def main() -> None:
    """Do one piece of work and tell what came out."""
    folder, what, *words = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    ways: dict[str, Callable[..., dict[str, Any]]] = {
        "references": references,
        "parquet": parquet,
    }
    found = ways[what](Path(folder), *words)
    print(json.dumps(found), file=answers)


if __name__ == "__main__":
    main()
