"""Metadata of Zarr 2 as that of Zarr 3: the codecs, and the fill value, which meant more there."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from frazil.ingestion.encoding import Meaning, encoded_attributes, encoding_of
from frazil.ingestion.records import PHONY, References, Variable, canonical, plain
from frazil.ingestion.sources import bad_file

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_TEXTS: Final = "vlen-utf8"
_SHUFFLES: Final = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}


def variable_of(
    name: str,
    meta: Mapping[str, Any],
    attrs: Mapping[str, Any],
    references: References,
    url: str,
) -> Variable:
    """A variable from the documents `.zarray` and `.zattrs` of an array."""
    try:
        dtype = np.dtype(_dtype(meta))
        shape = tuple(int(n) for n in meta["shape"])
        chunks = tuple(int(n) for n in meta["chunks"])
        codecs = [_numcodec(config) for config in meta.get("filters") or ()]
        if meta.get("compressor") is not None:
            codecs.append(_compressor(meta["compressor"], dtype))
        fill = _fill(meta.get("fill_value"), dtype)
        if dtype.kind == "O":  # the bytes of texts of any length are the same in both versions
            text = {"data_type": "string", "codecs": codecs, "fill_value": ""}
            encoding = canonical(text)
        else:
            encoding = encoding_of(Meaning(dtype, fill, canonical(codecs)))
        if meta.get("order") == "F" and len(shape) > 1:
            encoding = _transposed(encoding, len(shape))
    except (KeyError, TypeError, ValueError) as error:
        told = f"the array {name!r} cannot be told in terms of Zarr 3: {error}"
        raise bad_file(told, url) from None
    given = {key: value for key, value in attrs.items() if key not in (_DIMENSIONS, "_FillValue")}
    # In Zarr 2 the fill value is what CF calls _FillValue; in Zarr 3 the two are apart.
    if meta.get("fill_value") is not None and dtype.kind != "O":
        given |= encoded_attributes(fill, dtype)
    elif "_FillValue" in attrs:
        given["_FillValue"] = attrs["_FillValue"]
    dims = attrs.get(_DIMENSIONS) or [f"{PHONY}{axis}" for axis in range(len(shape))]
    return Variable(
        name,
        tuple(map(str, dims)),
        shape,
        tuple(max(1, n) for n in chunks) or shape,
        encoding,
        plain(given),
        references,
    )


def _dtype(meta: Mapping[str, Any]) -> str:
    text = meta["dtype"]
    if not isinstance(text, str):
        raise ValueError("records with fields are not supported")  # noqa: TRY004 - the file is wrong, not a type of ours
    first = [each.get("id") for each in (meta.get("filters") or ())[:1]]
    if text in ("|O", "O") and first != [_TEXTS]:
        raise ValueError("values of any length are not supported, except for texts")
    return text


def _transposed(encoding: str, ndim: int) -> str:
    """An encoding of chunks whose first axis is the one that runs fastest."""
    meaning = json.loads(encoding)
    order = [*range(ndim)][::-1]
    meaning["codecs"].insert(0, {"name": "transpose", "configuration": {"order": order}})
    return canonical(meaning)


def _fill(value: object, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  (a scalar of any type)
    if dtype.kind == "O":
        return ""
    if value is None:
        return math.nan if dtype.kind == "f" else np.zeros((), dtype).item()
    if dtype.kind in "SV" and isinstance(value, str):
        return base64.b64decode(value)
    if dtype.kind == "c":
        real, imaginary = value if isinstance(value, list | tuple) else (value, 0)
        return complex(float(real), float(imaginary))
    found = np.asarray(float(value) if dtype.kind == "f" else value).astype(dtype).item()  # type: ignore[arg-type]
    return math.nan if found != found else found


def _numcodec(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(config)
    name = settings.pop("id")
    if name == _TEXTS:
        return {"name": _TEXTS}
    if name in ("vlen-bytes", "vlen-array", "pickle", "json2", "msgpack2"):
        raise ValueError("values of any length are not supported")
    return {"name": f"numcodecs.{name}", "configuration": settings}


def _compressor(config: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Compressors that Zarr 3 has itself are named as there, so that every reader knows them."""
    name, get = config.get("id"), config.get
    match name:
        case "zstd":
            settings = {"level": get("level", 0), "checksum": bool(get("checksum", False))}
        case "gzip":
            settings = {"level": get("level", 1)}
        case "blosc" if get("shuffle", 1) in _SHUFFLES:
            settings = {
                "typesize": dtype.itemsize,
                "cname": config["cname"],
                "clevel": config["clevel"],
                "shuffle": _SHUFFLES[get("shuffle", 1)],
                "blocksize": get("blocksize", 0),
            }
        case _:
            return _numcodec(config)
    return {"name": name, "configuration": settings}
