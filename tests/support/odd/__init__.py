"""A corpus of odd files, made by the formats' own libraries, and what those libraries read."""

from __future__ import annotations

from tests.support.odd.case import Case, Outcome
from tests.support.odd.grib import GRIB
from tests.support.odd.hdf import HDF
from tests.support.odd.kerchunk import KERCHUNK
from tests.support.odd.netcdf import NETCDF
from tests.support.odd.tiff import TIFF
from tests.support.odd.zarr import ZARR

CASES = (*HDF, *NETCDF, *GRIB, *TIFF, *ZARR, *KERCHUNK)

__all__ = ["CASES", "Case", "Outcome"]
