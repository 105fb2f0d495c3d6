"""Without Spark: write a small weather data set, version it, and read yesterday's state back.

    python examples/tour.py [FOLDER]

Without FOLDER the repository is made in a temporary place and removed at the end.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np
import xarray as xr

import frazil
from frazil.xarray import to_icechunk

LATITUDES = np.arange(60.0, 70.25, 0.25)
LONGITUDES = np.arange(-30.0, -9.75, 0.25)


def weather_of(day: str) -> xr.Dataset:
    """Make one day of hourly temperature, rain and wind around Iceland."""
    hours = np.datetime64(day, "h") + np.arange(24).astype("m8[h]")
    noise = np.random.default_rng(int(hours[0].astype("int64")))
    shape = (len(hours), len(LATITUDES), len(LONGITUDES))
    daily = 4.0 * np.sin((np.arange(24) - 8) / 24 * 2 * np.pi)
    climate = 281.0 - 0.9 * (LATITUDES - 60.0)
    temperature = climate[None, :, None] + daily[:, None, None] + noise.normal(0, 1.5, shape)
    rain = noise.gamma(0.3, 0.8, shape) * (noise.random(shape) < 0.25)
    wind = noise.weibull(2.0, shape) * 8.0
    dims = ("time", "latitude", "longitude")
    return xr.Dataset(
        {
            "t2m": (
                dims,
                temperature.astype("float32"),
                {"units": "K", "long_name": "temperature"},
            ),
            "rain": (dims, rain.astype("float32"), {"units": "mm h-1", "long_name": "rain"}),
            "wind": (dims, wind.astype("float32"), {"units": "m s-1", "long_name": "wind speed"}),
        },
        coords={"time": hours.astype("M8[ns]"), "latitude": LATITUDES, "longitude": LONGITUDES},
        attrs={"title": "Hourly weather around Iceland", "source": "synthetic"},
    )


@contextmanager
def place(arguments: list[str]) -> Iterator[Path]:
    """The folder named by the caller, or one that is removed afterwards."""
    if arguments:
        yield Path(arguments[0])
        return
    with tempfile.TemporaryDirectory(prefix="frazil-tour-") as folder:
        yield Path(folder) / "weather"


def open_at(repo: frazil.Repository, branch: str, when: datetime | None = None) -> xr.Dataset:
    """Open the data set of a branch, now or as it was."""
    session = repo.readonly_session(branch=branch, as_of=when)
    found: xr.Dataset = xr.open_zarr(session.store, consolidated=False, chunks=None)
    return found


def summary(data: xr.Dataset) -> str:
    """One line about a data set."""
    mean = float(data["t2m"].mean()) - 273.15
    return f"{data.sizes['time']} hours up to {data['time'].values[-1]:.16}, mean {mean:.2f} °C"


def tell(step: str, what: object) -> None:
    """Print one step in two columns."""
    print(f"{step:<22} {what}")


def run(folder: Path) -> None:
    """Go through the life of a small repository."""
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder)))
    tell("created", f"{folder} (spec v{int(repo.spec_version)})")

    session = repo.writable_session("main")
    to_icechunk(
        weather_of("2024-05-01"), session, encoding={"time": {"units": "hours since 2024-01-01"}}
    )
    first = session.commit("Weather of 1 May", metadata={"model": "demo", "run": 1})
    published = repo.lookup_snapshot(first).written_at
    tell("committed", f"{first}  Weather of 1 May")

    repo.create_tag("2024-05-01", first)
    tell("tagged", "2024-05-01")

    session = repo.writable_session("main")
    to_icechunk(weather_of("2024-05-02"), session, append_dim="time")
    second = session.commit("Weather of 2 May", metadata={"model": "demo", "run": 2})
    tell("appended, committed", f"{second}  Weather of 2 May")

    repo.create_branch("calibrated", second)
    session = repo.writable_session("calibrated")
    warmer = open_at(repo, "calibrated")[["t2m"]].load() + np.float32(0.4)
    to_icechunk(warmer.drop_vars(["latitude", "longitude"]), session, region={"time": slice(0, 48)})
    third = session.commit("Add 0.4 K to the temperature")
    tell("branched, committed", f"{third}  on calibrated")

    tell("main now", summary(open_at(repo, "main")))
    tell("calibrated", summary(open_at(repo, "calibrated")))
    tell("main of yesterday", summary(open_at(repo, "main", published)))

    changed = repo.diff(from_branch="main", to_branch="calibrated").updated_chunks
    tell("changed on branch", {path: f"{len(chunks)} chunks" for path, chunks in changed.items()})
    print("history of calibrated")
    for info in repo.ancestry(branch="calibrated"):
        print(f"  {info.id}  {info.written_at:%H:%M:%S.%f}  {info.message}")


if __name__ == "__main__":
    with place(sys.argv[1:]) as chosen:
        run(chosen)
