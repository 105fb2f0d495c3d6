"""Files that actors take into repositories, made once in each process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr
import zarr


@cache
def _kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="frazil-sources-")


def folder() -> Path:
    """Where they are, as long as the process lives."""
    return Path(_kept().name)


@cache
def netcdf(number: int) -> str:
    """A file with two days, after those of the file before."""
    days = ("time", np.arange(2 * number, 2 * number + 2), {"units": "days since 2000-01-01"})
    values = ("time", np.full(2, number + 1, "i4"))
    file = folder() / f"part-{number}.nc"
    xr.Dataset({"v": values}, {"time": days}).to_netcdf(file, engine="h5netcdf")
    return str(file)


@cache
def zarr_store(name: str = "v", dim: str | None = None) -> str:
    """A Zarr store with one array."""
    place = folder() / f"store-{name}.zarr"
    root = zarr.open_group(place, mode="w")
    names = None if dim is None else [dim]
    made = root.create_array(name, shape=(4,), chunks=(2,), dtype="i4", dimension_names=names)
    made[:] = np.arange(1, 5)
    return str(place)
