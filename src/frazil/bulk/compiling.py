"""Codec chains from the metadata of an array."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.bulk.chain import MISSING, Chain, Sharding, ZarrJson
from frazil.bulk.codecs import ArrayCodec, ByteCodec, Raw, StringsCodec, array_codec
from frazil.bulk.compressors import byte_codec
from frazil.bulk.data_types import dtype_of, fill_of

if TYPE_CHECKING:
    from zarr.core.metadata import ArrayV3Metadata


def compile_chain(metadata: ArrayV3Metadata | ZarrJson) -> Chain | None:
    """Put together the codecs of an array; None when one of them is not known here."""
    if not isinstance(metadata, Mapping):
        codecs = [codec.to_dict() for codec in metadata.codecs]
        dtype = metadata.data_type.to_native_dtype()
        return _chain(codecs, dtype, metadata.fill_value, len(metadata.shape))
    kind = metadata["data_type"]
    fill = fill_of(kind, metadata["fill_value"])
    return _chain(metadata["codecs"], dtype_of(kind), fill, len(metadata["shape"]))


def _chain(codecs: Sequence[Any], dtype: np.dtype[Any], fill: object, ndim: int) -> Chain | None:
    arrays: list[ArrayCodec] = []
    packers: list[ByteCodec] = []
    serializer: Raw | StringsCodec | Sharding | None = None
    encoded = dtype
    for codec in codecs:
        name, given = _named(codec)
        if serializer is not None:
            packer = byte_codec(name, given, encoded)
            if packer is None:
                return None
            packers.append(packer)
            continue
        serializer = _serializer(name, given, encoded, fill, ndim)
        if serializer is None:
            filtered = array_codec(name, given, encoded, ndim)
            if filtered is None:
                return None
            arrays.append(filtered[0])
            encoded = filtered[1]
    if serializer is None:
        return None
    return Chain(dtype, fill, tuple(arrays), serializer, tuple(packers))


def _named(codec: object) -> tuple[str, Mapping[str, Any]]:
    """Name and configuration of a codec in a document."""
    if isinstance(codec, Mapping):
        return str(codec.get("name")), codec.get("configuration") or {}
    return str(codec), {}


def _serializer(
    name: str, given: Mapping[str, Any], dtype: np.dtype[Any], fill: object, ndim: int
) -> Raw | StringsCodec | Sharding | None:
    match name:
        case "bytes":
            if dtype.hasobject or dtype.kind == "T":
                return None
            endian = given.get("endian") or sys.byteorder
            return Raw(dtype.newbyteorder("<" if endian == "little" else ">"))
        case "vlen-utf8" | "vlen-bytes":
            return StringsCodec(dtype, is_text=name == "vlen-utf8")
        case "sharding_indexed":
            return _sharding(given, dtype, fill, ndim)
    return None


def _sharding(
    given: Mapping[str, Any], dtype: np.dtype[Any], fill: object, ndim: int
) -> Sharding | None:
    inner = _chain(given["codecs"], dtype, fill, ndim)
    numbers = np.dtype("<u8")
    index = _chain(given["index_codecs"], numbers, np.uint64(MISSING), ndim + 1)
    if inner is None or index is None or index.encoded_size((1,) * ndim + (2,)) is None:
        return None
    shape = tuple(int(n) for n in given["chunk_shape"])
    return Sharding(shape, inner, index, at_start=given.get("index_location", "end") == "start")
