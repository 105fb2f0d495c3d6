"""The same over Spark Connect, where there is no SparkContext to lean on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import xarray as xr

import frazil
from tests.support.archive import archive, decoded
from tests.support.shared import made_once
from tests.support.spark import WEATHER_ENCODING, make_repository, weather

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# One server for all of these: it takes longer to start than they take to run.
BASICS = """
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import frazil.spark as fs

weather, place, files, daemon = sys.argv[1:]
builder = SparkSession.builder.remote("local[2]")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.daemon.module": daemon,
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
assert fs.session() is spark
told = {}

# reading, metadata tables, procedures
cells = fs.read(weather, spark=spark, where="lat > 0", variables="wind")
table = fs.FrazilTable.forPath(spark, weather)
fs.register(spark)
ancestors = f"SELECT * FROM frazil_ancestors_of(table => '{weather}')"
told["read"] = [cells.count(), table.detail().count(), table.refs().count()]
told["called"] = spark.sql(ancestors).count()

# queries that name repositories, read by this process and by tasks
fs.attach("weather", weather, spark=spark)
asked = "SELECT count(*), count(t2m), sum(wind), max(lat) FROM frazil.weather WHERE month(time) = 2"
names = "SELECT n, name FROM frazil.weather.refs JOIN (SELECT count(*) n FROM frazil.weather)"
told["asked"] = []
for limit in ("64m", "0"):
    spark.conf.set("spark.frazil.sql.localBytes", limit)
    told["asked"].append(list(fs.sql(asked, spark).first()))
told["joined"] = [list(row) for row in fs.sql(names, spark).collect()]
told["explained"] = fs.sql(f"EXPLAIN {asked}", spark).first()[0]

# writing, by our shuffle and by Spark's own way
made = f"{place}/made"
frame = fs.read(weather, spark=spark).repartition(3)
fs.write(frame, made, dims=["time", "lat", "lon"], chunks={"time": 4}, message="written")
extra = frame.where("time = '2024-02-08'").selectExpr("time + INTERVAL 1 DAY time", "lat", "lon",
                                                      "t2m", "wind")
extra.write.format("frazil").mode("append").option("append-dim", "time").save(made)
told["written"] = fs.read(made, spark=spark).count()

"""
STATEMENTS = """
spark.conf.unset("spark.frazil.sql.localBytes")
fs.attach("sea", f"{place}/sea", spark=spark)

def run(text, **how):
    return [list(row) for row in fs.sql(text, spark, **how).collect()]

run("CREATE TABLE frazil.sea PARTITIONED BY (time, lat, lon) OPTIONS (chunks 'time=4') AS SELECT "
    "time, lat, lon, wind FROM frazil.weather", statistics=True)
told["known"] = run("EXPLAIN SELECT max(wind) FROM frazil.sea")[0][0]
day = "TIMESTAMP_NTZ '2024-01-30'"
run("INSERT INTO frazil.sea (time, lat, lon, wind) "
    f"VALUES ({day}, 60D, 0D, 99), ({day}, 40D, 0D, NULL)")
told["feed"] = sorted(run("SELECT _change_type, wind FROM table_changes('sea', 'main')"), key=str)
run("UPDATE frazil.sea SET wind = wind + 1000 WHERE lat = 60 AND lon = 10 AND time < '2024-02-01'")
run("DELETE FROM frazil.sea WHERE lat = -60 AND lon = 40")
run("MERGE INTO frazil.sea m USING (SELECT 20D AS lat) s ON m.lat = s.lat AND m.lon = 0 "
    "WHEN MATCHED THEN UPDATE SET wind = 5 "
    "WHEN NOT MATCHED BY SOURCE AND m.lon = 30 AND m.lat = 0 THEN DELETE")
run("CREATE TABLE frazil.sea.means PARTITIONED BY (lat) "
    "AS SELECT lat, avg(wind) AS mean FROM frazil.sea GROUP BY lat")
told["means"] = run("SELECT lat, mean FROM frazil.sea.means ORDER BY lat")
run("CALL frazil.system.create_branch(table => 'sea', branch => 'audit')")
run("ALTER TABLE frazil.sea CREATE TAG tested")
told["refs"] = [name for name, in run("SELECT name FROM frazil.sea.refs ORDER BY name")]
run("ALTER TABLE frazil.sea CREATE BRANCH dev AS OF VERSION 'tested'")
run("ALTER TABLE frazil.sea DROP BRANCH audit")
told["branches"] = [row[0] for row in run("SHOW BRANCHES IN frazil.sea")]
told["vacuumed"] = [run("VACUUM frazil.sea RETAIN 168 HOURS DRY RUN"), run("VACUUM frazil.sea")]
told["history"] = len(run("DESCRIBE HISTORY frazil.sea"))
told["analyzed"] = fs.sql("ANALYZE TABLE frazil.sea.means COMPUTE STATISTICS", spark).first()[1]
told["before"] = run("EXPLAIN UPDATE frazil.sea SET wind = 0")[0][0]
run("INSERT OVERWRITE frazil.sea.means.branch_dev SELECT lat, -1D FROM frazil.sea.means")
run("INSERT INTO frazil.sea.means.branch_dev REPLACE WHERE lat < 0 VALUES (-60D, 7D)")
once = dict(txnAppId="daily", txnVersion=1, append_dim="lat")
told["appended"] = [
    run("INSERT INTO frazil.sea.means.branch_dev VALUES (90D, 9D)", **once)[0][0] is not None
    for _ in range(2)
]
run("MERGE INTO frazil.sea.means.branch_dev m USING (SELECT 95D AS lat, 3D AS mean) s "
    "ON m.lat = s.lat WHEN NOT MATCHED THEN INSERT *", append_dim="lat")
told["dev"] = run("SELECT lat, mean FROM frazil.sea.means.branch_dev "
                  "WHERE mean IS NOT NULL AND NOT isnan(mean) ORDER BY lat")

"""
GENERATED = """
from tests.support.sql_cases import differences, make_query, make_table

told["wrong"] = []
for seed, limit in ((1, "64m"), (2, "0")):
    rng = np.random.default_rng(seed)
    table = make_table(rng, Path(place) / f"random-{seed}", spark, f"plain_{seed}")
    queries = [make_query(rng, table) for _ in range(5)]
    told["wrong"] += differences(spark, table, queries, limit)

"""
STREAMS = """
stream = spark.readStream.format("frazil").option("columns", "time, lat, lon, wind").load(made)
query = (stream.writeStream.format("frazil").option("checkpointLocation", f"{place}/state")
         .option("dims", "time, lat, lon").option("append-dim", "time")
         .trigger(availableNow=True).start(f"{place}/streamed"))
query.awaitTermination()
told["streamed"] = fs.read(f"{place}/streamed", spark=spark).count()

"""
INGEST = """
for mode in ("virtual", "native"):
    report = fs.ingest(f"{files}/*.nc", f"{place}/{mode}", spark=spark, mode=mode)
    told[mode] = [str(report.status), len(report.files)]
"""
JOBS = """
report = fs.rechunk(made, "wind", {"time": -1, "lat": 2, "lon": 2}, spark=spark)
told["rechunked"] = report.chunks
shuffled = fs.rechunk(made, "t2m", {"time": -1, "lat": 1, "lon": 1}, spark=spark, max_memory=2048)
told["shuffled"] = list(shuffled.shuffled)
fs.map_blocks(lambda ds: (ds.wind * 2).rename("double"), made, "wind", spark=spark)
fs.reduce_blocks(lambda ds: ds.wind.sum("time").rename("total"), made, "wind", "time", spark=spark)
told["arrays"] = sorted(
    row.path
    for row in fs.FrazilTable.forPath(spark, made).metadata_table("arrays").collect()
)
"""
UPKEEP = """
later = datetime.now(UTC) + timedelta(minutes=5)
told["trouble"] = fs.verify(made, spark=spark, all_history=True).count()
told["storage"] = fs.storage(made, "branch", spark=spark).count()
kept = fs.FrazilTable.forPath(spark, made)
told["expired"] = kept.expire_snapshots(later).collect()[0].expired_snapshots_count
young = {"unsafe_minimum_age": timedelta(0), "spark": spark}
told["garbage"] = fs.find_garbage(made, later, **young).frame.count() >= 0
told["collected"] = fs.collect_garbage(made, later, dry_run=False, **young).chunks_deleted
fs.compact_chunks(made, spark=spark)
kept.rewrite_manifests()
kept.create_tag("v1")
told["after"] = [fs.verify(made, spark=spark).count(),
                 fs.read(made, spark=spark, variables="wind").count()]
"""
COPIES = """
fs.clone(f"{made}@v1", f"{place}/clone", spark=spark)
fs.export(made, f"{place}/plain.zarr", spark=spark)
fs.import_zarr(f"{place}/plain.zarr", f"{place}/back", spark=spark)
told["clones"] = [fs.read(f"{place}/{n}", spark=spark, variables="wind").count()
                  for n in ("clone", "back")]
"""
END = """
print("ANSWER" + json.dumps(told))
spark.stop()
"""


Told: TypeAlias = tuple[Path, dict[str, Any]]


def run(daemon: str, *parts: str, place: Path) -> dict[str, Any]:
    """What parts of the script say, run in a folder with a repository and files to ingest.

    A server's Python workers come from the module `daemon`: Frazil's, as the documents advise, or
    Spark's own, whose workers import everything for each plan and take twice as long.
    """
    archive(place / "files", 2)
    make_repository(place / "weather", weather(), **WEATHER_ENCODING)
    script = "".join((BASICS, *parts, END))
    homes = (Path(frazil.__file__).resolve().parents[1], Path(__file__).resolve().parents[2])
    home = os.pathsep.join(map(str, homes))
    given = (place / "weather", place, place / "files", daemon)
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, given)],
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
        env={
            "SPARK_TESTING": "1",  # any free port: two such servers may run at once
            **os.environ,
            "PYTHONPATH": home,
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert done.returncode == 0, done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if "ANSWER" in line)
    told: dict[str, Any] = json.loads(line.partition("ANSWER")[2])
    return told


@pytest.fixture(scope="module")
def basics(tmp_path_factory: pytest.TempPathFactory) -> Told:
    def make(place: Path) -> dict[str, Any]:
        return run("frazil.spark.daemon", STATEMENTS, place=place)

    return made_once(tmp_path_factory, "connect-basics", make)


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Told:
    def make(place: Path) -> dict[str, Any]:
        parts = (INGEST, STREAMS, JOBS, UPKEEP, COPIES, GENERATED)
        return run("pyspark.daemon", *parts, place=place)

    return made_once(tmp_path_factory, "connect-more", make)


def seen(path: Path) -> xr.Dataset:
    """What xarray reads of a repository."""
    return xr.open_dataset(str(path), engine="frazil").load()


def test_reading_tables_and_procedures(basics: Told) -> None:
    _, told = basics
    assert told["read"] == [150, 1, 1]
    assert told["called"] == 2


def test_queries_that_name_repositories(basics: Told) -> None:
    _, told = basics
    chosen = weather().sel(time="2024-02")
    wanted = [chosen.wind.size, int(chosen.t2m.count()), float(chosen.wind.sum(dtype="f8")), 60.0]
    assert told["asked"] == [pytest.approx(wanted), pytest.approx(wanted)]
    assert told["joined"] == [[weather().wind.size, "main"]]
    assert "pushed: month(time) = 2" in told["explained"]


def test_writing(basics: Told) -> None:
    place, told = basics
    assert told["written"] == 11 * 35
    found = seen(place / "made").sel(lat=weather().lat)
    np.testing.assert_array_equal(found.wind[:10], weather().wind)
    np.testing.assert_array_equal(found.wind[10], weather().wind[9])


def test_statements(basics: Told) -> None:
    place, told = basics
    wanted = weather().wind.astype("f8")
    assert "to read: 0 of 3 chunks" in told["known"]
    cells = [float(wanted[0, 0, 0]), float(wanted[0, 1, 0])]
    assert told["feed"] == sorted(
        [
            ["update_preimage", cells[0]],
            ["update_postimage", 99.0],
            ["delete", cells[1]],
        ],
        key=str,
    )
    wanted[0, 0, 0], wanted[0, 1, 0] = 99.0, np.nan
    wanted[:2, 0, 1] += 1000
    wanted[:, 6, 4] = np.nan
    wanted[:, 2, 0] = 5
    wanted[:, 3, 3] = np.nan
    found = seen(place / "sea").sel(lat=wanted.lat).wind
    np.testing.assert_allclose(found, wanted.astype("f4"), rtol=1e-6)
    means = wanted.mean(("time", "lon")).sortby("lat")
    assert [mean for _, mean in told["means"]] == pytest.approx(means.values.tolist(), rel=1e-5)
    assert told["refs"] == ["audit", "main", "tested"]
    assert told["branches"] == ["dev", "main"]
    assert told["vacuumed"] == [[], []]
    assert told["history"] == 7
    assert told["analyzed"] == 2  # labels and means
    assert "written: time, lat, lon, wind; branch: main" in told["before"]
    assert told["appended"] == [True, False]
    kept = {lat: -1.0 for lat in wanted.lat.values.tolist() if lat >= 0}
    assert told["dev"] == sorted(map(list, {**kept, -60.0: 7.0, 90.0: 9.0, 95.0: 3.0}.items()))


@pytest.mark.soak
def test_generated_queries(more: Told) -> None:
    assert more[1]["wrong"] == []


@pytest.mark.soak
def test_ingest(more: Told) -> None:
    place, told = more
    assert told["virtual"] == told["native"] == ["committed", 2]
    xr.testing.assert_equal(seen(place / "native"), decoded(0, 1))


@pytest.mark.soak
def test_streaming(more: Told) -> None:
    place, told = more
    assert told["streamed"] == 11 * 35
    xr.testing.assert_equal(seen(place / "streamed").wind, seen(place / "clone").wind)


@pytest.mark.soak
def test_jobs(more: Told) -> None:
    place, told = more
    assert told["rechunked"] == 4 * 3
    assert told["shuffled"] == ["/t2m"]
    assert {"/double", "/total"} <= set(told["arrays"])
    found = seen(place / "made")
    np.testing.assert_array_equal(found.double, found.wind * 2)
    np.testing.assert_allclose(found.total, found.wind.sum("time"), rtol=1e-5)


@pytest.mark.soak
def test_upkeep(more: Told) -> None:
    _, told = more
    assert (told["trouble"], told["storage"], told["garbage"]) == (0, 1, True)
    assert told["expired"] > 0
    assert told["after"] == [0, 11 * 35]


@pytest.mark.soak
def test_clones(more: Told) -> None:
    place, told = more
    assert told["clones"] == [11 * 35] * 2
    plain = xr.open_zarr(place / "plain.zarr", consolidated=False).load()
    np.testing.assert_array_equal(plain.wind, seen(place / "clone").wind)
