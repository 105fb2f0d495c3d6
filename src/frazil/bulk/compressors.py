"""The codecs from bytes to bytes: compressors and checksums."""

from __future__ import annotations

import bz2
import lzma
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any, Final

import google_crc32c
import numcodecs
import numpy as np
import zstandard
from numcodecs.abc import Codec as Numcodec

from frazil.bulk.codecs import FOREIGN, Bytes, Configuration, as_bytes, damaged, wrong_size

_PIECE: Final = 1 << 20
"""Bytes that a stream gives at a time, so that a limit is noticed soon after it is passed."""
_SMALL: Final = 128 << 10
"""Chunks up to this size are decoded quicker to new memory than as a stream."""
_LARGE: Final = 256 << 10
"""From this size on numcodecs, which makes a context for each call, compresses quicker."""
_HAS_CHECKSUM: Final = 4
"""Flag in the first byte after the magic number of a Zstandard frame."""
_XZ_MEMORY: Final = 256 << 20
"""Memory that an lzma stream may ask for; its largest preset needs 65 MiB."""


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


class _Contexts(threading.local):
    """Contexts of one thread; making one costs more than a small chunk."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] = {}


_contexts: Final = _Contexts()


class Zstd(ByteCodec):
    """Zstandard."""

    def __init__(self, level: int, *, checksum: bool) -> None:
        super().__init__(numcodecs.Zstd(level=level, checksum=checksum))
        self.is_checksum = checksum
        self._key = (level, checksum)

    def encode(self, data: Bytes) -> Bytes:
        if len(data) >= _LARGE:
            return super().encode(data)
        found = _contexts.compressors.get(self._key)
        if found is None:
            level, checksum = self._key
            found = zstandard.ZstdCompressor(level=level, write_checksum=checksum)
            _contexts.compressors[self._key] = found
        return found.compress(data)

    def decode_into(self, data: Bytes, out: memoryview) -> None:
        """Decode straight into memory; the frame's own size is not believed."""
        size = len(out)
        try:
            if _is_small_frame(data, size):
                out[:] = _contexts.decompressor.decompress(data, allow_extra_data=False)
                return
            _require_checksum(data)
            reader = _contexts.decompressor.stream_reader(data, read_across_frames=True)
            count = reader.readinto(out)
            # One byte more drives the stream past its checksum, and finds what is too much.
            rest = reader.read(1)
        except zstandard.ZstdError as error:
            raise damaged(str(error)) from error
        if count != size or rest:
            raise wrong_size("more" if rest else count, size)

    def decode(self, data: Bytes, limit: int) -> Bytes:
        """Decode piece by piece, so that memory follows what is really there."""
        parts: list[bytes] = []
        total = 0
        try:
            if _is_small_frame(data, limit):
                return _contexts.decompressor.decompress(data, allow_extra_data=False)
            _require_checksum(data)
            reader = _contexts.decompressor.stream_reader(data, read_across_frames=True)
            while piece := reader.read(_PIECE):
                parts.append(piece)
                total += len(piece)
                if total > limit:
                    raise wrong_size("more", limit)
        except zstandard.ZstdError as error:
            raise damaged(str(error)) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _is_small_frame(data: Bytes, size: int) -> bool:
    """Whether a frame says that it has this size, and may be decoded to new memory."""
    return size <= _SMALL and zstandard.frame_content_size(data) == size


def _require_checksum(data: Bytes) -> None:
    """Refuse a frame that should end in a checksum but ends before: streams do not mind.

    Only headers of blocks are looked at, of which there is one for each 128 KiB.
    """
    if len(data) < 5 or not data[4] & _HAS_CHECKSUM:
        return
    at = zstandard.frame_header_size(data)
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        is_last, is_run, size = header & 1, header >> 1 & 3 == 1, header >> 3
        at += 3 + (1 if is_run else size)
        if is_last:
            break
    if at + 4 > len(data):
        raise damaged("it ends before its checksum")


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
