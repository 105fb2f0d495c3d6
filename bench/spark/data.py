"""What is read and ingested: one array as a repository and as Parquet, and a folder of NetCDF."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from pyspark.sql import SparkSession

DAY = "2020-01-11"
BAND = (40.0, 50.0)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of everything."""

    days: int
    files: int
    references: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the array."""
        return (self.days, 180, 360)

    @property
    def rows(self) -> int:
        """Cells of the array."""
        return int(np.prod(self.shape))


EXTENTS = {"small": Extent(120, 60, 500_000), "full": Extent(300, 1000, 5_000_000)}


def dataset(days: int, lat: int = 180, lon: int = 360) -> xr.Dataset:
    """Daily fields that compress as measured ones do."""
    import xarray

    noise = np.random.default_rng(3)
    base = 280 + 10 * np.sin(np.arange(days) / 58)[:, None, None]
    values = (base + noise.normal(0, 3, (days, lat, lon))).round(1).astype("f4")
    time = np.datetime64("2020-01-01", "ns") + np.arange(days).astype("m8[D]")
    return xarray.Dataset(
        {"t2m": (("time", "lat", "lon"), values)},
        coords={
            "time": time,
            "lat": np.linspace(-89.5, 89.5, lat),
            "lon": np.linspace(0.5, 359.5, lon),
        },
    )


def new_place(folder: Path) -> str:
    """Where a repository can be made. Nobody's time has the removal of an older one in it."""
    return f"{mkdtemp(dir=folder)}/repository"


def make_repository(place: Path, days: int) -> None:
    """The array in chunks of ten days."""
    import frazil
    from frazil.xarray import to_icechunk

    session = frazil.Repository.create(place).writable_session("main")
    to_icechunk(dataset(days), session, encoding={"t2m": {"chunks": (10, 180, 360)}})
    session.commit("fields")


def make_known(place: Path, days: int) -> None:
    """The array in chunks of a day, with statistics of each."""
    import frazil
    from frazil.xarray import to_icechunk

    repository = frazil.Repository.create(place)
    session = repository.writable_session("main")
    to_icechunk(dataset(days), session, encoding={"t2m": {"chunks": (1, 180, 360)}})
    session.commit("fields")
    repository.audit.analyze()


def make_parquet(spark: SparkSession, repository: Path, place: Path) -> None:
    """The same rows in Spark's own favourite format, in order, so that it can skip row groups."""
    spark.read.format("frazil").load(str(repository)).write.parquet(str(place))


def make_files(folder: Path, count: int) -> None:
    """A NetCDF file for each day."""
    folder.mkdir()
    fields = dataset(1, 90, 180)
    for number in range(count):
        day = datetime(2020, 1, 1) + timedelta(days=number)
        one = fields.assign_coords(time=[np.datetime64(day, "ns")])
        one.to_netcdf(
            folder / f"{day:%Y%m%d}.nc",
            engine="h5netcdf",
            encoding={
                "t2m": {"zlib": True, "chunksizes": (1, 45, 90)},
                "time": {"units": "days since 2020-01-01", "dtype": "int32"},
            },
        )
