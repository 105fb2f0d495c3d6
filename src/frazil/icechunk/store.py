"""The Zarr store under its official name."""

from __future__ import annotations

from frazil.store import FrazilStore as IcechunkStore

__all__ = [
    "IcechunkStore",
]
