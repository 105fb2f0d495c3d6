"""Writing DataFrames with a real Spark, also when tasks or the driver fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from tests.support.spark import (
    WEATHER_ENCODING,
    make_repository,
    messages_of,
    opened,
    rows_of,
    weather,
    write_here,
)

DIMS = ["time", "lat", "lon"]
PATIENCE_S = 240


def test_write_makes_appends_and_replaces(spark: SparkSession, tmp_path: Path) -> None:
    url, data = str(tmp_path / "repo"), weather(12)
    frame = spark.createDataFrame(rows_of(data, shuffled=1).to_pandas()).repartition(3)
    first = frame.where("time < '2024-02-05'")
    report = frazil.spark.write(
        first, url, dims=DIMS, chunks={"time": 4, "lat": 3}, properties={"by": "me"}, message="one"
    )
    assert report.arrays == ("/t2m", "/wind")
    assert report.chunks == 12
    rest = frame.where("time >= '2024-02-05'")
    frazil.spark.write(rest, url, append_dim="time", txnAppId="job", txnVersion=1)
    again = frazil.spark.write(rest, url, append_dim="time", txnAppId="job", txnVersion=1)
    assert again.snapshot_id is None
    found = opened(url)
    np.testing.assert_array_equal(found.t2m.sel(lat=data.lat), data.t2m)
    np.testing.assert_array_equal(found.wind.sel(lat=data.lat), data.wind)
    commits = list(frazil.Repository.open(url).ancestry(branch="main"))
    assert [commit.message for commit in commits[:2]] == ["write t2m, wind", "one"]
    assert commits[1].metadata["by"] == "me"
    assert commits[1].metadata["spark.app.id"] == spark.conf.get("spark.app.id")


def test_write_refuses_and_takes_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "repo")
    frame = spark.createDataFrame([(1, 1.0), (2, 2.0), (1, 3.0)], "x long, v double").coalesce(1)
    with pytest.raises(InvalidInputError, match=r"several rows are for the cell at x\[0\]"):
        frazil.spark.write(frame, url, dims=["x"])
    assert messages_of(url) == []
    frazil.spark.write(frame, url, dims=["x"], duplicates="last")
    assert opened(url).v.values.tolist() == [3.0, 2.0]
    nulls = spark.createDataFrame([(None, 1.0)], "x long, v double")
    with pytest.raises(InvalidInputError, match="'x' has NULL"):
        frazil.spark.write(nulls, url)


def test_audited_data_is_published_by_moving_the_branch(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "repo")
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    table = frazil.spark.FrazilTable.forPath(spark, url)
    table.create_branch("audit")
    frame = spark.createDataFrame(rows_of(weather() * 2).to_pandas())
    writer = frame.repartition(3).write.format("frazil").mode("append")
    writer.option("branch", "audit").option("message", "checked").save(url)
    assert messages_of(url) == ["made"]
    doubled = spark.read.format("frazil").option("branch", "audit").load(url)
    assert doubled.selectExpr("round(sum(wind), 2) s").collect()[0]["s"] == pytest.approx(
        float(weather().wind.sum()) * 2, abs=0.01
    )
    table.fast_forward("main", "audit")
    assert messages_of(url) == ["made", "checked"]


def test_a_failed_job_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "repo")
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    frame = spark.createDataFrame(rows_of(weather() * 2).to_pandas())
    bad = frame.selectExpr("time", "if(lon = 40.0, 55.5D, lat) lat", "lon", "t2m", "wind")
    with pytest.raises(PySparkException, match=r"lat = 55\.5, which is none of the 7 labels"):
        bad.write.format("frazil").mode("append").save(url)
    assert messages_of(url) == ["made"]


JOB = """
import sys, time
from pathlib import Path
import numpy as np, pyarrow as pa
import frazil.spark
from frazil.spark.sessions import session

url, marks = sys.argv[1], Path(sys.argv[2])
spark = session("local[2,3]")
frame = spark.range(0, 4000, 1, 4).selectExpr("id x", "rand(1) v")

def fails_once(batches):
    for batch in batches:
        first = batch.column(0)[0].as_py()
        mark = marks / f"failed-{first}"
        if first >= 2000 and not mark.exists():
            mark.touch()
            raise RuntimeError("the first attempt fails")
        yield batch

def hangs(batches):
    for batch in batches:
        if batch.column(0)[0].as_py() >= 3000:
            time.sleep(600)
        yield batch

flaky = frame.mapInArrow(fails_once, frame.schema)
flaky.selectExpr("x", "v + 1 v").write.format("frazil").mode("append").save(url)
(marks / "counted").write_text(str(len(list(Path(url, "chunks").iterdir()))))
(marks / "counted").rename(marks / "written")
frame.mapInArrow(hangs, frame.schema).write.format("frazil").mode("append").save(url)
"""


@pytest.mark.soak  # of tasks that die, `test_kills.py` has one that is run always
def test_retried_tasks_write_once_and_a_killed_driver_nothing(tmp_path: Path) -> None:
    url, marks = tmp_path / "repo", tmp_path / "marks"
    marks.mkdir()
    zeros = pa.table({"x": np.arange(4000), "v": np.zeros(4000)})
    write_here(url, zeros, dims=["x"], chunks={"x": 500})
    script = tmp_path / "job.py"
    script.write_text(JOB)
    source = str(Path(frazil.__file__).parents[1])
    job = subprocess.Popen(
        [sys.executable, str(script), str(url), str(marks)],
        env={**os.environ, "PYTHONPATH": source},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_for(lambda: (marks / "written").exists(), job)
        assert len(list(marks.glob("failed-*"))) == 2
        tip = frazil.Repository.open(url).lookup_branch("main")
        values = opened(url).v.values
        assert values.shape == (4000,)
        assert len(np.unique(values)) == 4000
        assert values.min() >= 1.0, "the second commit, with one added, is there in full"
        before = int((marks / "written").read_text())
        _wait_for(lambda: len(list((url / "chunks").iterdir())) > before, job)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert frazil.Repository.open(url).lookup_branch("main") == tip
    assert len(messages_of(url)) == 2
    np.testing.assert_array_equal(opened(url).v.values, values)


def _wait_for(condition: Callable[[], bool], job: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert job.poll() is None, "the job ended"
        assert time.monotonic() < end, "the job takes too long"
        time.sleep(0.2)


# --- what describes values ---


def test_rows_that_are_written_again_keep_what_describes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    described = weather(4)
    described.lat.attrs = {"units": "degrees_north", "standard_name": "latitude", "valid_max": 90.0}
    described.time.attrs = {"long_name": "time of the analysis"}
    described.t2m.attrs = {"units": "K", "long_name": "air temperature"}
    described.wind.attrs = {"units": "m s-1"}
    hours = {"units": "hours since 1900-01-01", "dtype": "i4"}
    make_repository(tmp_path / "first", described, **WEATHER_ENCODING, time=hours)
    rows = frazil.spark.read(first, spark=spark).withColumn("wind", f.col("wind") * 3.6)
    frazil.spark.write(rows.where("lat > 0"), second, dims=DIMS)
    found = opened(second)
    assert found.lat.attrs == {"units": "degrees_north", "standard_name": "latitude"}
    assert found.time.attrs == {"long_name": "time of the analysis", "standard_name": "time"}
    assert found.time.encoding["units"] == "microseconds since 1970-01-01 00:00:00"
    assert found.t2m.attrs == described.t2m.attrs
    assert found.wind.attrs == {}, "it is in km/h now"
    np.testing.assert_allclose(found.t2m.sel(lat=60), described.t2m.sel(lat=60))
    # What is there keeps all it has, whether rows are added or replaced.
    more = frazil.spark.read(first, spark=spark, columns="time, lat, lon, t2m, wind")
    later = more.withColumn("time", f.expr("time + INTERVAL 10 DAYS"))
    frazil.spark.write(later, first, append_dim="time")
    frazil.spark.write(later, first, mode="overwrite")
    kept = opened(first)
    assert kept.sizes["time"] == 4
    for name in ("time", "lat", "t2m", "wind"):
        assert kept[name].attrs == described[name].attrs, name
    assert kept.time.encoding["units"] == "hours since 1900-01-01"
    assert kept.t2m.encoding["scale_factor"] == 0.1
    # Other formats of Spark carry the notes on.
    more.write.parquet(str(tmp_path / "rows"))
    frazil.spark.write(spark.read.parquet(str(tmp_path / "rows")), third, dims=DIMS)
    assert opened(third).t2m.attrs == described.t2m.attrs
