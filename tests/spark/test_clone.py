"""Clones, exports and imports: the same values elsewhere, without a chunk being decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from frazil.progress import Progress
from frazil.spark import clone, export, import_zarr
from tests.support.spark import WEATHER_ENCODING, make_repository


@pytest.fixture
def source(tmp_path: Path, dataset: xr.Dataset) -> Path:
    """A repository with native, packed and inline chunks, a nested group, a tag and two commits."""
    path = tmp_path / "source"
    repository = make_repository(path, dataset, **WEATHER_ENCODING)
    session = repository.writable_session("main")
    group = zarr.open_group(session.store).create_group("deep/er", attributes={"a": 1})
    values = np.random.default_rng(0).normal(size=(40, 50))
    array = group.create_array("big", shape=(40, 50), chunks=(7, 20), dtype="f8", shards=(14, 40))
    array[...] = values
    group.create_array("scalar", shape=(), dtype="i4")[...] = 7
    first = repository.lookup_branch("main")
    session.commit("more")
    repository.create_tag("v1", first)
    return path


def read(path: Path | str, **version: Any) -> xr.Dataset:  # noqa: ANN401
    """The root group of a repository."""
    store = frazil.Repository.open(path).readonly_session(**(version or {"branch": "main"})).store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False).load()
    return found


def test_clone_of_a_branch(
    spark: SparkSession, source: Path, tmp_path: Path, dataset: xr.Dataset
) -> None:
    target = tmp_path / "copy"
    told: list[Progress] = []
    report = clone(str(source), str(target), spark=spark, progress=told.append)
    xr.testing.assert_identical(read(target), read(source))
    xr.testing.assert_allclose(read(target), dataset)
    ours = frazil.Repository.open(source).readonly_session("main").store
    theirs = frazil.Repository.open(target).readonly_session("main").store
    for name in ("deep/er/big", "deep/er/scalar"):
        np.testing.assert_array_equal(
            zarr.open_array(theirs, path=name)[...], zarr.open_array(ours, path=name)[...]
        )
    copied = {path.name: path.read_bytes() for path in (target / "chunks").iterdir()}
    assert all((source / "chunks" / name).read_bytes() == data for name, data in copied.items())
    history = list(frazil.Repository.open(target).ancestry(branch="main"))
    assert len(history) == 2
    assert history[0].id == report.snapshot_id
    assert told[-1].done == told[-1].total == len(copied)


def test_clone_of_a_tag_leaves_later_things_out(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    clone(f"{source}@v1", str(tmp_path / "copy"), spark=spark)
    store = frazil.Repository.open(tmp_path / "copy").readonly_session("main").store
    assert "deep" not in zarr.open_group(store, mode="r")


@pytest.mark.parametrize("spec", [1, 2])
def test_clone_of_all_history(spark: SparkSession, tmp_path: Path, spec: int) -> None:
    repository = frazil.Repository.create(tmp_path / "one", spec_version=spec)
    for number in range(3):
        session = repository.writable_session("main")
        zarr.create_array(session.store, name=f"a{number}", data=np.arange(500) + number)
        session.commit(f"commit {number}")
    repository.create_tag("v1", repository.lookup_branch("main"))
    repository.create_branch("dev", repository.lookup_branch("main"))
    clone(str(tmp_path / "one"), str(tmp_path / "two"), spark=spark, all_history=True)
    copy = frazil.Repository.open(tmp_path / "two")
    assert copy.list_branches() == {"main", "dev"}
    assert copy.lookup_tag("v1") == repository.lookup_tag("v1")
    ids = [info.id for info in repository.ancestry(branch="main")]
    assert [info.id for info in copy.ancestry(branch="main")] == ids
    found = zarr.open_array(copy.readonly_session(tag="v1").store, path="a2")
    np.testing.assert_array_equal(found[...], np.arange(500) + 2)


def test_clone_refuses_what_is_there(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    with pytest.raises(AlreadyExistsError):
        clone(str(source), str(source), spark=spark)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(AlreadyExistsError):
        clone(str(source), str(tmp_path / "full"), spark=spark, all_history=True)
    with pytest.raises(InvalidInputError, match="leave it out"):
        clone(f"{source}@v1", str(tmp_path / "new"), spark=spark, all_history=True)


def test_export_to_zarr(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    report = export(str(source), str(tmp_path / "out.zarr"), spark=spark)
    with xr.open_zarr(tmp_path / "out.zarr", consolidated=False) as found:
        xr.testing.assert_identical(found.load(), read(source))
    ours = frazil.Repository.open(source).readonly_session("main").store
    exported = str(tmp_path / "out.zarr")
    assert zarr.open_group(exported, path="deep/er", mode="r").attrs["a"] == 1
    for name in ("deep/er/big", "deep/er/scalar"):
        copied = zarr.open_array(exported, path=name, mode="r")
        np.testing.assert_array_equal(copied[...], zarr.open_array(ours, path=name)[...])
    assert report.snapshot_id is None
    assert report.chunks > 10
    with pytest.raises(AlreadyExistsError):
        export(str(source), str(tmp_path / "out.zarr"), spark=spark)


def test_export_of_a_group(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    export(str(source), str(tmp_path / "out.zarr"), spark=spark, group="deep/er")
    exported = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    assert sorted(exported) == ["big", "scalar"]
    assert zarr.open_array(str(tmp_path / "out.zarr"), path="scalar", mode="r")[()] == 7
    with pytest.raises(NotFoundError):
        export(str(source), str(tmp_path / "other.zarr"), spark=spark, group="nowhere")


@pytest.mark.parametrize("version", [2, 3])
def test_import_of_a_store(
    spark: SparkSession, tmp_path: Path, dataset: xr.Dataset, version: int
) -> None:
    store = tmp_path / "in.zarr"
    encoding = {name: {**WEATHER_ENCODING[name]} for name in WEATHER_ENCODING}
    dataset.to_zarr(store, encoding=encoding, zarr_format=version)
    report = import_zarr(str(store), str(tmp_path / "repo"), spark=spark)
    with xr.open_zarr(store) as expected:
        xr.testing.assert_identical(read(tmp_path / "repo"), expected.load())
    assert report.chunks == sum(1 for _ in store.rglob("[0-9]*") if _.is_file())
    history = list(frazil.Repository.open(tmp_path / "repo").ancestry(branch="main"))
    assert history[0].metadata["imported-from"] == str(store)


def test_import_into_a_group_beside_others(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    zarr.create_array(
        str(tmp_path / "in.zarr"), shape=(5, 4), chunks=(2, 4), dtype="u2", fill_value=9
    )[:4] = 3
    import_zarr(str(tmp_path / "in.zarr"), str(source), spark=spark, group="more/one")
    store = frazil.Repository.open(source).readonly_session("main").store
    found = zarr.open_array(store, path="more/one", mode="r")
    assert np.asarray(found[...]).tolist() == [[3] * 4] * 4 + [[9] * 4]
    assert "deep" in zarr.open_group(store, mode="r")
    with pytest.raises(AlreadyExistsError):
        import_zarr(str(tmp_path / "in.zarr"), str(source), spark=spark, group="more/one")


def test_import_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no Zarr store"):
        import_zarr(str(tmp_path / "empty"), str(tmp_path / "repo"), spark=spark)
    assert not frazil.Repository.exists(tmp_path / "repo")


def test_failed_clone_leaves_an_empty_repository(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    next((source / "chunks").iterdir()).unlink()
    with pytest.raises(frazil.errors.StorageError, match="missing"):
        clone(str(source), str(tmp_path / "copy"), spark=spark)
    made = frazil.Repository.open(tmp_path / "copy")
    assert len(list(made.ancestry(branch="main"))) == 1
