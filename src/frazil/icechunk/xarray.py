"""Writing xarray objects, under the official names."""

from __future__ import annotations

from frazil.xarray import to_icechunk

__all__ = ["to_icechunk"]
