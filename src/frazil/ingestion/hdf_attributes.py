"""Attributes of HDF5 objects as JSON; those that JSON has no words for are named and left out."""

from __future__ import annotations

from typing import Any, Final

import h5py
import numpy as np

_HIDDEN: Final = frozenset(
    [
        "REFERENCE_LIST",
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        "_NCProperties",
        "_NCCOPY",
        "DIMENSION_LABELS",
        "_FillValue",
    ]
)
"""what NetCDF and its dimensions need, and is told otherwise"""


class _NoWordsError(Exception):
    """A value that JSON cannot hold: a reference, a complex number, a record."""


def attributes_of(item: h5py.Dataset | h5py.Group) -> tuple[dict[str, Any], list[str]]:
    """Attributes, and the names of those that are left out."""
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for name in item.attrs:
        if name in _HIDDEN:
            continue
        try:
            found[name] = _plain(item.attrs[name])
        except (_NoWordsError, TypeError, OSError, ValueError):
            left_out.append(name)
    return found, left_out


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever a file holds, to JSON)
    match value:
        case str() | bool() | int() | float():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case h5py.Empty():
            return ""
        case np.ndarray() if value.dtype.kind in "SOU":
            texts = [_plain(each) for each in value.ravel().tolist()]
            return texts[0] if len(texts) == 1 else texts
        case np.ndarray() | np.generic() if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            raise _NoWordsError
        case np.ndarray() if value.dtype.kind in "biuf" and value.size == 1:
            return value.ravel()[0].item()
        case np.ndarray() | np.generic() if value.dtype.kind in "biufSU":
            found = value.tolist()
            return _plain(found) if isinstance(found, bytes) else found
        case _:
            raise _NoWordsError
