"""The codec Zstandard."""

from __future__ import annotations

import threading
from typing import Final

import numcodecs
import numpy as np
import zstandard

from frazil.arrays import I64
from frazil.bulk.codecs import ByteCodec, damaged, wrong_size
from frazil.bulk.tuning import ZSTD_AT_ONCE, ZSTD_BY_NUMCODECS
from frazil.storage.base import Bytes

_PIECE: Final = 1 << 20
"""Bytes that a stream gives at a time, so that a limit is noticed soon after it is passed."""
_HAS_CHECKSUM: Final = 4
"""Flag in the first byte after the magic number of a Zstandard frame."""
_IS_SINGLE_SEGMENT: Final = 32
"""Flag in the same byte: no window but the content itself."""
_BLOCK_HEADER: Final = 3
"""Bytes: a flag of the last block, its kind, and its size."""
_RUN: Final = 1
"""Kind of a block of one byte, repeated."""
_RESERVED: Final = 3
"""Kind of a block that must not occur."""
_CHECKSUM: Final = 4
"""Bytes of a checksum."""


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
        if len(data) >= ZSTD_BY_NUMCODECS:
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

    def decode_run(self, data: Bytes, lengths: I64, out: memoryview) -> bool:
        """Decode small chunks in one call, which lets other threads work most of the time.

        Frames are checked first, so that none can take bytes of the next.
        """
        try:
            if not _are_plain_frames(data, lengths, len(out) // len(lengths)):
                return False
            reader = _contexts.decompressor.stream_reader(data, read_across_frames=True)
            return reader.readinto(out) == len(out) and not reader.read(1)
        except zstandard.ZstdError:
            return False

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
    return size <= ZSTD_AT_ONCE and zstandard.frame_content_size(data) == size


def _are_plain_frames(data: Bytes, lengths: I64, size: int) -> bool:
    """Whether bytes are frames of these lengths, one block each, that decode to one size.

    A frame says how large its blocks are, so nothing is decoded to find out where it ends. All
    must begin with the same header: one writer makes it the same for all chunks of an array.
    """
    if size > ZSTD_AT_ONCE or len(data) < 5 or not data[4] & _IS_SINGLE_SEGMENT:
        return False
    header, least = zstandard.frame_header_size(data), int(lengths.min())
    if zstandard.frame_content_size(data) != size or least < header + _BLOCK_HEADER:
        return False
    starts = np.cumsum(lengths) - lengths
    heads = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(header + _BLOCK_HEADER)]
    if (heads[:, :header] != heads[0, :header]).any():
        return False
    block = heads[:, header:].astype(np.int64) @ np.array([1, 1 << 8, 1 << 16])
    is_last, kind, count = block & 1 == 1, block >> 1 & 3, block >> 3
    held = np.where(kind == _RUN, 1, count)
    checksum = _CHECKSUM if data[4] & _HAS_CHECKSUM else 0
    is_whole = lengths == header + _BLOCK_HEADER + held + checksum
    return bool((is_last & (kind != _RESERVED) & is_whole).all())


def _require_checksum(data: Bytes) -> None:
    """Refuse a frame that should end in a checksum but ends before: streams do not mind.

    Only headers of blocks are looked at, of which there is one for each 128 KiB.
    """
    if len(data) < 5 or not data[4] & _HAS_CHECKSUM:
        return
    at = zstandard.frame_header_size(data)
    while at + _BLOCK_HEADER <= len(data):
        header = int.from_bytes(data[at : at + _BLOCK_HEADER], "little")
        is_last, is_run, size = header & 1, header >> 1 & 3 == _RUN, header >> 3
        at += _BLOCK_HEADER + (1 if is_run else size)
        if is_last:
            break
    if at + _CHECKSUM > len(data):
        raise damaged("it ends before its checksum")
