"""Tasks find what a check in one process finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.fsck import fsck, verify
from frazil.run import LocalRunner
from frazil.spark.runner import SparkRunner
from frazil.spark.upkeep.calls import call
from frazil.storage.constructors import local_filesystem_storage
from frazil.storage.memory import MemoryStorage
from tests.unit.fsck.defects import DEFECTS
from tests.unit.fsck.samples import Sick, copy, make

T = TypeVar("T")
R = TypeVar("R")
PLANTED = (
    (
        "shape_that_differs_from_the_document",
        "changed_chunk_not_in_the_log",
        "location_that_is_no_url",
        "manifest_that_no_array_needs",
        "chunk_gone",
        "branches_out_of_order",
    ),
    ("snapshot_cut_off", "chunk_of_another_length", "repo_is_garbage"),
)
"""Defects that go together in one repository."""


def spill(storage: MemoryStorage, folder: Path) -> str:
    """Write all objects to a folder, where tasks can read them."""
    for item in storage.list(""):
        target = folder / item.key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(storage.get(item.key) or b"")
    return str(folder)


@pytest.fixture(scope="module")
def healthy() -> dict[int, MemoryStorage]:
    """Repositories that tests copy, by spec."""
    made = {}
    for spec in (1, 2):
        made[spec] = MemoryStorage()
        make(made[spec], spec)
    return made


def test_a_healthy_repository_has_no_rows(
    spark: SparkSession, healthy: dict[int, MemoryStorage], tmp_path: Path
) -> None:
    table = frazil.spark.FrazilTable.forPath(spark, spill(healthy[2], tmp_path))
    assert table.fsck(deep=True).count() == 0


@pytest.mark.parametrize("names", PLANTED, ids=["readable", "unreadable"])
def test_tasks_find_what_one_process_finds(
    spark: SparkSession,
    healthy: dict[int, MemoryStorage],
    tmp_path: Path,
    names: tuple[str, ...],
) -> None:
    sick = Sick(copy(healthy[2]), 2)
    planted = {each.name: each for each in DEFECTS}
    for name in names:
        planted[name].plant(sick)
    url = spill(sick.storage, tmp_path)
    rows = frazil.spark.fsck(url, spark=spark, deep=True).collect()
    place = local_filesystem_storage(url)
    report = fsck(place, deep=True)
    assert {str(planted[name].code) for name in names} <= set(map(str, report.codes()))
    assert [(row.code, row.target, row.path, row.detail) for row in rows] == [
        (str(each.code), each.target, each.path, each.detail) for each in report.findings
    ]
    there = fsck(place, deep=True, runner=SparkRunner(spark))
    assert there.as_dict() == report.as_dict()


@pytest.mark.parametrize("spec", [1, 2])
def test_tasks_and_one_process_give_the_same_report(
    spark: SparkSession, healthy: dict[int, MemoryStorage], tmp_path: Path, spec: int
) -> None:
    place = local_filesystem_storage(spill(healthy[spec], tmp_path))
    here, there = fsck(place, deep=True), fsck(place, deep=True, runner=SparkRunner(spark))
    assert there.as_dict() == here.as_dict()
    assert there.unchecked
    assert verify(place, runner=SparkRunner(spark)).as_dict() == verify(place).as_dict()


def test_one_version_is_checked_with_its_history(
    spark: SparkSession, healthy: dict[int, MemoryStorage], tmp_path: Path
) -> None:
    sick = Sick(copy(healthy[1]), 1)
    sick.delete(sick.manifest_key())
    url = spill(sick.storage, tmp_path)
    assert frazil.spark.fsck(f"{url}@v1", spark=spark).count() == 0
    (row,) = frazil.spark.fsck(f"{url}@main", spark=spark).collect()
    assert (row.level, row.code, row.path) == ("error", "manifest-missing", "/a")


def test_findings_in_sql(
    spark: SparkSession, healthy: dict[int, MemoryStorage], tmp_path: Path
) -> None:
    sick = Sick(copy(healthy[2]), 2)
    sick.delete(sick.manifest_key())
    url = spill(sick.storage, tmp_path)
    frazil.spark.register(spark)
    rows = spark.sql(f"SELECT code, path FROM frazil_fsck(table => '{url}')").collect()
    assert [tuple(row) for row in rows] == [("manifest-missing", "/a")]
    good = f"SELECT * FROM frazil_fsck(table => '{url}@v1', all_history => false, deep => true)"
    assert spark.sql(good).count() == 0


@pytest.mark.slow
def test_the_procedure_lets_a_runner_work_and_leaves_no_finding_out(tmp_path: Path) -> None:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = frazil.Repository.create(local_filesystem_storage(str(tmp_path)), config)
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(1100,), chunks=(1,), dtype="u2")
    array[:] = np.arange(1, 1101)
    session.commit("many objects")
    for gone in (tmp_path / "chunks").iterdir():
        gone.unlink()
    runner = CountingRunner()
    rows = call("fsck", str(tmp_path), None, runner=runner)
    assert len(rows) == 1100
    assert runner.items


class CountingRunner:
    """Threads of this process, and how many items they were given."""

    def __init__(self) -> None:
        self.items = 0

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, R]]:
        self.items += len(items)
        return LocalRunner().run(work, items, size_bytes=size_bytes)

    def facts(self) -> dict[str, object]:
        return {}
