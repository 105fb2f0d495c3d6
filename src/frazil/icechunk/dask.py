"""Writing dask arrays, under the official names."""

from __future__ import annotations

from frazil.dask import computing_meta, session_merge_reduction, store_dask

__all__ = ["computing_meta", "session_merge_reduction", "store_dask"]
