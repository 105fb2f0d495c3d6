"""Functions over blocks: the same values as xarray gives on the whole, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.spark import map_blocks, reduce_blocks
from tests.support.ages import left_over
from tests.support.spark import WEATHER_ENCODING, make_repository
from tests.support.web import WebServer, web_server


@pytest.fixture
def url(tmp_path: Path, dataset: xr.Dataset) -> str:
    """A repository that may be changed."""
    make_repository(tmp_path / "repo", dataset, **WEATHER_ENCODING)
    return str(tmp_path / "repo")


def read(url: str, group: str | None = None) -> xr.Dataset:
    """A group of main."""
    store = frazil.Repository.open(url).readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False).load()
    return found


def test_new_variable_beside_the_old(spark: SparkSession, url: str) -> None:
    before = read(url)

    def speed(block: xr.Dataset) -> xr.DataArray:
        return abs(block["wind"]).rename("speed").assign_attrs(units="m/s")

    report = map_blocks(speed, url, "wind", spark=spark)
    after = read(url)
    xr.testing.assert_allclose(after["speed"], abs(before["wind"]))
    assert after["speed"].attrs["units"] == "m/s"
    xr.testing.assert_identical(after[["t2m", "wind"]], before[["t2m", "wind"]])
    assert report.arrays == ("/speed",)
    assert left_over(frazil.Repository.open(url)) == []
    history = list(frazil.Repository.open(url).ancestry(branch="main"))
    assert len(history) == 3
    assert history[0].metadata["frazil.job"] == "map_blocks"
    with pytest.raises(AlreadyExistsError):
        map_blocks(speed, url, "wind", spark=spark)
    map_blocks(
        lambda block: -speed(block), url, "wind", spark=spark, overwrite=True, outputs="speed"
    )
    xr.testing.assert_allclose(read(url)["speed"], -abs(before["wind"]))


def test_means_of_days_go_to_another_group(spark: SparkSession, url: str) -> None:
    before = read(url)
    map_blocks(
        lambda block: block.coarsen(time=2, boundary="pad").mean(),
        url,
        ["t2m", "wind"],
        spark=spark,
        blocks={"time": 4, "lat": -1, "lon": 3},
        output_group="means/two",
    )
    expected = before.coarsen(time=2, boundary="pad").mean()
    xr.testing.assert_allclose(read(url, "means/two"), expected)
    with pytest.raises(InvalidInputError, match="another output_group"):
        map_blocks(
            lambda block: block.coarsen(time=2).mean().rename(wind="half"),
            url,
            "wind",
            spark=spark,
            blocks={"time": 4},
        )


def test_numpy_blocks(spark: SparkSession, url: str, tmp_path: Path) -> None:
    before = read(url)

    def both(wind: np.ndarray[Any, Any], t2m: np.ndarray[Any, Any]) -> Any:  # noqa: ANN401
        return wind * 2, t2m - wind

    target = str(tmp_path / "other")
    map_blocks(
        both, url, ["wind", "t2m"], spark=spark, as_numpy=True, outputs=["a", "b"], target=target
    )
    after = read(target)
    np.testing.assert_allclose(after["a"], before["wind"] * 2)
    np.testing.assert_allclose(after["b"], before["t2m"] - before["wind"])
    xr.testing.assert_identical(after["time"], before["time"])


def test_mean_over_time(spark: SparkSession, url: str) -> None:
    before = read(url)

    def sums(block: xr.Dataset) -> xr.Dataset:
        values = block["t2m"]
        return xr.Dataset({"sum": values.sum("time"), "n": values.count("time")})

    reduce_blocks(
        sums,
        url,
        "t2m",
        "time",
        spark=spark,
        finish=lambda made: (made["sum"] / made["n"]).to_dataset(name="mean"),
    )
    xr.testing.assert_allclose(read(url)["mean"], before["t2m"].mean("time"))


def test_extreme_over_everything(spark: SparkSession, url: str) -> None:
    before = read(url)
    reduce_blocks(
        lambda block: block.max().rename(wind="top"),
        url,
        "wind",
        ["time", "lat", "lon"],
        spark=spark,
        combine=lambda one, other: one.where(one > other, other),
        output_group="facts",
    )
    assert read(url, "facts")["top"] == before["wind"].max()


def broken(block: xr.Dataset) -> xr.Dataset:
    """Fails in the middle of the array only, where the driver does not look."""
    if block["time"][0] == np.datetime64("2024-02-03"):
        raise InvalidInputError("no data on that day")
    return block.rename(wind="w")


@pytest.mark.parametrize(
    ("fn", "more", "told"),
    [
        (lambda b: b.mean("time"), {}, "reduce_blocks"),
        (lambda b: 5, {}, "not a Dataset"),
        (broken, {"blocks": {"time": 4, "lat": -1, "lon": -1}}, "no data on that day"),
        (lambda b: b, {"inputs": "wnd"}, "did you mean 'wind'"),
        (lambda b: b, {"blocks": {"depth": 3}}, "no dimension 'depth'"),
        (lambda a: a, {"as_numpy": True}, "give outputs"),
    ],
)
def test_failures_leave_the_branch(
    spark: SparkSession, url: str, fn: Callable[..., Any], more: dict[str, Any], told: str
) -> None:
    before = frazil.Repository.open(url).lookup_branch("main")
    with pytest.raises(InvalidInputError, match=told):
        map_blocks(fn, url, **{"inputs": "wind", **more}, spark=spark)
    assert frazil.Repository.open(url).lookup_branch("main") == before


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as found:
        yield found


def test_commits_do_not_tell_how_to_get_in(
    spark: SparkSession, url: str, tmp_path: Path, server: WebServer
) -> None:
    root, target = Path(url), str(tmp_path / "other")
    server.files = {
        f"/r/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    address = f"{server.url.replace('://', '://me:HUSH7@')}/r"
    asked: dict[str, Any] = {"spark": spark, "target": target}
    map_blocks(lambda block: abs(block["wind"]).rename("speed"), address, "wind", **asked)
    reduce_blocks(
        lambda block: block[["t2m"]].sum("time").rename(t2m="sum"), address, "t2m", "time", **asked
    )
    history = [*frazil.Repository.open(target).ancestry(branch="main")]
    told = "\n".join(f"{each.message} {each.metadata}" for each in history)
    assert "Map blocks of http://****@" in told
    assert "Reduce http://****@" in told
    assert "HUSH7" not in told
