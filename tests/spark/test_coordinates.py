"""Auxiliary coordinates are columns: of two dimensions, of stations, and texts letter by letter."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.spark.query.run_query import run_query
from frazil.spark.query.scopes import find_uses, parse_query
from tests.spark.test_cf import climatology
from tests.support.archive import take
from tests.support.spark import make_repository, read_here

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
        ("SELECT avg(SST) FROM data", {"SST"}),
        ("SELECT count(*) FROM data", set()),
        ("SELECT a * b, `odd name` FROM data WHERE c > 1", {"a", "b", "odd name", "c"}),
        ("SELECT x.a FROM data JOIN (SELECT a, b FROM other) AS x USING (c)", {"c"}),
        ("SELECT a AS m FROM data GROUP BY a HAVING m > 1 ORDER BY m", {"a"}),
        ("SELECT * FROM data", None),
        ("SELECT d.* FROM data d", None),
        ("SELECT count(*), * FROM data", None),
        ("SELECT 1 FROM data NATURAL JOIN b", None),
    ],
)
def test_queries_tell_which_columns_they_need(query: str, words: set[str] | None) -> None:
    tree = parse_query(query)
    columns = ["SST", "a", "b", "c", "m", "odd name"]
    (use,) = find_uses(tree, lambda table: table.name == "data", lambda _: columns)
    assert use.columns == words


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


# --- of files ---


def stations(file: Path) -> Path:
    """A file as stations write it: names by letters, places as auxiliary coordinates."""
    with netCDF4.Dataset(file, "w", format="NETCDF3_CLASSIC") as made:
        for dim, size in (("time", 2), ("station", 3), ("letter", 8)):
            made.createDimension(dim, size)
        made.createVariable("time", "i4", ("time",))[:] = [0, 1]
        made["time"].units = "days since 2000-01-01"
        letters = np.array([name.encode() for name in NAMES], "S8").view("S1").reshape(3, 8)
        made.createVariable("name", "S1", ("station", "letter"))[:] = letters
        made.createVariable("lat", "f4", ("station",))[:] = [59.9, 60.4, 69.6]
        made.createVariable("t", "f4", ("time", "station"))[:] = np.arange(6).reshape(2, 3)
        made["t"].coordinates = "name lat"
    return file


def curved(file: Path) -> Path:
    """A file on a grid whose latitudes and longitudes have two dimensions."""
    lat = np.arange(12.0).reshape(3, 4)
    made = xr.Dataset(
        {"t": (("y", "x"), lat * 10)}, {"lat": (("y", "x"), lat), "lon": (("y", "x"), 2 * lat)}
    )
    made.to_netcdf(file, engine="h5netcdf")
    return file


@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_coordinates_of_files_are_conditions_in_sql(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    allowed = [f"file://{tmp_path}/"] if mode == "virtual" else []
    first, second = str(tmp_path / "stations"), str(tmp_path / "curved")
    take(tmp_path / "stations", stations(tmp_path / "a.nc"), wanted={"mode": mode})
    take(tmp_path / "curved", curved(tmp_path / "b.nc"), wanted={"mode": mode})
    query = "SELECT name, sum(t) FROM data WHERE name >= 'C' AND lat < 65 GROUP BY name"
    assert run_query(query, first, spark=spark, authorize=allowed).rows == [("Oslo", 3.0)]
    query = "SELECT t, lon FROM data WHERE lat BETWEEN 5 AND 6 ORDER BY t"
    rows = run_query(query, second, spark=spark, authorize=allowed).rows
    assert [*rows] == [(50.0, 10.0), (60.0, 12.0)]
    read = frazil.spark.read(first, spark=spark, where="name = 'Bergen'", authorize=allowed or None)
    assert sorted(row["t"] for row in read.collect()) == [1.0, 4.0]


def test_a_scalar_beside_the_data_describes_it(tmp_path: Path) -> None:
    """As `crs`, `height` or `spatial_ref` of many files, whether or not an attribute says so."""
    data = xr.Dataset({"v": ("x", [1.0, 2.0, 3.0]), "crs": ((), 7), "height": ((), 2.5)})
    make_repository(tmp_path / "r", data)
    assert read_here(tmp_path / "r").to_pydict() == {"x": [0, 1, 2], "v": [1.0, 2.0, 3.0]}
    found = read_here(tmp_path / "r", columns=["v", "height"], where="height > 2 AND x > 0")
    assert found.to_pydict() == {"v": [2.0, 3.0], "height": [2.5, 2.5]}
    assert read_here(tmp_path / "r", variables=["crs", "height"]).to_pylist() == [
        {"crs": 7, "height": 2.5}
    ]
    make_repository(tmp_path / "s", data[["crs", "height"]])
    assert read_here(tmp_path / "s").num_rows == 1, "where there is nothing else, it is the data"
