"""The base of all codecs, and the codecs from arrays to arrays and from arrays to bytes.

Encoded bytes are not trusted. The size of a decoded chunk follows from the array's metadata. Every
decoder gets it as a limit and never allocates what the bytes claim; bytes that do not fit are a
`FormatError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import numcodecs
import numpy as np
from numcodecs.abc import Codec as Numcodec
from numcodecs.vlen import VLenBytes, VLenUTF8

from frazil import config
from frazil.arrays import I64, Array, Shape
from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import justified
from frazil.storage.base import Bytes

Configuration: TypeAlias = Mapping[str, Any]

MAX_VARIABLE: Final = 1 << 30
"""Largest decoded chunk of strings, whose size no metadata tells."""
LARGE_CHUNK: Final = 1 << 30
"""Chunks with more bytes are checked (`require_justified`) before memory is taken for them."""
FOREIGN: Final = (ValueError, TypeError, RuntimeError, IndexError, OverflowError, SystemError)
"""What numcodecs raises when bytes make no sense."""


def damaged(problem: str, **facts: object) -> FormatError:
    """The error for a chunk that does not decode; callers add the array and the chunk."""
    return FormatError(f"chunk is damaged: {problem}", kind=ErrorKind.DESERIALIZATION, **facts)


def wrong_size(found: int | str, expected: int) -> FormatError:
    """The error for a chunk of another size than its array's chunks have."""
    return damaged("it does not decode to its size", found=found, expected=expected)


def require_justified(size: int, encoded: int) -> None:
    """Refuse a chunk that is larger than its bytes can honestly make it.

    The metadata of the array say how large a chunk is, and a chunk with one value everywhere is
    compressed as well as any bomb. So only chunks of a gigabyte are checked, which are rare; for
    data that are not trusted, `large_chunk_bytes` lowers that limit.
    """
    if not is_justified(size, encoded):
        raise damaged(
            "it decodes to more than its bytes can honestly hold; if you trust it, allow more "
            "with frazil.config.set(max_expansion=...), or large_chunk_bytes",
            encoded=encoded,
            decoded=size,
        )


def is_justified(size: int, encoded: int) -> bool:
    """Whether so many encoded bytes may become a chunk of this size."""
    return size <= justified(encoded, size, least=config.current().large_chunk_bytes)


def as_bytes(data: object) -> Bytes:
    """What a codec of numcodecs returned, as bytes."""
    if isinstance(data, (bytes, bytearray)):
        return data
    # For mypy: an array is a buffer, which its type does not say.
    return memoryview(np.asarray(data).reshape(-1).view(np.uint8))  # type: ignore[arg-type]


# --- bytes to bytes ---


class ByteCodec:
    """Bytes to bytes and back; by numcodecs, as far as it is not done otherwise.

    Decoders raise a FormatError where the bytes are damaged, or are more than they may be.
    """

    def __init__(self, codec: Numcodec) -> None:
        self._codec = codec

    def encode(self, data: Bytes) -> Bytes:
        """Encode."""
        return as_bytes(self._codec.encode(np.frombuffer(data, np.uint8)))

    def decode(self, data: Bytes, limit: int) -> Bytes:
        """Decode to at most `limit` bytes."""
        try:
            return as_bytes(self._codec.decode(np.frombuffer(data, np.uint8)))
        except FOREIGN as error:
            raise damaged(str(error)) from error

    def decode_into(self, data: Bytes, out: memoryview) -> None:
        """Decode to exactly the bytes of `out`."""
        decoded = self.decode(data, len(out))
        if len(decoded) != len(out):
            raise wrong_size(len(decoded), len(out))
        out[:] = decoded

    def encoded_size(self, size: int) -> int | None:
        """Size of `size` bytes once encoded, where that is the same for all bytes."""
        return None

    def limit(self, size: int) -> int:
        """No encoder makes more of `size` bytes than this."""
        return 2 * size + (64 << 10)

    def decode_run(self, data: Bytes, lengths: I64, out: memoryview) -> bool:
        """Decode chunks of one size that follow each other, all in one call, if that can be done.

        False: it cannot, or one of them is damaged; decode them one by one.
        """
        return False


# --- arrays to bytes ---


class Raw:
    """Elements one after the other, in C order and one byte order."""

    def __init__(self, stored: np.dtype[Any]) -> None:
        self.stored = stored

    def size(self, shape: Shape) -> int | None:
        """Bytes of a chunk."""
        return math.prod(shape) * self.stored.itemsize

    def encode(self, array: Array) -> Bytes:
        """Encode; the bytes are the array's own memory where its layout is right already."""
        flat = np.ascontiguousarray(array, self.stored).reshape(-1)
        return memoryview(flat.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer

    def decode(self, data: Bytes, shape: Shape) -> Array:
        """A view of the bytes as an array."""
        if len(data) != self.size(shape):
            raise wrong_size(len(data), self.size(shape) or 0)
        return np.frombuffer(data, self.stored).reshape(shape)


class StringsCodec:
    """Texts or byte strings of any length, each after its size."""

    def __init__(self, dtype: np.dtype[Any], *, is_text: bool) -> None:
        self._codec: Numcodec = VLenUTF8() if is_text else VLenBytes()
        self._dtype = dtype

    def size(self, shape: Shape) -> int | None:
        return None

    def encode(self, array: Array) -> Bytes:
        """Encode, in C order whatever the array's layout."""
        return as_bytes(self._codec.encode(np.ascontiguousarray(array).astype(object, copy=False)))

    def decode(self, data: Bytes, shape: Shape) -> Array:
        """Decode; the number of items is checked before anything is made for them."""
        count = int.from_bytes(data[:4], "little")
        if len(data) < 4 or count != math.prod(shape) or len(data) < 4 + 4 * count:
            raise wrong_size(count, math.prod(shape))
        try:
            found: Array = self._codec.decode(bytes(data))
        except FOREIGN as error:
            raise damaged(str(error)) from error
        return found.reshape(shape).astype(self._dtype, copy=False)


# --- arrays to arrays ---


class ArrayCodec(Protocol):
    """Arrays to arrays and back."""

    def encode(self, array: Array) -> Array:
        """Encode."""

    def decode(self, array: Array, shape: Shape) -> Array:
        """Decode to an array of a shape."""

    def encoded_shape(self, shape: Shape) -> Shape:
        """Shape of an encoded array."""


class Transpose:
    """Axes in another order; no bytes move."""

    def __init__(self, order: Shape) -> None:
        self._order = order
        self._inverse = tuple(int(axis) for axis in np.argsort(order))

    def encode(self, array: Array) -> Array:
        return array.transpose(self._order)

    def decode(self, array: Array, shape: Shape) -> Array:
        return array.transpose(self._inverse)

    def encoded_shape(self, shape: Shape) -> Shape:
        return tuple(shape[axis] for axis in self._order)


class Filter:
    """A filter of numcodecs, element by element."""

    def __init__(self, codec: Numcodec, encoded: np.dtype[Any], *, packs_bits: bool) -> None:
        self._codec = codec
        self._encoded = encoded
        self._packs_bits = packs_bits

    def encode(self, array: Array) -> Array:
        found = np.asarray(self._codec.encode(np.ascontiguousarray(array)))
        # Some hand out floats as the integers of their bits.
        return found if found.dtype == self._encoded else found.view(self._encoded)

    def decode(self, array: Array, shape: Shape) -> Array:
        try:
            return np.asarray(self._codec.decode(array)).reshape(shape)
        except FOREIGN as error:
            raise damaged(str(error)) from error

    def encoded_shape(self, shape: Shape) -> Shape:
        """The same, but for bits that are packed into bytes after a count."""
        return (1 + -(-math.prod(shape) // 8),) if self._packs_bits else shape


def array_codec(
    name: str, given: Configuration, dtype: np.dtype[Any], ndim: int
) -> tuple[ArrayCodec, np.dtype[Any]] | None:
    """The codec of a name, and the data type it encodes to; None for one we do not know."""
    if name == "transpose":
        order = tuple(given["order"])
        return (Transpose(order), dtype) if sorted(order) == [*range(ndim)] else None
    bare = name.removeprefix("numcodecs.")
    options = {key: value for key, value in given.items() if key != "id"}
    encoded = dtype
    match bare if bare != name else "":
        case "delta" | "fixedscaleoffset" | "quantize":
            options.setdefault("dtype", str(dtype))
            encoded = np.dtype(options.get("astype") or dtype)
            if bare == "quantize":
                encoded = dtype
        case "bitround":
            pass
        case "packbits":
            encoded = np.dtype(np.uint8)
        case "astype":
            options.setdefault("decode_dtype", str(dtype))
            encoded = np.dtype(options["encode_dtype"])
        case _:
            return None
    try:
        codec = numcodecs.get_codec({"id": bare, **options})
    except (*FOREIGN, ImportError):
        return None
    return Filter(codec, encoded, packs_bits=bare == "packbits"), encoded
