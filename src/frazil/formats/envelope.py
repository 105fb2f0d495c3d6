"""The 39-byte header of every binary file, its zstd body, and how much memory that can justify.

A record of a file costs at least a byte or two when it is packed, because it differs from all
others: by its coordinates, its path or its id. What it unpacks to is rarely more than a kilobyte.
So honest files grow by a factor of some hundreds: manifests of the official packages by 10, by 100
with locations of a kilobyte, and snapshots whose groups share long attributes by 1,300, while zstd
can grow by 30,000 and a list in a FlatBuffer can point to one table a million times. Small files
may grow by more.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import zstandard

from frazil import config
from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.tuning import BODY_PART, SMALL_BODY, WHOLE_BODY
from frazil.flatbuf.writer import MAX_SIZE, FlatWriter
from frazil.ids import ObjectId

ALLOWANCE: Final = 64 << 20
"""Bytes that every file may unpack to, however well it is packed."""
SMALL_REFERENCES: Final = 1 << 17
"""References that every file may hold."""
SMALL_VALUES: Final = 1 << 20
"""Values that every file may hold."""
VALUES_PER_BYTE: Final = 8
"""Values that each byte of a packed file may stand for beyond those: a node of a hierarchy has
some forty of them, and takes twenty bytes at least for its id and path."""


def justified(packed: int, limit: int, least: int = ALLOWANCE) -> int:
    """The largest size that `packed` bytes may decompress to, at most `limit`.

    Up to `least` bytes are always allowed, whatever the ratio.
    """
    return min(limit, max(least, packed * config.current().max_expansion))


def values_justified(packed: int) -> int:
    """The largest number of values, each a Python object, in a file or text of `packed` bytes."""
    return SMALL_VALUES + VALUES_PER_BYTE * packed


def references_justified(packed: int) -> int:
    """The largest number of chunk references in a file of `packed` bytes; no two are equal."""
    return SMALL_REFERENCES + packed


def too_large(key: str, *, packed: int, limit: int) -> FormatError:
    """The error for a file that decompresses to more than its size allows."""
    return FormatError(
        "the file unpacks to more than is allowed for its size; if you trust it, allow more with "
        "frazil.config.set(max_expansion=...)",
        kind=ErrorKind.DESERIALIZATION,
        key=key,
        packed=packed,
        limit=limit,
    )


MAGIC: Final = "ICE🧊CHUNK".encode()
HEADER: Final = struct.Struct("<12s24sBBB")
WRITER: Final = b"ic-frazil-0.1.0"
"""Who wrote a file; readers of the format expect names that begin with `ic-`."""
ZSTD: Final = 1
PIECE: Final = 1 << 20
"""Bytes unpacked at a time, so that a limit is noticed soon after it is passed."""
IDENTIFIER: Final = b"Ichk"
"""What the FlatBuffer of a body calls itself."""


class FileKind(IntEnum):
    """Type byte of a file."""

    SNAPSHOT = 1
    MANIFEST = 2
    ATTRIBUTES = 3
    TRANSACTION_LOG = 4
    CHUNK = 5
    REPO_INFO = 6


@dataclass(frozen=True, slots=True)
class Envelope:
    """A file taken out of its wrapping."""

    spec: int
    kind: FileKind
    writer: str
    body: bytes


NOISE: Final = 1000
"""A level of our own, which no configuration can name, for bodies that are mostly random ids.

Zstd's level 1 finds in them what a table of 4,096 places finds as well, in half the time: the
table stays in the processor's nearest cache.
"""


def body_compressor(level: int) -> zstandard.ZstdCompressor:
    """What packs bodies, each with its size and a checksum."""
    if level != NOISE:
        return zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=True)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        1,
        strategy=zstandard.STRATEGY_FAST,
        hash_log=12,
        min_match=6,
        write_content_size=True,
        write_checksum=True,
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


class _Contexts(threading.local):
    """What a thread packs and unpacks bodies with: making that takes longer than a small body."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self._made: dict[int, zstandard.ZstdCompressor] = {}

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        """The compressor of a level."""
        found = self._made.get(level)
        if found is None:
            found = self._made[level] = body_compressor(level)
        return found


_contexts: Final = _Contexts()


def seal_table(
    writer: FlatWriter, root: int, kind: FileKind, *, spec: int, level: int = 3
) -> bytes:
    """The file whose body a writer holds, given the root table.

    Raises:
        FormatError: the body is larger than a FlatBuffer may be.
    """
    body = writer.finish(root, IDENTIFIER)
    if body.size <= WHOLE_BODY:
        return seal(body.joined(), kind, spec=spec, level=level)
    packer = body_compressor(level).compressobj(size=body.size)
    packed = [packer.compress(part) for part in body.consume(BODY_PART)]
    return b"".join([_header(kind, spec), *packed, packer.flush()])


def seal(body: bytes | memoryview, kind: FileKind, *, spec: int, level: int = 3) -> bytes:
    """Compress a body and put the header before it.

    The frame ends in a checksum of the body, which every reader of the format verifies.
    `level` is one of zstd's, or `NOISE`.
    """
    packer = _contexts.compressor(level) if len(body) <= SMALL_BODY else body_compressor(level)
    packed = packer.compress(body)
    return _header(kind, spec) + packed


@cache
def _header(kind: FileKind, spec: int) -> bytes:
    return HEADER.pack(MAGIC, WRITER.ljust(24), spec, kind, ZSTD)


def unseal(blob: bytes, expected: FileKind | None, *, key: str) -> Envelope:
    """Check the header and return the unpacked body.

    Raises:
        FormatError: the file is truncated, foreign, of another kind or spec, or unpacks to
            more than a FlatBuffer may hold.
    """
    if len(blob) < HEADER.size:
        raise FormatError("file is shorter than its header", key=key, size=len(blob))
    magic, writer, spec, kind, packing = HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise FormatError("not an Icechunk file: wrong magic bytes", key=key)
    if spec not in (1, 2):
        raise FormatError(
            "file has a spec version this library does not know",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
            key=key,
            spec=spec,
        )
    if expected is not None and kind != expected:
        raise FormatError(
            "file is of another kind than expected", key=key, expected=expected.name, found=kind
        )
    if kind not in FileKind._value2member_map_:
        raise FormatError("unknown file kind", key=key, found=kind)
    if packing != ZSTD:
        raise FormatError("unknown compression", key=key, compression=packing)
    body = unpack(memoryview(blob)[HEADER.size :], limit=MAX_SIZE, key=key)
    return Envelope(spec, FileKind(kind), writer.rstrip(b" \0").decode(errors="replace"), body)


def unpack(packed: bytes | memoryview, *, limit: int, key: str) -> bytes:
    """Decompress zstd frames, with or without declared size, and verify their checksums.

    Raises:
        FormatError: they are damaged, or unpack to more than `limit` bytes or than a file of
            this size can justify.
    """
    limit = justified(len(packed), limit)
    try:
        declared = zstandard.frame_content_size(packed)
        if declared > limit:
            raise too_large(key, packed=len(packed), limit=limit)
        if declared >= 0:
            # Nothing may follow: a frame whose mark of a checksum was lost ends before it.
            return _contexts.decompressor.decompress(
                packed, max_output_size=limit, allow_extra_data=False
            )
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            # In pieces: asking for everything at once would reserve the whole limit.
            pieces, size = [], 0
            while size <= limit and (piece := stream.read(min(PIECE, limit + 1 - size))):
                pieces.append(piece)
                size += len(piece)
    except zstandard.ZstdError as error:
        raise FormatError(f"damaged zstd data: {error}", key=key) from error
    if size > limit:
        raise too_large(key, packed=len(packed), limit=limit)
    return b"".join(pieces)


def has_checksum(packed: bytes | memoryview) -> bool:
    """Whether a zstd frame ends in a checksum of what it holds."""
    try:
        return zstandard.get_frame_parameters(packed).has_checksum
    except zstandard.ZstdError:
        return False


def require_id(buffer: Buffer, wanted: ObjectId | None) -> None:
    """Refuse a file that was put in the place of another one; None for any."""
    if wanted is None:
        return
    found = type(wanted)(buffer.root().required_bytes(0, wanted.width, "id"))
    if found != wanted:
        raise FormatError("the file is not the one of its name", key=buffer.key, found=str(found))
