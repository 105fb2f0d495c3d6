"""xarray: writing to sessions, and reading by `xr.open_dataset(url, engine="frazil")`."""

from __future__ import annotations

from frazil.xarray.writer import to_icechunk

__all__ = ["to_icechunk"]
