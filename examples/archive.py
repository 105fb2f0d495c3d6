"""A small archive of NetCDF files, one for each day, as a weather service might keep it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

LATITUDES = np.arange(34.0, 72.0, 0.5)
LONGITUDES = np.arange(-25.0, 45.0, 0.5)
FIRST = date(2024, 3, 1)
FIELD = ("time", "lat", "lon")
SIZES = (1, len(LATITUDES), len(LONGITUDES))
PACKED = {
    "dtype": "int16",
    "scale_factor": 0.01,
    "add_offset": 273.15,
    "_FillValue": -32767,
    "zlib": True,
    "chunksizes": SIZES,
}


def is_land() -> npt.NDArray[np.bool_]:
    """Continents that never were."""
    y, x = np.radians(LATITUDES)[:, None], np.radians(LONGITUDES)[None, :]
    waves = np.sin(7 * x + 3 * y) + np.cos(9 * y - 4 * x) + np.sin(16 * x * y)
    return np.asarray(waves > 0.4)


def fields_of(day: date) -> xr.Dataset:
    """Air and sea temperature of a day; there is no sea on land."""
    noise = np.random.default_rng(day.toordinal())
    season = 9.0 * np.sin((day.timetuple().tm_yday - 105) / 365 * 2 * np.pi)
    climate = 288.0 + season - 0.45 * (LATITUDES[:, None] - 45.0)
    waves = 3.0 * np.sin(np.radians(LONGITUDES)[None, :] * 6 - day.toordinal() / 3)
    air = climate + waves + noise.normal(0, 1.0, SIZES[1:])
    sea = np.where(is_land(), np.nan, np.maximum(271.4, climate - season / 2) + waves / 5)
    return xr.Dataset(
        {
            "t2m": (FIELD, air[None], {"units": "K", "long_name": "air temperature"}),
            "sst": (FIELD, sea[None], {"units": "K", "long_name": "sea surface temperature"}),
        },
        coords={
            "time": [np.datetime64(day, "ns")],
            "lat": ("lat", LATITUDES, {"units": "degrees_north"}),
            "lon": ("lon", LONGITUDES, {"units": "degrees_east"}),
        },
        attrs={"title": "Daily fields", "source": "synthetic"},
    )


def write_days(folder: Path, first: date, count: int) -> Iterator[Path]:
    """Write some days, a file each, and name the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        day = first + timedelta(days=number)
        path = folder / f"fields-{day:%Y%m%d}.nc"
        time = {"units": "hours since 2024-01-01", "dtype": "int32"}
        fields_of(day).to_netcdf(
            path,
            engine="h5netcdf",
            encoding={"t2m": PACKED, "sst": PACKED, "time": time},
            unlimited_dims=["time"],
        )
        yield path
