"""Jobs and writes while others commit: nothing acknowledged is lost, and groups stay whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import ConflictError
from frazil.spark import map_blocks, rechunk, reduce_blocks
from frazil.storage.local import LocalStorage
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

ALL = weather(16, seed=3)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with ten days of weather."""
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    return tmp_path / "repo"


def change(repo: Path, act: Callable[[zarr.Group], object]) -> None:
    """Somebody else's commit."""
    with frazil.Repository.open(repo).transaction("main", message="theirs") as store:
        act(zarr.open_group(store))


def days(first: int, last: int) -> Any:  # noqa: ANN401  (a table)
    """Rows of some days."""
    return rows_of(ALL.isel(time=slice(first, last)))


def rain(root: zarr.Group, *dims: str) -> None:
    """A new variable on the dimensions of the others, or on one of its own."""
    shape = tuple({"time": 10, "lat": 7}.get(dim, 3) for dim in dims)
    root.create_array("rain", shape=shape, dtype="f4", dimension_names=dims)[:] = 5


def relabel(root: zarr.Group) -> None:
    """Other labels in the same array."""
    time = root["time"]
    assert isinstance(time, zarr.Array)
    time[:] = np.asarray(time[:]) + 100


def grow(root: zarr.Group) -> None:
    """Two more days of everything."""
    for name in ("time", "t2m", "wind"):
        found = root[name]
        assert isinstance(found, zarr.Array)
        found.append(np.asarray(found[:2]))


def put(root: zarr.Group, name: str, where: int | slice, value: float) -> None:
    """Other values in some cells."""
    found = root[name]
    assert isinstance(found, zarr.Array)
    found[where] = value


Compete = Callable[[zarr.Group], object]
REFUSED: list[tuple[str, dict[str, Any], tuple[int, int], Compete]] = [
    ("append, variable", {"append_dim": "time"}, (10, 12), lambda root: rain(root, "time")),
    (
        "overwrite, variable",
        {"mode": "overwrite", "dims": "time,lat,lon"},
        (0, 3),
        lambda root: rain(root, "lat"),
    ),
    ("cells, labels", {}, (2, 3), relabel),
    ("region, labels", {"mode": "overwrite", "region": "time=2:3"}, (2, 3), relabel),
    ("append, labels", {"append_dim": "time"}, (10, 12), relabel),
]


@pytest.mark.parametrize(
    ("options", "part", "compete"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_a_write_whose_plan_others_have_broken_is_refused(
    repo: Path, options: dict[str, Any], part: tuple[int, int], compete: Compete
) -> None:
    rows = days(*part)
    writer = sink_here(repo, rows.schema, **options)
    told = [writer.write(iter(rows.to_batches()))]
    change(repo, compete)
    theirs = opened(repo)
    with pytest.raises(ConflictError):
        writer.commit(told)
    assert messages_of(repo) == ["made", "theirs"]
    xr.testing.assert_identical(opened(repo), theirs)


def test_a_variable_that_is_made_for_a_length_that_is_no_more_is_refused(repo: Path) -> None:
    rows = rows_of(weather()[["wind"]].rename(wind="gust"))
    writer = sink_here(repo, rows.schema, dims="time,lat,lon")
    told = [writer.write(iter(rows.to_batches()))]
    change(repo, grow)
    with pytest.raises(ConflictError):
        writer.commit(told)
    assert opened(repo).sizes["time"] == 12


@pytest.mark.parametrize(
    "compete",
    [
        lambda root: rain(root, "station"),
        lambda root: root.create_group("other").create_array("t", shape=(3,), dtype="i4"),
    ],
    ids=["variable elsewhere", "group"],
)
def test_an_append_is_put_on_top_of_what_it_does_not_depend_on(
    repo: Path, compete: Compete
) -> None:
    rows = days(10, 12)
    writer = sink_here(repo, rows.schema, append_dim="time")
    told = [writer.write(iter(rows.to_batches()))]
    change(repo, compete)
    writer.commit(told)
    assert opened(repo).sizes["time"] == 12


# --- jobs on Spark ---


class Meanwhile:
    """Lets somebody commit before the n-th read that the driver makes."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[], object]) -> None:
        self.count = 0
        self.has_happened = False
        for name in ("get", "fetch"):
            inner = getattr(LocalStorage, name)

            def counted(*args: Any, _inner: Any = inner, **more: Any) -> Any:  # noqa: ANN401
                self.count += 1
                if self.count == at:
                    self.has_happened = True
                    act()
                return _inner(*args, **more)

            patch.setattr(LocalStorage, name, counted)


@pytest.mark.slow
def test_rechunking_in_place_drops_no_append(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, 40):
        repo = tmp_path / f"repo-{at}"
        make_repository(repo, weather(), **WEATHER_ENCODING)
        with monkeypatch.context() as patch:
            meanwhile = Meanwhile(patch, at, lambda repo=repo: change(repo, grow))  # type: ignore[misc]
            try:
                rechunk(str(repo), "wind", {"time": 5}, spark=spark)
            except ConflictError:
                assert "theirs" in messages_of(repo)
        if not meanwhile.has_happened:
            break
        found = opened(repo)
        assert found.sizes["time"] == 12
        np.testing.assert_array_equal(found.wind[10:], weather().wind[:2])
    assert at > 4


def test_blocks_in_place_do_not_take_a_correction_back(
    spark: SparkSession, repo: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"

    def doubled(block: xr.Dataset) -> xr.Dataset:
        if not flag.exists():  # the first block is made by the driver
            flag.touch()
            change(repo, lambda root: put(root, "wind", slice(0, 3), 99.0))
        return block * 2

    with pytest.raises(ConflictError):
        map_blocks(doubled, str(repo), "wind", overwrite=True, spark=spark)
    assert (opened(repo).wind[:3] == 99).all()


def test_what_was_made_of_values_that_have_changed_is_refused_unless_a_version_was_chosen(
    spark: SparkSession, repo: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    first = frazil.Repository.open(repo).lookup_branch("main")

    def total(block: xr.Dataset) -> xr.Dataset:
        if not flag.exists():
            flag.touch()
            change(repo, lambda root: put(root, "wind", slice(0, 3), 99.0))
        return block.sum("time").rename(wind="total")

    with pytest.raises(ConflictError):
        reduce_blocks(total, str(repo), "wind", "time", spark=spark)
    assert "total" not in opened(repo)
    flag.unlink()
    reduce_blocks(total, f"{repo}@{first}", "wind", "time", branch="main", spark=spark)
    np.testing.assert_allclose(opened(repo).total, weather().wind.sum("time"), rtol=1e-5)


def test_a_job_goes_on_top_of_commits_to_other_variables(
    spark: SparkSession, repo: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"

    def doubled(block: xr.Dataset) -> xr.Dataset:
        if not flag.exists():
            flag.touch()
            change(repo, lambda root: put(root, "t2m", slice(0, 1), 1.0))
        return (block * 2).rename(wind="twice")

    map_blocks(doubled, str(repo), "wind", spark=spark)
    np.testing.assert_allclose(opened(repo).twice, weather().wind * 2)
    write_here(repo, days(0, 1))


# --- exactly once ---


def shortened_by_expiry(repository: frazil.Repository) -> None:
    time.sleep(0.01)
    repository.expire_snapshots(datetime.now(UTC))


def shortened_by_squash(repository: frazil.Repository) -> None:
    first = [entry.id for entry in repository.ancestry(branch="main")][-1]
    repository.versions.squash("main", first)


def rewritten(repository: frazil.Repository) -> None:
    repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")


@pytest.mark.parametrize("act", [shortened_by_expiry, shortened_by_squash, rewritten])
def test_a_batch_that_spark_repeats_does_not_undo_a_correction(
    repo: Path, act: Callable[[frazil.Repository], None]
) -> None:
    options = {"append_dim": "time", "checkpointLocation": "/some/place"}

    def batch(first: int, last: int, number: int) -> None:
        rows = days(first, last)
        told = [stream_sink_here(repo, rows.schema, **options).write(iter(rows.to_batches()))]
        stream_sink_here(repo, rows.schema, **options).commit(told, number)

    batch(10, 11, 0)
    batch(11, 12, 1)
    change(repo, lambda root: put(root, "wind", 11, 7.5))
    act(frazil.Repository.open(repo))
    batch(11, 12, 1)
    assert (opened(repo).wind[11] == 7.5).all()
    batch(12, 13, 2)
    assert opened(repo).sizes["time"] == 13


def test_a_stream_goes_on_where_its_branch_was_reset_to(repo: Path) -> None:
    for number in range(3):
        write_here(
            repo,
            days(10 + number, 11 + number),
            append_dim="time",
            txnAppId="job",
            txnVersion=number,
        )
    repository = frazil.Repository.open(repo)
    repository.reset_branch("main", [e.id for e in repository.ancestry(branch="main")][2])
    for number in range(3):
        write_here(
            repo,
            days(10 + number, 11 + number),
            append_dim="time",
            txnAppId="job",
            txnVersion=number,
        )
    assert opened(repo).sizes["time"] == 13
    np.testing.assert_array_equal(opened(repo).wind[10:], ALL.wind[10:13])
