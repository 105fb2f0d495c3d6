"""Jobs that die: the driver, a worker, or both of two attempts at one task.

Real processes are killed by SIGKILL. After it the branch has the whole commit or none of it, the
repository is sound, and doing the job again gives what it should have given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.fsck import verify
from tests.support.archive import many
from tests.support.spark import messages_of, opened, rows_of, weather, write_here
from tests.support.spark_jobs import kill_at, run_job, two_hosts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def sound(repo: Path) -> bool:
    """Tell whether every object that is referred to is there."""
    return verify(frazil.Repository.open(repo)).is_clean


# --- jobs ---

INGEST = """
def tell(now):
    if now.what == "{step}" and {condition}:
        hang("there")

fs.ingest(f"{{place}}/files/*.nc", f"{{place}}/repo", spark=session("local[2]"), mode="native",
          chunks={{"time": 2}}, progress=tell)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("step", "condition"), [("copying", "now.chunks > 0"), ("committing", "True")]
)
def test_a_killed_ingest_leaves_the_branch(tmp_path: Path, step: str, condition: str) -> None:
    values = many(tmp_path / "files", 6, (40, 50))
    repo = tmp_path / "repo"
    kill_at(tmp_path, INGEST.format(step=step, condition=condition), "there")
    assert list((repo / "chunks").iterdir()), "chunks were written before the end came"
    assert messages_of(repo) == []
    assert sound(repo)
    again = INGEST.format(step="", condition="False")
    assert run_job(tmp_path, again) == 0
    assert len(messages_of(repo)) == 1
    np.testing.assert_array_equal(opened(repo).v, values)


RECHUNK = """
def tell(now):
    if {condition}:
        hang("there")

fs.rechunk(f"{{place}}/repo", "v", {{"x": 500}}, spark=session("local[2]"), progress=tell)
"""


@pytest.mark.soak
def test_a_killed_rechunk_leaves_the_branch(tmp_path: Path) -> None:
    repo, values = tmp_path / "repo", np.random.default_rng(3).normal(size=4000)
    write_here(repo, pa.table({"x": np.arange(4000), "v": values}), dims=["x"], chunks={"x": 100})
    before = len(list((repo / "chunks").iterdir()))
    kill_at(tmp_path, RECHUNK.format(condition="now.done"), "there")
    assert len(list((repo / "chunks").iterdir())) > before
    assert len(messages_of(repo)) == 1
    assert sound(repo)
    np.testing.assert_array_equal(opened(repo).v, values)
    assert run_job(tmp_path, RECHUNK.format(condition="False")) == 0
    assert opened(repo, chunks={}).v.encoding["chunks"] == (500,)
    np.testing.assert_array_equal(opened(repo).v, values)


WORKER = """
from pyspark import TaskContext

def double(block):
    # Workers die when they have their work, two of them; the driver tries blocks too, and lives.
    if TaskContext.get() is not None and (once("first-death") or once("second-death")):
        os.kill(os.getpid(), signal.SIGKILL)
    return (block.v * 2).rename("double")

fs.map_blocks(double, f"{place}/repo", "v", blocks={"x": 250}, spark=session("local[2,4]"))
"""


@pytest.mark.soak
def test_killed_workers_are_replaced_and_the_job_commits_once(tmp_path: Path) -> None:
    repo, values = tmp_path / "repo", np.random.default_rng(3).normal(size=4000)
    write_here(repo, pa.table({"x": np.arange(4000), "v": values}), dims=["x"], chunks={"x": 250})
    assert run_job(tmp_path, WORKER) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert (tmp_path / "second-death").exists()
    assert len(messages_of(repo)) == 2
    assert sound(repo)
    np.testing.assert_array_equal(opened(repo).double, values * 2)


SPECULATION = """
import pyarrow as pa

spark = session(sys.argv[2], config={
    "spark.driver.host": "127.0.0.1", "spark.executor.memory": "700m", "spark.executor.cores": "2",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.speculation": "true",
    "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5", "spark.speculation.minTaskRuntime": "100ms",
})
frame = spark.range(0, 4000, 1, 4).selectExpr("id x", "CAST(id AS DOUBLE) + 1 v")

def slow_once(batches):
    for batch in batches:
        # The first attempt has its rows and is slow, not dead: another one is started.
        if batch.column(0)[0].as_py() >= 3000:
            with (place / "attempts").open("a") as file:
                file.write("x")
            if once("slow"):
                time.sleep(120)
        yield batch

frame.mapInArrow(slow_once, frame.schema).write.format("frazil").mode("append").save(
    f"{place}/repo"
)
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_a_speculative_duplicate_counts_once(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    zeros = pa.table({"x": np.arange(4000), "v": np.zeros(4000)})
    write_here(repo, zeros, dims=["x"], chunks={"x": 500})
    with two_hosts(tmp_path) as url:
        ended = run_job(tmp_path, SPECULATION, url, PYSPARK_PYTHON=sys.executable)
    assert ended == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert (tmp_path / "attempts").read_text() == "xx", "Spark has started a second attempt"
    assert len(messages_of(repo)) == 2
    assert sound(repo)
    np.testing.assert_array_equal(opened(repo).v, np.arange(4000) + 1.0)


# --- streams ---

STREAM = """
from frazil.spark.writing.sink import StreamSink
from frazil.spark.source import FrazilSource

spark = session("local[2]")
(place / "jvm").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
(place / "driver").write_text(str(os.getpid()))

class DyingSink(StreamSink):
    def commit(self, messages, batchId):
        is_last = batchId == {batch}
        if is_last and "{moment}" == "before":
            self.die()
        super().commit(messages, batchId)
        if is_last and "{moment}" == "after":
            self.die()

    def die(self):
        place = Path(self.request.path).parent
        (place / "died").touch()
        for name in ("driver", "jvm"):
            os.kill(int((place / name).read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(FrazilSource):
    @classmethod
    def name(cls):
        return "dying"

    def streamWriter(self, schema, overwrite):
        made = super().streamWriter(schema, overwrite)
        made.__class__ = DyingSink
        return made

spark.dataSource.register(Dying)
rows = spark.readStream.schema("time timestamp_ntz, lat double, lon double, t2m double, wind float")
rows = rows.option("maxFilesPerTrigger", 1).parquet(f"{{place}}/in")
writer = rows.writeStream.format("{format}").option("checkpointLocation", f"{{place}}/state")
writer = writer.option("dims", "time, lat, lon").option("append-dim", "time")
writer.trigger(availableNow=True).start(f"{{place}}/repo").awaitTermination()
"""


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_stream_goes_on_where_it_was(tmp_path: Path, moment: str) -> None:
    data = weather(6).sortby("lat")
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = rows_of(data.isel(time=slice(2 * number, 2 * number + 2)))
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(rows, file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest first
    repo = tmp_path / "repo"
    code = STREAM.format(batch=1, moment=moment, format="dying")
    assert run_job(tmp_path, code) != 0
    assert (tmp_path / "died").exists(), (tmp_path / "job.log").read_text()[-3000:]
    assert not (tmp_path / "state" / "commits" / "1").exists(), "Spark knows nothing of it"
    assert len(messages_of(repo)) == (1 if moment == "before" else 2)
    assert sound(repo)
    assert run_job(tmp_path, STREAM.format(batch=-1, moment="", format="frazil")) == 0
    assert len(messages_of(repo)) == 3
    assert sound(repo)
    found = opened(repo)
    np.testing.assert_array_equal(found.wind, data.wind)
    np.testing.assert_array_equal(found.time, data.time)
