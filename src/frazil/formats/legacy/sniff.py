"""What a file is, told by its content; names and version numbers are not asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from frazil.errors import FormatError
from frazil.formats.envelope import MAGIC, FileKind
from frazil.formats.legacy.header import (
    BARE,
    FLAT_MARK,
    SHORT,
    ZSTD_MAGIC,
    Wrapping,
    header_size,
    unwrap,
)

PARQUET_MAGIC: Final = b"PAR1"


class Encoding(StrEnum):
    """What the body of a file is written in."""

    PARQUET = "parquet"
    JSON = "json"
    MSGPACK = "msgpack"
    FLATBUFFERS = "flatbuffers"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file turned out to be."""

    encoding: Encoding
    wrapping: Wrapping = BARE

    @property
    def kind(self) -> FileKind | None:
        """The kind of file, where a header tells it."""
        return self.wrapping.kind


def sniff(blob: bytes, *, key: str = "") -> Sniffed:
    """Tell what a file is; damage inside makes it unknown, never an error."""
    if blob.startswith(PARQUET_MAGIC):
        return Sniffed(Encoding.PARQUET)
    if blob.startswith((MAGIC, ZSTD_MAGIC)):
        if blob.startswith(MAGIC) and not header_size(blob):
            return Sniffed(Encoding.UNKNOWN)
        try:
            wrapping, body = unwrap(blob, None, key=key)
        except FormatError:
            return Sniffed(Encoding.UNKNOWN)
        is_flat = wrapping.header not in (0, SHORT) and body[4:8] == FLAT_MARK
        return Sniffed(Encoding.FLATBUFFERS if is_flat else _bare(body), wrapping)
    return Sniffed(_bare(blob))


def _bare(body: bytes) -> Encoding:
    if body[:1] in (b"{", b"["):
        return Encoding.JSON
    first = body[0] if body else 0
    is_container = 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF
    return Encoding.MSGPACK if is_container else Encoding.UNKNOWN
