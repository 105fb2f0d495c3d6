"""Converts Zarr 2 metadata to Zarr 3: types, codecs, fill values, dimension names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from frazil.cf.decoding import FILL, fill_attribute, holds

DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_TEXTS: Final = "vlen-utf8"
_ANY_LENGTH: Final = frozenset({"vlen-bytes", "vlen-array", "pickle", "json2", "msgpack2"})
_SHUFFLES: Final = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}


def zarr3_document(
    meta: Mapping[str, Any], attributes: Mapping[str, Any], unset: float = 0.0
) -> dict[str, Any]:
    """The `zarr.json` of an array from what its `.zarray` and `.zattrs` say.

    If there is no fill value, floats that were never written read as `unset`.

    Raises:
        ValueError: Zarr 3 cannot say it; KeyError and TypeError likewise.
    """
    from zarr.core.dtype import get_data_type_from_json
    from zarr.core.dtype.common import HasEndianness

    filters = [dict(each) for each in meta.get("filters") or ()]
    is_text = [each.get("id") for each in filters[:1]] == [_TEXTS]
    if meta["dtype"] in ("|O", "O") and not is_text:
        raise ValueError("values of any length are not supported, except for texts")
    spelled: Any = {"name": meta["dtype"], "object_codec_id": _TEXTS if is_text else None}
    kind = get_data_type_from_json(spelled, zarr_format=2)
    dtype, shape = kind.to_native_dtype(), [int(n) for n in meta["shape"]]
    given = meta.get("fill_value")
    fill = _text(given) if is_text else _fill(given, dtype, unset)
    serializer: dict[str, Any] = {"name": _TEXTS if is_text else "bytes"}
    if isinstance(kind, HasEndianness):
        serializer["configuration"] = {"endian": kind.endianness}
    made = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": kind.to_json(zarr_format=3),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": _chunks(shape, meta["chunks"])},
        },
        "chunk_key_encoding": {
            "name": "v2",
            "configuration": {"separator": str(meta.get("dimension_separator", "."))},
        },
        "fill_value": kind.to_json_scalar(kind.cast_scalar(fill), zarr_format=3),
        "codecs": _codecs(meta, filters[is_text:], serializer, dtype),
        "attributes": _attributes(meta, attributes, fill, dtype),
    }
    dims = attributes.get(DIMENSIONS)
    return {**made, "dimension_names": [*map(str, dims)]} if dims else made


def _attributes(
    meta: Mapping[str, Any],
    attributes: Mapping[str, Any],
    fill: Any,  # noqa: ANN401  (a scalar of any type)
    dtype: np.dtype[Any],
) -> dict[str, Any]:
    """The same attributes; the fill value of Zarr 2 becomes the CF attribute `_FillValue`."""
    kept = {name: value for name, value in attributes.items() if name != DIMENSIONS}
    missing = None if meta.get("fill_value") is None else fill_attribute(fill, dtype)
    return kept if missing is None else {**kept, FILL: missing}


def _chunks(shape: list[int], given: Any) -> list[int]:  # noqa: ANN401  (JSON)
    """The lengths of chunks; those of axes without cells may be 0."""
    chunks = [int(n) for n in given]
    if any(n < 1 <= length for n, length in zip(chunks, shape, strict=True)):
        raise ValueError(f"there are no chunks of the lengths {chunks}")
    return [max(1, n) for n in chunks]


def _text(value: Any) -> str:  # noqa: ANN401  (likewise)
    """The text that stands where nothing was written; older writers name a number for it."""
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"the fill value {value!r} is no text")
    return "" if value is None else str(value)


def _fill(value: Any, dtype: np.dtype[Any], unset: float) -> Any:  # noqa: ANN401  (likewise)
    if value is None:
        if dtype.kind in "Mm":
            return np.array("NaT", dtype)[()]
        return unset if dtype.kind == "f" else np.zeros((), dtype)[()]
    if dtype.kind in "SV" and isinstance(value, str):
        return np.frombuffer(base64.b64decode(value).ljust(dtype.itemsize, b"\0"), dtype, 1)[0]
    if dtype.kind == "c":
        real, imaginary = value if isinstance(value, list | tuple) else (value, 0)
        return complex(float(real), float(imaginary))
    given = float(value) if dtype.kind == "f" else value
    if dtype.kind in "iu" and not holds(dtype, given):
        raise ValueError(f"the fill value {value!r} is none of the type {dtype}")
    return np.asarray(given).astype(dtype)[()]


def _codecs(
    meta: Mapping[str, Any],
    filters: list[dict[str, Any]],
    serializer: dict[str, Any],
    dtype: np.dtype[Any],
) -> list[dict[str, Any]]:
    """The codecs: array-to-array filters, then bytes-to-bytes ones."""
    from zarr.abc.codec import ArrayArrayCodec
    from zarr.registry import get_codec_class

    made = [_numcodec(each) for each in filters]
    if meta.get("compressor") is not None:
        made.append(_compressor(meta["compressor"], dtype))
    is_array = [issubclass(get_codec_class(each["name"]), ArrayArrayCodec) for each in made]
    arrays, others = made[: sum(is_array)], made[sum(is_array) :]
    if not all(is_array[: len(arrays)]):
        raise ValueError("a filter of values follows one of bytes")
    if meta.get("order") == "F" and len(meta["shape"]) > 1:
        order = [*range(len(meta["shape"]))][::-1]
        arrays.insert(0, {"name": "transpose", "configuration": {"order": order}})
    return [*arrays, serializer, *others]


def _numcodec(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(config)
    name = settings.pop("id")
    if name in _ANY_LENGTH:
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
