"""The change feed: what each commit did to cells, and when."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest

import frazil.spark
from frazil.errors import FrazilError, InvalidInputError
from frazil.spark import worker
from frazil.spark.source import FrazilSource
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.races.jobs_here import url_of
from tests.spark.test_statements import Place, sea
from tests.support.spark import write_here

__all__ = ["sea"]

FIRST = "TIMESTAMP_NTZ '2024-01-01'"


def test_feed_tells_what_became_of_cells(sea: Place) -> None:
    start = sea.repo.lookup_branch("main")
    sea.sql(f"UPDATE frazil.sea SET sst = 100 WHERE time = {FIRST} AND lat = 51")
    updated = sea.repo.lookup_branch("main")
    sea.sql(f"DELETE FROM frazil.sea WHERE time = {FIRST} AND lat = 52")
    deleted = sea.repo.lookup_branch("main")
    sea.sql(f"INSERT INTO frazil.sea (time, lat, sst, salt) VALUES ({FIRST}, 52, 7, 8)")
    last = sea.repo.lookup_branch("main")
    query = (
        "SELECT _change_type, _commit_version, lat, sst, salt FROM table_changes('sea', '{}'{}) "
        "ORDER BY _commit_timestamp, _change_type DESC"
    )
    rows = sea.rows(
        query.format(updated, "").replace("'sea'", f"'{sea.url}'"), variables="sst,salt"
    )
    assert rows == [
        ("update_preimage", updated, 51.0, 1.0, 35.0),
        ("update_postimage", updated, 51.0, 100.0, 35.0),
        ("delete", deleted, 52.0, 2.0, 35.0),
        ("insert", last, 52.0, 7.0, 8.0),
    ]
    only = sea.rows(query.format(deleted, f", '{deleted}'"), variables="sst,salt")
    assert [row[0] for row in only] == ["delete"]
    whole = sea.rows(
        "SELECT _change_type, count(*) FROM table_changes('frazil.sea', 0) WHERE "
        f"_commit_version = '{start}' GROUP BY 1",
        variables="sst,salt",
    )
    assert whole == [("insert", 24)]


def test_feed_is_an_option_of_the_source(sea: Place) -> None:
    tip = sea.repo.lookup_branch("main")
    read = frazil.spark.read(
        sea.url, spark=sea.spark, variables="sst", readChangeFeed=True, startingVersion=tip
    )
    about = ["_change_type", "_commit_version", "_commit_timestamp"]
    assert read.columns == ["time", "lat", "sst", *about]
    assert {(row[3], row[4]) for row in read.collect()} == {("insert", tip)}
    (info, *_) = sea.repo.ancestry(branch="main")
    (first, *_) = read.select("_commit_timestamp").collect()
    assert first[0].timestamp() == info.written_at.timestamp()
    with pytest.raises(InvalidInputError, match="since when"):
        frazil.spark.read(sea.url, spark=sea.spark, variables="sst", readChangeFeed=True)
    with pytest.raises(InvalidInputError, match="first snapshot whose changes count"):
        sea.sql("SELECT * FROM table_changes('sea')")


def test_a_store_that_fails_once_makes_no_update_an_insert() -> None:
    """Tables that cannot be read are not those that were others before."""
    place = FaultyStorage(MemoryStorage())
    frazil.Repository.create(place)
    url = url_of(place)
    for value in (1.0, 2.0):
        write_here(url, pa.table({"x": [0, 1], "v": [0.5, value]}), dims="x")
    tip = frazil.Repository.open(place).lookup_branch("main")
    source = FrazilSource({"path": url, "readChangeFeed": "true", "startingVersion": tip})
    reader = source.reader(source.schema())
    parts = [*reader.partitions()]
    failures = 0
    for call in count(1):
        worker.session_at.cache_clear()
        worker.repository.cache_clear()
        place.forget_calls()
        place.plan = (Fault(Trouble.FAIL, call=call),)
        try:
            batches = [batch for part in parts for batch in reader.read(part)]
        except FrazilError:
            failures += 1
            continue
        rows = pa.Table.from_batches(batches).select(["x", "v", "_change_type"]).to_pylist()
        assert [tuple(row.values()) for row in rows] == [
            (1, 2.0, "update_postimage"),
            (1, 1.0, "update_preimage"),
        ]
        if call > len(place.calls):
            break
    assert failures > 2
