"""Names and lengths that NetCDF4 shows otherwise than HDF5 stores them."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

from tests.support.archive import seen, take


def test_dimensions_of_groups_around_a_group_keep_names_and_lengths(tmp_path: Path) -> None:
    file = tmp_path / "odd.nc"
    with netCDF4.Dataset(file, "w") as made:
        made.createDimension("time", None)
        made.createDimension("x", 3)
        made.createVariable("time", "f8", ("time",))[:] = np.arange(6.0)
        # as the beginning of "time"
        inner = made.createGroup("t").createVariable("v", "f4", ("time", "x"), fill_value=-5)
        inner[0:4] = np.ones((4, 3))
    repo = tmp_path / "repo"
    take(repo, file, source_group="t")
    with xr.open_dataset(file, group="t", engine="netcdf4") as truth:
        xr.testing.assert_identical(seen(repo)["v"], truth["v"].load())
