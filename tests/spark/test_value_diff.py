"""Value diffs and checks in SQL on Spark: the same answers as without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark as fs
from frazil.comparing import pairing
from frazil.errors import AuditFailedError, InvalidInputError
from frazil.repository.audit import AUDIT
from frazil.spark.upkeep.calls import call
from frazil.xarray import to_icechunk


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, str, str]:
    """A repository with two arrays, of which one changes in two chunks, and one is added."""
    repo = frazil.Repository.create(tmp_path / "repo")
    session = repo.writable_session("main")
    for name in ("t", "u"):
        zarr.create_array(session.store, name=name, shape=(6, 8), chunks=(2, 3), dtype="f4")
        session.array(name)[:] = np.arange(48).reshape(6, 8)
    first = session.commit("first")
    session = repo.writable_session("main")
    session.array("t")[1, 1:5] = [100, 200, 300, np.nan]
    zarr.create_array(session.store, name="w", shape=(3,), chunks=(3,), dtype="i4")
    last = session.commit("last")
    return str(tmp_path / "repo"), first, last


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk for each task."""
    monkeypatch.setattr(pairing, "PORTION_BYTES", 16)


@pytest.mark.usefixtures("small_portions")
def test_rows_for_arrays_are_those_of_the_library(
    spark: SparkSession, made: tuple[str, str, str]
) -> None:
    url, first, last = made
    told = frazil.Repository.open(url).versions.diff_values(first, last)
    rows = {
        row["node_path"]: row for row in fs.diff_values(url, first, last, spark=spark).collect()
    }
    assert set(rows) == {"/t", "/w"} == {each.path for each in told.arrays}
    t, known = rows["/t"], told.array("t")
    assert known is not None
    assert (t["cells_changed"], t["cells_compared"]) == (4, 12)
    for name in ("min_difference", "max_difference", "mean_difference", "cells_compared"):
        assert t[name] == getattr(known, name)
    assert (t["box_start"], t["box_stop"]) == ([1, 1], [2, 5])
    assert [sample["cell"] for sample in t["samples"]] == [[1, n] for n in range(1, 5)]
    assert t["samples"][3]["new"] == "nan"
    assert (rows["/w"]["change"], rows["/w"]["cells_added"]) == ("added", 3)


def test_rows_for_chunks_and_cells(spark: SparkSession, made: tuple[str, str, str]) -> None:
    url, first, last = made
    table = fs.FrazilTable.for_path(spark, url)
    chunks = sorted(table.diff_values(first, last, "chunk", paths=["t"]).collect())
    assert [(row["cell_start"], row["cell_stop"]) for row in chunks] == [
        ([0, 0], [2, 3]),
        ([0, 3], [2, 6]),
    ]
    assert [row["cells_changed"] for row in chunks] == [2, 2]
    assert [row["differences"] for row in chunks] == [2, 1]
    cells = table.diff_values(first, last, "cell").orderBy("cell").collect()
    assert [row["cell"] for row in cells] == [[1, n] for n in range(1, 5)]
    assert [row["difference"] for row in cells[:3]] == [91.0, 190.0, 289.0]
    assert (cells[3]["old"], cells[3]["new"]) == ("12.0", "nan")
    with pytest.raises(InvalidInputError, match="array, chunk, cell"):
        table.diff_values(first, last, "row")  # type: ignore[arg-type]


def test_procedures_tell_the_same(spark: SparkSession, made: tuple[str, str, str]) -> None:
    url, first, _ = made
    fs.register(spark)
    query = f"SELECT * FROM frazil_diff_values(table => '{url}', start_snapshot_id => '{first}')"
    rows = {row["node_path"]: row for row in spark.sql(query).collect()}
    assert (rows["/t"]["cells_changed"], rows["/w"]["change"]) == (4, "added")
    shares = call("storage_shares", url, None, by="branch")
    assert [row[:2] for row in shares] == [("main", "branch")]
    frame = fs.FrazilTable.for_path(spark, url).storage_shares("array")
    assert {row["name"] for row in frame.collect()} == {"/t", "/u", "/w"}


def weather(path: Path) -> str:
    repo = frazil.Repository.create(path)
    session = repo.writable_session("main")
    data = xr.Dataset(
        {"t2m": (("time", "x"), np.full((2, 3), 280.0))},
        coords={"time": [0, 1], "x": [10, 20, 30]},
    )
    to_icechunk(data, session)
    session.commit("weather")
    return str(path)


def test_checks_in_sql_decide_what_is_published(spark: SparkSession, tmp_path: Path) -> None:
    url = weather(tmp_path / "repo")
    repo = frazil.Repository.open(url)
    before = repo.lookup_branch("main")
    checks = ["SELECT max(t2m) < 350 FROM data", "SELECT time, x FROM data WHERE t2m < 200"]
    with (
        pytest.raises(AuditFailedError, match="time=1, x=20") as caught,
        fs.staged(url, "main", checks, spark=spark) as session,
    ):
        session.array("t2m")[1, 1] = 100.0
    assert [each.passed for each in caught.value.report.results] == [True, False]
    assert repo.lookup_branch("main") == before
    with fs.staged(url, "main", checks, spark=spark) as session:
        session.array("t2m")[1, 1] = 290.0
    newest = next(iter(repo.ancestry(branch="main")))
    report = newest.metadata[AUDIT]
    assert isinstance(report, dict)
    assert [each["passed"] for each in report["checks"]] == [True, True]
    named = fs.sql_check("SELECT count(*) = 7 FROM cells", name="count", view="cells", spark=spark)
    with (
        pytest.raises(AuditFailedError, match="count: it is not so"),
        repo.audit.staged("main", [named]) as session,
    ):
        session.array("t2m")[0, 0] = 1.0


def test_checks_in_sql_leave_the_views_of_others_alone(spark: SparkSession, tmp_path: Path) -> None:
    url = weather(tmp_path / "repo")
    checks = ["SELECT max(t2m) < 350 FROM data"]
    spark.range(7).createOrReplaceTempView("data")
    with fs.staged(url, "main", checks, spark=spark) as session:
        session.array("t2m")[1, 1] = 290.0
    assert spark.table("data").count() == 7
    spark.catalog.dropTempView("data")
    with fs.staged(url, "main", checks, spark=spark) as session:
        session.array("t2m")[1, 1] = 291.0
    assert not spark.catalog.tableExists("data")
