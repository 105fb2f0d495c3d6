"""The data source inside a real Spark with two workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, SessionStateError
from frazil.spark import FrazilTable, rechunk, verify
from tests.spark.test_cells import DTYPES
from tests.support.spark import make_repository, weather

pytestmark = pytest.mark.slow

KEYS = ["time", "lat", "lon"]
QUIET = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"


@pytest.fixture(scope="module")
def cells(spark: SparkSession, weather_repo: Path) -> DataFrame:
    """All cells; in more partitions than there are workers."""
    return spark.read.format("frazil").option("chunks-per-partition", 9).load(str(weather_repo))


def test_all_cells_as_xarray_has_them(cells: DataFrame, dataset: xr.Dataset) -> None:
    found = cells.toPandas().set_index(KEYS).sort_index()
    expected = dataset.to_dataframe().sort_index()
    pd.testing.assert_frame_equal(found, expected, check_index_type=False)


def test_a_reused_frame_gives_right_rows_with_each_filter(
    cells: DataFrame, dataset: xr.Dataset
) -> None:
    per_lat = dataset.sizes["time"] * dataset.sizes["lon"]
    assert cells.filter("lat = 60").count() == per_lat
    assert cells.count() == dataset["wind"].size
    both = cells.filter("lat = 60").union(cells.filter("lat = -60")).groupBy("lat").count()
    assert {row["lat"]: row["count"] for row in both.collect()} == {60.0: per_lat, -60.0: per_lat}


def test_where_means_what_filter_means(
    spark: SparkSession, cells: DataFrame, weather_repo: Path
) -> None:
    condition = (
        "NOT (time < '2024-02-01' OR lat BETWEEN -20 AND 20) AND (lon IN (0, 30) OR lat = 40)"
    )
    chosen = frazil.spark.read(str(weather_repo), spark=spark, where=condition)
    expected = cells.filter(condition)
    assert chosen.exceptAll(expected).count() == 0
    assert chosen.count() == expected.count() > 0


def test_sql_over_views(spark: SparkSession, weather_repo: Path, dataset: xr.Dataset) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW weather USING icechunk OPTIONS (path '{weather_repo}')"
    )
    rows = spark.sql(
        "SELECT month(time) AS m, avg(wind) AS mean FROM weather WHERE lat > 0 "
        "GROUP BY 1 ORDER BY 1"
    ).collect()
    north = dataset["wind"].sel(lat=slice(60, 1)).astype("f8")
    expected = north.groupby("time.month").mean(...)
    np.testing.assert_allclose([row["mean"] for row in rows], expected.to_numpy(), rtol=1e-6)
    assert [row["m"] for row in rows] == expected["month"].to_numpy().tolist()


def test_options_in_a_query_are_those_of_that_query(
    spark: SparkSession, weather_repo: Path
) -> None:
    spark.sql("CREATE TABLE declared (lat double, lon double) USING frazil")
    try:
        query = "SELECT lon FROM declared WITH (path='{}', isel='time=0, lat={}')"
        first = spark.sql(query.format(weather_repo, "0")).collect()
        assert sorted(row["lon"] for row in first) == [0.0, 10.0, 20.0, 30.0, 40.0]
        assert spark.sql(query.format(weather_repo, "0:3")).count() == 15
        with pytest.raises(PySparkException, match=r"WITH \(path = 'URL'\)"):
            spark.sql("SELECT * FROM declared").collect()
        with pytest.raises(PySparkException, match="does not keep the options of a table"):
            spark.sql(f"CREATE TABLE lost USING frazil OPTIONS (path '{weather_repo}')")
    finally:
        spark.sql("DROP TABLE declared")


def test_a_schema_is_a_projection(spark: SparkSession, weather_repo: Path) -> None:
    reader = spark.read.format("frazil").schema("wind double, time timestamp")
    found = reader.option("isel", "time=0, lat=0").load(str(weather_repo))
    assert found.columns == ["wind", "time"]
    assert len(found.collect()) == 5


def test_every_type_survives_the_way_into_the_jvm(spark: SparkSession, tmp_path: Path) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    for name, (values, _) in DTYPES.items():
        made = root.create_array(
            name, shape=values.shape, dtype=values.dtype, dimension_names=("x",)
        )
        made[...] = values
    session.commit("all types")
    found = {row["x"]: row.asDict() for row in frazil.spark.read(str(tmp_path / "r")).collect()}
    for name, (values, _) in DTYPES.items():
        for number, value in enumerate(values.tolist()):
            read = found[number][name]
            match value:
                case complex():
                    assert (read["re"], read["im"]) == (value.real, value.imag)
                case bytes():
                    assert read == value.decode()
                case _:
                    assert read == value


def test_lines_are_aggregated_in_place(
    spark: SparkSession, weather_repo: Path, dataset: xr.Dataset
) -> None:
    lines = frazil.spark.read(str(weather_repo), layout="lines", columns=["lat", "wind"])
    total = expr("sum(aggregate(wind, 0D, (sum, value) -> sum + value))")
    found = lines.groupBy("lat").agg(total.alias("total"))
    expected = dataset["wind"].astype("f8").sum(["time", "lon"]).to_series().to_dict()
    assert {row["lat"]: pytest.approx(row["total"]) for row in found.collect()} == expected


def test_metadata_tables_join(spark: SparkSession, weather_repo: Path) -> None:
    table = FrazilTable.forPath(spark, str(weather_repo))
    chunks = table.metadata_table("chunks").groupBy("node_path").count()
    arrays = table.metadata_table("arrays").select("path", "chunks_count")
    joined = chunks.join(arrays, chunks["node_path"] == arrays["path"]).collect()
    assert {row["path"]: row["count"] for row in joined} == {
        row["path"]: row["chunks_count"] for row in joined
    }
    assert len(joined) == 5


def test_procedures_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", weather(2))
    tip = repository.lookup_branch("main")
    frazil.spark.register(spark)
    url = tmp_path / "r"
    ancestors = spark.sql(f"SELECT snapshot_id FROM frazil_ancestors_of(table => '{url}')")
    assert ancestors.first() == (tip,)
    making = f"SELECT * FROM frazil_create_branch(table => '{url}', branch => 'dev')"
    with pytest.raises(Exception, match=r"CALL frazil\.system\.create_branch"):
        spark.sql(making).collect()
    assert repository.list_branches() == {"main"}
    expired = spark.sql(
        "SELECT expired_snapshots_count FROM frazil_expire_snapshots("
        f"table => '{url}', older_than => TIMESTAMP '2001-01-01 00:00:00', dry_run => true)"
    ).collect()
    assert expired[0][0] == 0


def test_methods_answer_with_frames(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", weather(2))
    table = FrazilTable.forPath(spark, str(tmp_path / "r"))
    (detail,) = table.detail().collect()
    assert (detail["format"], detail["numSnapshots"]) == ("icechunk", 2)
    (first,) = table.ancestors_of().orderBy("timestamp").limit(1).collect()
    (moved,) = table.rollback_to_snapshot(first["snapshot_id"]).collect()
    assert moved["current_snapshot_id"] == repository.lookup_branch("main")


def test_few_rows_of_a_huge_array(spark: SparkSession, tmp_path: Path) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(10**6, 10**5, 1000), chunks=(100, 100, 100), dtype="f4",
        fill_value=2, dimension_names=("t", "y", "x"),
    )  # fmt: skip
    session.commit("10^8 chunks")
    huge = spark.read.format("frazil").load(str(tmp_path / "r"))
    assert [tuple(row) for row in huge.limit(3).collect()] == [
        (0, 0, 0, 2.0),
        (0, 0, 1, 2.0),
        (0, 0, 2, 2.0),
    ]


def test_mistakes_are_told_on_the_driver(spark: SparkSession, weather_repo: Path) -> None:
    reader = spark.read.format("frazil")
    with pytest.raises(PySparkException, match="unknown option 'wher'; did you mean 'where'"):
        reader.option("wher", "lat > 1").load(str(weather_repo))
    with pytest.raises(InvalidInputError, match="did you mean 'lat'") as refusal:
        frazil.spark.read(str(weather_repo), spark=spark, where="latt > 1")
    assert "Traceback" not in str(refusal.value)
    secret = "do-not-show-me"
    hidden = (
        spark.read.format("frazil")
        .option("authorize-virtual-chunk-access", "s3://bucket/")
        .option("virtual.access_key_id", "AKIA")
        .option("virtual.secret_access_key", secret)
        .load(str(weather_repo))
    )
    assert secret not in hidden._jdf.queryExecution().toString()


def test_errors_of_tasks_end_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    """Spark shows the traceback of its worker; ours is short, and its end tells what to do."""
    repository = make_repository(tmp_path / "r", weather(2))
    session = repository.writable_session("main")
    session.store.set_virtual_ref(
        "wind/c/0/0/0", "s3://bucket/f.nc", offset=0, length=8, validate_container=False
    )
    session.commit("virtual")
    rows = spark.read.format("frazil").load(str(tmp_path / "r"))
    with pytest.raises(PySparkException) as caught:
        rows.collect()
    text = str(caught.value)
    (sentence,) = [each for each in text.splitlines() if each.startswith("frazil.errors.")]
    assert "s3://bucket/f.nc" in sentence
    assert "During handling" not in text
    assert "direct cause" not in text
    assert len(text.partition(sentence)[0].splitlines()) < 10
    spark.conf.set(QUIET, True)
    try:
        with pytest.raises(PySparkException) as caught:
            rows.collect()
    finally:
        spark.conf.unset(QUIET)
    assert sentence in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_workers_have_the_same_frazil(
    spark: SparkSession, weather_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verify(str(weather_repo), spark=spark).count() == 0
    monkeypatch.setattr(frazil, "__version__", "99.0")  # of the driver only
    with pytest.raises(SessionStateError, match=r"driver's is 99\.0: install the same Frazil"):
        rechunk(str(weather_repo), "wind", {"time": 5}, spark=spark)
    assert len(list(frazil.Repository.open(weather_repo).ancestry(branch="main"))) == 2
