"""Random tables and queries: `frazil.spark.sql` answers as Spark does on the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.soaking import Soak
from tests.support.sql_cases import BATCH, differences, make_query, make_table

TABLES = 15
QUERIES = 20
"""for each table; by tasks, or where the plan is made"""


@pytest.fixture(scope="module")
def one_shuffle(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that puts small answers together in one task."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    yield spark
    spark.conf.set(name, str(before))


def check(seed: int, folder: Path, spark: SparkSession, queries: int, limit: str) -> int:
    """Make a table and try queries on it."""
    rng = np.random.default_rng(seed)
    view = f"plain_{seed}"
    table = make_table(rng, folder / str(seed), spark, view)
    try:
        made = [make_query(rng, table) for _ in range(queries)]
        wrong = [
            found
            for start in range(0, queries, BATCH)
            for found in differences(spark, table, made[start : start + BATCH], limit)
        ]
    finally:
        spark.catalog.dropTempView(view)
    assert not wrong, "\n".join(f"{query}\n  {why}" for query, why in wrong)
    return queries


@pytest.mark.parametrize("seed", range(TABLES))
def test_answers_do_not_depend_on_what_is_pushed(
    seed: int, one_shuffle: SparkSession, tmp_path: Path
) -> None:
    check(seed, tmp_path, one_shuffle, QUERIES, "64m")


def test_nor_on_who_reads(one_shuffle: SparkSession, tmp_path: Path) -> None:
    check(1000, tmp_path, one_shuffle, 3, "0")


@pytest.mark.soak
def test_answers_do_not_depend_on_what_is_pushed_for_long(
    soak: Soak, one_shuffle: SparkSession, tmp_path: Path
) -> None:
    def one(case: str) -> None:
        limit = "0" if int(case) % 20 == 0 else "64m"
        soak.inputs += check(int(case), tmp_path, one_shuffle, BATCH, limit)

    soak.run(soak.seeds(), one)
