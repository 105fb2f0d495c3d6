"""The codecs of one array put together: chunk to bytes and back, in as few steps as they allow.

`compile_chain` reads an array's metadata once; the chain it returns is immutable, is shared by
threads, and knows every size in advance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.arrays import I64, Array, Shape
from frazil.bulk.codecs import (
    MAX_VARIABLE,
    ArrayCodec,
    ByteCodec,
    Raw,
    StringsCodec,
    damaged,
    is_justified,
    require_justified,
)
from frazil.formats.envelope import ALLOWANCE, justified
from frazil.storage.base import Bytes

ZarrJson: TypeAlias = Mapping[str, Any]
"""An array's `zarr.json`."""
MISSING: Final = 2**64 - 1
"""Offset and length of an inner chunk that a shard does not hold."""


@dataclass(frozen=True, eq=False)
class Chain:
    """How the chunks of an array are encoded.

    Shapes are given with each call, because the chunks of a rectilinear grid differ.
    """

    dtype: np.dtype[Any]
    """of decoded chunks"""
    fill_value: Any
    """of chunks that were never written"""
    arrays: tuple[ArrayCodec, ...]
    serializer: Raw | StringsCodec | Sharding
    bytes: tuple[ByteCodec, ...]

    # --- what the reader may do ---

    @cached_property
    def is_direct(self) -> bool:
        """Whether a chunk decodes straight into C-ordered memory of `dtype`."""
        return (
            not self.arrays
            and isinstance(self.serializer, Raw)
            and self.serializer.stored == self.dtype
            and not self.dtype.hasobject
        )

    @cached_property
    def is_raw(self) -> bool:
        """Whether the encoded bytes are the C-ordered memory of the chunk, nothing else."""
        return self.is_direct and not self.bytes

    @cached_property
    def is_checked(self) -> bool:
        """Whether every chunk holds a checksum of all its bytes."""
        if any(getattr(codec, "is_checksum", False) for codec in self.bytes):
            return True
        shards = self.serializer if isinstance(self.serializer, Sharding) else None
        return shards is not None and shards.inner.is_checked and shards.index.is_checked

    @property
    def shards(self) -> Sharding | None:
        """How shards are made, if chunks are shards that can be read in parts."""
        plain = not self.arrays and not self.bytes
        return self.serializer if plain and isinstance(self.serializer, Sharding) else None

    def encoded_size(self, shape: Shape) -> int | None:
        """Size of an encoded chunk, where all have the same."""
        size = self.serializer.size(self._inner_shape(shape))
        for codec in self.bytes:
            size = None if size is None else codec.encoded_size(size)
        return size

    def encoded_limit(self, shape: Shape) -> int:
        """No encoder makes more bytes of a chunk than this."""
        inner = self._inner_shape(shape)
        size = self.serializer.size(inner)
        if size is None:
            shards = self.serializer if isinstance(self.serializer, Sharding) else None
            size = MAX_VARIABLE if shards is None else shards.limit(inner)
        for codec in self.bytes:
            size = codec.limit(size)
        return size

    def _inner_shape(self, shape: Shape) -> Shape:
        for codec in self.arrays:
            shape = codec.encoded_shape(shape)
        return shape

    # --- decoding ---

    def decode(self, data: Bytes, shape: Shape) -> Array:
        """Decode a chunk; the array may be a read-only view of `data`, in any memory order."""
        shapes = [shape]
        for codec in self.arrays:
            shapes.append(codec.encoded_shape(shapes[-1]))
        array = self.serializer.decode(self._unpack(data, shapes[-1]), shapes[-1])
        for position in range(len(self.arrays) - 1, -1, -1):
            array = self.arrays[position].decode(array, shapes[position])
        return array

    def decode_into(self, data: Bytes, out: Array) -> None:
        """Decode a chunk into an array of its shape, without a copy between where possible."""
        if self.is_direct and out.flags.c_contiguous and out.dtype == self.dtype:
            self.unpack_into(data, as_memory(out))
        elif isinstance(self.serializer, Sharding) and not self.arrays:
            self.serializer.decode_into(self._unpack(data, out.shape), out)
        else:
            out[...] = self.decode(data, out.shape)

    def unpack_into(self, data: Bytes, memory: memoryview) -> None:
        """Decode a chunk into its bytes in memory; only for chains that are `is_direct`."""
        if self.bytes:
            require_justified(len(memory), len(data))
        if len(self.bytes) == 1:
            self.bytes[0].decode_into(data, memory)
        elif self.bytes:
            self.bytes[0].decode_into(self._undo(data, len(memory), stop=1), memory)
        elif len(data) != len(memory):
            raise damaged("wrong size", found=len(data), expected=len(memory))
        else:
            memory[:] = data

    def unpack_run(self, data: Bytes, lengths: I64, memory: memoryview) -> bool:
        """Decode chunks of one size that follow each other in one call; see `decode_run`."""
        if len(self.bytes) != 1 or len(lengths) < 2:
            return False
        size = len(memory) // len(lengths)
        if not is_justified(size, int(lengths.min())):
            return False
        return self.bytes[0].decode_run(data, lengths, memory)

    def _unpack(self, data: Bytes, shape: Shape) -> Bytes:
        """Undo the codecs from bytes to bytes, as far as chunks of a shape can justify."""
        if not self.bytes:
            return data
        size = self.serializer.size(shape)
        if size is None and isinstance(self.serializer, Sharding):
            size = self.serializer.limit(shape)
        elif size is None:
            # Items take eight bytes: their sizes, and as much on average for what they say.
            least = max(ALLOWANCE, 4 + 8 * math.prod(shape))
            return self._undo(data, justified(len(data), MAX_VARIABLE, least))
        require_justified(size, len(data))
        return self._undo(data, size)

    def _undo(self, data: Bytes, size: int, stop: int = 0) -> Bytes:
        """Undo the codecs from bytes to bytes down to number `stop`, to at most `size` bytes."""
        limits = [size]
        for codec in self.bytes[:-1]:
            limits.append(codec.limit(limits[-1]))
        for position in range(len(self.bytes) - 1, stop - 1, -1):
            data = self.bytes[position].decode(data, limits[position])
        return data

    # --- encoding ---

    def encode(self, chunk: Array, *, keep_empty: bool = False) -> Bytes | None:
        """Encode a chunk; None for a shard without any inner chunk.

        Inner chunks that are all fill value are left out of shards unless `keep_empty`. Bytes
        may be the chunk's own memory: use them before it changes.
        """
        array = chunk
        for codec in self.arrays:
            array = codec.encode(array)
        data: Bytes | None
        if isinstance(self.serializer, Sharding):
            data = self.serializer.encode_shard(array, keep_empty=keep_empty)
        else:
            data = self.serializer.encode(array)
        for packer in self.bytes:
            data = None if data is None else packer.encode(data)
        return data

    # --- the fill value ---

    @cached_property
    def _fill_bits(self) -> Array | None:
        """The fill value as a number of its bits, or None where elements are objects."""
        if self.dtype.hasobject or self.dtype.kind == "T":
            return None
        return _bits(np.array(self.fill_value, self.dtype).reshape(1))

    def is_fill(self, chunk: Array) -> bool:
        """Whether a chunk is the fill value everywhere, by the rules of zarr-python.

        Zeros of different sign differ, but not as parts of complex numbers. Every NaN is like
        every other: what divisions make differs from the usual one by its sign.
        """
        if not chunk.size:
            return True
        if self._fill_bits is None:
            return bool((chunk == self.fill_value).all())
        if chunk.dtype != self.dtype:
            chunk = chunk.astype(self.dtype)
        corner: Any = (..., *(slice(0, 1),) * chunk.ndim)
        first = chunk[corner].reshape(1)
        if self.dtype.kind in "fc" and self.fill_value != self.fill_value:
            return bool(np.isnan(first)[0]) and bool(np.isnan(chunk).all())
        if self.dtype.kind == "c":
            return bool(first[0] == self.fill_value) and bool((chunk == self.fill_value).all())
        if _bits(first)[0] != self._fill_bits[0]:
            return False
        return bool((_bits(chunk) == self._fill_bits).all())


def as_memory(array: Array) -> memoryview:
    """The bytes of a C-contiguous array, whatever its data type."""
    flat = array.reshape(-1).view(np.uint8)
    return memoryview(flat)  # type: ignore[arg-type]  # an array is a buffer


def _bits(array: Array) -> Array:
    size = array.dtype.itemsize
    return array.view(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")


@dataclass(frozen=True, eq=False)
class Sharding:
    """The codec `sharding_indexed`: many inner chunks in one, with an index at one end."""

    inner_shape: Shape
    inner: Chain
    index: Chain
    at_start: bool

    def grid(self, shape: Shape) -> Shape:
        """Number of inner chunks along each axis of a shard."""
        return tuple(n // inner for n, inner in zip(shape, self.inner_shape, strict=True))

    def index_size(self, shape: Shape) -> int:
        """Bytes of the index of a shard."""
        return self.index.encoded_size((*self.grid(shape), 2)) or 0

    def index_span(self, shape: Shape, length: int) -> tuple[int, int]:
        """Where in a shard of `length` bytes its index is.

        Raises:
            FormatError: the shard is shorter than its index.
        """
        size = self.index_size(shape)
        if size > length:
            raise damaged("shorter than the index of a shard", found=length, expected=size)
        return (0, size) if self.at_start else (length - size, length)

    def size(self, shape: Shape) -> int | None:
        """Unknown: inner chunks may be missing."""
        return None

    def limit(self, shape: Shape) -> int:
        """No shard is larger, whatever its writer left between the inner chunks."""
        each = self.inner.encoded_limit(self.inner_shape)
        return 2 * math.prod(self.grid(shape)) * each + self.index_size(shape)

    def decode_index(self, data: Bytes, shape: Shape, length: int) -> Array:
        """Offset and length of each inner chunk, (n, 2), checked to lie inside the shard."""
        found = self.index.decode(data, (*self.grid(shape), 2)).reshape(-1, 2)
        found = found.astype(np.uint64, copy=False)
        offset, size = found[:, 0], found[:, 1]
        held = ~((offset == MISSING) & (size == MISSING))
        inside = (size <= length) & (offset <= length) & (offset + size <= length)
        if not (inside | ~held).all():
            raise damaged("the index of a shard points outside it", length=length)
        return found

    def decode(self, data: Bytes, shape: Shape) -> Array:
        """Decode a whole shard."""
        out = np.empty(shape, self.inner.dtype)
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Bytes, out: Array) -> None:
        """Decode a whole shard into an array."""
        view = memoryview(data)
        start, end = self.index_span(out.shape, len(view))
        index = self.decode_index(view[start:end], out.shape, len(view))
        grid = self.grid(out.shape)
        for coords, (offset, size) in zip(np.ndindex(grid), index.tolist(), strict=True):
            target = out[self._box(coords)]
            if offset == MISSING:
                target[...] = self.inner.fill_value
            else:
                self.inner.decode_into(view[offset : offset + size], target)

    def _box(self, coords: Sequence[int]) -> tuple[slice, ...]:
        return tuple(
            slice(c * inner, (c + 1) * inner)
            for c, inner in zip(coords, self.inner_shape, strict=True)
        )

    def encode_shard(self, array: Array, *, keep_empty: bool = False) -> Bytes | None:
        """Encode a shard; None when no inner chunk has anything to tell."""
        grid = self.grid(array.shape)
        index = np.full((math.prod(grid), 2), MISSING, np.uint64)
        at = self.index_size(array.shape) if self.at_start else 0
        parts: list[Bytes] = []
        for number, coords in _morton_order(grid):
            chunk = array[self._box(coords)]
            if not keep_empty and self.inner.is_fill(chunk):
                continue
            data = self.inner.encode(chunk, keep_empty=keep_empty)
            if data is None:
                continue
            parts.append(data)
            index[number] = at, len(data)
            at += len(data)
        if not parts:
            return None
        table = self.index.encode(index.reshape(*grid, 2))
        assert table is not None
        return b"".join([table, *parts] if self.at_start else [*parts, table])


@lru_cache(maxsize=64)
def _morton_order(grid: Shape) -> tuple[tuple[int, Shape], ...]:
    """Numbers and coordinates of inner chunks along a Z-shaped curve, as zarr writes them."""
    count = math.prod(grid)
    coords = np.unravel_index(np.arange(count), grid) if grid else ()
    bits = [(n - 1).bit_length() for n in grid]
    code = np.zeros(count, np.uint64)
    at = 0
    for bit in range(max(bits, default=0)):
        for axis, width in enumerate(bits):
            if bit < width:
                digit = (coords[axis] >> bit) & 1
                code |= digit.astype(np.uint64) << np.uint64(at)
                at += 1
    every = [*np.ndindex(grid)]
    return tuple((number, every[number]) for number in np.argsort(code, kind="stable").tolist())


# --- reading metadata ---
