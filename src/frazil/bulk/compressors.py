"""The codecs from bytes to bytes: compressors and checksums. Zstandard is in `zstd`."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import google_crc32c
import numcodecs
import numpy as np
from numcodecs.abc import Codec as Numcodec

from frazil.bulk.codecs import FOREIGN, ByteCodec, Configuration, damaged, wrong_size
from frazil.bulk.zstd import Zstd
from frazil.storage.base import Bytes

_XZ_MEMORY: Final = 256 << 20
"""Memory that an lzma stream may ask for; its largest preset needs 65 MiB."""


class Streamed(ByteCodec):
    """gzip, zlib, bz2 and lzma through Python's own bounded decompressors."""

    def __init__(self, codec: Numcodec, make: Callable[[], Any], error: type[Exception]) -> None:
        super().__init__(codec)
        self._make = make
        self._error = error

    def decode(self, data: Bytes, limit: int) -> Bytes:
        return _all_streams(self._make, self._error, data, limit)


def _inflate(codec: Numcodec, wbits: int) -> Streamed:
    return Streamed(codec, lambda: zlib.decompressobj(wbits), zlib.error)


def _all_streams(
    make: Callable[[], Any], problem: type[Exception], data: Bytes, limit: int
) -> Bytes:
    """Decode streams that follow each other, with zeros after the last if need be."""
    parts: list[bytes] = []
    total = 0
    rest: Bytes = data
    while True:
        try:
            stream = make()
            parts.append(stream.decompress(rest, limit - total + 1))
        except (problem, ValueError, EOFError) as error:
            raise damaged(str(error)) from error
        total += len(parts[-1])
        if total > limit or not stream.eof:
            raise wrong_size("more" if total > limit else total, limit)
        unused: bytes = stream.unused_data
        if not unused.strip(b"\0"):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        rest = unused


class Blosc(ByteCodec):
    """Blosc, with its header checked first: the library believes what it says."""

    HEADER: Final = struct.Struct("<4B3I")

    def limit(self, size: int) -> int:
        """Blosc adds its header to what it cannot compress."""
        return size + 16

    def _size(self, data: Bytes) -> int:
        if len(data) < self.HEADER.size:
            raise damaged("shorter than a Blosc header", found=len(data))
        *_, size, _, stored = self.HEADER.unpack_from(data)
        if stored != len(data):
            raise damaged("its length is not what its header says", found=len(data), said=stored)
        return int(size)

    def decode(self, data: Bytes, limit: int) -> Bytes:
        size = self._size(data)
        if size > limit:
            raise wrong_size(size, limit)
        out = bytearray(size)
        self.decode_into(data, memoryview(out))
        return out

    def decode_into(self, data: Bytes, out: memoryview) -> None:
        size = self._size(data)
        if size != len(out):
            raise wrong_size(size, len(out))
        if not size:
            return
        try:
            self._codec.decode(data, out)
        except FOREIGN as error:
            raise damaged(str(error)) from error


class Lz4(ByteCodec):
    """LZ4 as numcodecs frames it: the size in four bytes, then one block."""

    def decode(self, data: Bytes, limit: int) -> Bytes:
        size = int.from_bytes(data[:4], "little") if len(data) > 4 else 0
        if size > limit:
            raise wrong_size(size, limit)
        return super().decode(data, limit)


class SameSize(ByteCodec):
    """Codecs of numcodecs that keep the size or add a few bytes: shuffle and checksums."""

    def __init__(self, codec: Numcodec, added: int) -> None:
        super().__init__(codec)
        self._added = added
        self.is_checksum = added > 0

    def decode(self, data: Bytes, limit: int) -> Bytes:
        if len(data) - self._added > limit:
            raise wrong_size(len(data) - self._added, limit)
        return super().decode(data, limit)

    def encoded_size(self, size: int) -> int | None:
        return size + self._added

    def limit(self, size: int) -> int:
        return size + self._added


class Crc32c(SameSize):
    """A CRC-32C after the bytes."""

    def __init__(self) -> None:
        super().__init__(None, 4)

    def encode(self, data: Bytes) -> Bytes:
        return b"".join((data, _crc32c(data).to_bytes(4, "little")))

    def decode(self, data: Bytes, limit: int) -> Bytes:
        view = memoryview(data)
        if len(view) < 4 or len(view) - 4 > limit:
            raise wrong_size(len(view) - 4, limit)
        inner = view[:-4]
        if _crc32c(inner) != int.from_bytes(view[-4:], "little"):
            raise damaged("its CRC-32C does not match")
        return inner


def _crc32c(data: Bytes) -> int:
    # The library refuses memory that can be written to, but takes an array over it.
    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))


# --- by name ---


def byte_codec(name: str, given: Configuration, dtype: np.dtype[Any]) -> ByteCodec | None:
    """The codec of a name and configuration, or None for one we do not know."""
    match name.removeprefix("numcodecs."):
        case "zstd":
            return Zstd(int(given.get("level", 0)), checksum=bool(given.get("checksum", False)))
        case "gzip":
            return _inflate(numcodecs.GZip(int(given.get("level", 1))), 31)
        case "blosc" if name == "blosc":
            return Blosc(_blosc(given, dtype))
        case "crc32c" if name == "crc32c":
            return Crc32c()
        case "imagecodecs_zstd":
            return Zstd(int(given.get("level") or 0), checksum=False)
        case "imagecodecs_deflate":
            return _inflate(numcodecs.Zlib(int(given.get("level") or 6)), 15)
        case bare if bare != name:
            return _numcodecs_bytes(bare, given, dtype)
    return None


def _blosc(given: Configuration, dtype: np.dtype[Any]) -> Numcodec:
    size = int(given.get("typesize") or dtype.itemsize or 1)
    shuffle = given.get("shuffle") or ("bitshuffle" if size == 1 else "shuffle")
    options: dict[str, Any] = {
        "cname": given.get("cname", "zstd"),
        "clevel": int(given.get("clevel", 5)),
        "shuffle": ("noshuffle", "shuffle", "bitshuffle").index(shuffle),
        "blocksize": int(given.get("blocksize", 0)),
    }
    try:
        return numcodecs.Blosc(**options, typesize=size)
    except TypeError:  # releases before 0.16 take it from the array they are given
        return numcodecs.Blosc(**options)


_CHECKSUMS: Final = ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")


def _numcodecs_bytes(name: str, given: Configuration, dtype: np.dtype[Any]) -> ByteCodec | None:
    options = {key: value for key, value in given.items() if key != "id"}
    if name == "shuffle":
        options["elementsize"] = options.get("elementsize") or dtype.itemsize
    if name not in ("blosc", "lz4", "zlib", "bz2", "lzma", "shuffle", *_CHECKSUMS):
        return None
    try:
        codec = numcodecs.get_codec({"id": name, **options})
    except (*FOREIGN, ImportError):
        return None  # an option or a library that this installation lacks
    match name:
        case "blosc":
            return Blosc(codec)
        case "lz4":
            return Lz4(codec)
        case "zlib":
            return _inflate(codec, 15)
        case "bz2":
            return Streamed(codec, bz2.BZ2Decompressor, OSError)
        case "lzma":
            return Streamed(codec, lambda: _xz(codec), lzma.LZMAError)
        case "shuffle":
            return SameSize(codec, 0)
    return SameSize(codec, 4)


def _xz(codec: Any) -> lzma.LZMADecompressor:  # noqa: ANN401 - numcodecs is not typed
    memory = None if codec.format == lzma.FORMAT_RAW else _XZ_MEMORY
    return lzma.LZMADecompressor(codec.format, memory, codec.filters)
