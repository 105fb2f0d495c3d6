"""HDF5: types, groups, fill values and filters, and what cannot be referred to."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from tests.support.archive import decoded, part, seen, take


def test_types_of_hdf5_that_zarr_has(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["big"] = np.arange(6, dtype=">f4").reshape(2, 3)
        file["flag"] = np.array([True, False])
        file["text"] = np.array([b"abc", b"de"])
        file.create_dataset("names", data=["ä", "long name"], dtype=h5py.string_dtype())
        file["scalar"] = 5
        file.create_dataset("empty", shape=(4,), dtype="i4", chunks=(2,), fillvalue=7)
        file["big"].attrs["list"] = [1.5, 2.5]
        file["big"].attrs["bytes"] = np.bytes_(b"text")
        file["big"].attrs["none"] = h5py.Empty("f4")
    take(tmp_path / "repo", tmp_path / "a.h5")
    found = seen(tmp_path / "repo")
    assert found.big.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.big.attrs == {"list": [1.5, 2.5], "bytes": "text", "none": ""}
    assert found.names.values.tolist() == ["ä", "long name"]
    assert found.text.values.tolist() == [b"abc", b"de"]
    assert found["empty"].values.tolist() == [7, 7, 7, 7]
    assert int(found.scalar) == 5


def test_groups_are_chosen_by_name(tmp_path: Path) -> None:
    part(0).to_netcdf(tmp_path / "a.nc", group="inner", engine="h5netcdf")
    with pytest.raises(InvalidInputError, match="inner"):
        take(tmp_path / "repo", tmp_path / "a.nc")
    take(tmp_path / "repo", tmp_path / "a.nc", source_group="inner", group="weather/raw")
    xr.testing.assert_equal(seen(tmp_path / "repo", "weather/raw"), decoded(0))


@pytest.mark.parametrize("fill", [70000.0, np.nan, -2.5])
def test_fill_values_that_a_type_cannot_hold_mask_nothing(tmp_path: Path, fill: float) -> None:
    file = tmp_path / "odd.nc"
    values = np.array([0, -2, 4464, 1], "i2")  # what the fill values would be cast to
    with h5py.File(file, "w") as made:
        made["v"] = values
        made["v"].attrs["_FillValue"] = np.float64(fill)
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
        report = take(repo, file, wanted={"mode": mode})
        assert np.array_equal(seen(repo)["v"].values, values)
        assert "cannot hold" in str(report)
