"""`frazil.spark.sql`: names, versions, what is read, and answers as Spark has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.errors import FrazilError, InvalidInputError
from frazil.spark.query import here
from frazil.spark.query.here import SETTING
from frazil.xarray import to_icechunk

DAYS, LATS, LONS = 60, 8, 12


@dataclass(frozen=True)
class Ocean:
    """A repository, and the same cells as a plain table of Spark."""

    url: str
    first: str
    data: xr.Dataset


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Ocean]:
    """Fields over two months, a mask without time, and a group below."""
    rng = np.random.default_rng(5)
    shape = (DAYS, LATS, LONS)
    sst = rng.normal(280, 5, shape).astype("f4")
    sst[3, 2, 1] = np.nan
    data = xr.Dataset(
        {
            "sst": (("time", "lat", "lon"), sst),
            "ships": (("time", "lat", "lon"), rng.integers(-5, 50, shape).astype("i4")),
            "basin": (("lat", "lon"), rng.integers(0, 3, (LATS, LONS)).astype("i1")),
        },
        coords={
            "time": np.datetime64("2024-01-01", "ns") + np.arange(DAYS).astype("m8[D]"),
            "lat": np.arange(50.0, 50.0 + LATS),
            "lon": np.arange(-6.0, LONS - 6.0),
        },
    )
    url = str(tmp_path_factory.mktemp("ocean") / "repo")
    repo = frazil.Repository.create(url)
    session = repo.writable_session("main")
    chunks = {name: {"chunks": (20, 4, 6)} for name in ("sst", "ships")}
    to_icechunk(data, session, encoding=chunks)
    to_icechunk(data[["basin"]], session, group="masks")
    first = session.commit("two months")
    repo.create_tag("v1", first)
    session = repo.writable_session("main")
    to_icechunk(data[["sst"]].isel(time=slice(0, 1)) + 1, session, region="auto")
    session.commit("a warmer first day")
    frazil.spark.attach("ocean", url, spark=spark)
    plain = frazil.spark.read(url, spark=spark, variables=["sst", "ships", "basin"], broadcast=True)
    spark.createDataFrame(plain.toArrow(), plain.schema).createOrReplaceTempView("plain_ocean")
    yield Ocean(url, first, data)
    spark.catalog.dropTempView("plain_ocean")


def run(spark: SparkSession, query: str) -> DataFrame:
    return frazil.spark.sql(query, spark)


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other and type(one) is type(other)


def assert_as_plain(spark: SparkSession, query: str) -> None:
    """The answer of a query is that of Spark on the whole table."""
    found = run(spark, query)
    wanted = spark.sql(query.replace("frazil.ocean", "plain_ocean"))
    assert found.columns == wanted.columns
    assert [f.dataType for f in found.schema] == [f.dataType for f in wanted.schema]
    rows, expected = found.collect(), wanted.collect()
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert all(map(same, row, other)), (row, other)


# --- names and versions ---


def test_a_url_is_a_table(spark: SparkSession, ocean: Ocean) -> None:
    query = f"SELECT count(*) AS n FROM frazil.`{ocean.url}`"
    assert run(spark, query).collect() == [(DAYS * LATS * LONS,)]
    group = run(spark, f"SELECT sum(basin) FROM frazil.`{ocean.url}@v1#/masks`").collect()
    assert group == [(int(ocean.data.basin.sum()),)]


def test_groups_arrays_and_metadata_tables_follow_a_name(spark: SparkSession, ocean: Ocean) -> None:
    total = [(int(ocean.data.basin.sum()),)]
    assert run(spark, "SELECT sum(basin) FROM frazil.ocean.masks").collect() == total
    assert run(spark, "SELECT sum(Basin) FROM frazil.OCEAN.masks.basin").collect() == total
    assert run(spark, "SELECT count(*) FROM frazil.ocean.snapshots").collect() == [(3,)]
    refs = "SELECT name, type FROM frazil.ocean.refs ORDER BY name"
    assert run(spark, refs).collect() == [("main", "BRANCH"), ("v1", "TAG")]
    assert run(spark, "SELECT count(*) > 1 FROM frazil.ocean.history").collect() == [(True,)]
    with pytest.raises(FrazilError, match=r"no group or table 'mask'.*did you mean 'masks'"):
        run(spark, "SELECT * FROM frazil.ocean.mask")
    with pytest.raises(InvalidInputError, match=r"no repository is named 'oceans'.*'ocean'"):
        run(spark, "SELECT * FROM frazil.oceans")


@pytest.mark.parametrize(
    "table",
    [
        "frazil.ocean VERSION AS OF 'v1'",
        "frazil.ocean FOR VERSION AS OF 'v1' AS o",
        "frazil.ocean.tag_v1",
        "frazil.`{url}@v1`",
        "frazil.`{url}` VERSION AS OF '{first}' o",
    ],
)
def test_versions(spark: SparkSession, ocean: Ocean, table: str) -> None:
    day = "WHERE time = '2024-01-01' AND lat = 50 AND lon = -6"
    now = run(spark, f"SELECT sst FROM frazil.ocean {day}").collect()[0][0]
    named = table.format(url=ocean.url, first=ocean.first)
    then = run(spark, f"SELECT sst FROM {named} {day}").collect()[0][0]
    assert now == pytest.approx(then + 1)


def test_times_of_versions(spark: SparkSession, ocean: Ocean) -> None:
    latest = "SELECT count(*) FROM frazil.ocean TIMESTAMP AS OF current_timestamp() WHERE lat = 50"
    assert run(spark, latest).collect() == [(DAYS * LONS,)]
    branch = run(spark, "SELECT max(lat) FROM frazil.ocean.branch_main").collect()
    assert branch == [(50.0 + LATS - 1,)]
    with pytest.raises(FrazilError, match="chosen more than once"):
        run(spark, f"SELECT 1 FROM frazil.`{ocean.url}@v1` VERSION AS OF 'v1'")


def test_a_warehouse_is_a_folder_of_repositories(spark: SparkSession, ocean: Ocean) -> None:
    spark.conf.set("spark.frazil.warehouse", str(Path(ocean.url).parent))
    try:
        assert run(spark, "SELECT count(*) FROM frazil.repo.masks").collect() == [(LATS * LONS,)]
    finally:
        spark.conf.unset("spark.frazil.warehouse")


def test_queries_of_spark_alone_are_spark_s(spark: SparkSession) -> None:
    assert run(spark, "SELECT '{x} frazil' AS a").collect() == [("{x} frazil",)]
    assert run(spark, "SHOW TABLES IN default").collect() is not None


def test_other_statements_are_refused(spark: SparkSession, ocean: Ocean) -> None:
    with pytest.raises(InvalidInputError, match="TRUNCATE is not supported"):
        run(spark, "TRUNCATE TABLE frazil.ocean")
    with pytest.raises(InvalidInputError, match="the query cannot be read"):
        run(spark, "SELECT FROM WHERE frazil.ocean")
    described = run(spark, "DESCRIBE frazil.ocean.masks").collect()
    assert [tuple(row)[:2] for row in described] == [
        ("lat", "double"),
        ("lon", "double"),
        ("basin", "tinyint"),
    ]


@pytest.mark.parametrize(
    ("columns", "condition", "options", "rest", "local"),
    [
        ("time, lat, lon", "lat >= 53", {"isel": "time=2:4, lon=0:3"}, "", "0"),
        ("time, lat, lon", "lat >= 53", {"sel": "time=2024-01-03", "isel": "lat=2:5"}, "", "64m"),
        ("time, lat, lon, ships", "ships > 10", {"value_where": "ships < 20"}, "", "64m"),
        ("count(*), sum(ships)", "lat >= 53", {"isel": "time=2:4,"}, "", "64m"),
        ("count(*), min(lat)", "lat >= 53", {"value_where": "ships = 7"}, "", "64m"),
        ("lat, ships", "lat >= 50", {"where": "lat = 55", "isel": "time=7:8"}, "LIMIT 5", "64m"),
    ],
)
def test_options_choose_rows_beside_the_conditions_of_a_query(
    spark: SparkSession,
    ocean: Ocean,
    columns: str,
    condition: str,
    options: dict[str, Any],
    rest: str,
    local: str,
) -> None:
    asked = {
        "time=2:4,": "time BETWEEN '2024-01-03' AND '2024-01-04'",
        "time=2:4, lon=0:3": "time BETWEEN '2024-01-03' AND '2024-01-04' AND lon < -3",
        "time=7:8": "time = '2024-01-08'",
        "time=2024-01-03": "time = '2024-01-03'",
        "lat=2:5": "lat BETWEEN 52 AND 54",
    }
    conditions = " AND ".join([condition, *(asked.get(each, each) for each in options.values())])
    query = f"SELECT {columns} FROM frazil.ocean WHERE {condition} {rest}"
    plain = f"SELECT {columns} FROM plain_ocean WHERE {conditions} {rest}"
    spark.conf.set(SETTING, local)
    try:
        found = frazil.spark.sql(query, spark, **options).collect()
    finally:
        spark.conf.unset(SETTING)
    wanted = spark.sql(plain).collect()
    assert wanted
    if rest:
        assert len(found) == len(wanted)
        assert {row["lat"] for row in found} == {55.0}
    else:
        assert sorted(found) == sorted(wanted)


# --- which variables ---


def test_rows_are_the_cells_of_the_variables_that_are_named(
    spark: SparkSession, ocean: Ocean
) -> None:
    assert run(spark, "SELECT count(basin) FROM frazil.ocean").collect() == [(LATS * LONS,)]
    assert run(spark, "SELECT count(sst) FROM frazil.ocean").collect() == [
        (DAYS * LATS * LONS - 1,)
    ]
    found = run(spark, "SELECT basin, sst FROM frazil.ocean WHERE time = '2024-01-02'")
    assert found.count() == LATS * LONS
    shared = "SELECT a.basin FROM frazil.ocean a WHERE a.lat IN (SELECT lat FROM frazil.ocean b"
    assert run(spark, f"{shared} WHERE sst > 0)").count() == LATS * LONS
    assert "sst" not in run(spark, "SELECT lat, lon FROM frazil.ocean").columns


def test_joins_with_other_tables(spark: SparkSession, ocean: Ocean) -> None:
    for query in (
        "SELECT n.word, avg(o.sst) FROM frazil.ocean o JOIN (VALUES (50.0D, 'a'), (51.0D, 'b')) "
        "AS n(lat, word) ON o.lat = n.lat WHERE o.time < '2024-01-05' GROUP BY n.word ORDER BY 1",
        "SELECT a.lat, b.m FROM (SELECT DISTINCT lat FROM frazil.ocean) a LEFT JOIN (SELECT lat, "
        "max(sst) AS m FROM frazil.ocean WHERE lat > 53 GROUP BY lat) b USING (lat) ORDER BY 1",
        "WITH m AS (SELECT time, avg(sst) AS mean FROM frazil.ocean GROUP BY time) SELECT "
        "max(mean - 1), (SELECT count(*) FROM frazil.ocean WHERE lon > 0) FROM m",
        "SELECT lat, count(*) FROM frazil.ocean WHERE lon = 0 GROUP BY lat UNION ALL SELECT lon, "
        "count(ships) FROM frazil.ocean GROUP BY lon ORDER BY 1, 2",
    ):
        assert_as_plain(spark, query)


BANDS = "(VALUES (50.0D, 'a', 2.0D), (51.0D, 'b', 3.0D), (50.0D, 'b', 5.0D)) AS n(lat, word, w)"


def test_aggregates_are_computed_before_a_join(spark: SparkSession, ocean: Ocean) -> None:
    for query in (
        f"SELECT n.word, avg(o.sst), sum(o.sst * n.w), sum(n.w), count(*), min(o.ships) FROM "
        f"frazil.ocean o JOIN {BANDS} ON o.lat = n.lat WHERE o.time < '2024-01-05' AND "
        "(n.w < 4 OR o.lat > 50) GROUP BY n.word ORDER BY 1",
        f"SELECT max(o.sst), count(o.ships) FROM {BANDS}, frazil.ocean o WHERE n.lat > o.lat",
        f"SELECT month(o.time), sum(o.ships) FROM frazil.ocean o LEFT ANTI JOIN {BANDS} "
        "ON o.lat = n.lat WHERE o.sst > 280 GROUP BY 1 ORDER BY 1",
    ):
        assert "rows: aggregates" in plan_of(spark, query), query
        assert_as_plain(spark, query)
    for query, why in (
        (f"count(o.sst) FROM frazil.ocean o LEFT JOIN {BANDS} ON o.lat = n.lat", "an outer join"),
        (f"count(o.sst) FROM frazil.ocean o JOIN {BANDS} USING (lat)", "USING"),
        (f"count(sst) FROM frazil.ocean o JOIN {BANDS} ON o.lat = n.lat", "no table before it"),
        (f"count(o.sst) FROM frazil.ocean o JOIN {BANDS} ON o.lat = n.lat + rand()", r"rand()"),
        (f"sum(o.sst + n.w) FROM frazil.ocean o JOIN {BANDS} ON o.lat + n.w > o.sst", "dimension"),
        ("count(o.sst) FROM frazil.ocean o JOIN frazil.ocean p ON o.lat = p.lon", "of Frazil"),
    ):
        told = plan_of(spark, f"SELECT {query}")
        assert "rows: aggregates" not in told, query
        assert f"{why}" in next(line for line in told.splitlines() if "aggregates (" in line)


def test_columns_of_others_are_not_taken_for_ours(spark: SparkSession, ocean: Ocean) -> None:
    other = "(VALUES (50.0D, 1000.0D)) AS n(lat, sst)"
    assert_as_plain(
        spark,
        f"SELECT sum(o.sst + n.sst), sum(n.sst) FROM frazil.ocean o JOIN {other} ON o.lat = n.lat",
    )


# --- what is pushed down ---


def plan_of(spark: SparkSession, query: str) -> str:
    return frazil.spark.explain(query, spark)


def test_explain_tells_what_is_read(spark: SparkSession, ocean: Ocean) -> None:
    told = plan_of(spark, "SELECT avg(sst) FROM frazil.ocean WHERE month(time) = 1 AND lat > 53")
    assert "pushed: month(time) = 1" in told
    assert "pushed: lat > 53" in told
    assert "pushed: count(sst), sum(sst) over time, lat, lon" in told
    assert "to read: 4 of 12 chunks" in told
    by_value = plan_of(spark, "SELECT sst FROM frazil.ocean WHERE sst > 280 AND ships % 2 = 0")
    assert "pushed: sst > 280" in by_value
    assert "left to Spark: ships % 2 = 0 (it compares values in a way" in by_value
    rows = run(spark, "EXPLAIN SELECT count(*) FROM frazil.ocean").collect()
    assert "0 of 0 chunks" in rows[0][0]
    window = plan_of(spark, "SELECT sum(avg(sst)) OVER () FROM frazil.ocean GROUP BY lat")
    assert "left to Spark: aggregates (it has a window)" in window
    limited = plan_of(spark, "SELECT sst FROM frazil.ocean LIMIT 10")
    assert "pushed: LIMIT 10" in limited
    assert "to read: 1 of 12 chunks" in limited


@pytest.mark.parametrize("limit", ["64m", "0"])
def test_answers_are_those_of_the_whole_table(
    spark: SparkSession, ocean: Ocean, limit: str
) -> None:
    queries = [
        "SELECT date_trunc('month', time) AS m, avg(sst), count(*), stddev(sst), var_pop(ships), "
        "min(sst), max(ships), sum(ships) FROM frazil.ocean WHERE lat > 52 GROUP BY 1 ORDER BY 1",
        "SELECT basin, avg(sst - 273.15) FILTER (WHERE lat > 54) AS warm, count(*) FROM "
        "frazil.ocean o WHERE o.ships > 3 GROUP BY basin HAVING count(*) > 1 ORDER BY basin",
        "SELECT sum(sst * cos(radians(lat))) / sum(cos(radians(lat))) FROM frazil.ocean",
    ]
    if limit != "0":
        queries += [
            "SELECT count(*), count(sst), sum(sst), min(lat) FROM frazil.ocean WHERE lat > 1000",
            "SELECT lat, min(sst) FROM frazil.ocean WHERE lat < 0 GROUP BY lat",
            "SELECT max(sst), min(sst), count(DISTINCT lon), max(time) FROM frazil.ocean",
            "SELECT lat, lon, sst FROM frazil.ocean WHERE dayofyear(time) = 4 AND lat + lon > 55 "
            "ORDER BY lat, lon",
            "SELECT DISTINCT weekofyear(time) AS w FROM frazil.ocean WHERE lon < 0 ORDER BY w",
            "SELECT median(sst), max(ships + 1) FROM frazil.ocean WHERE lat BETWEEN 51 AND 52",
            "SELECT lat, max(sst) AS sst FROM frazil.ocean GROUP BY lat ORDER BY sst LIMIT 2",
            "SELECT month(time) AS m, lat, sum(ships) FROM frazil.ocean GROUP BY ROLLUP(month(time)"
            ", lat) ORDER BY m, lat",
        ]
    spark.conf.set(SETTING, limit)
    try:
        for query in queries:
            assert_as_plain(spark, query)
    finally:
        spark.conf.unset(SETTING)


def test_limits_read_no_more_than_they_need(spark: SparkSession, ocean: Ocean) -> None:
    query = "SELECT lat, sst FROM frazil.ocean WHERE lat > 55 LIMIT 200"
    found = run(spark, query).collect()
    assert len(found) == 200
    assert all(row.lat > 55 for row in found)
    assert run(spark, "SELECT lat FROM frazil.ocean WHERE lat > 56 LIMIT 9999").count() == 720
    assert len(run(spark, "SELECT sst FROM frazil.ocean LIMIT 5 OFFSET 3").collect()) == 5


def test_aggregate_without_sql(spark: SparkSession, ocean: Ocean) -> None:
    found = frazil.spark.aggregate(
        ocean.url,
        by={"month": "month(time)"},
        where="lat > 52",
        sst=["mean", "max"],
        ships="sum",
        spark=spark,
    )
    assert found.columns == ["month", "sst_mean", "sst_max", "ships_sum"]
    rows = {row.month: row for row in found.collect()}
    chosen = ocean.data.where(ocean.data.lat > 52, drop=True)
    ships = chosen.ships.groupby("time.month").sum(...)
    assert {m: row.ships_sum for m, row in rows.items()} == {
        int(m): int(n) for m, n in zip(ships.month, ships, strict=True)
    }
    with pytest.raises(InvalidInputError, match="no aggregate 'middle'"):
        frazil.spark.aggregate(ocean.url, sst="middle", spark=spark)
    with pytest.raises(InvalidInputError, match="say what to compute"):
        frazil.spark.aggregate(ocean.url, by="lat", spark=spark)


# --- what would be easy to get wrong ---


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(1) AS one, count(sst) FROM frazil.ocean",
        "SELECT max(1) AS one, min(lat), sum(1D), avg(2D), count(sst) FROM frazil.ocean "
        "WHERE lat > 1000",
        "SELECT sum(1D), count(sst) FROM frazil.ocean WHERE lat > 1000",
        "SELECT DISTINCT 1 AS one FROM frazil.ocean WHERE lat > 1000",
        "SELECT lat, avg(ships) AS sst FROM frazil.ocean GROUP BY lat HAVING max(sst) > 285 "
        "ORDER BY lat",
        "SELECT min(lat), max(lat), count(*), max(time), count(DISTINCT lon), min(lon + 1), "
        "max(month(time)) FROM frazil.ocean WHERE lat > 51 AND month(time) = 1",
        "SELECT min(lat), max(lon), max(time), count(*) FROM frazil.ocean WHERE lat > 1000",
        "SELECT min(lat + lon), max(time) FROM frazil.ocean WHERE lat > 51",
        "SELECT lon, sum(sst * cos(lat)) / sum(cos(lat)) FILTER (WHERE sst IS NOT NULL), count(*) "
        "FILTER (WHERE sst IS NOT NULL), avg(lat) FILTER (WHERE o.sst IS NOT NULL) "
        "FROM frazil.ocean o WHERE month(time) = 1 GROUP BY lon ORDER BY lon",
    ],
)
def test_constants_aliases_and_extremes(spark: SparkSession, ocean: Ocean, query: str) -> None:
    assert_as_plain(spark, query)


def test_tables_of_with_do_not_stop_pushing(spark: SparkSession, ocean: Ocean) -> None:
    query = (
        "WITH a AS (SELECT lat FROM frazil.ocean WHERE lat > 52), b AS (SELECT lat, avg(sst) AS "
        "mean FROM frazil.ocean WHERE lon = 0 GROUP BY lat) SELECT lat, mean FROM b "
        "WHERE lat IN (SELECT lat FROM a) ORDER BY lat"
    )
    told = plan_of(spark, query)
    assert "pushed: lon = 0" in told
    assert "pushed: count(sst), sum(sst) over time, lon" in told
    assert_as_plain(spark, query)


def test_weights_of_present_cells_are_counted_by_tasks(spark: SparkSession, ocean: Ocean) -> None:
    told = plan_of(
        spark,
        "SELECT sum(sst * cos(lat)) / sum(cos(lat)) FILTER (WHERE sst IS NOT NULL) "
        "FROM frazil.ocean",
    )
    assert "pushed: count(sst), sum(sst) over time, lon" in told


def test_extremes_of_coordinates_do_not_make_all_cells(spark: SparkSession, ocean: Ocean) -> None:
    told = plan_of(spark, "SELECT min(lat), max(lon), max(time), count(*) FROM frazil.ocean")
    assert "to read: 0 of 0 chunks, 0 bytes as they are stored, 0 of 0 bytes when decoded" in told
    assert "1 rows at most" in told
    assert "pushed: min(lat), max(lon), max(time) over time, lat, lon" in told
    told = plan_of(spark, "SELECT min(abs(lat)), max(-lon), max(month(time)) FROM frazil.ocean")
    assert "to read: 0 of 0 chunks" in told
    assert f"{DAYS} rows at most" in told
    assert "pushed: count(*), extremes of lat, lon, time" in told


@pytest.mark.parametrize(
    "query",
    [
        "SELECT min(lat), max(lon), max(time), count(*) FROM frazil.ocean",
        "SELECT min(lat), max(lon), max(time) FROM frazil.ocean WHERE sst > 270",
        "SELECT min(lat), max(lon), max(time) FROM frazil.ocean WHERE sst > 1e9",
        "SELECT lon, max(lat), min(time), avg(sst) FROM frazil.ocean WHERE lat < 60 "
        "GROUP BY lon ORDER BY lon",
        "SELECT min(lat), count(DISTINCT lon), count(DISTINCT time) FROM frazil.ocean",
        "SELECT max(lon) FILTER (WHERE lat > 0), min(lon), max(sst) FROM frazil.ocean",
        "SELECT max(lat) AS m FROM frazil.ocean HAVING min(lon) < 1000",
        "SELECT max(lat) FROM frazil.ocean ORDER BY `max(lat)`",
    ],
)
def test_extremes_of_coordinates(spark: SparkSession, ocean: Ocean, query: str) -> None:
    assert "rows: aggregates" in plan_of(spark, query)
    assert_as_plain(spark, query)


def test_answers_of_one_row_are_those_of_spark_whatever_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    frazil.Repository.create(tmp_path / "r")
    repo = frazil.Repository.open(tmp_path / "r")
    session = repo.writable_session("main")
    values = {
        "f4": np.array([np.nan, -np.inf, 0.1], "f4"),
        "f8": np.array([1e-300, 1.7976931348623157e308, -0.0]),
        "i1": np.array([-128, 127, 3], "i1"),
        "i8": np.array([-(2**63), 2**63 - 1, 5]),
        "b": np.array([True, False, True]),
        "t": np.array(["1582-10-04", "2024-02-29T12:00:00.000001", "2200-01-01"], "M8[us]"),
    }
    made = xr.Dataset(
        {name: ("x", each) for name, each in values.items() if name != "t"},
        coords={"t": ("x", values["t"])},
    )
    to_icechunk(made, session)
    session.commit("made")
    names = [*values]
    words = [f"min({name}), max({name})" for name in names if name != "i1"]
    words.append("sum(i1), sum(f8), avg(f4), avg(i1), count(b), count(f4)")
    query = f"SELECT {', '.join(words)}, min(i1), count(*) FROM {{}}"
    frazil.spark.read(str(tmp_path / "r"), spark=spark, columns=names).createOrReplaceTempView("r")
    url = f"frazil.`{tmp_path / 'r'}`"
    ours, plain = frazil.spark.sql(query.format(url), spark), spark.sql(query.format("r"))
    for one, other in zip(ours.schema, plain.schema, strict=True):
        assert (one.name, one.dataType, one.nullable) == (
            other.name,
            other.dataType,
            other.nullable,
        )
    assert repr(ours.collect()) == repr(plain.collect())


def test_explain_extended_has_the_plan_of_spark(spark: SparkSession, ocean: Ocean) -> None:
    query = "EXPLAIN EXTENDED SELECT lat, stddev(sst) FROM frazil.ocean GROUP BY lat"
    told = run(spark, query).collect()[0][0]
    assert "pushed: count(sst), squares(sst), sum(sst) over time, lon" in told
    assert "== Physical Plan ==" in told


def test_errors_of_spark_are_told_after_quiet_ones(spark: SparkSession, ocean: Ocean) -> None:
    with pytest.raises(AnalysisException, match="lon"):
        run(spark, "SELECT lat, lon, avg(sst) FROM frazil.ocean GROUP BY lat")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT sstt FROM frazil.ocean", r"no column 'sstt' in frazil.ocean; did you mean 'sst'"),
        ("SELECT avg(o.sst) FROM frazil.ocean o WHERE o.latt > 0", "did you mean 'lat'"),
        ("SELECT lat, nothing, avg(sst) FROM frazil.ocean GROUP BY lat", "no column 'nothing'"),
    ],
)
def test_unknown_columns_are_told_with_those_there_are(
    spark: SparkSession, ocean: Ocean, query: str, told: str
) -> None:
    """Spark would propose only columns that are read."""
    with pytest.raises(InvalidInputError, match=told):
        run(spark, query)


def test_a_column_that_is_named_in_the_wrong_place_is_told_by_spark(
    spark: SparkSession, ocean: Ocean
) -> None:
    with pytest.raises(AnalysisException, match="sst"):
        run(spark, "SELECT sst FROM (SELECT lat FROM frazil.ocean)")


def test_names_in_double_quotes_are_refused(spark: SparkSession, ocean: Ocean) -> None:
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(InvalidInputError, match="backquotes"):
            run(spark, 'SELECT avg("sst") FROM frazil.ocean')
    finally:
        spark.conf.unset(setting)


def test_names_with_odd_characters(spark: SparkSession, tmp_path: Path) -> None:
    name, other = "a.b `c`{0}", "it's = 1, or [2]"
    values = np.arange(12.0).reshape(3, 4)
    data = xr.Dataset(
        {name: (("row `x`", "b"), values), other: (("row `x`", "b"), values + 1)},
        coords={"row `x`": [1, 2, 3]},
    )
    url = str(tmp_path / "repo")
    session = frazil.Repository.create(url).writable_session("main")
    to_icechunk(data, session)
    session.commit("odd")
    first, second, row = ("`" + each.replace("`", "``") + "`" for each in (name, other, "row `x`"))
    query = (
        f"SELECT {row}, sum({first}), max({second}), stddev({first}) FROM frazil.`{url}` "
        f"WHERE {first} > 1 AND {second} < 12 AND {row} > 1 GROUP BY {row} ORDER BY 1"
    )
    found = run(spark, query)
    assert found.columns[0] == "row `x`"
    assert [row[:3] for row in found.collect()] == [(2, 22.0, 8.0), (3, 27.0, 11.0)]
    cells = run(spark, f"SELECT {second}, {row} FROM frazil.`{url}` WHERE {first} = 7").collect()
    assert cells == [(8.0, 2)]
    mean = frazil.spark.aggregate(
        url, by=row, spark=spark, **dict[str, Any]({name: "mean"})
    ).collect()
    assert sorted(each[1] for each in mean) == [1.5, 5.5, 9.5]


def test_what_is_the_same_everywhere_has_no_spread(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = np.tile(rng.integers(0, 2**16, 50).astype("f8"), (4, 1, 1)).transpose(0, 2, 1)
    values[0] = rng.integers(0, 2**16, (50, 1))  # the first cells are far from the others
    session = frazil.Repository.create(tmp_path / "r").writable_session("main")
    to_icechunk(xr.Dataset({"v": (("t", "x", "y"), values)}), session)
    session.commit("made")
    spread = "stddev(v) FILTER (WHERE t > 0)"
    query = f"SELECT x, {spread} AS s FROM frazil.`{tmp_path / 'r'}` GROUP BY x"
    assert "rows: aggregates" in plan_of(spark, query)
    assert {row.s for row in run(spark, query).collect()} == {0.0}


# --- who reads ---


@pytest.mark.parametrize(
    ("master", "is_embedded"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2, 3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://local", False),
    ],
)
def test_only_tasks_on_the_same_processors_leave_large_reads_to_the_driver(
    master: str, is_embedded: bool
) -> None:
    at_master = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert here.is_embedded(cast("SparkSession", at_master)) is is_embedded


def test_large_sums_are_made_here_unless_a_setting_says_otherwise(
    spark: SparkSession, tmp_path: Path
) -> None:
    repo = frazil.Repository.create(tmp_path / "r")
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array(
        "a", shape=(200, 256, 512), chunks=(100, 256, 512), dtype="f4", fill_value=2.0,
        dimension_names=["t", "y", "x"],
    )  # fmt: skip
    session.commit("100 MiB, none of which is written")
    query = f"SELECT sum(a), count(*) FROM frazil.`{tmp_path / 'r'}`"
    assert "read by: this process" in plan_of(spark, query)
    count = 200 * 256 * 512
    assert run(spark, query).collect() == [(2.0 * count, count)]
    spark.conf.set(SETTING, "64m")
    try:
        assert "read by: tasks of Spark" in plan_of(spark, query)
        # What needs no chunk needs no task either.
        counted = query.replace("sum(a), count(*)", "count(*), max(t)")
        assert "read by: this process" in plan_of(spark, counted)
    finally:
        spark.conf.unset(SETTING)


def test_the_first_rows_of_a_large_chunk_are_read_here(spark: SparkSession, tmp_path: Path) -> None:
    values = np.arange(1024 * 1024, dtype="f4").reshape(1024, 1024)
    session = frazil.Repository.create(tmp_path / "r").writable_session("main")
    to_icechunk(xr.Dataset({"a": (("y", "x"), values)}), session)
    session.commit("one chunk")
    query = f"SELECT y, x, a FROM frazil.`{tmp_path / 'r'}` LIMIT 10"
    told = plan_of(spark, query)
    assert "read by: this process" in told
    assert "10 rows at most" in told
    assert all(row.a == values[row.y, row.x] for row in run(spark, query).collect())
