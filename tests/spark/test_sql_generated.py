"""Random tables and queries: `frazil.spark.sql` answers as Spark does on the whole table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.soaking import Soak
from tests.support.sql_cases import BATCH, differences, make_query, make_table

TABLES = 5
QUERIES = 20
"""for each table; by tasks, or where the plan is made"""


FOR_SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.optimizer.maxIterations": "1",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}
"""settings for queries on few rows: to compile and improve them takes longer than to run them"""


@contextmanager
def for_small(spark: SparkSession) -> Iterator[None]:
    """Let a session be one for small queries."""
    before = {name: spark.conf.get(name, None) for name in FOR_SMALL}
    for name, value in FOR_SMALL.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def check(
    seed: int,
    folder: Path,
    spark: SparkSession,
    queries: int,
    limit: str,
    *,
    as_users: bool = False,
) -> int:
    """Make a table and try queries on it; `as_users` with the settings that a session has."""
    rng = np.random.default_rng(seed)
    view = f"plain_{seed}"
    table = make_table(rng, folder / str(seed), spark, view)
    try:
        made = [make_query(rng, table) for _ in range(queries)]
        with nullcontext() if as_users else for_small(spark):
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
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    check(seed, tmp_path, spark, QUERIES, "64m")


def test_nor_on_who_reads(spark: SparkSession, tmp_path: Path) -> None:
    check(1000, tmp_path, spark, 3, "0", as_users=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_answers_do_not_depend_on_what_is_pushed_for_long(
    soak: Soak, spark: SparkSession, tmp_path: Path
) -> None:
    def one(case: str) -> None:
        # Each table that tasks read costs Spark a few processes, and to compile queries, as Spark
        # does it for users, takes longer than to run them.
        match int(case) % 20:
            case 0:
                soak.inputs += check(int(case), tmp_path, spark, 5, "0", as_users=True)
            case 10:
                soak.inputs += check(int(case), tmp_path, spark, BATCH, "64m", as_users=True)
            case _:
                soak.inputs += check(int(case), tmp_path, spark, 4 * BATCH, "64m")
        shutil.rmtree(tmp_path / case)

    soak.run(soak.seeds(), one)
