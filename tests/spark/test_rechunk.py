"""Rechunking: the same values in other chunks, by direct reads and through the shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.bulk.grid import regular_grid
from frazil.errors import InvalidInputError, StorageError
from frazil.spark import rechunk
from frazil.spark.jobs.rechunk_plan import ChunkRequest, axis_cost, grown, read_cost
from tests.support.spark import WEATHER_ENCODING, make_repository, weather

Shape = tuple[int, ...]


def cube(
    path: Path,
    shape: Shape,
    chunks: Shape,
    **more: Any,  # noqa: ANN401  (what zarr takes)
) -> npt.NDArray[Any]:
    """A repository with one array, whose middle chunk is missing."""
    repository = frazil.Repository.create(path)
    session = repository.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="cube",
        shape=shape,
        chunks=chunks,
        dtype=more.pop("dtype", "f4"),
        fill_value=more.pop("fill_value", -1),
        dimension_names=[f"d{axis}" for axis in range(len(shape))],
        attributes={"units": "K"},
        **more,
    )
    values = np.arange(np.prod(shape)).reshape(shape).astype(array.dtype)
    values[tuple(slice(c, 2 * c) for c in chunks)] = array.fill_value
    array[...] = values
    session.commit("made")
    return values


def opened(path: Path, name: str = "cube") -> zarr.Array[Any]:
    """An array as zarr reads it on main."""
    store = frazil.Repository.open(path).readonly_session("main").store
    return zarr.open_array(store, path=name, mode="r")


@pytest.mark.parametrize(
    ("chunks", "memory", "is_shuffled"),
    [((12, 5, 4), "1m", False), ((24, 3, 2), 4096 * 4, True), ((7, 9, 100), "1m", False)],
)
def test_values_stay(
    spark: SparkSession, tmp_path: Path, chunks: Shape, memory: int | str, is_shuffled: bool
) -> None:
    values = cube(tmp_path, (24, 13, 10), (1, 13, 10))
    report = rechunk(str(tmp_path), "cube", chunks, spark=spark, max_memory=memory)
    after = opened(tmp_path)
    assert after.chunks == chunks
    assert after.attrs["units"] == "K"
    np.testing.assert_array_equal(after[...], values)
    assert report.shuffled == (("/cube",) if is_shuffled else ())
    history = list(frazil.Repository.open(tmp_path).ancestry(branch="main"))
    assert len(history) == 3
    assert history[0].id == report.snapshot_id
    assert history[0].metadata["added-chunks"] == report.chunks
    assert history[0].metadata["spark.app.id"]


def test_shuffle_of_texts_and_scalars(spark: SparkSession, tmp_path: Path) -> None:
    values = cube(tmp_path, (40, 30), (1, 30), dtype="str", fill_value="")
    report = rechunk(str(tmp_path), "cube", (-1, 1), spark=spark, max_memory=40 * 16 * 4)
    assert report.shuffled == ("/cube",)
    np.testing.assert_array_equal(opened(tmp_path)[...], values)


def test_one_dimension_by_name_for_all_variables(spark: SparkSession, tmp_path: Path) -> None:
    dataset = weather()
    make_repository(tmp_path, dataset, **WEATHER_ENCODING)
    report = rechunk(str(tmp_path), None, {"time": -1}, spark=spark, compressor="gzip:1")
    assert sorted(report.arrays) == ["/t2m", "/wind"]
    assert opened(tmp_path, "wind").chunks == (10, 3, 2)
    assert "Gzip" in repr(opened(tmp_path, "wind").compressors)
    store = frazil.Repository.open(tmp_path).readonly_session("main").store
    with xr.open_zarr(store, consolidated=False) as found:
        xr.testing.assert_allclose(found.load(), dataset)


def test_new_chunks_may_end_in_a_checksum(spark: SparkSession, tmp_path: Path) -> None:
    values = cube(tmp_path, (4, 6), (1, 6))
    rechunk(str(tmp_path), "cube", (4, 3), spark=spark, checksum=True)
    after = opened(tmp_path)
    assert [type(codec).__name__ for codec in after.compressors] == ["ZstdCodec", "Crc32cCodec"]
    np.testing.assert_array_equal(after[...], values)


def test_shards_become_plain_chunks(spark: SparkSession, tmp_path: Path) -> None:
    values = cube(tmp_path, (16, 16), (4, 4), shards=(8, 8))
    rechunk(str(tmp_path), "cube", (2, 16), spark=spark)
    assert opened(tmp_path).shards is None
    np.testing.assert_array_equal(opened(tmp_path)[...], values)


def test_into_another_repository(spark: SparkSession, tmp_path: Path) -> None:
    dataset = weather()
    make_repository(tmp_path / "one", dataset, **WEATHER_ENCODING)
    before = frazil.Repository.open(tmp_path / "one").lookup_branch("main")
    rechunk(
        f"{tmp_path / 'one'}@main",
        ["wind"],
        {"time": 10},
        spark=spark,
        target=str(tmp_path / "two"),
    )
    assert frazil.Repository.open(tmp_path / "one").lookup_branch("main") == before
    store = frazil.Repository.open(tmp_path / "two").readonly_session("main").store
    with xr.open_zarr(store, consolidated=False) as found:
        xr.testing.assert_identical(found["wind"].load(), dataset["wind"])


def test_a_tag_is_rechunked_onto_a_branch(spark: SparkSession, tmp_path: Path) -> None:
    values = cube(tmp_path, (6, 4), (1, 4))
    repository = frazil.Repository.open(tmp_path)
    tip = repository.lookup_branch("main")
    repository.create_tag("v1", tip)
    repository.create_branch("dev", tip)
    rechunk(f"{tmp_path}@v1", "cube", (6, 4), spark=spark, branch="dev")
    assert repository.lookup_branch("main") == tip
    store = repository.readonly_session("dev").store
    np.testing.assert_array_equal(zarr.open_array(store, path="cube")[...], values)


def test_failed_job_leaves_the_branch(spark: SparkSession, tmp_path: Path) -> None:
    cube(tmp_path, (6, 400), (1, 400), compressors=None)
    repository = frazil.Repository.open(tmp_path)
    before = repository.lookup_branch("main")
    chunk = next((tmp_path / "chunks").iterdir())
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.raises(StorageError, match="shorter than its reference"):
        rechunk(str(tmp_path), "cube", (6, 100), spark=spark)
    assert repository.lookup_branch("main") == before


@pytest.mark.parametrize(
    ("variables", "chunks", "more", "told"),
    [
        ("cub", (2, 2), {}, "did you mean '/cube'"),
        ("cube", {"d9": 2}, {}, "no dimension 'd9'"),
        ("cube", (2,), {}, "has 2"),
        ("cube", (0, 2), {}, "positive"),
        ("cube", (6, 4), {"max_memory": 100}, "max_memory"),
        ("cube", (6, 4), {"compressor": "brick"}, "unknown compressor"),
        (None, {"time": 2}, {}, "no variable"),
    ],
)
def test_bad_arguments(
    spark: SparkSession,
    tmp_path: Path,
    variables: str | None,
    chunks: ChunkRequest,
    more: dict[str, Any],
    told: str,
) -> None:
    cube(tmp_path, (6, 4), (1, 4))
    with pytest.raises(InvalidInputError, match=told):
        rechunk(str(tmp_path), variables, chunks, spark=spark, **more)


def test_blocks_cover_whole_source_chunks_when_memory_allows() -> None:
    grid = regular_grid((1000, 100, 100), (1, 100, 100))
    block = grown((1000, 100, 100), (1000, 10, 10), grid, 10**9, 1)
    assert block == (1000, 100, 100)
    assert read_cost(grid, block) == 1
    tight = grown((1000, 100, 100), (1000, 10, 10), grid, 1000 * 100 * 20, 1)
    assert tight[0] == 1000
    assert read_cost(grid, tight) > 2
    assert axis_cost(grid[0], 7) == 1
