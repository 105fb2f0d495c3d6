"""When a file that is made of the bytes of another should be written in full again.

What changed is put behind the old bytes, of which some are then used by nobody. So that they
do not pile up, such a file says at its very end how long it was when it was last written in full.
Readers of FlatBuffers follow offsets from the beginning, and never come there.
"""

from __future__ import annotations

from typing import Final

MARK: Final = b"in full:"
MARK_SIZE: Final = len(MARK) + 8
GROWTH_SHARE: Final = 8
"""A file may grow by one part in so many. Then a million references (32 MB) are written in full
after some 50,000 changes of one, and no file takes an eighth more space than it needs."""


def full_size(data: bytes | memoryview) -> int:
    """How long the data were when they were last written in full."""
    end = bytes(data[-MARK_SIZE:])
    return int.from_bytes(end[len(MARK) :], "little") if end.startswith(MARK) else len(data)


def mark_of(data: bytes | memoryview) -> bytes:
    """What to put at the end of a file that is made of these data."""
    return MARK + full_size(data).to_bytes(8, "little")


def may_grow(data: bytes | memoryview) -> bool:
    """Whether the data have grown so little that they may go into another file as they are."""
    return has_room(len(data), full_size(data))


def has_room(size: int, full: int) -> bool:
    """Whether data of a size that were so long in full have grown little since."""
    return (size - full) * GROWTH_SHARE <= full
