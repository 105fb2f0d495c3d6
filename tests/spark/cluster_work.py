"""Work for a cluster, by public names: started by spark-submit, with executors dying under it.

Prints one line of JSON for each step: how long it took, what it gave, and who died.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from pyspark.sql import SparkSession

import frazil.spark as fs

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def busy_hosts(spark: SparkSession) -> set[str]:
    """Where tasks of this application are running."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    return {each.host() for each in tracker.getExecutorInfos() if each.numRunningTasks() > 0}


def executors(spark: SparkSession, hosts: set[str]) -> list[psutil.Process]:
    """The executors of this application on some hosts, all of which are this machine here."""
    name, found = spark.sparkContext.applicationId, []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if EXECUTOR in words and name in words and words[words.index("--hostname") + 1] in hosts:
            found.append(process)
    return found


@contextmanager
def one_dies(spark: SparkSession) -> Iterator[list[int]]:
    """Kill an executor as soon as it has tasks of the block; gives its number."""
    dead: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            for process in executors(spark, busy_hosts(spark)):
                process.kill()
                dead.append(process.pid)
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield dead
    finally:
        over.set()
        watching.join()


def step(spark: SparkSession, name: str, work: Callable[[], Any], *, kill: bool) -> None:
    """Do something, with or without a death under way, and tell of it."""
    begin = time.perf_counter()
    if kill:
        with one_dies(spark) as dead:
            result = work()
    else:
        result, dead = work(), []
    told = {"step": name, "seconds": round(time.perf_counter() - begin, 2), "died": len(dead)}
    print(json.dumps({**told, "result": result}), flush=True)


def stream(spark: SparkSession, repo: str, target: str, state: str) -> list[int]:
    """Copy the cells of a repository into another one, some chunks at a time."""
    rows = spark.readStream.format("frazil").option("columns", "time, y, x, v")
    query = (
        rows.option("maxFilesPerTrigger", 4)
        .load(repo)
        .writeStream.format("frazil")
        .option("checkpointLocation", state)
        .option("dims", "time, y, x")
        .option("append-dim", "time")
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()
    batches = {each["batchId"] for each in query.recentProgress if each["numInputRows"]}
    return [len(batches), fs.read(target, spark=spark).count()]


def maintain(spark: SparkSession, repo: str) -> list[Any]:
    """Pack chunks, let old snapshots go, delete what nobody needs, look at what is left."""
    now = datetime.now(UTC)
    packed = fs.compact_chunks(repo, spark=spark)
    table = fs.FrazilTable.forPath(spark, repo)
    expired = table.expire_snapshots(older_than=now, delete_files=False).collect()[0]
    none = timedelta(0)
    swept = fs.collect_garbage(
        repo, datetime.now(UTC), spark=spark, dry_run=False, unsafe_minimum_age=none
    )
    return [packed.chunks, expired.expired_snapshots_count, swept.chunks_deleted]


def main() -> None:
    """Do all of it."""
    root, state, master, kill = *sys.argv[1:4], sys.argv[4] == "kill"
    spark = fs.session()
    assert spark.sparkContext.master == master, "the cluster of spark-submit, and no other"
    repo = f"{root}/repo"
    spark.conf.set("spark.frazil.sql.localBytes", "0")  # small as it is, for the executors

    def take_in() -> int:
        chunks = {"time": 2, "y": 30}
        report = fs.ingest(f"{root}/files/*.nc", repo, spark=spark, mode="native", chunks=chunks)
        return report.native_chunks

    def refer() -> int:
        return fs.ingest(f"{root}/files/*.nc", f"{root}/virtual", spark=spark).virtual_chunks

    def write() -> int:
        cells = "id DIV 200 AS a", "id % 200 AS b", "CAST(id AS DOUBLE) AS w"
        frame = spark.range(0, 40_000, 1, 8).selectExpr(*cells)
        made = fs.write(frame, f"{repo}#/made", dims=["a", "b"], chunks={"a": 20, "b": 50})
        return made.chunks

    def append() -> int:
        cells = "200 + id DIV 200 AS a", "id % 200 AS b", "CAST(id AS DOUBLE) AS w"
        frame = spark.range(0, 8_000, 1, 4).selectExpr(*cells)
        rows = frame.write.format("frazil").mode("append").option("append-dim", "a")
        rows.option("group", "/made").save(repo)
        return fs.read(f"{repo}#/made", spark=spark).count()

    def ask() -> list[Any]:
        query = f"SELECT y, avg(v) AS mean FROM frazil.`{repo}` WHERE x < 40 GROUP BY y ORDER BY y"
        return [row.mean for row in fs.sql(query, spark).collect()]

    def rechunk() -> list[str]:
        sizes = {"time": -1, "y": 10, "x": 20}
        return list(fs.rechunk(repo, "v", sizes, spark=spark).arrays)

    def check() -> list[str]:
        found = fs.fsck(repo, spark=spark, deep=True).collect()
        return [row.code for row in found if row.level == "error"]

    steps: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("ingest", take_in),
        ("references", refer),
        ("write", write),
        ("append", append),
        ("sql", ask),
        ("stream", lambda: stream(spark, repo, f"{root}/stream", state)),
        ("rechunk", rechunk),
        ("analyze", lambda: fs.analyze(repo, spark=spark).chunks),
        ("maintain", lambda: maintain(spark, repo)),
        ("clone", lambda: fs.clone(repo, f"{root}/copy", spark=spark, all_history=True).chunks),
        ("fsck", check),
    )
    for name, work in steps:
        step(spark, name, work, kill=kill)
    spark.stop()


if __name__ == "__main__":
    main()
