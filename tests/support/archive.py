"""Small archives of files in many formats, and what they hold."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.ingestion.pipeline import run_request
from frazil.ingestion.plans import IngestMode, PlanOptions
from frazil.ingestion.reports import IngestReport
from frazil.ingestion.request import IngestRequest
from frazil.repository import Repository
from frazil.run import LocalRunner
from frazil.storage.base import Storage
from frazil.storage.credential_functions import containers_credentials
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage

DAYS = 4
PACKED = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-999)}


def part(number: int, days: int = DAYS, since: str = "2000-01-01") -> xr.Dataset:
    """Some days of two variables on a small grid, as they are stored: nothing is decoded."""
    rng = np.random.default_rng(number)
    first = number * DAYS - (np.datetime64(since) - np.datetime64("2000-01-01")).astype(int)
    packed = rng.integers(0, 500, (days, 3, 5)).astype("i2")
    packed[0, 0, 0] = -999
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), rng.random((days, 3, 5), "f4"), {"units": "K"}),
            "rain": (("time", "lat", "lon"), packed, {"units": "mm", **PACKED}),
            "mask": (("lat", "lon"), np.arange(15.0).reshape(3, 5)),
        },
        coords={
            "time": ("time", np.arange(first, first + days), {"units": f"days since {since}"}),
            "lat": ("lat", [10.0, 20.0, 30.0], {"units": "degrees_north"}),
            "lon": ("lon", np.arange(5.0)),
        },
        attrs={"title": "weather"},
    )


def decoded(*numbers: int) -> xr.Dataset:
    """What readers should see of some parts."""
    parts = [xr.decode_cf(part(number)) for number in numbers]
    if len(parts) == 1:
        return parts[0]
    return xr.concat(parts, "time", data_vars="minimal", coords="minimal", compat="override")


def as_netcdf4(folder: Path, dataset: xr.Dataset, name: str, **encoding: Any) -> Path:
    """Write a file whose variables are chunked by two days and compressed."""
    settings = {
        variable: {"zlib": True, "shuffle": True, "chunksizes": (2, 3, 5), **encoding}
        for variable in ("t2m", "rain")
        if variable in dataset
    }
    made = folder / name
    dataset.to_netcdf(made, engine="h5netcdf", encoding=settings)
    return made


def archive(folder: Path, count: int = 3) -> list[Path]:
    """Files of some parts."""
    folder.mkdir(parents=True, exist_ok=True)
    return [as_netcdf4(folder, part(n), f"part-{n}.nc") for n in range(count)]


def as_kerchunk(file: Path, inline: int = 100) -> dict[str, Any]:
    """References into an HDF5 file, as kerchunk makes them: chunks of few bytes inline."""
    from kerchunk.hdf import SingleHdf5ToZarr

    found: dict[str, Any] = SingleHdf5ToZarr(str(file), inline_threshold=inline).translate()
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def take(
    repo: Path | Storage,
    *files: str | Path,
    wanted: Mapping[str, Any] | None = None,
    **request: Any,
) -> IngestReport:
    """Ingest files in this process."""
    wishes = {**(wanted or {})}
    if "mode" in wishes:
        wishes["mode"] = IngestMode(wishes["mode"])
    asked = IngestRequest([str(file) for file in files], wanted=PlanOptions(**wishes), **request)
    return run_request(storage_of(repo), asked, LocalRunner())


def storage_of(repo: Path | Storage) -> Storage:
    """Where a repository is: on disk, or where a test says."""
    return LocalStorage(repo) if isinstance(repo, Path) else repo


def opened(repo: Path | Storage) -> Repository:
    """A repository whose virtual chunks may all be read."""
    config = Repository.open(storage_of(repo)).config
    prefixes = [*(config.virtual_chunk_containers or {})]
    access = containers_credentials(dict.fromkeys(prefixes, LocalFileSystemAccess))
    return Repository.open(storage_of(repo), authorize_virtual_chunk_access=access or None)


def seen(repo: Path, group: str | None = None, branch: str = "main") -> xr.Dataset:
    """What xarray reads of a repository."""
    store = opened(repo).readonly_session(branch).store
    with xr.open_zarr(store, group=group, consolidated=False, chunks=None) as found:
        loaded: xr.Dataset = found.load()
    return loaded


def of_files(folder: Path) -> xr.Dataset:
    """What xarray reads of an archive."""
    with xr.open_mfdataset(
        f"{folder}/*.nc",
        engine="h5netcdf",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="exact",
    ) as found:
        whole: xr.Dataset = found.load()
    return whole


def many(folder: Path, count: int, grid: tuple[int, int] = (4, 6)) -> NDArray[np.float32]:
    """Write files of one day each, by the library alone since xarray takes its time."""
    folder.mkdir()
    values = np.random.default_rng(5).random((count, *grid), "f4")
    for day in range(count):
        with h5py.File(folder / f"{day:04}.nc", "w") as file:
            axes = {"time": [float(day)], "y": np.arange(grid[0]), "x": np.arange(grid[1])}
            for name, labels in axes.items():
                file[name] = labels
                file[name].make_scale(name)
            file["time"].attrs["units"] = "days since 2000-01-01"
            made = file.create_dataset(
                "v", data=values[day : day + 1], chunks=(1, *grid), compression="gzip"
            )
            for axis, name in enumerate(axes):
                made.dims[axis].attach_scale(file[name])
    return values
