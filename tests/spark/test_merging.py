"""Merging by procedure: from Python, and one by SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import frazil
from frazil.errors import MergeConflictError
from frazil.spark.upkeep.calls import call, register
from frazil.spark.upkeep.procedure import PROCEDURES
from frazil.storage.constructors import local_filesystem_storage
from tests.support.branches import Branches
from tests.support.nodes import array_document


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, Branches]:
    """Main and dev, which have both written chunk 0 and another."""
    url = str(tmp_path / "repo")
    repo = Branches(storage=local_filesystem_storage(url))
    repo.commit("main", {"a/zarr.json": array_document(6), "a/c/0": b"0"})
    repo.branch("dev")
    repo.commit("dev", {"a/c/1": b"d1"}, "one")
    repo.commit("dev", {"a/c/0": b"d0"}, "two")
    repo.commit("main", {"a/c/0": b"m0", "a/c/2": b"m2"})
    return url, repo


def run(name: str, table: str, **arguments: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    names = PROCEDURES[name].returns.fieldNames()
    rows = call(name, table, None, **arguments)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_merge_and_its_conflicts(made: tuple[str, Branches]) -> None:
    url, repo = made
    before = repo.tip("main")
    (conflict,) = run("merge_conflicts", url, source="dev")
    assert (conflict["kind"], conflict["path"], conflict["chunks"]) == ("chunks", "/a", [[0]])
    with pytest.raises(MergeConflictError):
        run("merge", url, source="dev")
    (row,) = run("merge", url, source="dev", policy="/a=theirs", message="joined")
    assert (row["previous_snapshot_id"], row["current_snapshot_id"]) == (before, repo.tip("main"))
    assert (row["status"], row["changed_chunks_count"], row["conflicts_count"]) == (
        "committed",
        2,
        1,
    )
    assert repo.chunks("main", "a") == {"0": b"d0", "1": b"d1", "2": b"m2"}


def test_cherrypick_revert_and_squash(made: tuple[str, Branches]) -> None:
    url, repo = made
    one = list(repo.repository.ancestry(branch="dev"))[1].id
    (row,) = run("cherrypick_snapshot", url, snapshot_id=one)
    assert row == {"source_snapshot_id": one, "current_snapshot_id": repo.tip("main")}
    assert repo.chunks("main", "a")["1"] == b"d1"
    run("revert", url, snapshot_id=row["current_snapshot_id"])
    assert repo.chunks("main", "a") == {"0": b"m0", "2": b"m2"}
    start = list(repo.repository.ancestry(branch="dev"))[-2].id
    (squashed,) = run("squash", f"{url}@dev", from_snapshot_id=start)
    assert squashed["current_snapshot_id"] == repo.tip("dev")
    assert len(list(repo.repository.ancestry(branch="dev"))) == 3


def test_by_sql_and_from_a_table(made: tuple[str, Branches], spark: SparkSession) -> None:
    url, repo = made
    register(spark)
    query = f"SELECT kind, path FROM frazil_merge_conflicts(table => '{url}', source => 'dev')"
    assert [tuple(row) for row in spark.sql(query).collect()] == [("chunks", "/a")]
    table = frazil.spark.FrazilTable.for_path(spark, url)
    assert table.merge("dev", policy="ours").collect()[0].status == "committed"
    assert repo.chunks("main", "a") == {"0": b"m0", "1": b"d1", "2": b"m2"}
    assert table.merge("dev").collect()[0].status == "up-to-date"
