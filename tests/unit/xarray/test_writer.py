"""`to_icechunk`: what is written is what is read back, whole, appended or in regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from xarray.testing import assert_identical

from frazil.errors import RebaseFailedError
from frazil.model.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    VirtualChunkContainer,
)
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.xarray import to_icechunk
from tests.support.generations import WITH_TEXTS, spec_id
from tests.unit.xarray.weather import forecast


@pytest.fixture(params=WITH_TEXTS, ids=spec_id)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


def read(session: Session, **options: Any) -> xr.Dataset:  # noqa: ANN401  (those of xarray)
    found: xr.Dataset = xr.open_zarr(session.store, consolidated=False, chunks=None, **options)
    return found


def test_a_forecast_comes_back_identical(repository: Repository) -> None:
    session = repository.writable_session("main")
    to_icechunk(forecast(), session)
    session.commit("a forecast")
    found = read(repository.readonly_session("main"))
    assert_identical(found, forecast())
    assert found["t2m"].encoding["dtype"] == np.int16
    assert found["t2m"].encoding["scale_factor"] == 0.01


def test_nothing_is_committed_by_writing(repository: Repository) -> None:
    before = repository.lookup_branch("main")
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session)
    assert repository.lookup_branch("main") == before
    assert session.has_uncommitted_changes


def test_encoding_is_given_by_variable(repository: Repository) -> None:
    session = repository.writable_session("main")
    encoding = {"rain": {"chunks": (48, 5, 7), "dtype": "float64", "_FillValue": -1.0}}
    to_icechunk(forecast(), session, encoding=encoding)
    array: Any = zarr.open_array(session.store, path="rain", mode="r")
    assert array.chunks == (48, 5, 7)
    assert array.dtype == np.float64
    assert_identical(read(session)["rain"].astype("f4"), forecast()["rain"])
    with pytest.raises(ValueError, match="'rain' already exists, but encoding was provided"):
        to_icechunk(forecast(), session, mode="a", encoding=encoding)


@pytest.mark.parametrize("name", [None, "t2m", "lat"])
def test_an_array_becomes_a_dataset_as_with_to_zarr(repository: Repository, name: str) -> None:
    array = forecast(1)["t2m"].rename(name)
    session = repository.writable_session("main")
    to_icechunk(array, session)
    plain: dict[str, Any] = {}
    array.to_zarr(zarr.storage.MemoryStore(plain), consolidated=False, zarr_format=3)
    expected = xr.open_zarr(zarr.storage.MemoryStore(plain), consolidated=False, chunks=None)
    assert_identical(read(session), expected)


# --- modes and groups ---


def test_modes(repository: Repository) -> None:
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session)
    with pytest.raises(FileExistsError):
        to_icechunk(forecast(1), session)
    to_icechunk(forecast(1)[["rain"]].rename(rain="snow"), session, mode="a")
    assert {"rain", "snow"} <= set(read(session))
    to_icechunk(forecast(2), session, mode="w")
    assert_identical(read(session), forecast(2))
    changed = forecast(2)[["rain"]] * 2
    to_icechunk(changed, session, mode="r+")
    assert_identical(read(session)["rain"], changed["rain"].assign_attrs(units="mm h⁻¹"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "r"}, "The only supported options for mode are"),
        ({"mode": "w", "append_dim": "time"}, "cannot set append_dim unless"),
        ({"mode": "w-", "region": {"time": slice(0, 24)}}, "cannot set region unless"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    session = Repository.create(MemoryStorage()).writable_session("main")
    with pytest.raises(ValueError, match=message):
        to_icechunk(forecast(1), session, **options)
    assert not session.has_uncommitted_changes


def test_groups_are_separate(repository: Repository) -> None:
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session, group="europe/north")
    to_icechunk(forecast(2), session, group="europe/south")
    to_icechunk(forecast(3), session, group="europe/south", mode="w")
    assert_identical(read(session, group="europe/north"), forecast(1))
    assert_identical(read(session, group="europe/south"), forecast(3))


def test_only_sessions_and_xarray_objects_are_taken(repository: Repository) -> None:
    session = repository.writable_session("main")
    with pytest.raises(TypeError, match="FrazilStore"):
        to_icechunk(forecast(1), session.store)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ndarray"):
        to_icechunk(np.zeros(3), session)  # type: ignore[arg-type]


# --- appending ---


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "dask"])
def test_days_are_appended(repository: Repository, lazy: bool) -> None:
    whole = forecast(6).drop_vars("grid")
    session = repository.writable_session("main")
    to_icechunk(whole.isel(time=slice(0, 48)), session)
    for start in (48, 96):
        session.commit("so far")
        session = repository.writable_session("main")
        part = whole.isel(time=slice(start, start + 48))
        changing = part.drop_vars([n for n, v in part.variables.items() if "time" not in v.dims])
        to_icechunk(changing.chunk(time=48) if lazy else changing, session, append_dim="time")
    session.commit("all")
    assert_identical(read(repository.readonly_session("main")), whole)


def test_appending_twice_in_one_session_starts_in_the_middle_of_a_chunk(
    repository: Repository,
) -> None:
    values = np.arange(23.0)
    whole = xr.Dataset({"a": ("x", values)}, coords={"x": np.arange(23)})
    session = repository.writable_session("main")
    to_icechunk(whole.isel(x=slice(0, 7)).chunk(x=5), session)
    to_icechunk(whole.isel(x=slice(7, 16)).chunk(x=9), session, append_dim="x", safe_chunks=False)
    to_icechunk(whole.isel(x=slice(16, 23)).chunk(x=2), session, append_dim="x", safe_chunks=False)
    assert_identical(read(session), whole)


class Broken:
    """Stands for a file that turns out damaged when it is read."""

    shape, dtype, ndim = (24, 5, 7), np.dtype("f4"), 3

    def __getitem__(self, key: object) -> np.ndarray[Any, Any]:
        raise OSError("damaged file")


def test_an_append_that_fails_half_way_leaves_nothing(repository: Repository) -> None:
    session = repository.writable_session("main")
    to_icechunk(forecast(1)[["t2m", "rain"]], session)
    first = session.commit("one day")
    more = forecast(1, first="2024-02-28")[["t2m", "rain"]].chunk(time=24)
    broken = da.from_array(Broken(), chunks=(24, 5, 7))  # type: ignore[no-untyped-call]
    more["rain"] = (more["rain"].dims, broken)
    session = repository.writable_session("main")
    with pytest.raises(OSError, match="damaged file") as error:
        to_icechunk(more, session, append_dim="time")
    assert "discard_changes()" in error.value.__notes__[-1]
    assert repository.lookup_branch("main") == first
    assert_identical(read(repository.readonly_session("main")), forecast(1)[["t2m", "rain"]])
    session.discard_changes()
    assert_identical(read(session), forecast(1)[["t2m", "rain"]])


# --- regions ---


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "dask"])
def test_a_region_is_overwritten(repository: Repository, lazy: bool) -> None:
    session = repository.writable_session("main")
    expected = forecast(3)
    to_icechunk(expected, session)
    session.commit("three days")
    fixed = expected[["rain"]].isel(time=slice(24, 48)).fillna(0)
    session = repository.writable_session("main")
    region = {"time": slice(24, 48)}
    source = fixed.drop_vars(["lat", "lon", "height"])
    to_icechunk(source.chunk(time=24) if lazy else source, session, region=region)
    expected["rain"][24:48] = fixed["rain"]
    assert_identical(read(session), expected)


def test_a_region_is_found_by_its_coordinates(repository: Repository) -> None:
    session = repository.writable_session("main")
    expected = forecast(3)[["rain"]].drop_vars("height")
    to_icechunk(expected, session)
    fixed = expected.isel(time=slice(24, 48)).fillna(0)
    to_icechunk(fixed, session, region="auto")
    expected["rain"][24:48] = fixed["rain"]
    assert_identical(read(session), expected)
    elsewhere = fixed.assign_coords(time=fixed["time"] + np.timedelta64(365, "D"))
    with pytest.raises(KeyError):
        to_icechunk(elsewhere, session, region="auto")


def test_workers_write_regions_through_forks(repository: Repository) -> None:
    expected = forecast(3)[["rain"]].drop_vars("height")
    session = repository.writable_session("main")
    to_icechunk(expected.where(False), session, encoding={"rain": {"chunks": (24, 5, 7)}})
    session.commit("a template")
    session = repository.writable_session("main")
    forks = [session.fork() for _ in range(3)]
    for day, fork in enumerate(forks):
        part = expected.isel(time=slice(24 * day, 24 * day + 24))
        to_icechunk(part.chunk(time=24) if day else part, fork, region="auto")
    session.merge(*forks)
    session.commit("three workers")
    xr.testing.assert_equal(read(session), expected)


# --- dask ---


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_dask_arrays_come_back_identical(repository: Repository, scheduler: str) -> None:
    session = repository.writable_session("main")
    with dask.config.set(scheduler=scheduler):
        lazy = forecast().chunk(time=24, lat=5, lon=7)
        lazy["station"] = forecast()["station"]  # texts of any length stay in memory
        to_icechunk(lazy, session, split_every=2)
    session.commit("from dask")
    assert_identical(read(session), forecast())


@pytest.mark.slow
def test_processes_write_dask_arrays(tmp_path: Path) -> None:
    repository = Repository.create(LocalStorage(tmp_path))
    session = repository.writable_session("main")
    lazy = forecast()[["t2m", "rain"]].chunk(time=48)
    arguments = {"scheduler": "processes", "num_workers": 2}
    to_icechunk(lazy, session, safe_chunks=False, chunkmanager_store_kwargs=arguments)
    to_icechunk(lazy, session, mode="w", chunkmanager_store_kwargs=arguments)
    session.commit("by processes")
    assert_identical(read(session), forecast()[["t2m", "rain"]])


def test_dask_chunks_that_do_not_fit_are_refused(repository: Repository) -> None:
    session = repository.writable_session("main")
    lazy = forecast()[["rain"]].chunk(time=10)
    with pytest.raises(ValueError, match="chunk"):
        to_icechunk(lazy, session)


@pytest.mark.parametrize("options", [{"safe_chunks": False}, {"align_chunks": True}])
def test_dask_chunks_may_be_fitted_without_losing_values(
    repository: Repository, options: dict[str, Any]
) -> None:
    session = repository.writable_session("main")
    with dask.config.set(scheduler="threads"):
        to_icechunk(forecast()[["rain"]].chunk(time=10, lat=3), session, **options)
    assert_identical(read(session), forecast()[["rain"]])


# --- how it is stored ---


def test_split_manifests_hold_the_same_values() -> None:
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.DimensionName("time"): 2}}
    )
    config = RepositoryConfig(
        inline_chunk_threshold_bytes=0, manifest=ManifestConfig(splitting=splitting)
    )
    repository = Repository.create(MemoryStorage(), config=config)
    session = repository.writable_session("main")
    to_icechunk(forecast(6)[["rain"]], session)
    first = session.commit("six days")
    assert len(repository.list_manifest_files(first)) >= 3
    session = repository.writable_session("main")
    to_icechunk(forecast(1, first="2024-03-04")[["rain"]], session, append_dim="time")
    session.commit("a seventh day")
    found = read(session)
    assert_identical(found.isel(time=slice(0, 144)), forecast(6)[["rain"]])
    assert_identical(found.isel(time=slice(144, None)), forecast(1, first="2024-03-04")[["rain"]])


def test_virtual_chunks_are_read_and_can_be_overwritten(tmp_path: Path) -> None:
    values = np.arange(12, dtype="<i4")
    (tmp_path / "source.bin").write_bytes(b"head" + values.tobytes())
    prefix = f"file://{tmp_path}/"
    container = VirtualChunkContainer(prefix, ObjectStoreConfig.LocalFileSystem(str(tmp_path)))
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container)
    repository = Repository.create(
        MemoryStorage(),
        config=config,
        authorize_virtual_chunk_access={prefix: LocalFileSystemAccess},
    )
    session = repository.writable_session("main")
    template = xr.Dataset({"level": ("x", np.zeros(12, "<i4"))}, attrs={"source": "a file"})
    encoding = {"level": {"chunks": (6,), "compressors": None}}
    to_icechunk(template, session, encoding=encoding)
    for chunk in range(2):
        session.store.set_virtual_ref(
            f"level/c/{chunk}", f"{prefix}source.bin", offset=4 + 24 * chunk, length=24
        )
    session.commit("virtual")
    expected = xr.Dataset({"level": ("x", values)}, attrs={"source": "a file"})
    assert_identical(read(repository.readonly_session("main")), expected)
    session = repository.writable_session("main")
    to_icechunk(expected.isel(x=slice(6, 12)) * 2, session, region={"x": slice(6, 12)})
    assert read(session)["level"].values.tolist() == [*range(6), *range(12, 24, 2)]


@pytest.mark.parametrize("spec", [1, 2])
def test_an_append_is_not_put_on_top_of_a_new_variable_of_the_dimension(spec: int) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session)
    session.commit("one day")
    ours = repository.writable_session("main")
    to_icechunk(forecast(1, first="2024-03-02"), ours, append_dim="time")
    theirs = repository.writable_session("main")
    length = forecast(1).sizes["time"]
    zarr.create_array(
        theirs.store, name="gust", shape=(length,), dtype="f4", dimension_names=["time"]
    )
    theirs.commit("a new variable")
    with pytest.raises(RebaseFailedError):
        ours.commit("another day", rebase_with=ConflictDetector())
    assert read(repository.readonly_session("main")).sizes["time"] == length


def test_a_region_that_labels_chose_is_not_written_under_other_labels() -> None:
    repository = Repository.create(MemoryStorage())
    whole = xr.Dataset({"v": ("x", np.zeros(4))}, coords={"x": np.arange(4)})
    session = repository.writable_session("main")
    to_icechunk(whole, session, encoding={"v": {"chunks": (1,)}, "x": {"chunks": (1,)}})
    session.commit("whole")
    ours = repository.writable_session("main")
    to_icechunk(whole.isel(x=[2]) + 1, ours, region="auto")
    theirs = repository.writable_session("main")
    zarr.open_array(theirs.store, path="x")[:] = np.arange(4) + 10
    theirs.commit("other labels")
    with pytest.raises(RebaseFailedError):
        ours.commit("one cell", rebase_with=ConflictDetector())


def test_a_new_variable_is_not_added_to_a_dimension_that_has_grown() -> None:
    repository = Repository.create(MemoryStorage())
    whole = xr.Dataset({"v": ("x", np.zeros(4))})
    session = repository.writable_session("main")
    to_icechunk(whole, session)
    session.commit("whole")
    ours, beside = repository.writable_session("main"), repository.writable_session("main")
    to_icechunk(whole.rename(v="w"), ours, mode="a")
    to_icechunk(whole.rename(v="u"), beside, mode="a")
    beside.commit("another variable")
    theirs = repository.writable_session("main")
    to_icechunk(whole, theirs, append_dim="x")
    theirs.commit("longer")
    with pytest.raises(RebaseFailedError):
        ours.commit("a variable of the old length", rebase_with=ConflictDetector())


def test_several_add_variables_to_a_group_at_once() -> None:
    """The dimensions are as long as they were, or new."""
    repository = Repository.create(MemoryStorage())
    whole = xr.Dataset({"v": ("x", np.zeros(4))})
    begun = repository.writable_session("main")
    to_icechunk(xr.Dataset(), begun)
    begun.commit("a group")
    for names in ("vw", "pq"):
        sessions = [repository.writable_session("main") for _ in names]
        for name, session in zip(names, sessions, strict=True):
            to_icechunk(whole.rename(v=name), session, mode="a")
        for session in sessions:
            session.commit("a variable", rebase_with=ConflictDetector())
    assert {*read(repository.readonly_session("main"))} == {*"pqvw"}
