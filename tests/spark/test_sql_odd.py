"""Queries that random ones do not write, and settings that change what queries mean to Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from tests.support.sql_cases import Table, differences, plain_view

SHAPE = (6, 5, 4)
DIMS = ("time", "lat", "lon")


def make_arrays(root: zarr.Group) -> None:
    """Values at the edges of their types, names that are words of SQL, and labels that repeat."""
    rng = np.random.default_rng(3)

    def add(
        name: str,
        values: npt.NDArray[np.generic],
        chunks: tuple[int, ...],
        dims: tuple[str, ...] = DIMS,
        **attributes: Any,  # noqa: ANN401  (JSON)
    ) -> None:
        made = root.create_array(
            name, shape=values.shape, chunks=chunks, dtype=values.dtype, dimension_names=[*dims],
            attributes=attributes, fill_value=attributes.get("_FillValue"),
        )  # fmt: skip
        made[...] = values

    # In New York there is no 02:30 on the second day, and 01:30 is there twice on the last one.
    hours = np.array([0, 4, 24, 48, 49, 5691])
    add("time", hours, (2,), ("time",), units="hours since 2024-03-09 22:30:00")
    add("lat", np.array([-60, -20.5, 0, 0.1, 30], "f4"), (3,), ("lat",))
    add("lon", np.array([0, 10, 10, 350], "i4"), (4,), ("lon",))
    plain = rng.normal(2, 3, SHAPE).round(1)
    plain[rng.random(SHAPE) < 0.15] = np.nan
    plain[0, 0, :2] = -0.0, 0.0
    plain[1, 1, 1] = np.inf
    add("v0", plain, (4, 2, 4))
    single = (rng.integers(0, 5, SHAPE) * 0.1).astype("f4")
    single[2, 2] = 2.0**24
    add("single", single, (2, 5, 2))
    large = rng.integers(-3, 3, SHAPE) + 2**53
    large[0] = 2**62
    add("large", large, (6, 5, 1))
    add("u8", rng.integers(0, 2**63, SHAPE).astype("u8") * np.uint64(2), (3, 3, 3))
    add("u4", rng.integers(2**31, 2**32, SHAPE).astype("u4"), (3, 3, 3))
    add("land", rng.integers(0, 2, SHAPE[1:]).astype("i1"), (5, 4), DIMS[1:])
    add("ok", rng.random(SHAPE) < 0.5, (6, 5, 4))
    packed = rng.integers(-10, 10, SHAPE).astype("i2")
    add("packed", packed, (3, 5, 4), scale_factor=0.1, add_offset=1.0, _FillValue=7)
    bounded = rng.integers(-10, 10, SHAPE).astype("i2")
    add("bounded", bounded, (3, 5, 4), valid_range=[-5, 5], _FillValue=-99)
    add("order", rng.normal(0, 1, SHAPE), SHAPE)
    add("sum(v0)", rng.normal(0, 1, SHAPE), SHAPE)
    add("a b{c}", rng.normal(0, 1, SHAPE), SHAPE)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Table]:
    """A table with statistics, and a small one to join it with."""
    url = str(tmp_path_factory.mktemp("odd") / "repo")
    repo = frazil.Repository.create(url)
    session = repo.writable_session("main")
    make_arrays(zarr.create_group(session.store))
    session.commit("made")
    repo.audit.analyze()
    plain_view(spark, url, "plain_odd")
    rows = "(0.0D, 'eq', 1.5D), (30D, 'n', 2D), (0.0D, 'eq2', NULL), (NULL, 'x', 1D)"
    spark.sql(f"SELECT * FROM VALUES {rows} AS z(lat, name, w)").createOrReplaceTempView("zones")
    yield Table(url, "plain_odd", DIMS, {}, {}, {})
    for view in ("plain_odd", "zones"):
        spark.catalog.dropTempView(view)


ZONES = "JOIN zones z ON w.lat = z.lat"
GROUPINGS = [
    "SELECT lat, avg(v0) m, rank() OVER (ORDER BY avg(v0)) r FROM {table} GROUP BY lat",
    "SELECT lat, sum(sum(packed)) OVER (ORDER BY lat) r FROM {table} GROUP BY lat",
    "SELECT lat, lon, avg(v0) a, grouping(lat) g, grouping_id() i FROM {table} "
    "GROUP BY ROLLUP(lat, lon)",
    "SELECT lat > 0 AS north, sum(single) s FROM {table} GROUP BY ROLLUP(lat > 0)",
    "SELECT lat > 0 AS north, lon, sum(single) s FROM {table} "
    "GROUP BY GROUPING SETS((lat > 0, lon), (lon), (lat > 0 AND lon IS NOT NULL), ())",
    "SELECT lat, lon, sum(single) s FROM {table} GROUP BY CUBE(lat, lon)",
    "SELECT lat, lon, count(*) n FROM {table} GROUP BY GROUPING SETS ((lat), (lon), ())",
    "SELECT lat, count(v0) n FROM {table} WHERE lat > 99 GROUP BY GROUPING SETS ((lat), ())",
    "SELECT month(time) m, lat, avg(packed) a FROM {table} GROUP BY ALL",
    "SELECT count(DISTINCT lat, lon) a, count(DISTINCT v0) b, count(v0, single) c, "
    "count(lat, v0) d FROM {table}",
    "SELECT sum(DISTINCT lat) a, avg(DISTINCT lon) b, count(DISTINCT lat) c FROM {table}",
    "SELECT lat AS x, sum(v0) AS lat FROM {table} GROUP BY x HAVING lat > 3",
    "SELECT lat AS v0, sum(v0) AS s FROM {table} GROUP BY lat HAVING v0 > 0",
    "SELECT max(v0) AS v0 FROM {table} HAVING v0 > 0",
    "SELECT lat, max(packed) AS packed FROM {table} GROUP BY lat ORDER BY packed DESC LIMIT 2",
    "SELECT sum(packed) AS s, count(packed) AS n, s / n AS m FROM {table}",
    "SELECT lat FROM {table} GROUP BY lat HAVING count(lat IS NOT NULL) > 0",
]
LAST = [
    "SELECT lat, sum(packed) FROM {table} GROUP BY lat ORDER BY sum(packed)",
    "SELECT lat FROM {table} GROUP BY lat HAVING 1.05 < avg(packed)",
    "SELECT count(*), max(packed) FROM {table} ORDER BY max(packed)",
    "SELECT time, count(*), avg(packed) FROM {table} GROUP BY time ORDER BY avg(packed), time",
]
"""nothing follows the last aggregate"""
AGGREGATES = [
    "SELECT sum(packed) FILTER (WHERE lat > 0 OR lon = 10) a FROM {table}",
    "SELECT sum(double(lat)) FILTER (WHERE packed + v0 IS NOT NULL) a, "
    "count(*) FILTER (WHERE v0 + packed IS NOT NULL) b FROM {table}",
    "SELECT count(*) FILTER (WHERE ok OR packed IS NOT NULL) a FROM {table}",
    "SELECT count(*) FILTER (WHERE NOT packed IS NULL) a, "
    "count(lat) FILTER (WHERE packed IS NULL) b FROM {table}",
    "SELECT count(lat IS NOT NULL) a, count(packed IS NOT NULL) b FROM {table}",
    "SELECT sum(CASE WHEN lat > 0 THEN v0 END) a, count(CASE WHEN lat > 0 THEN 1 END) b, "
    "sum(CASE WHEN lat > 0 THEN 1.5D ELSE 0D END) c FROM {table}",
    "SELECT lat, sum(large) s FROM {table} WHERE time > '2024-03-10' GROUP BY lat",
    "SELECT lat, sum(large - 9007199254740992) s FROM {table} WHERE time > '2024-03-10' "
    "GROUP BY lat",
    "SELECT min(large) a, max(large) b, min(u8) c, max(u8) d, count(u8) e FROM {table}",
    "SELECT sum(u8) a, avg(u8) b FROM {table} WHERE lat = 0",
    "SELECT sum(u4) a, avg(u4) b, min(u4) c, max(u4) d, stddev(u4) e FROM {table}",
    "SELECT min(bounded) a, max(bounded) b, sum(bounded) c, count(bounded) d FROM {table}",
    "SELECT sum(`order`) a, sum(`sum(v0)`) b, sum(v0) c, max(`a b{{c}}`) d FROM {table} "
    "WHERE `a b{{c}}` < 1",
    "SELECT sum(packed * CASE WHEN lat > 0 THEN 1D ELSE 0D END) a, sum(packed % 2) b FROM {table}",
    "SELECT sum(packed) a /* sum) */, count(*) b -- (\n FROM {table} WHERE lat /* x */ > 0",
]
CONDITIONS = [
    "time < DATE '2024-03-10 12:00:00'", "time < DATE '2024-03-11'",
    "time >= TIMESTAMP '2024-03-10 03:00:00'", "time = TIMESTAMP '2024-03-10 03:30:00'",
    "time = '2024-03-10 02:30:00'",
    "time > TIMESTAMP_NTZ '2024-03-10 02:30:00'", "time > TIMESTAMP '2024-03-10 02:30:00 UTC'",
    "time > '2024-03-10T02:30:00'", "time > '2024-03'", "time BETWEEN '2024' AND '2024-03-12'",
    "single = 0.1", "single > 0.2", "single IN (0.1, 0.2, 0.3)", "single = 16777217",
    "single IN (0, 16777217)", "single < 16777217", "single BETWEEN 16777217 AND 1e9",
    "lat = 0.1", "lat BETWEEN 0.1 AND 30", "lat IN (30, NULL)", "lat NOT IN (30, NULL)",
    "large = 9007199254740993", "large = 9007199254740993.0", "large = 9007199254740992D",
    "large IN (9007199254740993, 9007199254740991)", "large < 4611686018427387904",
    "u8 > 9223372036854775807", "u8 > 5", "u4 > 3000000000", "u4 > -1", "land > 200",
    "v0 = 0", "v0 = -0.0", "v0 > 1e300", "v0 = double('NaN')", "v0 <=> NULL", "! v0 > 1",
    "NOT v0 > 1 AND NOT (single < 0.2)", "packed = 1.1", "packed > 1.1 AND packed <= 1.5",
    "packed = 1.7", "packed NOT IN (1.1, NULL)", "packed IS NULL", "bounded > 4", "bounded IS NULL",
    "bounded < -5", "ok > false", "NOT ok AND lat > 0", "lat > 0 OR v0 > 5", "lat > lon",
    "lon IN (0, 10) AND lat < lon", "CASE WHEN lat > 0 AND lon > 0 THEN ok END AND lon = 10",
    "lat IN (SELECT lat FROM zones)", "v0 = (SELECT max(v0) FROM {table} b WHERE b.lat = w.lat)",
    "EXTRACT(MONTH FROM time) = 3", "time + INTERVAL 1 DAY > '2024-03-12'",
]  # fmt: skip
TABLES = [
    f"SELECT z.name, sum(w.packed * z.w) s, count(*) n FROM {{table}} w {ZONES} GROUP BY z.name",
    "SELECT /*+ BROADCAST(z) */ z.name, sum(w.packed) s FROM {table} w, zones z "
    "WHERE w.lat = z.lat GROUP BY z.name",
    "SELECT z.name, sum(w.packed) s FROM {table} w FULL JOIN zones z ON w.lat = z.lat "
    "WHERE w.lat > 0 GROUP BY z.name",
    "SELECT z.name, sum(w.packed) s FROM {table} w RIGHT JOIN zones z ON w.lat = z.lat "
    "WHERE w.lon > 5 OR w.lon IS NULL GROUP BY z.name",
    "SELECT lat, sum(packed) s FROM {table} NATURAL JOIN zones GROUP BY lat",
    "SELECT z.name, (SELECT count(*) FROM {table} b WHERE b.lat = z.lat AND b.v0 > 0) n "
    "FROM zones z",
    "SELECT z.name, x.s FROM zones z, LATERAL (SELECT sum(packed) AS s FROM {table} b "
    "WHERE b.lat = z.lat) x",
    "SELECT a.lat, sum(a.v0) s, max(b.single) m FROM {table} a JOIN {table} b "
    "ON a.lat = b.lat AND a.time = b.time WHERE a.lon = 0 AND b.lon = 350 GROUP BY a.lat",
    "WITH c(x, y) AS (SELECT lat, sum(packed) FROM {table} GROUP BY lat) "
    "SELECT a.x, b.y FROM c a JOIN c b ON a.x = b.x",
    "SELECT lat FROM {table} MINUS SELECT lat FROM {table} WHERE lat > 0",
    "SELECT lat, v0 FROM {table} WHERE lat > 0 UNION SELECT lat, v0 FROM {table} WHERE lat < 0",
    "SELECT count(*) n FROM (SELECT lat FROM {table} LIMIT 7 OFFSET 115)",
    "SELECT lat, packed FROM {table} ORDER BY packed DESC, time, lat, lon LIMIT 5 OFFSET 2",
    "SELECT lat.lat FROM {table} lat WHERE lat.lat > 0",
    "SELECT b, max(j) j FROM {table} AS w(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) "
    "WHERE a > '2024-03-10' GROUP BY b",
]


def check(spark: SparkSession, odd: Table, queries: list[str], settings: Mapping[str, str]) -> None:
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        wrong = differences(spark, odd, queries, "64m")
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))
    assert not wrong, "\n".join(f"{query}\n  {why}" for query, why in wrong)


PLAIN: dict[str, str] = {}
LENIENT = {"spark.sql.ansi.enabled": "false"}
ELSEWHERE = {"spark.sql.session.timeZone": "America/New_York"}


@pytest.mark.parametrize(
    "settings",
    [pytest.param(PLAIN, id="ansi"), pytest.param(LENIENT, id="lenient", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("queries", [GROUPINGS, AGGREGATES, TABLES])
def test_answers_are_those_of_the_whole_table(
    spark: SparkSession, odd: Table, queries: list[str], settings: dict[str, str]
) -> None:
    check(spark, odd, queries, settings)


@pytest.mark.parametrize("query", LAST)
def test_a_query_may_end_with_an_aggregate(spark: SparkSession, odd: Table, query: str) -> None:
    found = frazil.spark.sql(query.format(table=f"frazil.`{odd.url}`"), spark)
    wanted = spark.sql(query.format(table=odd.view))
    assert found.columns == wanted.columns
    for row, other in zip(found.collect(), wanted.collect(), strict=True):
        for one, same in zip(row, other, strict=True):
            assert one == (pytest.approx(same) if isinstance(same, float) else same)


def conditions() -> Iterator[Any]:
    """Some conditions with some settings: by turns always, all of them by `make soak`."""
    kinds = {"ansi": PLAIN, "lenient": LENIENT, "zone": ELSEWHERE}
    for turn, start in enumerate(range(0, len(CONDITIONS), 20)):
        for number, (name, settings) in enumerate(kinds.items()):
            marks = [] if turn % len(kinds) == number else [pytest.mark.soak]
            yield pytest.param(start, settings, id=f"{start}-{name}", marks=marks)


@pytest.mark.parametrize(("start", "settings"), [*conditions()])
def test_conditions_mean_what_they_mean_to_spark(
    spark: SparkSession, odd: Table, start: int, settings: dict[str, str]
) -> None:
    named = "count(v0) AS a, count(*) AS b, sum(packed) AS c, min(time) AS d"
    queries = [
        f"SELECT {named} FROM {{table}} w WHERE {each}" for each in CONDITIONS[start : start + 20]
    ]
    check(spark, odd, queries, settings)
