"""Random statements that write: cells, commits and the change feed are as the model has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_sql_generated import for_small
from tests.support.soaking import Soak
from tests.support.statement_cases import (
    attempt,
    changes,
    feed,
    known,
    make_case,
    make_statement,
)

TABLES = 2
STATEMENTS = 5
"""for each table"""


def check(seed: int, folder: Path, spark: SparkSession, count: int) -> int:
    """Try statements on a table, one after the other."""
    with for_small(spark):
        case = make_case(seed, folder / str(seed), spark)
        start, tip = case.commits()[0], case.commits()[0]
        told = []
        for number in range(count):
            made = make_statement(case)
            options = {"statistics": True} if number % 3 == 0 else {}
            wrong, before, after = attempt(case, made, write_partitions=1, **options)
            assert not wrong, f"{made.text}\n  {wrong}"
            if case.commits()[0] != tip:
                tip = case.commits()[0]
                told.append((tip, before, after, made.text))
        names = [n for n in case.table.variables if case.dims[n] == case.dims["v0"]]
        if told:
            assert start in case.commits()
            found = feed(case, told[0][0], names)
            for snapshot, before, after, text in told:
                wanted = changes(case, snapshot, before, after, names)
                own = {row for row in found if row[0] == snapshot}
                assert own == wanted, f"{text}: {own ^ wanted}"
        for name in names[:1]:
            answered, wanted_answer = known(case, name)
            assert answered == wanted_answer, name
        report = case.repo.audit.fsck(deep=True)
        assert not report.findings, report.findings
    return count


@pytest.mark.parametrize("seed", range(TABLES))
def test_statements_leave_the_cells_that_they_must(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    check(seed, tmp_path, spark, STATEMENTS)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_statements_leave_the_cells_that_they_must_for_long(
    soak: Soak, spark: SparkSession, tmp_path: Path
) -> None:
    def one(case: str) -> None:
        soak.inputs += check(int(case), tmp_path, spark, 4 * STATEMENTS)
        shutil.rmtree(tmp_path / case)

    soak.run(soak.seeds(), one)
