"""`sql`, `export`, `clone` and `rechunk` on an embedded Spark."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.spark.sessions import session
from tests.cli.conftest import Frazil, Ocean, make_ocean


@pytest.fixture(scope="module", autouse=True)
def spark() -> SparkSession:
    """The session that commands of this process find."""
    return session("local[2]", config={"spark.sql.shuffle.partitions": 2})


def test_sql_prints_a_table(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command(
        "sql",
        still_ocean.url,
        "SELECT time, max(sst) AS top, count(sst) AS n FROM data GROUP BY time ORDER BY time",
    )
    assert said.code == 0, said.err
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["time", "top", "n"]
    assert lines[1] == ["0", "14", "15"]


def test_sql_as_json_and_csv(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = "SELECT * FROM sst WHERE time = 0 ORDER BY lat, lon"
    said = frazil_command("sql", still_ocean.url, query, "--json", "--limit", "4")
    assert said.code == 0, said.err
    assert said.data["columns"] == ["time", "lat", "lon", "sst"]
    assert [row["sst"] for row in said.data["rows"]] == [0, 1, 2, 3]
    assert said.data["truncated"]
    assert "showing 4 rows" in said.err
    said = frazil_command("sql", f"{still_ocean.url}@v1", query, "--csv", "--limit", "0")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [float(row["sst"]) for row in rows] == list(range(15))


def test_sql_on_metadata_and_groups(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = "SELECT r.name, s.message FROM refs r JOIN snapshots s USING (snapshot_id) ORDER BY 1"
    said = frazil_command("sql", still_ocean.url, query, "--json")
    assert [row["name"] for row in said.data["rows"]] == ["dev", "main", "v1"]
    said = frazil_command(
        "sql", still_ocean.url, "SELECT sum(flag) AS s FROM flag", "--group", "air", "--json"
    )
    assert said.data["rows"] == [{"s": 3}]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT nothing FROM data", "nothing"),
        ("SELECT * FROM nowhere", "views are"),
        ("SELEKT 1", "SELEKT"),
    ],
)
def test_sql_that_makes_no_sense(
    frazil_command: Frazil, still_ocean: Ocean, query: str, told: str
) -> None:
    said = frazil_command("sql", still_ocean.url, query)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1


def test_sql_understands_the_old_order_too(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("sql", "SELECT count(*) AS n FROM data", still_ocean.url, "--json")
    assert said.code == 0, said.err
    assert "the repository comes first" in said.err
    again = frazil_command("sql", still_ocean.url, "SELECT count(*) AS n FROM data", "--json")
    assert again.data == said.data
    assert "first" not in again.err


def test_sql_may_name_its_repositories_itself(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = f"SELECT count(*) AS n FROM frazil.`{still_ocean.url}`"
    said = frazil_command("sql", query, "--json")
    assert said.code == 0, said.err
    again = frazil_command("sql", still_ocean.url, "SELECT count(*) AS n FROM data", "--json")
    assert again.data == said.data
    told = frazil_command("sql", still_ocean.url, "SELECT count(*) FROM data", "--explain")
    assert told.code == 0, told.err
    assert "pushed: count(*) over" in told.out


def test_a_query_without_a_table_is_explained_too(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    told = frazil_command("sql", still_ocean.url, "SELECT 1", "--explain")
    assert told.code == 0, told.err
    assert "no Frazil table is read" in told.out


def test_sql_as_json_loses_nothing(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = (
        "SELECT 1 AS n, 2 AS n, 3 AS n_2, double('NaN') AS x, double('-Infinity') AS y, NULL AS z,"
        " named_struct('a', 1, 'a', 2) AS s"
    )
    said = frazil_command("sql", still_ocean.url, query, "--json")
    assert said.data["columns"] == ["n", "n_3", "n_2", "x", "y", "z", "s"]
    (row,) = said.data["rows"]
    assert [row["n"], row["n_3"], row["n_2"]] == [1, 2, 3]
    assert (row["x"], row["y"], row["z"]) == ("NaN", "-Infinity", None)
    assert row["s"] == {"a": 1, "a_2": 2}


@pytest.mark.parametrize("form", [(), ("--csv",), ("--json",), ("--explain",)])
def test_sql_controls_no_terminal(
    frazil_command: Frazil, still_ocean: Ocean, form: tuple[str, ...]
) -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e"
    for what in (f"'{evil}' AS `n{evil}`, 1 AS `m{evil}`", f"`{evil}`"):
        said = frazil_command("sql", still_ocean.url, f"SELECT {what} FROM data LIMIT 1", *form)
        assert said.out + said.err
        assert not {*evil} & {*"\x1b\x07\x9b\u202e"} & {*said.out, *said.err}


def test_sql_leaves_the_views_of_others_alone(
    frazil_command: Frazil, still_ocean: Ocean, spark: SparkSession
) -> None:
    spark.range(7).createOrReplaceTempView("data")
    said = frazil_command("sql", still_ocean.url, "SELECT count(*) AS n FROM data", "--json")
    assert said.data["rows"] == [{"n": 60}]
    assert spark.table("data").count() == 7
    spark.catalog.dropTempView("data")
    frazil_command("sql", still_ocean.url, "SELECT count(*) AS n FROM data", "--json")
    assert not spark.catalog.tableExists("data")


def test_virtual_chunks_that_may_not_be_read_are_told_with_the_option(
    frazil_command: Frazil, tmp_path: Path
) -> None:
    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(4,), chunks=(2,), dtype="i4", dimension_names=["x"]
    )
    session.store.set_virtual_ref(
        "v/c/0", "s3://bucket/f.nc", offset=0, length=8, validate_container=False
    )
    session.commit("virtual")
    config = repository.config
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer("s3://bucket/", frazil.s3_store(region="eu-west-1"))
    )
    repository.reopen(config).save_config()
    said = frazil_command("sql", str(tmp_path / "r"), "SELECT sum(v) FROM data")
    assert said.code == 5
    assert "s3://bucket/" in said.err
    assert "--authorize" in said.err
    assert "authorize_virtual_chunk_access" not in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT raise_error('odd') AS x", "odd"),  # by a task
        ("SELECT explode(1) AS x", "explode(1)"),  # by the plan
        ("SELECT 1 +", "end of input"),  # by the parser
    ],
)
def test_errors_of_spark_are_one_sentence(
    frazil_command: Frazil, still_ocean: Ocean, query: str, told: str
) -> None:
    said = frazil_command("sql", still_ocean.url, query)
    assert told in said.err
    assert not re.search("Traceback|SQLSTATE|JVM", said.err)
    assert said.err.splitlines()[1:] in ([], ["  (--debug shows where it happened)"])


def test_export(frazil_command: Frazil, still_ocean: Ocean, tmp_path: Path) -> None:
    target = str(tmp_path / "out.zarr")
    said = frazil_command("export", f"{still_ocean.url}@dev", target, "--json")
    assert said.code == 0, said.err
    assert set(said.data["arrays"]) == {"/sst", "/air/flag"}
    assert zarr.open_array(target, path="sst", mode="r")[2, 0, 0] == 7
    said = frazil_command("export", still_ocean.url, target)
    assert said.code == 4
    assert "not empty" in said.err


@pytest.mark.parametrize("arguments", [(), ("--all",)])
def test_clone(
    frazil_command: Frazil, still_ocean: Ocean, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    target = str(tmp_path / "copy")
    said = frazil_command("clone", still_ocean.url, target, *arguments)
    assert said.code == 0, said.err
    assert said.out.startswith("Cloned ")
    copy = frazil.Repository.open(target)
    assert ("dev" in copy.list_branches()) is bool(arguments)
    found = zarr.open_array(copy.readonly_session("main").store, path="sst", mode="r")
    np.testing.assert_array_equal(np.ravel(np.asarray(found[0])), np.arange(15))


@pytest.mark.parametrize("command", [("fsck", "--deep"), ("verify", "--all")])
def test_checks_tell_the_same_on_spark(
    frazil_command: Frazil, tmp_path: Path, command: tuple[str, str]
) -> None:
    ocean = make_ocean(tmp_path / "ocean")
    next((ocean.path / "chunks").iterdir()).unlink()
    name, option = command
    there = frazil_command(name, ocean.url, option, "--engine", "spark", "--json")
    assert there.code == 6, there.err
    here = frazil_command(name, ocean.url, option, "--engine", "local", "--json")
    assert there.data == here.data
    assert {finding["code"] for finding in there.data["findings"]} == {"chunk-missing"}


def test_rechunk(frazil_command: Frazil, tmp_path: Path) -> None:
    ocean = make_ocean(tmp_path / "ocean")
    said = frazil_command("rechunk", f"{ocean.url}@dev", "time=4,lon=1", "sst", "-m", "Longer")
    assert said.code == 0, said.err
    repository = ocean.open()
    assert next(iter(repository.ancestry(branch="dev"))).message == "Longer"
    found = zarr.open_array(repository.readonly_session("dev").store, path="sst", mode="r")
    assert found.chunks == (4, 3, 1)
    assert found[2, 0, 0] == 7
    said = frazil_command("rechunk", ocean.url, "depth=4", "sst")
    assert said.code == 2
    assert "no dimension 'depth'" in said.err
