"""The commit of a write: what it tells, what goes along, what it leaves, and nothing twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil.commit.base import MINIMUM_AGE
from frazil.errors import ConflictError, ErrorKind, RebaseFailedError, SessionStateError
from frazil.run import JobReport
from frazil.spark.writing import commit, sink
from frazil.spark.writing.commit import Txn, commit_write
from frazil.spark.writing.sink import BatchSink, commit_tasks
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.keyspace import KeySpace
from tests.races.jobs_here import url_of
from tests.support.spark import (
    WEATHER_ENCODING,
    make_repository,
    messages_of,
    opened,
    rows_of,
    sink_here,
    stream_sink_here,
    weather,
    write_here,
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with packed and plain variables."""
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    return tmp_path / "repo"


def committed(repo: Path, rows: pa.Table, **options: Any) -> JobReport:  # noqa: ANN401
    """The report of a write."""
    writer = sink_here(repo, rows.schema, **options)
    return commit_tasks(writer.plan, [writer.write(iter(rows.to_batches()))], writer.txn)


def tip(repo: Path) -> Any:  # noqa: ANN401  (what history tells of a commit)
    return next(iter(frazil.Repository.open(repo).ancestry(branch="main")))


HALVES = (slice(0, 3), slice(3, None))


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_write_of_more_than_a_day_misses_what_was_collected_meanwhile(*, is_stream: bool) -> None:
    """What tasks have stored is garbage to others until it is committed."""
    place = MemoryStorage()
    url, rows = url_of(place), rows_of(weather().isel(time=slice(0, 4)))
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    made = frazil.Repository.create(place, config)
    options = {"checkpointLocation": "/stream"} if is_stream else {}
    make = stream_sink_here if is_stream else sink_here
    write_here(url, rows, dims="time,lat,lon", chunks="time=4,lat=3,lon=2")
    tip, before = made.lookup_branch("main"), {item.key for item in place.list("chunks/")}
    writer = make(url, rows.schema, **options)
    writer.plan = replace(writer.plan, began=time.time() - MINIMUM_AGE.total_seconds())
    halves = [rows_of(weather().isel(time=slice(0, 4), lat=part)) for part in HALVES]
    messages = [writer.write(iter(each.to_batches())) for each in halves]
    stored = {item.key for item in place.list("chunks/")} - before
    assert len(stored) > 1
    for key in stored:
        data = place.get(key)
        assert data is not None
        place.delete_many([key])
        later = make(url, rows.schema, **options)
        with pytest.raises(SessionStateError, match="write them again"):
            later.commit(messages, 1) if is_stream else writer.commit(messages)
        place.put(key, data)
    assert made.lookup_branch("main") == tip


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> tuple[FaultyStorage, BatchSink, list[Any]]:
    """Rows of two tasks for the same chunks, which they have set aside in objects."""
    monkeypatch.setattr(sink, "MESSAGE_BYTES", 0)
    place = FaultyStorage(MemoryStorage())
    url, rows = url_of(place), rows_of(weather().isel(time=slice(0, 4)))
    frazil.Repository.create(place)
    write_here(url, rows, dims="time,lat,lon", chunks="time=4,lat=6,lon=6")
    writer = sink_here(url, rows.schema)
    halves = [rows_of(weather().isel(time=slice(0, 4), lat=part) * 2) for part in HALVES]
    messages = [writer.write(iter(each.to_batches())) for each in halves]
    assert all(each.key for message in messages for each in message.aside)
    return place, writer, messages


def test_a_write_does_not_fail_after_its_commit_because_something_is_left_to_tidy_up(
    aside: tuple[FaultyStorage, BatchSink, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Who is told that it failed appends the same rows once more."""
    place, writer, messages = aside
    before = frazil.Repository.open(place).lookup_branch("main")
    place.plan = (Fault(Trouble.FAIL, "delete_many", times=9),)
    writer.commit(messages)
    assert frazil.Repository.open(place).lookup_branch("main") != before
    assert "temporary objects" in caplog.text


def test_rows_that_were_set_aside_and_collected_are_told(
    aside: tuple[FaultyStorage, BatchSink, list[Any]],
) -> None:
    place, writer, messages = aside
    place.inner.delete_many([messages[0].aside[0].key])
    with pytest.raises(SessionStateError, match="write them again"):
        writer.commit(messages)


# --- what is told ---


def test_the_report_tells_commit_arrays_chunks_and_bytes(repo: Path) -> None:
    report = committed(repo, rows_of(weather().isel(time=slice(0, 4)) * 2))
    stored = KeySpace(frazil.Repository.open(repo).readonly_session("main").state)
    keys = [f"{name}/c/0/{y}/{x}" for name in ("t2m", "wind") for y in range(3) for x in range(3)]
    assert report == JobReport(tip(repo).id, ("/t2m", "/wind"), 18, report.bytes)
    assert report.bytes == sum(len(stored.get(key) or b"") for key in keys)
    assert (tip(repo).metadata["chunks"], tip(repo).metadata["bytes"]) == (18, report.bytes)
    assert tip(repo).metadata["frazil.job"] == "write"
    assert tip(repo).message == "write t2m, wind"


def test_rows_that_are_none_make_no_commit(repo: Path) -> None:
    report = committed(repo, rows_of(weather()).slice(0, 0))
    assert report == JobReport(None, ("/t2m", "/wind"), 0, 0)
    assert messages_of(repo) == ["made"]
    new = repo.parent / "new"
    report = committed(new, pa.table({"x": [1], "v": [0.5]}).slice(0, 0), dims=["x"])
    assert report == JobReport(None, ("/v",), 0, 0)
    assert messages_of(new) == []


def test_a_part_of_a_series_without_rows_counts_as_done(repo: Path) -> None:
    series: dict[str, Any] = {"txnAppId": "job", "txnVersion": 3}
    assert committed(repo, rows_of(weather()).slice(0, 0), **series).snapshot_id == tip(repo).id
    assert committed(repo, rows_of(weather() * 2), **series).snapshot_id is None
    np.testing.assert_array_equal(opened(repo).wind, weather().wind)


def test_a_write_that_was_done_before_reports_that_it_did_nothing(repo: Path) -> None:
    rows = rows_of(weather().isel(time=slice(0, 4)))
    series: dict[str, Any] = {"txnAppId": "job", "txnVersion": 3}
    assert committed(repo, rows, **series).snapshot_id == tip(repo).id
    assert committed(repo, rows, **series) == JobReport(None, ("/t2m", "/wind"), 0, 0)


def test_where_the_work_was_done_is_told_by_the_commit(repo: Path) -> None:
    rows = rows_of(weather().isel(time=slice(0, 4)))
    writer = sink_here(repo, rows.schema, **{"snapshot-property.author": "me"})
    written = writer.write(iter(rows.to_batches())).written
    commit_write(writer.plan, written, facts={"spark.app.id": "app-7"})
    assert tip(repo).metadata["spark.app.id"] == "app-7"
    assert tip(repo).metadata["author"] == "me"


# --- others at the same time ---


@pytest.fixture
def just_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets somebody act once, right before the next commit is published."""
    inner = LocalStorage.put_when

    def arrange(act: Callable[[], object]) -> None:
        actions = [act]

        def late(*args: Any, **more: Any) -> Any:  # noqa: ANN401
            if actions:
                actions.pop()()
            return inner(*args, **more)

        monkeypatch.setattr(LocalStorage, "put_when", late)

    return arrange


@pytest.mark.parametrize("policy", ["detect", "ours", "theirs", "none"])
def test_the_same_write_by_somebody_quicker_is_the_one_that_counts(
    repo: Path, policy: str, just_before: Callable[[Callable[[], object]], None]
) -> None:
    series: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    theirs = rows_of(weather().isel(time=slice(0, 4)) * 3)
    just_before(lambda: write_here(repo, theirs, message="theirs", **series))
    ours = rows_of(weather().isel(time=slice(0, 4)) * 2)
    report = committed(repo, ours, rebase=policy, **series)
    assert report == JobReport(None, ("/t2m", "/wind"), 0, 0)
    assert messages_of(repo) == ["made", "theirs"]
    np.testing.assert_array_equal(opened(repo).wind[:4], weather().wind[:4] * 3)


@pytest.mark.parametrize("policy", ["detect", "none"])
def test_a_write_that_was_committed_since_it_was_planned_does_nothing(
    repo: Path, policy: str
) -> None:
    """It does not even look at what was written for it, here twice, which else is refused."""
    series: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1, "rebase": policy}
    rows = rows_of(weather().isel(time=slice(0, 4)) * 2)
    writer = sink_here(repo, rows.schema, **series)
    twice = [each for _ in range(2) for each in writer.write(iter(rows.to_batches())).written]
    write_here(repo, rows, message="theirs", **series)
    report = commit_write(writer.plan, twice, txn=Txn("job", 1))
    assert report == JobReport(None, ("/t2m", "/wind"), 0, 0)
    assert messages_of(repo) == ["made", "theirs"]


@pytest.mark.parametrize("series", [{}, {"txnAppId": "job", "txnVersion": 1}])
def test_who_lost_a_race_is_told_what_was_in_the_way(
    repo: Path, series: dict[str, Any], just_before: Callable[[Callable[[], object]], None]
) -> None:
    theirs = rows_of(weather().isel(time=slice(0, 4)) * 3)
    just_before(lambda: write_here(repo, theirs, message="theirs"))
    with pytest.raises(RebaseFailedError) as refusal:
        committed(repo, rows_of(weather().isel(time=slice(0, 4)) * 2), **series)
    assert "/wind" in str(refusal.value.conflicts)
    assert messages_of(repo) == ["made", "theirs"]


@pytest.mark.parametrize(
    "options", [{"rebase": "none"}, {"rebase": "none", "txnAppId": "job", "txnVersion": 1}]
)
def test_a_write_that_may_not_be_rebased_is_refused(
    repo: Path, options: dict[str, Any], just_before: Callable[[Callable[[], object]], None]
) -> None:
    theirs = rows_of(weather().isel(time=slice(4, 8)) * 3)
    just_before(lambda: write_here(repo, theirs, message="theirs"))
    with pytest.raises(ConflictError) as refusal:
        committed(repo, rows_of(weather().isel(time=slice(0, 4)) * 2), **options)
    assert refusal.value.kind == ErrorKind.COMMIT_CONFLICT
    assert messages_of(repo) == ["made", "theirs"]


@pytest.mark.parametrize("tries", [0, 1])
def test_a_write_of_a_series_is_rebased_so_many_times_and_then_refused(
    repo: Path,
    tries: int,
    monkeypatch: pytest.MonkeyPatch,
    just_before: Callable[[Callable[[], object]], None],
) -> None:
    monkeypatch.setattr(commit, "REBASE_TRIES", tries)
    ours = rows_of(weather().isel(time=slice(0, 4)) * 2)
    theirs = rows_of(weather().isel(time=slice(4, 8)) * 3)
    series: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    just_before(lambda: write_here(repo, theirs, message="theirs"))
    if not tries:
        with pytest.raises(ConflictError):
            committed(repo, ours, **series)
        assert messages_of(repo) == ["made", "theirs"]
        return
    assert committed(repo, ours, **series).snapshot_id == tip(repo).id
    np.testing.assert_array_equal(opened(repo).wind[:4], weather().wind[:4] * 2)
    np.testing.assert_array_equal(opened(repo).wind[4:8], weather().wind[4:8] * 3)


# --- what goes along ---


def test_an_overwritten_table_has_no_other_variables(repo: Path) -> None:
    write_here(repo, rows_of(weather(3)[["wind"]]), mode="overwrite")
    found = opened(repo)
    assert [*found.data_vars] == ["wind"]
    assert found.sizes["time"] == 3


def test_appending_leaves_alone_what_has_no_such_dimension(tmp_path: Path) -> None:
    """Groups, arrays without names of dimensions, and others of the same length."""
    rows = pa.table({"x": [1, 2], "v": [1.0, 2.0], "n": [3, 4]})
    write_here(tmp_path / "r", rows, dims=["x"])
    session = frazil.Repository.open(tmp_path / "r").writable_session("main")
    root = zarr.open_group(session.store)
    root.create_group("inner").create_array("a", shape=(2,), dtype="i4")
    root.create_array("plain", shape=(2,), dtype="i4")
    root.create_array("words", shape=(2,), dtype=str, dimension_names=["x"])[:] = ["a", "b"]
    root.create_array("y", shape=(2,), dtype="i4", dimension_names=["y"])
    session.commit("more")
    write_here(tmp_path / "r", pa.table({"x": [5], "v": [6.0]}), append_dim="x")
    store = frazil.Repository.open(tmp_path / "r").readonly_session("main").store
    after = zarr.open_group(store, mode="r")
    shapes = {name: array.shape for name, array in after.arrays()}
    assert shapes == {
        "x": (3,), "v": (3,), "n": (3,), "words": (3,), "plain": (2,), "y": (2,),
    }  # fmt: skip
    assert np.asarray(after["n"][:]).tolist() == [3, 4, 0]  # type: ignore[index]
    assert after["inner/a"].shape == (2,)  # type: ignore[union-attr]


def test_a_table_without_rows_grows_as_a_whole(tmp_path: Path) -> None:
    """Also what is not written, so that the group can be opened."""
    nothing = pa.table({name: pa.array([], pa.float64()) for name in ("x", "v", "w")})
    write_here(tmp_path / "r", pa.table({"x": [0.5], "v": [1.0], "w": [1.0]}), dims=["x"])
    write_here(tmp_path / "r", nothing, mode="overwrite")
    write_here(tmp_path / "r", pa.table({"x": [1.5, 2.5], "v": [3.0, 4.0]}), append_dim="x")
    found = opened(tmp_path / "r")
    assert found.v.values.tolist() == [3.0, 4.0]
    assert found.w.isnull().values.tolist() == [True, True]


# --- regions ---


@pytest.mark.parametrize("region", ["time=0:4", "time=4:8", "time=4:10, lat=0:3"])
def test_a_region_of_one_variable_is_emptied_where_no_rows_are(tmp_path: Path, region: str) -> None:
    data = weather()[["wind"]]
    make_repository(tmp_path / "r", data, wind={"chunks": (4, 7, 2)})
    first = int(region[5])
    new = data.isel(time=[first], lat=[0], lon=[4]) * 2
    write_here(tmp_path / "r", rows_of(new), mode="overwrite", region=region)
    places = {
        name: slice(*map(int, span.split(":")))
        for name, _, span in (part.strip().partition("=") for part in region.split(","))
    }
    expected = data.copy(deep=True)
    expected.wind[places] = np.nan
    expected.wind[{"time": first, "lat": 0, "lon": 4}] = new.wind.values.item()
    xr.testing.assert_equal(opened(tmp_path / "r").wind.drop_attrs(), expected.wind)
