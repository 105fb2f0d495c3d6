"""What is around the MessagePack of G3: a header of 27 or 39 bytes, zstd, or nothing.

The header was specified with 12 bytes for the name of the writer and released with 24. The two
are told apart by their content: a name holds no byte below the space, the numbers behind it do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import zstandard

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import HEADER as LONG_HEADER
from frazil.formats.envelope import (
    MAGIC,
    WRITER,
    ZSTD,
    FileKind,
    body_compressor,
    has_checksum,
    unpack,
)

SHORT_HEADER: Final = struct.Struct("<12s12sBBB")
SHORT, LONG = SHORT_HEADER.size, LONG_HEADER.size
"""Bytes of the two headers."""
SPEC: Final = 1
PLAIN: Final = 0
LEVEL: Final = 1
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
FLAT_MARK: Final = b"Ichk"
"""What bodies of spec 1 and 2 have in bytes 4 to 7."""
MAX_MESSAGE: Final = 1 << 30
"""A file that unpacks to more is damage or an attack."""
OURS: Final = WRITER.decode().rpartition("-")[0]
"""How the name of this library begins in headers, whatever its version."""
_KINDS: Final = frozenset({1, 2, 3, 4, 6})
_SHORT_KINDS: Final = frozenset({1, 2, 3, 4})
_FIRST_PRINTABLE: Final = 0x20


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How the body of a file is wrapped."""

    header: int = 0
    """bytes of the header: 0, 27 or 39"""
    compressed: bool = False
    kind: FileKind | None = None
    """as the header says"""
    spec: int = 0
    writer: str = ""
    size: int = field(default=0, compare=False)
    """bytes of the whole file"""

    @property
    def form(self) -> Wrapping:
        """The same without what differs from file to file of a repository."""
        return Wrapping(self.header, self.compressed)

    @property
    def is_ours(self) -> bool:
        """Whether the header says that this library wrote the file."""
        return self.writer.startswith(OURS)


BARE: Final = Wrapping()
SEED: Final = Wrapping(SHORT, compressed=True)
"""As designed, before anything was released."""


def header_size(blob: bytes) -> int:
    """Bytes of the header of a file: 27, 39, or 0 where it is neither."""
    if not blob.startswith(MAGIC):
        return 0
    if len(blob) >= SHORT and _fits(blob[24:27], _SHORT_KINDS):
        return SHORT
    return LONG if len(blob) >= LONG and _fits(blob[36:39], _KINDS) else 0


def _fits(numbers: bytes, kinds: frozenset[int]) -> bool:
    spec, kind, packing = numbers
    return 0 < spec < _FIRST_PRINTABLE and kind in kinds and packing in (PLAIN, ZSTD)


def unwrap(blob: bytes, expected: FileKind | None, *, key: str) -> tuple[Wrapping, bytes]:
    """Take the body of a file out of whatever is around it.

    Raises:
        FormatError: the header is damaged or of another kind of file, or the body is too large.
    """
    if blob.startswith(ZSTD_MAGIC):
        return Wrapping(compressed=True, size=len(blob)), unpack(blob, limit=MAX_MESSAGE, key=key)
    if not blob.startswith(MAGIC):
        if len(blob) > MAX_MESSAGE:
            raise FormatError("file is too large", key=key, size=len(blob))
        return Wrapping(size=len(blob)), blob
    size = header_size(blob)
    if not size:
        raise FormatError("damaged header", key=key, size=len(blob))
    form = SHORT_HEADER if size == SHORT else LONG_HEADER
    _, writer, spec, kind, packing = form.unpack_from(blob)
    if expected is not None and kind != expected:
        raise FormatError(
            "file is of another kind than expected", key=key, expected=expected.name, found=kind
        )
    name = writer.rstrip(b" \0").decode(errors="replace")
    wrapping = Wrapping(size, packing == ZSTD, FileKind(kind), spec, name, len(blob))
    packed = memoryview(blob)[size:]
    if packing == ZSTD:
        return wrapping, unpack(packed, limit=MAX_MESSAGE, key=key)
    if len(packed) > MAX_MESSAGE:
        raise FormatError("file is too large", key=key, size=len(blob))
    return wrapping, bytes(packed)


def wrap(body: bytes, kind: FileKind, wrapping: Wrapping, *, writer: str | None = None) -> bytes:
    """Put a body into the wrapping of its dialect."""
    packed = body_compressor(LEVEL).compress(body) if wrapping.compressed else body
    if not wrapping.header:
        return packed
    form, room = (SHORT_HEADER, 12) if wrapping.header == SHORT else (LONG_HEADER, 24)
    name = _padded(WRITER if writer is None else writer.encode(), room)
    packing = ZSTD if wrapping.compressed else PLAIN
    return form.pack(MAGIC, name, SPEC, kind, packing) + packed


def _padded(name: bytes, room: int) -> bytes:
    """A name in exactly so many bytes, cut between characters and filled with spaces."""
    return name[:room].decode(errors="ignore").encode().ljust(room)


def refuse_flat(body: bytes, *, key: str) -> None:
    """Refuse the body of a file of spec 1 or 2, whose header is the same."""
    if body[4:8] == FLAT_MARK:
        raise FormatError(
            "the file belongs to a newer generation", kind=ErrorKind.INVALID_FILE_FORMAT, key=key
        )


def is_flat(blob: bytes) -> bool:
    """Whether a file is of spec 1 or 2, told by the beginning of its body."""
    if header_size(blob) != LONG:
        return False
    packed = memoryview(blob)[LONG:]
    if blob[LONG - 1] != ZSTD:
        return bytes(packed[4:8]) == FLAT_MARK
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as body:
            return body.read(8)[4:] == FLAT_MARK
    except zstandard.ZstdError:
        return False


# --- what a file is ---

PARQUET_MAGIC: Final = b"PAR1"


def is_sealed(blob: bytes) -> bool:
    """Whether a checksum covers the content of a file; in Parquet each page has its own."""
    return blob.startswith(PARQUET_MAGIC) or has_checksum(memoryview(blob)[header_size(blob) :])


class Encoding(StrEnum):
    """What the body of a file is written in."""

    PARQUET = "parquet"
    JSON = "json"
    MSGPACK = "msgpack"
    FLATBUFFERS = "flatbuffers"
    UNKNOWN = "unknown"


def sniff(blob: bytes, *, key: str = "") -> Encoding:
    """Tell what a file is; damage inside makes it unknown, never an error."""
    if blob.startswith(PARQUET_MAGIC):
        return Encoding.PARQUET
    if not blob.startswith((MAGIC, ZSTD_MAGIC)):
        return _bare(blob)
    try:
        wrapping, body = unwrap(blob, None, key=key)
    except FormatError:
        return Encoding.UNKNOWN
    is_new = wrapping.header == LONG and body[4:8] == FLAT_MARK
    return Encoding.FLATBUFFERS if is_new else _bare(body)


def _bare(body: bytes) -> Encoding:
    if body[:1] in (b"{", b"["):
        return Encoding.JSON
    first = body[0] if body else 0
    is_container = 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF
    return Encoding.MSGPACK if is_container else Encoding.UNKNOWN
