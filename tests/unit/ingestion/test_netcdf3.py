"""Headers of NetCDF 3: where values are, and what is damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.ingestion.records import ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url
from tests.support.archive import part, seen, take


def test_damaged_headers_of_netcdf3_are_told(tmp_path: Path) -> None:
    part(0).to_netcdf(tmp_path / "a.nc", format="NETCDF3_CLASSIC", engine="netcdf4")
    whole = (tmp_path / "a.nc").read_bytes()
    file = tmp_path / "b.nc"
    for size in (5, 40, 100, 300, len(whole) - 8):
        file.write_bytes(whole[:size])
        with pytest.raises(InvalidInputError):
            scan_file(ScanTask(as_url(file)), {})
    file.write_bytes(whole[:8] + b"\xff\xff\xff\xff" + whole[12:])
    with pytest.raises(InvalidInputError, match="damaged"):
        scan_file(ScanTask(as_url(file)), {})


def test_one_record_variable_is_not_padded(tmp_path: Path) -> None:
    values = np.arange(9, dtype="i1").reshape(3, 3)
    whole = xr.Dataset({"v": (("time", "x"), values)})
    whole.to_netcdf(
        tmp_path / "a.nc", format="NETCDF3_CLASSIC", engine="netcdf4", unlimited_dims=["time"]
    )
    take(tmp_path / "repo", tmp_path / "a.nc")
    assert seen(tmp_path / "repo").v.values.tolist() == values.tolist()


@pytest.mark.parametrize("fill", [70000.0, np.nan, -2.5])
def test_fill_values_that_a_type_cannot_hold_mask_nothing(tmp_path: Path, fill: float) -> None:
    file = tmp_path / "odd.nc"
    values = np.array([0, -2, 4464, 1], "i2")  # what the fill values would be cast to
    with netCDF4.Dataset(file, "w", format="NETCDF3_CLASSIC") as classic:
        classic.createDimension("x", 4)
        variable = classic.createVariable("v", "i2", ("x",), fill_value=-9)
        variable[:] = values
    raw = file.read_bytes()  # the library refuses to write an attribute of another type
    old = b"_FillValue\0\0" + struct.pack(">iihxx", 3, 1, -9)
    assert raw.count(old) == 1
    shift = len(struct.pack(">iid", 6, 1, fill)) - len(struct.pack(">iihxx", 3, 1, -9))
    raw = raw.replace(old, b"_FillValue\0\0" + struct.pack(">iid", 6, 1, fill))
    begin = len(raw) - 8
    raw = raw[: begin - 4] + struct.pack(">i", begin) + raw[begin:]
    assert shift == 4
    file.write_bytes(raw)
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
        report = take(repo, file, wanted={"mode": mode})
        assert np.array_equal(seen(repo)["v"].values, values)
        assert "cannot hold" in str(report)
