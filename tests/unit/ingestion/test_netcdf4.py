"""Names and lengths that NetCDF4 shows otherwise than HDF5 stores them."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import xarray as xr

from frazil.ingestion.hdf_files import HdfFiles
from frazil.ingestion.netcdf4 import (
    by_shown_name,
    filled_up,
    find_variable,
    is_bare,
    shown_shape,
    unlimited_lengths,
)
from frazil.ingestion.records import InputFile
from frazil.ingestion.sources import as_url
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


def dataset(path: Path) -> Path:
    """A file with a dimension without variable, and a variable of the name of a dimension."""
    with netCDF4.Dataset(path, "w") as made:
        made.createDimension("time", None)
        made.createDimension("x", 3)
        made.createDimension("y", 2)
        made.createVariable("x", "i4", ("y", "x"))[:] = np.arange(6).reshape(2, 3)
        made.createVariable("long", "f4", ("time",), fill_value=-5)[:5] = 1
        made.createVariable("short", "f4", ("time", "y"), fill_value=-5)[:3] = np.ones((3, 2))
    return path


def test_a_variable_that_is_no_label_of_its_dimension_keeps_its_name(tmp_path: Path) -> None:
    with HdfFiles(InputFile(as_url(dataset(tmp_path / "a.nc")))) as files:
        stored = dict(files.members(files.root))
        assert "_nc4_non_coord_x" in stored
        shown = by_shown_name(stored)
        assert {name for name, each in shown.items() if not is_bare(each.item)} == {
            "x",
            "long",
            "short",
        }
        assert shown["x"].item.shape == (2, 3)
        found = find_variable(files, "", "x")
        assert found is not None
        assert found.item.shape == (2, 3)
        assert find_variable(files, "", "none") is None


def test_two_variables_do_not_get_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        file["_nc4_non_coord_x"] = np.arange(4)
        file["_nc4_non_coord_"] = np.arange(5)
    with HdfFiles(InputFile(as_url(path))) as files:
        shown = by_shown_name(dict(files.members(files.root)))
    assert set(shown) == {"x", "_nc4_non_coord_x", "_nc4_non_coord_"}


def test_variables_along_an_unlimited_dimension_are_as_long_as_the_longest(tmp_path: Path) -> None:
    with HdfFiles(InputFile(as_url(dataset(tmp_path / "a.nc")))) as files:
        members = dict(files.members(files.root))
        long, short = members["long"].item, members["short"].item
        pairs = [(("time",), long), (("time", "y"), short)]
        lengths = unlimited_lengths(members, pairs)
        assert lengths == {"time": 5}
        assert shown_shape(short, ("time", "y"), lengths) == (5, 2)
        values = filled_up(short[()], (5, 2), short.fillvalue)
        assert values[:, 0].tolist() == [1, 1, 1, -5, -5]
        assert filled_up(values, (5, 2), 0) is values


def test_a_variable_without_fill_value_stays_as_long_as_it_is(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plain = file.create_dataset("v", shape=(3,), maxshape=(None,), dtype="f4")
        assert shown_shape(plain, ("time",), {"time": 5}) == (3,)
        filled = file.create_dataset("w", shape=(3,), maxshape=(None,), dtype="f4", fillvalue=7)
        assert shown_shape(filled, ("time",), {"time": 5}) == (5,)
        fixed = file.create_dataset("u", shape=(3,), dtype="f4", fillvalue=7)
        assert shown_shape(fixed, ("time",), {"time": 5}) == (3,)
