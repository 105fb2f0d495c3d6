"""Encodings of plain numbers and the usual filters, without the libraries that know all of them.

Nearly every variable of an archive is one of these, and a worker that meets nothing else need not
import zarr, xarray and VirtualiZarr. What is not plain gives None, and they are asked.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from frazil.ingestion.records import canonical
from frazil.texts import json_float

KINDS: Final = "biuf"
ZLIB: Final = "numcodecs.zlib"
SHUFFLE: Final = "numcodecs.shuffle"
_PLAIN_CODECS: Final = frozenset({ZLIB, SHUFFLE})
_NAMES: Final = {
    "b1": "bool",
    **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
    **{f"f{n}": f"float{8 * n}" for n in (4, 8)},
}


def plain_encoding(dtype: np.dtype[Any], fill: object, codecs: list[dict[str, Any]]) -> str | None:
    """The encoding of numbers of a type that went through some codecs."""
    name = _NAMES.get(f"{dtype.kind}{dtype.itemsize}")
    if name is None or any(codec["name"] not in _PLAIN_CODECS for codec in codecs):
        return None
    value = _json_fill(dtype, fill)
    if value is None:
        return None
    endian = "big" if dtype.byteorder == ">" else "little"
    order = {"configuration": {"endian": endian}} if dtype.itemsize > 1 else {}
    return canonical(
        {
            "data_type": name,
            "codecs": [{"name": "bytes", **order}, *codecs],
            "fill_value": value,
        }
    )


def is_plain(dtype: np.dtype[Any], codecs: list[dict[str, Any]]) -> bool:
    """Whether a type and codecs are such that every reader of Zarr has them."""
    is_number = f"{dtype.kind}{dtype.itemsize}" in _NAMES
    return is_number and all(codec["name"] in _PLAIN_CODECS for codec in codecs)


def _json_fill(dtype: np.dtype[Any], fill: object) -> bool | int | float | str | None:
    if dtype.kind == "b":
        return bool(fill) if type(fill) in (bool, int) else None
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return fill if type(fill) is int and limits.min <= fill <= limits.max else None
    if type(fill) not in (int, float):
        return None
    with np.errstate(over="ignore"):
        return json_float(float(dtype.type(fill)))


def filter_configuration(name: str, properties: object) -> dict[str, Any] | None:
    """The codec of a filter of HDF5, by h5py's name for it."""
    match name, properties:
        case "gzip", int(level):
            return {"name": ZLIB, "configuration": {"level": level}}
        case "shuffle", (int(size), *_):
            return {"name": SHUFFLE, "configuration": {"elementsize": size}}
        case _:
            return None
