"""Auxiliary coordinates are columns: of two dimensions, of stations, and texts letter by letter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.spark.querying import mentioned, run_query
from tests.spark.test_cf import climatology
from tests.support.spark import read_here

NAMES = ["Oslo", "Bergen", "Troms\u00f8"]


def grid(path: Path) -> Path:
    """Values on a curved grid, with the names of its rows."""
    session = frazil.Repository.create(path).writable_session("main")
    lat = np.arange(12.0).reshape(3, 4)
    letters = np.array([name.encode() for name in NAMES]).view("S1").reshape(3, -1)
    whole = xr.Dataset(
        {"t": (("time", "y", "x"), np.arange(24.0).reshape(2, 3, 4))},
        coords={
            "time": [0, 1],
            "lat": (("y", "x"), lat),
            "lon": (("y", "x"), 2 * lat),
            "station": (("y", "letter"), letters),
        },
    )
    whole.t.encoding["coordinates"] = "lat lon station"
    whole.to_zarr(session.store, consolidated=False, zarr_format=3)
    session.commit("a curved grid")
    return path


def test_coordinates_of_two_dimensions_are_columns_and_conditions(tmp_path: Path) -> None:
    path = grid(tmp_path / "r")
    assert read_here(path).column_names == ["time", "y", "x", "t"]
    found = read_here(path, with_coordinates="true")
    assert {*found.column_names} == {"time", "y", "x", "t", "lat", "lon", "station"}
    assert found["lon"].to_pylist()[:5] == [0.0, 2.0, 4.0, 6.0, 8.0]
    part = read_here(path, columns="t, lat", where="lat >= 10 and lon < 22")
    assert part.to_pydict() == {"t": [10.0, 22.0], "lat": [10.0, 10.0]}


def test_letters_are_texts(tmp_path: Path) -> None:
    path = grid(tmp_path / "r")
    found = read_here(path, columns="station, y")
    assert [*dict.fromkeys(found["station"].to_pylist())] == NAMES
    part = read_here(path, columns="t", where="station = 'Bergen' and time = 1")
    assert part["t"].to_pylist() == [16.0, 17.0, 18.0, 19.0]
    alone = read_here(path, variables="station")
    assert alone.to_pydict() == {"y": [0, 1, 2], "station": NAMES}
    stored = read_here(path, variables="station", decode_cf="false")
    assert stored.num_rows == 3 * len(NAMES[2].encode())


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT avg(SST) FROM data", {"sst"}),
        ("SELECT count(*) FROM data", set()),
        ("SELECT a * b, `odd name` FROM data WHERE c > 1", {"a", "b", "odd name", "c"}),
        ("SELECT * FROM data", None),
        ("SELECT d.* FROM data d", None),
        ("SELECT count(*), * FROM data", None),
        ("SELECT 1 FROM a NATURAL JOIN b", None),
        ("TABLE data", None),
    ],
)
def test_queries_tell_which_columns_they_may_need(query: str, words: set[str] | None) -> None:
    found = mentioned(query)
    assert (found is None) == (words is None)
    assert words is None or found is None or found >= words


def test_sql_decodes_only_what_it_names(spark: SparkSession, tmp_path: Path) -> None:
    months = str(climatology(tmp_path / "months"))
    assert run_query("SELECT avg(SST) FROM data", months, spark=spark).rows == [(2.0,)]
    assert run_query("SELECT count(*) FROM sst", months, spark=spark).rows == [(3,)]
    curved = str(grid(tmp_path / "curved"))
    query = "SELECT station, max(lat) FROM data WHERE lon > 1 GROUP BY station ORDER BY 2"
    rows = run_query(query, curved, spark=spark).rows
    assert [*rows] == [("Oslo", 3.0), ("Bergen", 7.0), ("Troms\u00f8", 11.0)]
    alone = run_query("SELECT y, max(t) FROM t GROUP BY y ORDER BY y", curved, spark=spark).rows
    assert [*alone] == [(0, 15.0), (1, 19.0), (2, 23.0)]
