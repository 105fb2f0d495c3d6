"""Files made of the bytes of others: how far they may grow until they are written in full.

Changes are appended, and some of the old bytes are then unused. To limit these, such a file says at
its very end how long it was when it was last written in full. Readers of FlatBuffers follow offsets
from the beginning and never look there.
"""

from __future__ import annotations

from typing import Final

from frazil.flatbuf.tuning import GROWTH_SHARE

MARK: Final = b"in full:"
MARK_SIZE: Final = len(MARK) + 8


def full_size(data: bytes | memoryview) -> int:
    """The size of the data when they were last written in full."""
    end = bytes(data[-MARK_SIZE:])
    return int.from_bytes(end[len(MARK) :], "little") if end.startswith(MARK) else len(data)


def mark_of(data: bytes | memoryview) -> bytes:
    """The mark at the end of a file that contains these data; it records their full size."""
    return MARK + full_size(data).to_bytes(8, "little")


def may_grow(data: bytes | memoryview) -> bool:
    """Whether the data have grown so little that they may be copied into another file."""
    return has_room(len(data), full_size(data))


def has_room(size: int, full: int) -> bool:
    """Whether data that had the size `full` have grown little since."""
    return (size - full) * GROWTH_SHARE <= full
