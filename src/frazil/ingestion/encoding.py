"""The part of Zarr metadata that says what the bytes of a chunk mean.

Two arrays can be one only where these parts are equal, so they are kept as canonical JSON.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from frazil.bulk import data_types
from frazil.cf.decoding import FILL, fill_attribute, fill_values, holds
from frazil.errors import InvalidInputError
from frazil.formats.zarr_meta import with_checksum
from frazil.ingestion.records import (
    PHONY,
    Array,
    FileReferences,
    FileVariable,
    Shape,
    canonical,
    ordered_json,
)
from frazil.texts import compressor as parse_compressor
from frazil.texts import json_float

# Workers that only look at plain files need no zarr, which takes its time to import.
if TYPE_CHECKING:
    from zarr.core.metadata import ArrayV3Metadata

KEPT: Final = ("data_type", "codecs", "fill_value", "storage_transformers")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A data type, a fill value and the configurations of further codecs as JSON."""

    dtype: np.dtype[Any]
    fill: Any
    codecs: str = "[]"


@lru_cache(maxsize=512)  # an archive has a few
def encoding_of(meaning: Meaning) -> str:
    """The canonical encoding of arrays of a type whose bytes went through some codecs."""
    if meaning.dtype.kind == "O":
        return native_encoding(np.dtypes.StringDType(), "", None)
    found = plain_encoding(meaning.dtype, meaning.fill, json.loads(meaning.codecs))
    return found if found is not None else foreign_encoding(meaning)


def foreign_encoding(meaning: Meaning) -> str:
    """The same by the libraries that know every type and codec."""
    from virtualizarr.manifests.utils import create_v3_array_metadata

    with without_zarr_warnings():
        made = create_v3_array_metadata(
            shape=(1,),
            data_type=meaning.dtype,
            chunk_shape=(1,),
            fill_value=meaning.fill,
            codecs=json.loads(meaning.codecs),
        )
        return encoding_from(made)


@contextlib.contextmanager
def without_zarr_warnings() -> Iterator[None]:
    """Codecs and types of other formats are not in Zarr's specification; zarr need not say so."""
    from zarr.errors import UnstableSpecificationWarning, ZarrUserWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        yield


def encoding_from(metadata: ArrayV3Metadata) -> str:
    """The canonical encoding of an array with metadata of Zarr v3."""
    return encoding_in(json.loads(json.dumps(metadata.to_dict(), default=_as_json)))


def encoding_in(meta: Mapping[str, Any]) -> str:
    """The canonical encoding that the `zarr.json` of an array tells."""
    # A fill value counts also when it is 0.
    return canonical({key: meta[key] for key in KEPT if meta.get(key) or key == "fill_value"})


def _as_json(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)


def encoded_attributes(fill: Any, dtype: np.dtype[Any]) -> dict[str, Any]:  # noqa: ANN401 - a scalar of any type
    """The `_FillValue` attribute, spelled as xarray spells it for Zarr v3.

    There is none for a value that the type cannot hold: no value of the array is equal to it.
    """
    if dtype.kind == "O":
        return {FILL: fill.decode() if isinstance(fill, bytes) else str(fill)}
    if not holds(dtype, fill):
        return {}
    value = fill_attribute(np.asarray(fill).reshape(()), dtype)
    if value is None:
        raise ValueError(f"values of type {dtype} have no _FillValue")
    return {FILL: value}


def decoded_fill(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a scalar of any type
    """The value that `_FillValue` stands for; None when there is none, or none of the type.

    Only xarray spells numbers in its own way: others write them as what they are, or anything.
    """
    given = attrs.get(FILL)
    if given is None:
        return None
    try:
        match dtype.kind:
            case "i" | "u" | "f":
                return next(iter(fill_values({FILL: given}, dtype)), None)
            case "S":
                return base64.b64decode(given, validate=True)
            case "U":
                return str(given)
        from xarray.backends.zarr import FillValueCoder

        return FillValueCoder.decode(given, dtype.str)
    except (InvalidInputError, TypeError, ValueError, struct.error):
        return None


def array_json(
    encoding: str,
    shape: Shape,
    chunks: Shape,
    dims: tuple[str, ...],
    attrs: Mapping[str, Any],
) -> bytes:
    """The `zarr.json` of an array."""
    made = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "dimension_names": list(dims),
        "attributes": dict(attrs),
        "storage_transformers": [],
        **json.loads(encoding),
    }
    return json.dumps(made, ensure_ascii=False).encode()


def variable_from(
    name: str,
    meta: Mapping[str, Any],
    encoding: str,
    references: FileReferences | None,
    values: Array | None = None,
    nameless: str = PHONY,
) -> FileVariable:
    """A variable from the `zarr.json` of an array; names are made up for dimensions without."""
    dims = meta.get("dimension_names") or [None] * len(meta["shape"])
    return FileVariable(
        name,
        tuple(dim or f"{nameless}{axis}" for axis, dim in enumerate(dims)),
        tuple(meta["shape"]),
        tuple(meta["chunk_grid"]["configuration"]["chunk_shape"]),
        encoding,
        ordered_json(meta.get("attributes") or {}),
        references,
        values,
    )


def coordinate(
    name: str, dims: tuple[str, ...], values: Array, attrs: Mapping[str, Any]
) -> FileVariable:
    """A variable that is nothing but values at hand."""
    encoding = encoding_of(Meaning(values.dtype.newbyteorder("<"), 0.0))
    shape = tuple(values.shape)
    chunks = tuple(max(1, n) for n in shape)
    return FileVariable(
        name, dims, shape, chunks, encoding, ordered_json(dict(attrs)), None, values
    )


def encoded_dtype(encoding: str) -> np.dtype[Any]:
    """The type of the values in memory."""
    return _dtype_of(canonical(json.loads(encoding)["data_type"]))


@lru_cache(maxsize=512)
def _dtype_of(data_type: str) -> np.dtype[Any]:
    return data_types.dtype_of(json.loads(data_type))


def native_encoding(dtype: np.dtype[Any] | str, fill: Any, compressor: str | None) -> str:  # noqa: ANN401 - a scalar of any type
    """The encoding of an array that is written here."""
    import zarr
    from zarr.core.metadata import ArrayV3Metadata

    with without_zarr_warnings():
        made = zarr.create_array(
            zarr.storage.MemoryStore(),
            shape=(1,),
            chunks=(1,),
            dtype=dtype,
            fill_value=fill,
            compressors=parse_compressor(compressor or "zstd").codec(),
            zarr_format=3,
        )
        assert isinstance(made.metadata, ArrayV3Metadata)
        return encoding_from(made.metadata)


def values_match(one: Array, other: Array) -> bool:
    """Whether two arrays hold the same values; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    has_nan = {one.dtype.kind, other.dtype.kind} <= set("fc")
    return bool(np.array_equal(one, other, equal_nan=has_nan))


def native_codecs(dtype: np.dtype[Any] | str, compressor: str | None) -> list[Any]:
    """The codecs of an array of a type that is written here."""
    found: list[Any] = json.loads(native_encoding(dtype, None, compressor))["codecs"]
    return found


def renewed(encoding: str, compressor: str | None) -> str:
    """An encoding with the codecs of arrays that are written here, and all else the same."""
    codecs = native_codecs(encoding_type(encoding), compressor)
    return canonical(json.loads(encoding) | {"codecs": codecs})


def encoding_type(encoding: str) -> np.dtype[Any] | str:
    """The type of an encoding as zarr takes it: numpy has one for objects of all kinds."""
    dtype = encoded_dtype(encoding)
    name = json.loads(encoding)["data_type"]
    return name if dtype.kind == "O" and isinstance(name, str) else dtype


def with_checksums(encoding: str) -> str:
    """An encoding whose chunks end in a checksum, and all else the same."""
    meaning = json.loads(encoding)
    meaning["codecs"] = with_checksum(meaning["codecs"])
    return canonical(meaning)


# --- plain numbers and the usual filters, without the libraries that know all of them ---

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
    """The encoding of numbers of a type that went through some codecs; None for any other encoding.

    Nearly every variable of an archive is plain, and a worker that meets nothing else need not
    import zarr, xarray and VirtualiZarr.
    """
    value = _json_fill(dtype, fill) if is_plain(dtype, codecs) else None
    if value is None:
        return None
    name = _NAMES[f"{dtype.kind}{dtype.itemsize}"]
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
