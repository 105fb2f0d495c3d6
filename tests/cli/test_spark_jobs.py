"""`sql`, `export`, `clone` and `rechunk` on an embedded Spark."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.cli.spark_jobs import parse_chunks
from frazil.errors import InvalidInputError
from frazil.spark.sessions import session
from tests.cli.conftest import Frazil, Ocean, make_ocean


@pytest.fixture(scope="module", autouse=True)
def spark() -> SparkSession:
    """The session that commands of this process find."""
    return session("local[2]", config={"spark.sql.shuffle.partitions": 2})


def test_sql_prints_a_table(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command(
        "sql",
        "SELECT time, max(sst) AS top, count(sst) AS n FROM data GROUP BY time ORDER BY time",
        still_ocean.url,
    )
    assert said.code == 0, said.err
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["time", "top", "n"]
    assert lines[1] == ["0", "14", "15"]


def test_sql_as_json_and_csv(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = "SELECT * FROM sst WHERE time = 0 ORDER BY lat, lon"
    said = frazil_command("sql", query, still_ocean.url, "--json", "--limit", "4")
    assert said.code == 0, said.err
    assert said.data["columns"] == ["time", "lat", "lon", "sst"]
    assert [row["sst"] for row in said.data["rows"]] == [0, 1, 2, 3]
    assert said.data["truncated"]
    assert "showing 4 rows" in said.err
    said = frazil_command("sql", query, f"{still_ocean.url}@v1", "--csv", "--limit", "0")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [float(row["sst"]) for row in rows] == list(range(15))


def test_sql_on_metadata_and_groups(frazil_command: Frazil, still_ocean: Ocean) -> None:
    query = "SELECT r.name, s.message FROM refs r JOIN snapshots s USING (snapshot_id) ORDER BY 1"
    said = frazil_command("sql", query, still_ocean.url, "--json")
    assert [row["name"] for row in said.data["rows"]] == ["dev", "main", "v1"]
    said = frazil_command(
        "sql", "SELECT sum(flag) AS s FROM flag", still_ocean.url, "--group", "air", "--json"
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
    said = frazil_command("sql", query, still_ocean.url)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1


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


def test_chunks_are_read_from_text() -> None:
    assert parse_chunks("time=100, lat=-1") == {"time": 100, "lat": -1}
    assert parse_chunks("100,90,-1") == [100, 90, -1]
    for text in ("", "time", "time=1,4", "time=x"):
        with pytest.raises(InvalidInputError, match="are no chunks"):
            parse_chunks(text)
