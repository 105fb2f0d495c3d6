"""Streams: what commits change comes once, and what is written is written once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
)

import frazil
from frazil.errors import InvalidInputError
from frazil.xarray import to_icechunk
from tests.support.spark import (
    WEATHER_ENCODING,
    make_repository,
    messages_of,
    opened,
    read_here,
    read_stream,
    rows_of,
    stream_here,
    stream_sink_here,
    weather,
    write_here,
)

EVERYTHING = ReadAllAvailable()
DAYS = weather(13, seed=3)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with ten days of 35 cells each."""
    path = tmp_path / "repo"
    make_repository(path, weather(), **WEATHER_ENCODING)
    return path


def days(first: int, last: int) -> pa.Table:
    return rows_of(DAYS.isel(time=slice(first, last)))


def taken(reader: Any, limit: object = EVERYTHING) -> Iterator[pa.Table]:  # noqa: ANN401
    """Micro-batches until there is nothing more."""
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, limit)) != start:
        yield read_stream(reader, start, end)
        start = end


# --- reading ---


def test_a_stream_begins_with_all_there_is_and_goes_on_with_what_changes(repo: Path) -> None:
    reader = stream_here(repo)
    start = reader.initialOffset()
    first = reader.latestOffset(start, EVERYTHING)
    assert read_stream(reader, start, first).num_rows == 350
    assert reader.latestOffset(first, EVERYTHING) == first
    write_here(repo, days(10, 12), append_dim="time")
    second = reader.latestOffset(first, EVERYTHING)
    rows = read_stream(reader, first, second)
    assert rows.num_rows == 70, "the rest of a chunk that was written again has not changed"
    assert sorted(set(rows.column("time").to_pylist())) == sorted(
        set(days(10, 12).column("time").to_pylist())
    )
    cell = rows_of(weather().isel(time=[3], lat=[2], lon=[1])).set_column(
        4, "wind", pa.array([7.5], pa.float32())
    )
    write_here(repo, cell)
    third = reader.latestOffset(second, EVERYTHING)
    assert read_stream(reader, second, third).column("wind").to_pylist() == [7.5]
    # The same offsets give the same rows, also later and to another reader.
    assert read_stream(stream_here(repo), first, second).num_rows == 70


def test_of_what_changed_a_stream_gives_what_its_condition_wants(repo: Path) -> None:
    """The condition spans two dimensions, and so does the part of a chunk that has changed."""
    where = "lat > 30 OR lon < 15"
    reader = stream_here(repo, where=where)
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    changed = rows_of(weather(seed=4).isel(time=[3], lat=slice(1, 4), lon=slice(1, 4)))
    write_here(repo, changed)
    end = reader.latestOffset(start, EVERYTHING)
    wanted = {
        (row["lat"], row["lon"], row["wind"])
        for row in changed.to_pylist()
        if row["lat"] > 30 or row["lon"] < 15
    }
    assert 0 < len(wanted) < changed.num_rows
    found = read_stream(reader, start, end).to_pylist()
    assert {(row["lat"], row["lon"], row["wind"]) for row in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("limit", "option"),
    [
        (ReadMaxFiles(10), {"maxFilesPerTrigger": 10}),
        (ReadMaxRows(100), {"streaming-max-rows-per-micro-batch": 100}),
        (ReadMaxBytes(1), {"maxBytesPerTrigger": 1}),
    ],
)
def test_limits_cut_micro_batches_without_losing_rows(
    repo: Path, limit: object, option: dict[str, int]
) -> None:
    write_here(repo, days(10, 12), append_dim="time")
    reader = stream_here(repo, **option)
    assert reader.getDefaultReadLimit() == limit
    batches = list(taken(reader, limit))
    assert len(batches) >= 3
    assert sum(batch.num_rows for batch in batches) == 420
    assert max(batch.num_rows for batch in batches) <= 240


@pytest.mark.parametrize(
    "option", ["maxFilesPerTrigger", "maxRowsPerTrigger", "maxBytesPerTrigger"]
)
def test_limits_never_cut_a_step_of_the_first_dimension(repo: Path, option: str) -> None:
    """The source is chunked in space; half a step could be appended nowhere."""
    reader = stream_here(repo, **{option: 1})
    batches = list(taken(reader, reader.getDefaultReadLimit()))
    assert [batch.num_rows for batch in batches] == [4 * 35, 4 * 35, 2 * 35]
    for batch in batches:
        assert set(Counter(batch.column("time").to_pylist()).values()) == {35}
    chunks = stream_here(repo, layout="chunks", values="binary", **{option: 1})
    assert len(list(taken(chunks, chunks.getDefaultReadLimit()))) == 2 * 27, "one chunk at a time"


def test_streams_start_at_a_snapshot_or_a_time(repo: Path) -> None:
    repository = frazil.Repository.open(repo)
    first = repository.lookup_branch("main")
    write_here(repo, days(10, 12), append_dim="time")
    write_here(repo, days(12, 13), append_dim="time")
    made = next(c for c in repository.ancestry(branch="main") if c.id == first).written_at
    later = made + timedelta(microseconds=1)

    def count(**options: Any) -> int:  # noqa: ANN401
        return sum(batch.num_rows for batch in taken(stream_here(repo, **options)))

    assert count(**{"start-snapshot-id": first[:8]}) == 105, "as Iceberg: changes after it"
    assert count(startingVersion=first) == 455, "as Delta: its own changes too"
    assert count(startingVersion=repository.lookup_branch("main")) == 35
    assert count(startingTimestamp=later) == 105
    assert count(**{"stream-from-timestamp": made - timedelta(days=1)}) == 455
    assert count(startingVersion="latest") == 0
    assert count(**{"start-snapshot-id": first}, where="lat > 0") == 45


def test_cells_that_changed_can_be_left_out(repo: Path) -> None:
    first = frazil.Repository.open(repo).lookup_branch("main")
    write_here(repo, rows_of(weather(seed=4).isel(time=[0], lat=[0])))
    write_here(repo, days(10, 12), append_dim="time")

    def count(**options: Any) -> int:  # noqa: ANN401
        reader = stream_here(repo, **{"start-snapshot-id": first}, **options)
        return sum(batch.num_rows for batch in taken(reader))

    assert count() == 75
    assert count(skipChangeCommits=True) == 70
    assert count(**{"streaming-skip-overwrite-snapshots": True, "ignoreDeletes": True}) == 70


def test_changes_are_read_once_without_a_stream(repo: Path) -> None:
    repository = frazil.Repository.open(repo)
    first = repository.lookup_branch("main")
    write_here(repo, days(10, 12), append_dim="time")
    second = repository.lookup_branch("main")
    write_here(repo, rows_of(weather(seed=4).isel(time=[0], lat=[0])))
    since: dict[str, Any] = {"start-snapshot-id": first}
    assert read_here(repo, **since).num_rows == 75
    assert read_here(repo, **since, columns="wind", where="lat > 0").column_names == ["wind"]
    found = read_here(repo, startingVersion=second, endingVersion=second)
    assert set(found.column("time").to_pylist()) == set(days(10, 12).column("time").to_pylist())
    assert found.num_rows == 70
    assert read_here(repo, **since, skipChangeCommits=True).num_rows == 70
    chunks = read_here(repo, startingVersion=second, layout="chunks", values="binary")
    assert {row["variable"] for row in chunks.to_pylist()} == {"t2m", "wind"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"endingVersion": "main"}, "'start-snapshot-id', 'startingVersion', .* since when"),
        ({"skipChangeCommits": "true"}, "since when"),
        ({"startingVersion": "main", "start-snapshot-id": "main"}, "more than once"),
        ({"startingVersion": "main", "layout": "lines"}, "not layout=lines"),
        (
            {
                "startingVersion": "main",
                "layout": "chunks",
                "values": "binary",
                "skipChangeCommits": "true",
            },
            "rows of cells",
        ),
        ({"startingVersion": "main", "ignoreDeletes": "false"}, "can only be true"),
        ({"startingVersion": "other"}, "no ancestor"),
    ],
)
def test_options_about_changes_that_make_no_sense(
    repo: Path, options: dict[str, Any], problem: str
) -> None:
    repository = frazil.Repository.open(repo)
    repository.create_branch("other", repository.lookup_branch("main"))
    write_here(repo, rows_of(weather(seed=4).isel(time=[0], lat=[0])), branch="other")
    with pytest.raises(InvalidInputError, match=problem):
        read_here(repo, **options)


def test_available_now_stops_where_the_branch_was(repo: Path) -> None:
    reader = stream_here(repo)
    reader.prepareForTriggerAvailableNow()
    write_here(repo, days(10, 12), append_dim="time")
    assert [batch.num_rows for batch in taken(reader)] == [350]


def test_chunks_can_be_streamed(repo: Path) -> None:
    first = frazil.Repository.open(repo).lookup_branch("main")
    write_here(repo, rows_of(weather(seed=4).isel(time=[0], lat=[0], lon=[0])))
    reader = stream_here(repo, layout="chunks", values="binary", **{"start-snapshot-id": first})
    (batch,) = taken(reader)
    found = {(row["variable"], tuple(row["chunk_index"])) for row in batch.to_pylist()}
    assert found == {("t2m", (0, 0, 0)), ("wind", (0, 0, 0))}


def test_a_position_that_is_no_longer_in_the_history_is_told(repo: Path) -> None:
    repository = frazil.Repository.open(repo)
    first = repository.lookup_branch("main")
    write_here(repo, days(10, 12), append_dim="time")
    reader = stream_here(repo)
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    repository.reset_branch("main", first)
    with pytest.raises(InvalidInputError, match="not in the history of branch 'main'"):
        reader.latestOffset(end, EVERYTHING)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_stream_gives_what_expired_commits_changed(tmp_path: Path, spec: int) -> None:
    path = tmp_path / "repo"
    made = frazil.Repository.create(path, spec_version=spec)
    root = made.lookup_branch("main")
    to_icechunk(weather(), session := made.writable_session("main"), encoding=WEATHER_ENCODING)
    session.commit("made")
    for day in range(10, 13):
        write_here(path, days(day, day + 1), append_dim="time")
    since: dict[str, Any] = {"start-snapshot-id": root}
    assert len(made.expire_snapshots(datetime.now(UTC))) >= 3
    for limit in (ReadMaxRows(1), EVERYTHING):
        batches = [*taken(stream_here(path, **since), limit)]
        rows = {(r["time"], r["lat"], r["lon"]) for b in batches for r in b.to_pylist()}
        assert len(rows) == sum(batch.num_rows for batch in batches) == 13 * 35
    feed = read_here(path, **since, readChangeFeed=True)
    assert set(feed.column("_change_type").to_pylist()) == {"insert"}
    assert len({*feed.column("time").to_pylist()}) == 13


def test_blocks_that_were_counted_before_commits_expired_are_not_taken_for_others(
    repo: Path,
) -> None:
    """The end of a micro-batch is recorded before it is planned, and a restart plans it again."""
    root = [*frazil.Repository.open(repo).ancestry(branch="main")][-1].id
    write_here(repo, days(10, 13), append_dim="time")
    reader = stream_here(repo, **{"start-snapshot-id": root}, maxRowsPerTrigger=1)
    starts = [reader.initialOffset()]
    tip = frazil.Repository.open(repo).lookup_branch("main")
    while starts[-1]["snapshot"] != tip or not starts[-1]["pos"]:
        starts.append(reader.latestOffset(starts[-1], ReadMaxRows(1)))
    frazil.Repository.open(repo).expire_snapshots(datetime.now(UTC))
    with pytest.raises(InvalidInputError, match="not in the history"):
        reader.partitions(starts[0], starts[-1])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tag": "v1"}, "only a branch|no meaning|not found"),
        ({"layout": "lines"}, "cells or of chunks"),
        ({"startingVersion": "latest", "startingTimestamp": "2024-01-01"}, "more than once"),
        ({"endingVersion": "main"}, "has no meaning here"),
        ({"message": "x"}, "has no meaning here"),
    ],
)
def test_options_that_make_no_stream(repo: Path, options: dict[str, str], problem: str) -> None:
    frazil.Repository.open(repo).create_tag(
        "v1", frazil.Repository.open(repo).lookup_branch("main")
    )
    with pytest.raises(InvalidInputError, match=problem):
        stream_here(repo, **options)


# --- writing ---


def written(repo: Path, rows: pa.Table, **options: Any) -> list[Any]:  # noqa: ANN401
    """What the tasks of a micro-batch return."""
    sink = stream_sink_here(repo, rows.schema, **options)
    half = rows.num_rows // 2
    return [sink.write(iter(rows.slice(*cut).to_batches())) for cut in ((0, half), (half,))]


STREAM = {"append_dim": "time", "checkpointLocation": "/some/place"}


def test_a_micro_batch_is_committed_once(repo: Path) -> None:
    rows = days(10, 12)
    told = written(repo, rows, **STREAM)
    for _ in range(2):  # the driver died after the commit, before the checkpoint
        stream_sink_here(repo, rows.schema, **STREAM).commit(told, 0)
    stream_sink_here(repo, rows.schema, **STREAM).commit(written(repo, rows, **STREAM), 0)
    assert len(messages_of(repo)) == 2
    assert opened(repo).sizes["time"] == 12
    more = days(12, 13)
    stream_sink_here(repo, more.schema, **STREAM).commit(written(repo, more, **STREAM), 1)
    assert opened(repo).sizes["time"] == 13
    newest = next(iter(frazil.Repository.open(repo).ancestry(branch="main")))
    assert newest.metadata["txn.version"] == 1


def test_a_micro_batch_that_was_only_written_is_written_again(repo: Path) -> None:
    rows = days(10, 12)
    written(repo, rows, **STREAM)  # the driver died before the commit
    assert messages_of(repo) == ["made"]
    stream_sink_here(repo, rows.schema, **STREAM).commit(written(repo, rows, **STREAM), 0)
    assert len(messages_of(repo)) == 2
    np.testing.assert_array_equal(opened(repo).wind[10:], DAYS.wind[10:12])


def test_another_commit_between_write_and_commit_is_kept(repo: Path) -> None:
    rows = days(10, 12)
    told = written(repo, rows, **STREAM)
    session = frazil.Repository.open(repo).writable_session("main")
    zarr.create_array(session.store, name="other", shape=(1,), dtype="i1", dimension_names=["one"])
    session.commit("between")
    stream_sink_here(repo, rows.schema, **STREAM).commit(told, 0)
    found = opened(repo)
    assert (found.sizes["time"], "other" in found) == (12, True)


def test_a_stream_needs_a_name(repo: Path) -> None:
    with pytest.raises(InvalidInputError, match="checkpointLocation"):
        stream_sink_here(repo, days(10, 11).schema)
    stream_sink_here(repo, days(10, 11).schema, txnAppId="mine")


# --- with Spark ---


def test_a_restarted_query_writes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    source, url, state = (str(tmp_path / name) for name in ("in", "repo", "state"))
    first = spark.createDataFrame(days(0, 2).to_pandas())
    first.coalesce(1).write.parquet(source)

    def run() -> None:
        rows = spark.readStream.schema(first.schema).parquet(source)
        writer = rows.writeStream.format("frazil").option("checkpointLocation", state)
        writer = writer.option("dims", "time, lat, lon").option("append-dim", "time")
        writer.trigger(availableNow=True).start(url).awaitTermination()

    run()
    assert opened(url).sizes["time"] == 2
    # As if the driver had died after our commit, before Spark's own record of it.
    shutil.rmtree(Path(state) / "commits")
    run()
    assert len(messages_of(url)) == 1
    spark.createDataFrame(days(2, 3).to_pandas()).coalesce(1).write.mode("append").parquet(source)
    run()
    assert len(messages_of(url)) == 2
    found = opened(url)
    expected = DAYS.isel(time=slice(0, 3))
    np.testing.assert_array_equal(found.wind.sel(lat=expected.lat), expected.wind)


def test_a_new_query_with_the_checkpoint_of_another_is_not_taken_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Who deletes a checkpoint begins with batch 0 once more, which has other rows."""
    url, state = str(tmp_path / "repo"), tmp_path / "state"
    for first in (0, 2):
        source = str(tmp_path / f"in-{first}")
        rows = spark.createDataFrame(days(first, first + 2).to_pandas())
        rows.coalesce(1).write.parquet(source)
        writer = spark.readStream.schema(rows.schema).parquet(source).writeStream
        writer = writer.format("frazil").option("checkpointLocation", str(state))
        writer = writer.option("dims", "time, lat, lon").option("append-dim", "time")
        writer.trigger(availableNow=True).start(url).awaitTermination()
        shutil.rmtree(state)
    np.testing.assert_array_equal(opened(url).wind.sel(lat=DAYS.lat), DAYS.wind[:4])


def test_a_source_chunked_in_space_is_copied_at_a_limited_rate(
    spark: SparkSession, repo: Path, tmp_path: Path
) -> None:
    url = str(tmp_path / "copy")
    rows = spark.readStream.format("frazil").option("maxFilesPerTrigger", 1).load(str(repo))
    writer = rows.writeStream.format("frazil").option("checkpointLocation", str(tmp_path / "state"))
    writer = writer.option("dims", "time, lat, lon").option("append-dim", "time")
    writer.trigger(availableNow=True).start(url).awaitTermination()
    assert len(messages_of(url)) == 3
    found, expected = opened(url), opened(repo)
    np.testing.assert_array_equal(found.wind.sel(lat=expected.lat), expected.wind)


def test_a_query_reads_each_change_once(spark: SparkSession, repo: Path, tmp_path: Path) -> None:
    counts: list[int] = []

    def look(batch: DataFrame, _: int) -> None:
        counts.append(batch.count())

    def run() -> list[int]:
        counts.clear()
        rows = spark.readStream.format("frazil").option("maxFilesPerTrigger", 30).load(str(repo))
        writer = rows.writeStream.foreachBatch(look)
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return list(counts)

    assert sum(run()) == 350
    write_here(repo, days(10, 12), append_dim="time")
    assert run() == [70]
    assert run() == []
