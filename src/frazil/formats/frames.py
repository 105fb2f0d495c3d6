"""Frames of Zstandard: where one ends, and how a large one is unpacked."""

from __future__ import annotations

from typing import Final

import numpy as np
import zstandard

HAS_CHECKSUM: Final = 4
"""Flag in the first byte after the magic number of a frame."""
CHECKSUM: Final = 4
"""Bytes of a checksum."""
BLOCK_HEADER: Final = 3
"""Bytes: a flag of the last block, its kind, and its size."""
RUN: Final = 1
"""Kind of a block of one byte, repeated."""


def frame_end(data: bytes | bytearray | memoryview) -> int:
    """Where the first frame ends, by the headers of its blocks: behind the data if it is cut off.

    There is a block for each 128 KiB at most.

    Raises:
        zstandard.ZstdError: no frame begins here.
    """
    at = zstandard.frame_header_size(data)
    is_last = 0
    while not is_last:
        header = int.from_bytes(data[at : at + BLOCK_HEADER], "little")
        if at + BLOCK_HEADER > len(data):
            return len(data) + 1
        is_last, is_run, size = header & 1, header >> 1 & 3 == RUN, header >> 3
        at += BLOCK_HEADER + (1 if is_run else size)
    return at + (CHECKSUM if data[4] & HAS_CHECKSUM else 0)


def unpack_frame(data: bytes | memoryview, size: int) -> memoryview:
    """Unpack a single frame that holds so many bytes, straight into an array.

    Large arrays are made of large pages of memory, of which the system has to prepare few.

    Raises:
        zstandard.ZstdError: it is damaged, cut off or of another size, or something follows.
    """
    # A stream would stop at the end of a frame, and does not miss a checksum that is not there.
    if frame_end(data) != len(data):
        raise zstandard.ZstdError("the frame does not end where the data does")
    memory = np.empty(size, np.uint8)
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    # One byte more drives the stream past its checksum, and finds what is too much.
    if reader.readinto(memory) != size or reader.read(1):
        raise zstandard.ZstdError("the frame does not hold as much as it says")
    return memory.data.toreadonly()
