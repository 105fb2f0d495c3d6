"""Statements of `frazil.spark.sql` that call procedures, and name and show versions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError
from frazil.xarray import to_icechunk

DAYS, LATS = 4, 6
Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Place:
    """A repository under a name."""

    spark: SparkSession
    url: str
    repo: frazil.Repository

    def sql(self, text: str, **options: Any) -> DataFrame:  # noqa: ANN401  (options of any kind)
        return frazil.spark.sql(text, self.spark, **options)

    def rows(self, text: str, **options: Any) -> Rows:  # noqa: ANN401  (options of any kind)
        return [tuple(row) for row in self.sql(text, **options).collect()]

    def data(self) -> xr.Dataset:
        store = self.repo.readonly_session("main").store
        found: xr.Dataset = xr.open_zarr(store, consolidated=False).load()
        return found


@pytest.fixture
def sea(tmp_path: Path, spark: SparkSession) -> Place:
    """Two fields of time and lat, a mask of lat, and a group below."""
    url = str(tmp_path / "sea")
    repo = frazil.Repository.create(url)
    session = repo.writable_session("main")
    shape = (DAYS, LATS)
    data = xr.Dataset(
        {
            "sst": (("time", "lat"), np.arange(DAYS * LATS, dtype="f4").reshape(shape)),
            "salt": (("time", "lat"), np.full(shape, 35.0)),
            "mask": (("lat",), np.arange(LATS, dtype="f4")),
        },
        coords={
            "time": np.datetime64("2024-01-01", "ns") + np.arange(DAYS).astype("m8[D]"),
            "lat": np.arange(50.0, 50.0 + LATS),
        },
    )
    chunks = {name: {"chunks": (2, 3)} for name in ("sst", "salt")}
    to_icechunk(data, session, encoding=chunks)
    to_icechunk(data[["mask"]], session, group="masks")
    session.commit("four days")
    frazil.spark.attach("sea", url, spark=spark)
    return Place(spark, url, repo)


# --- procedures ---


def test_call_runs_at_once_and_once(sea: Place) -> None:
    tip = sea.repo.lookup_branch("main")
    called = f"CALL frazil.system.create_branch(table => '{sea.url}', branch => 'dev')"
    made = sea.sql(called)
    assert sea.repo.lookup_branch("dev") == tip
    assert made.collect() == [("dev", "BRANCH", tip)]
    assert made.count() == 1
    sea.repo.delete_branch("dev")
    assert made.collect() == [("dev", "BRANCH", tip)]
    assert sea.repo.list_branches() == {"main"}


def test_call_takes_names_places_and_expressions(sea: Place) -> None:
    assert sea.rows("call frazil.create_tag('sea', concat('v', 1))")[0][:2] == ("v1", "TAG")
    assert sea.rows("CALL frazil.system.ancestors_of('frazil.sea.tag_v1');")
    expired = sea.rows(
        "CALL frazil.system.expire_snapshots("
        "  table => 'sea', older_than => current_timestamp() - INTERVAL 1 DAY, dry_run => true)"
    )
    assert expired[0][-1] == 0
    newest = "(SELECT max_by(snapshot_id, committed_at) FROM frazil.sea.snapshots)"
    moved = sea.rows(f"CALL frazil.system.rollback_to_snapshot('sea', {newest})")
    assert moved == [(sea.repo.lookup_branch("main"),) * 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CALL frazil.system.expire('sea')", r"no procedure 'expire'"),
        ("CALL frazil.system.detail()", r"needs the argument 'table'"),
        ("CALL frazil.system.detail('sea', 1, 2)", r"arguments: table"),
        ("CALL frazil.system.detail(tabel => 'sea')", r"needs the argument 'table'"),
        ("CALL frazil.system.detail(table => 'sea', x => 1)", r"no argument 'x'"),
        ("CALL frazil.system.detail('sea', table => 'sea')", r"given twice"),
        ("CALL frazil.system.detail('sea') now", r"end of the statement is expected before 'now'"),
        ("CALL frazil.system.detail('sea.masks')", r"about a whole repository"),
        ("CALL frazil.a.b.c('sea')", r"CALL frazil\.system\.NAME"),
        ("CALL frazil.system.detail 'sea'", r"\( is expected"),
    ],
)
def test_calls_that_cannot_be_meant(sea: Place, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sea.sql(text)


def test_vacuum_is_orphan_removal_with_its_floor(sea: Place) -> None:
    orphan = Path(sea.url) / "chunks" / "0000000000000000000G"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"left over")
    assert sea.rows("VACUUM frazil.sea RETAIN 0 HOURS DRY RUN") == []
    assert sea.rows("VACUUM frazil.sea") == []
    assert orphan.exists()
    gone = sea.rows(
        "CALL frazil.system.vacuum('sea', older_than => now(), unsafe_minimum_age => '0h')"
    )
    assert [row[0].endswith(orphan.name) for row in gone] == [True]
    assert not orphan.exists()
    with pytest.raises(InvalidInputError, match="number of hours"):
        sea.sql("VACUUM frazil.sea RETAIN many HOURS")


def test_analyze_table_makes_statistics_of_chunks(sea: Place) -> None:
    def chunks_to_read(query: str) -> str:
        return (
            frazil.spark.explain(query, sea.spark).partition("to read: ")[2].partition(" chunks")[0]
        )

    (made,) = sea.sql("ANALYZE TABLE frazil.sea.SST COMPUTE STATISTICS").collect()
    assert (made.analyzed_chunks_count, made.known_chunks_count) == (4, 0)
    assert chunks_to_read("SELECT max(sst) FROM frazil.sea") == "0 of 4"
    assert chunks_to_read("SELECT max(salt) FROM frazil.sea") == "4 of 4"
    (rest,) = sea.sql("analyze table frazil.sea compute statistics for all columns;").collect()
    assert rest.known_chunks_count == 4
    assert chunks_to_read("SELECT max(salt) FROM frazil.sea") == "0 of 4"
    (group,) = sea.sql("ANALYZE TABLE frazil.sea.masks COMPUTE STATISTICS").collect()
    assert group.analyzed_chunks_count == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ANALYZE TABLE frazil.sea", "COMPUTE STATISTICS is expected before the end"),
        ("ANALYZE frazil.sea COMPUTE STATISTICS", "TABLE is expected"),
        ("ANALYZE TABLE frazil.sea COMPUTE STATISTICS FOR COLUMNS sst", "name a variable after"),
        ("ANALYZE TABLE frazil.sea COMPUTE STATISTICS NOSCAN", "the end of the statement"),
        ("ANALYZE TABLE frazil.sea.refs COMPUTE STATISTICS", "'refs' is a metadata table"),
    ],
)
def test_what_cannot_be_analyzed(sea: Place, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sea.sql(text)


# --- versions, and what there is ---


def test_branches_and_tags(sea: Place) -> None:
    first, tip = [info.id for info in sea.repo.ancestry(branch="main")][::-1]
    at = f"AS OF VERSION '{first}'"
    assert sea.rows(f"ALTER TABLE frazil.sea CREATE BRANCH dev {at}") == [("dev", "BRANCH", first)]
    with pytest.raises(AlreadyExistsError):
        sea.sql("ALTER TABLE frazil.sea CREATE BRANCH dev")
    kept = sea.rows("ALTER TABLE frazil.sea CREATE BRANCH IF NOT EXISTS dev")
    assert kept == [("dev", "BRANCH", first)]
    sea.sql("ALTER TABLE frazil.sea CREATE OR REPLACE BRANCH dev")
    assert sea.repo.lookup_branch("dev") == tip
    sea.sql(f"ALTER TABLE frazil.`{sea.url}` REPLACE BRANCH dev {at}")
    sea.sql("ALTER TABLE frazil.sea.branch_dev CREATE TAG `v-1`")
    assert sea.repo.lookup_tag("v-1") == first
    assert sea.rows("SHOW TAGS IN frazil.sea") == [("v-1", "TAG", first)]
    shown = sea.rows("SHOW BRANCHES IN frazil.sea")
    assert shown == [("dev", "BRANCH", first), ("main", "BRANCH", tip)]
    assert sea.rows("ALTER TABLE frazil.sea DROP BRANCH dev") == [("dev", "BRANCH", first)]
    assert sea.rows("ALTER TABLE frazil.sea DROP BRANCH IF EXISTS dev") == []
    assert sea.rows("ALTER TABLE frazil.sea DROP TAG `v-1`") == [("v-1", "TAG", first)]
    with pytest.raises(FrazilError, match="dev"):
        sea.sql("ALTER TABLE frazil.sea DROP BRANCH dev")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD COLUMN x INT", "CREATE, REPLACE or DROP a BRANCH or TAG"),
        ("CREATE BRANCH b RETAIN 3 DAYS", "no retention of their own"),
        ("CREATE BRANCH", "a value is expected before the end"),
        ("REPLACE TAG t", "stays where it is"),
    ],
)
def test_alterations_that_cannot_be_made(sea: Place, change: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sea.sql(f"ALTER TABLE frazil.sea {change}")


def test_what_there_is_can_be_shown(sea: Place) -> None:
    names = [row[1] for row in sea.rows("SHOW TABLES IN frazil.sea")]
    assert names == ["mask", "masks", "salt", "sst"]
    assert [row[1] for row in sea.rows("SHOW TABLES FROM frazil.sea.masks")] == ["mask"]
    assert "sea" in [row[1] for row in sea.rows("SHOW TABLES IN frazil")]
    assert sea.rows("DESCRIBE DETAIL frazil.sea")[0][0] == "icechunk"
    history = sea.sql("DESCRIBE HISTORY frazil.sea").collect()
    assert history[0]["snapshot_id"] == sea.repo.lookup_branch("main")
    assert sea.rows("DESCRIBE frazil.sea.masks")[0][:2] == ("lat", "double")
    with pytest.raises(InvalidInputError, match="SHOW knows TABLES"):
        sea.sql("SHOW COLUMNS IN frazil.sea")
    with pytest.raises(InvalidInputError, match="TRUNCATE is not supported"):
        sea.sql("TRUNCATE TABLE frazil.sea")
