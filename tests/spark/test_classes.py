"""Labels that a query does not tell apart are taken together before Spark gets rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.cf.decoding import DecodedValues
from frazil.spark.query import readings
from frazil.spark.reading.reducing import (
    AGGREGATES,
    GroupAggregates,
    LabelClasses,
    Reduced,
    reduce_values,
)
from frazil.xarray import to_icechunk
from tests.support.sql_cases import plain_view

DAYS, LATS = 100, 12


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables have many rows."""
    monkeypatch.setattr(readings, "MANY_ROWS", 0)


@pytest.fixture(scope="module")
def ice(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[str]:
    """Daily values with NaN, infinity and gaps, on latitudes of both signs, and names of bands."""
    rng = np.random.default_rng(1)
    shape = (DAYS, LATS, 3)
    area = rng.normal(5, 2, shape).astype("f4")
    area[rng.random(shape) < 0.2] = np.nan
    area[4, 2, 1] = np.inf
    depth = rng.normal(50, 5, shape)
    depth[30:70] = np.nan
    lat = np.array([-75, -60, -45, -30, -15, -0.0, 0.0, 15, 30, 45, 60, 75])
    data = xr.Dataset(
        {
            "area": (("time", "lat", "lon"), area),
            "depth": (("time", "lat", "lon"), depth),
            "ships": (("time", "lat", "lon"), rng.integers(-(2**50), 2**50, shape)),
            "land": (("lat",), rng.integers(0, 2, LATS).astype("i1")),
        },
        coords={
            "time": np.datetime64("2024-01-20", "ns") + np.arange(DAYS).astype("m8[D]"),
            "lat": lat,
            "lon": [0.0, 10.0, 20.0],
            "band": ("lat", np.where(np.abs(lat) < 20, "tropics", "far")),
        },
    )
    url = str(tmp_path_factory.mktemp("ice") / "repo")
    repo = frazil.Repository.create(url)
    session = repo.writable_session("main")
    chunks = {name: {"chunks": (7, 5, 2)} for name in ("area", "depth", "ships")}
    chunks["area"]["_FillValue"] = None  # type: ignore[assignment]
    to_icechunk(data, session, encoding=chunks)
    session.commit("ice")
    frazil.spark.attach("ice", url, spark=spark)
    plain_view(spark, url, "plain_ice", **{"with-coordinates": "true", "broadcast": "true"})
    yield url
    spark.catalog.dropTempView("plain_ice")


def rows_of(spark: SparkSession, query: str) -> int:
    """How many rows Spark gets."""
    told = frazil.spark.explain(query, spark)
    return int(told.partition(" rows at most")[0].rpartition(" ")[2].replace(",", ""))


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


MONTHS = 4
COSINES = 6
"""of both zeros, 15, 30, 45, 60 and 75"""


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT date_trunc('month', time), sum(area * cos(radians(lat))) / "
            "sum(cos(radians(lat))), count(*) FROM frazil.ice GROUP BY 1 ORDER BY 1",
            MONTHS * COSINES,
        ),
        (
            "SELECT month(time) AS m, stddev(depth), var_pop(depth), min(area), max(area), "
            "avg(area), sum(ships), stddev(ships), count(depth) FROM frazil.ice w GROUP BY m "
            "ORDER BY m",
            MONTHS,
        ),
        # other names for the table, and one more function of the same labels
        (
            "SELECT year(w.time), month(w.time), avg(depth) FROM frazil.ice w "
            "GROUP BY year(w.time), month(w.time) ORDER BY 2",
            MONTHS,
        ),
        # what aggregates, FILTER and HAVING make of labels counts, too
        (
            "SELECT count(DISTINCT month(time)), max(abs(lat)), sum(abs(lat)), avg(depth) "
            "FILTER (WHERE month(time) > 2) FROM frazil.ice HAVING max(month(time)) > 1",
            MONTHS * COSINES,
        ),
        ("SELECT avg(depth), band FROM frazil.ice GROUP BY ROLLUP(band) ORDER BY 2", 2),
        (
            "SELECT DISTINCT month(time), depth IS NULL FROM frazil.ice WHERE depth > 49 "
            "ORDER BY 1, 2",
            None,
        ),
        # labels that are told apart
        ("SELECT time, month(time), avg(depth) FROM frazil.ice GROUP BY 1, 2 ORDER BY 1", DAYS),
        ("SELECT lat > 0, avg(depth) FROM frazil.ice GROUP BY 1 ORDER BY 1", LATS),
        ("SELECT sum(depth / (100D + lat)), floor(lat / 20) FROM frazil.ice GROUP BY 2 ORDER BY 2",
         LATS),
        ("SELECT month(time), max(time), avg(depth) FROM frazil.ice GROUP BY 1 ORDER BY 1", MONTHS),
        ("SELECT month(time) AS time, avg(depth) FROM frazil.ice GROUP BY 1 ORDER BY time", MONTHS),
        # labels of two dimensions in one expression
        (
            "SELECT floor(greatest(lat, lon) / 90), avg(depth) FROM frazil.ice GROUP BY 1 "
            "ORDER BY 1",
            LATS * 3,
        ),
        # the two zeros are one number and two texts
        ("SELECT rint(lat / 1000) || '', sum(depth) FROM frazil.ice GROUP BY 1 ORDER BY 1", 2),
        ("SELECT abs(lat), count(1 / lat) FROM frazil.ice WHERE lat != 0 GROUP BY 1 ORDER BY 1",
         None),
        # a variable without time tells latitudes apart
        ("SELECT land, floor(lat / 90), month(time), avg(area) FROM frazil.ice GROUP BY 1, 2, 3 "
         "ORDER BY 1, 2, 3", LATS * MONTHS),
    ],
)  # fmt: skip
def test_answers_are_those_of_spark(
    spark: SparkSession, ice: str, query: str, rows: int | None
) -> None:
    if rows is not None:
        assert rows_of(spark, query) == rows
    found = frazil.spark.sql(query, spark)
    wanted = spark.sql(query.replace("frazil.ice", "plain_ice"))
    assert found.columns == wanted.columns
    assert [f.dataType for f in found.schema] == [f.dataType for f in wanted.schema]
    got, expected = found.collect(), wanted.collect()
    assert len(got) == len(expected)
    for row, other in zip(got, expected, strict=True):
        assert all(map(same, row, other)), (row, other)


@pytest.fixture
def berlin(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session and a Python whose clocks go back by an hour in autumn."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Europe/Berlin")
        time.tzset()
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        yield
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.usefixtures("berlin")
def test_hours_that_come_twice_are_two(spark: SparkSession, tmp_path: Path) -> None:
    quarters = np.datetime64("2024-10-26T22:00", "ns") + 15 * np.arange(32).astype("m8[m]")
    data = xr.Dataset({"v": (("time", "x"), np.arange(64.0).reshape(32, 2))}, {"time": quarters})
    repo = frazil.Repository.create(str(tmp_path / "r"))
    session = repo.writable_session("main")
    to_icechunk(data, session)
    session.commit("an autumn night")
    table = f"frazil.`{tmp_path / 'r'}`"
    query = f"SELECT sum(v) FROM {table} GROUP BY date_trunc('hour', time) ORDER BY 1"
    found = frazil.spark.sql(query, spark, timestamps="utc").collect()
    assert [total for (total,) in found] == data.v.values.reshape(8, 8).sum(1).tolist()


def test_labels_that_spark_cannot_look_at_alone_stay(spark: SparkSession, ice: str) -> None:
    query = "SELECT sum(depth * (1 / (lat - 15))) FROM frazil.ice WHERE lat > 20"
    found = frazil.spark.sql(f"{query} GROUP BY date_trunc('month', time)", spark).collect()
    assert len(found) == MONTHS


@pytest.mark.parametrize("kind", ["f4", "f8", "i2", "i8", "M8[us]", "?"])
@pytest.mark.parametrize("seed", range(3))
def test_parts_taken_together_are_those_of_all_their_cells(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (9, 4, 5)
    values = rng.integers(-100, 100, shape).astype("i8")
    decoded = DecodedValues(
        values.astype(kind) if kind != "?" else values > 0,
        rng.random(shape) < (0.0, 0.4, 0.9)[seed],
    )
    wanted = AGGREGATES if kind[0] in "fi" else ("count", "min", "max")
    numbers = rng.integers(0, 3, 9)
    classes = LabelClasses.of([numbers, numbers % 2])
    parts = GroupAggregates(
        (slice(0, 9), slice(0, 4), slice(0, 1)),
        np.full((9, 4), 5),
        [reduce_values(decoded, None, (2,), wanted)],
    )
    merged = parts.merged((0, 1), {0: classes})
    assert merged.region[0].tolist() == sorted({*classes.firsts.tolist()})  # type: ignore[union-attr]
    for row, first in enumerate(merged.region[0].tolist()):  # type: ignore[union-attr]
        own = numbers == numbers[first]
        assert (merged.rows[row] == 5 * own.sum()).all()
        assert decoded.missing is not None
        for lat in range(4):
            cells = DecodedValues(
                decoded.values[own][:, lat : lat + 1], decoded.missing[own][:, lat : lat + 1]
            )
            whole = reduce_values(cells, None, (0, 1, 2), wanted)
            assert_same(merged.reduced[0], whole, (row, lat))


def assert_same(found: Reduced, wanted: Reduced, at: tuple[int, int]) -> None:
    assert found.count[at] == wanted.count
    for name in ("total", "least", "most", "squares"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None)
        if one is None or (wanted.count == 0 and name in ("least", "most")):
            continue
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one[at], other, rtol=1e-9, atol=1e-9)
        else:
            assert one.dtype == other.dtype
            if found.low is not None and wanted.low is not None and name == "total":
                assert (int(one[at]) << 32) + int(found.low[at]) == (int(other) << 32) + int(
                    wanted.low
                )
            else:
                assert one[at] == other
