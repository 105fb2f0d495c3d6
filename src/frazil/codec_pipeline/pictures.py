"""How large pictures and GRIB messages say they are, read from their first bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zarr.core.buffer import Buffer

HEAD: Final = 64 << 10
"""Bytes in which a head must be found."""
UNKNOWN: Final = 1 << 62
"""For heads that make no sense: larger than anything."""
_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def declared_cells(codec: str, chunk: Buffer) -> int | None:
    """Values that a chunk says it holds; None for a codec whose heads we cannot read.

    Of pictures with several values for each point only the points may be counted.
    """
    read = _READERS.get(codec.removeprefix("imagecodecs_"))
    if read is None:
        return None
    head = chunk[:HEAD].to_bytes()
    try:
        return read(head)
    except IndexError:
        return UNKNOWN


def _number(head: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(head):
        raise IndexError(at)
    return int.from_bytes(head[at : at + size], "little" if order == "little" else "big")


def _jpeg(head: bytes) -> int:
    at = 2
    while True:
        if head[at] != 0xFF:
            return UNKNOWN
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            bands = max(1, head[at + 9])
            return _number(head, at + 5, 2) * _number(head, at + 7, 2) * bands
        else:
            at += 2 + max(2, _number(head, at + 2, 2))


def _png(head: bytes) -> int:
    return _number(head, 16, 4) * _number(head, 20, 4)


def _webp(head: bytes) -> int:
    match head[12:16]:
        case b"VP8 ":
            width, height = _number(head, 26, 2, "little"), _number(head, 28, 2, "little")
            return (width & 0x3FFF) * (height & 0x3FFF)
        case b"VP8L":
            bits = _number(head, 21, 4, "little")
            return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            return (_number(head, 24, 3, "little") + 1) * (_number(head, 27, 3, "little") + 1)
    return UNKNOWN


def _jpeg2000(head: bytes) -> int:
    at = head.find(b"\xff\x4f\xff\x51")
    if at < 0:
        return UNKNOWN
    right, bottom, left, top = (_number(head, at + 8 + 4 * n, 4) for n in range(4))
    return max(0, right - left) * max(0, bottom - top) * max(1, _number(head, at + 40, 2))


def _grib(head: bytes) -> int:
    """The points of the grid of a GRIB 2 message."""
    if head[:4] != b"GRIB" or head[7] != 2:
        return UNKNOWN
    at = 16
    while head[at : at + 4] != b"7777":
        size, section = _number(head, at, 4), head[at + 4]
        if section == 3:
            return _number(head, at + 6, 4)
        at += max(5, size)
    return UNKNOWN


def _lzw(head: bytes) -> int:
    """Nothing to declare: a code of nine bits or more stands for 4,096 bytes at most."""
    return 0


_READERS: Final[dict[str, Callable[[bytes], int]]] = {
    "jpeg": _jpeg,
    "jpeg8": _jpeg,
    "png": _png,
    "webp": _webp,
    "jpeg2k": _jpeg2000,
    "gribberish": _grib,
    "lzw": _lzw,
    "packbits": _lzw,
}
