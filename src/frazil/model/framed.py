"""Byte strings that stay in the file they came from.

A cell of an arena is framed: a four-byte length before it, possibly a NUL after it, and zeros
up to a multiple of four. Neighbours can therefore be copied into a new file in one piece, which
is what makes a rewrite of a long history cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

I64: TypeAlias = npt.NDArray[np.int64]

TEXT_END = 1
"""A text ends in a NUL; other bytes end in nothing."""
BLOB_END = 0
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Rows as the last file held them, in bytes that refer only to each other.

    They go into the next file as they are, so that adding a row costs little more than a copy.
    """

    data: bytes
    places: I64
    """of each row in `data`, -1 for those that are not there"""
    full: int
    """bytes of `data` when all rows were last written"""

    @property
    def missing(self) -> npt.NDArray[np.intp]:
        """The rows that are not there."""
        return np.flatnonzero(self.places < 0)

    def with_row(self, place: int) -> Written:
        """The same with a row more, which is not there."""
        return replace(self, places=with_row(self.places, place, NOWHERE))


def with_row(rows: npt.NDArray[Any], place: int, row: object) -> npt.NDArray[Any]:
    """A column with one more row at a place; records are joined slowly by numpy itself."""
    made = np.empty(len(rows) + 1, rows.dtype)
    made[:place], made[place], made[place + 1 :] = rows[:place], row, rows[place:]
    return made


def frame(cell: bytes, end: int) -> bytes:
    """Put a cell into its frame."""
    size = len(cell) + end
    return len(cell).to_bytes(4, "little") + cell + bytes(end + -size % 4)


def append_frames(arena: bytes, cells: Iterable[tuple[bytes, int]]) -> tuple[bytes, list[int]]:
    """Add cells, each with its kind of end, to an arena; tell where each one begins."""
    pieces = [arena, bytes(-len(arena) % 4)]
    size = len(arena) + len(pieces[1])
    starts = []
    for cell, end in cells:
        framed = frame(cell, end)
        pieces.append(framed)
        starts.append(size + 4)
        size += len(framed)
    return b"".join(pieces), starts


def copy_frames(arena: bytes, starts: I64, sizes: I64, end: int) -> tuple[bytes, I64]:
    """Copy frames one after the other; tell where in the copy each frame begins."""
    if not len(starts):
        return b"", np.zeros(0, np.int64)
    spans = (sizes + (4 + end + 3)) & ~3
    first = starts - 4
    last = first + spans
    if int(last.max()) > len(arena):
        arena += bytes(4)  # the padding of a frame at the very end may be missing
    breaks = np.flatnonzero(first[1:] != last[:-1])
    heads = [int(first[0]), *first[breaks + 1].tolist()]
    tails = [*last[breaks].tolist(), int(last[-1])]
    copy = b"".join([arena[a:b] for a, b in zip(heads, tails, strict=True)])
    return copy, np.cumsum(spans) - spans
