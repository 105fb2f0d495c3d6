"""`df.write` of a new table: few rows go through the driver, and none when labels are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Forty cells."""
    return spark.range(40).selectExpr("id DIV 8 AS y", "id % 8 AS x", "CAST(id AS DOUBLE) AS v")


def test_many_rows_of_a_new_table_are_refused(rows: DataFrame, tmp_path: Path) -> None:
    url = str(tmp_path / "r")
    writer = rows.write.format("frazil").mode("append").option("dims", "y, x")
    with pytest.raises(PySparkException, match=r"frazil\.spark\.write\(df, url, …\)"):
        writer.option("max-driver-bytes", "100").save(url)
    writer.option("max-driver-bytes", "1m").save(url)
    repo = frazil.Repository.open(url)
    assert len([*repo.ancestry(branch="main")]) == 2


def test_labels_that_are_given_let_tasks_store_chunks(rows: DataFrame, tmp_path: Path) -> None:
    url = str(tmp_path / "r")
    coords = json.dumps({"y": list(range(5)), "x": list(range(8))})
    writer = rows.coalesce(1).write.format("frazil").mode("append").option("dims", "y, x")
    writer = writer.option("coords", coords).option("chunks", "y=2, x=4")
    writer.option("max-driver-bytes", "1").save(url)
    found = frazil.spark.read(url, spark=rows.sparkSession).orderBy("y", "x").collect()
    assert [row["v"] for row in found] == [float(n) for n in range(40)]
