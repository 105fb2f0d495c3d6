"""Ingest on Spark: the same values as xarray reads of the files, by tasks in other processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import frazil.spark
from frazil.cli.app import make_app
from frazil.errors import InvalidInputError
from frazil.ingestion.reports import IngestRefusedError, IngestStatus
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.support.archive import archive, decoded, many, of_files, seen

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")


def test_references_read_as_the_files_do(spark: SparkSession, tmp_path: Path) -> None:
    archive(tmp_path / "files", 5)
    told: list[Progress] = []
    report = frazil.spark.ingest(
        f"{tmp_path}/files/*.nc", str(tmp_path / "repo"), spark=spark, progress=told.append
    )
    assert (report.status, report.virtual_chunks, report.native_chunks) == (
        IngestStatus.COMMITTED,
        21,
        0,
    )
    assert max(each.done for each in told if each.what == "scanning") == 5
    found = seen(tmp_path / "repo")
    xr.testing.assert_identical(found, of_files(tmp_path / "files"))
    xr.testing.assert_equal(found, decoded(0, 1, 2, 3, 4))
    entry = next(iter(Repository.open(LocalStorage(tmp_path / "repo")).ancestry(branch="main")))
    assert entry.metadata["frazil.ingest"]["spark.app.id"] == spark.conf.get("spark.app.id")


def test_copies_in_other_chunks_read_as_the_files_do(spark: SparkSession, tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 5)
    url = str(tmp_path / "repo")
    frazil.spark.ingest(files[:4], url, spark=spark, chunks={"time": 7, "lon": 2}, branch="dev")
    frazil.spark.ingest(f"{tmp_path}/files/*.nc", f"{url}@dev", spark=spark, append=True)
    found = seen(tmp_path / "repo", branch="dev")
    xr.testing.assert_equal(found, of_files(tmp_path / "files"))
    rows = frazil.spark.read(f"{url}@dev", spark=spark, variables=["t2m"])
    assert rows.count() == 20 * 15
    assert len([*Repository.open(LocalStorage(tmp_path / "repo")).ancestry(branch="dev")]) == 3


def test_rows_of_referred_files_can_be_queried(spark: SparkSession, tmp_path: Path) -> None:
    archive(tmp_path / "files", 2)
    url = str(tmp_path / "repo")
    report = frazil.spark.ingest(f"{tmp_path}/files/*.nc", url, spark=spark)
    options: dict[str, Any] = {"authorize-virtual-chunk-access": ", ".join(report.containers)}
    rows = frazil.spark.read(url, spark=spark, variables=["rain"], **options)
    mean = rows.agg({"rain": "avg"}).collect()[0][0]
    assert mean == pytest.approx(float(decoded(0, 1).rain.mean()))


def test_failed_files_come_back_from_the_tasks(spark: SparkSession, tmp_path: Path) -> None:
    archive(tmp_path / "files", 2)
    (tmp_path / "files" / "bad.nc").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(IngestRefusedError, match=r"bad\.nc"):
        frazil.spark.ingest(f"{tmp_path}/files/*", str(tmp_path / "repo"), spark=spark)
    assert not (tmp_path / "repo").exists()
    report = frazil.spark.ingest(
        f"{tmp_path}/files/*", str(tmp_path / "repo"), spark=spark, on_error="skip"
    )
    frame = spark.createDataFrame(report.as_dict()["failures"])
    assert [row["file"] for row in frame.collect()] == [str(tmp_path / "files" / "bad.nc")]


def test_wrong_words_are_told_before_any_work(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "repo")
    for options, told in [
        ({"mode": "virtuall"}, "did you mean 'virtual'"),
        ({"on_error": "ignore"}, "fail, skip"),
        ({"format": "hdf6"}, "no format"),
        ({"compressor": "zip"}, "no compressor"),
        ({"chunks": {"time": 0}}, "length 0"),
    ]:
        with pytest.raises(InvalidInputError, match=told):
            frazil.spark.ingest("x.nc", url, spark=spark, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="memory"):
        frazil.spark.ingest("x.nc", "memory://x", spark=spark)
    with pytest.raises(InvalidInputError, match="twice"):
        frazil.spark.ingest("x.nc", f"{url}@a", branch="b", spark=spark)


def test_the_command_line_ingests(spark: SparkSession, tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 2)
    runner, url = CliRunner(), str(tmp_path / "repo")
    names = [str(file) for file in files]
    dry = runner.invoke(make_app(), ["ingest", *names, url, "--dry-run", "--json"])
    assert dry.exit_code == 0, dry.output
    assert json.loads(dry.stdout)["status"] == "planned"
    done = runner.invoke(
        make_app(), ["ingest", *names, url, "-m", "two files", "--group", "weather"]
    )
    assert done.exit_code == 0, done.output
    assert "Ingested 2 files" in done.stdout
    assert "time: 8 from 2 parts" in done.stdout
    assert "--authorize" in done.stdout
    again = runner.invoke(make_app(), ["ingest", *names, url, "--group", "weather", "--json"])
    assert (again.exit_code, json.loads(again.stdout)["status"]) == (0, "unchanged")
    xr.testing.assert_equal(seen(tmp_path / "repo", "weather"), decoded(0, 1))


def test_the_command_line_tells_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 1)
    copy = tmp_path / "copy.nc"
    copy.write_bytes(files[0].read_bytes())
    runner, url = CliRunner(), str(tmp_path / "repo")
    result = runner.invoke(make_app(), ["ingest", str(files[0]), str(copy), url])
    assert result.exit_code == 5
    assert "copy.nc" in result.stdout
    assert runner.invoke(make_app(), ["ingest", url]).exit_code == 2
    assert runner.invoke(make_app(), ["ingest", str(copy), url, "--chunks", "time"]).exit_code == 2


@pytest.mark.slow
def test_hundreds_of_files_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    values = many(tmp_path / "files", 250)
    url = str(tmp_path / "repo")
    report = frazil.spark.ingest(f"{tmp_path}/files/*.nc", url, spark=spark)
    assert (len(report.files), report.virtual_chunks) == (250, 250)
    assert len([*Repository.open(LocalStorage(tmp_path / "repo")).ancestry(branch="main")]) == 2
    found = seen(tmp_path / "repo")
    assert found.sizes == {"time": 250, "y": 4, "x": 6}
    assert found.time.values[-1] == np.datetime64("2000-09-06")
    np.testing.assert_array_equal(found.v.values, values)
    again = frazil.spark.ingest(f"{tmp_path}/files/*.nc", url, spark=spark)
    assert (again.status, len(again.skipped)) == (IngestStatus.UNCHANGED, 250)


@pytest.mark.slow
def test_many_files_are_copied_in_new_chunks(spark: SparkSession, tmp_path: Path) -> None:
    values = many(tmp_path / "files", 300)
    url = str(tmp_path / "repo")
    report = frazil.spark.ingest(
        f"{tmp_path}/files/*.nc", url, spark=spark, chunks={"time": 64, "y": -1, "x": 3}
    )
    assert (report.virtual_chunks, report.native_chunks) == (0, 5 * 2)
    found = seen(tmp_path / "repo")
    assert found.v.encoding["chunks"] == (64, 4, 3)
    np.testing.assert_array_equal(found.v.values, values)
