"""FlatBuffers written front to back; long vectors of tables come from `block_tables`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Final, TypeAlias

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import MAX_BODY, Body
from frazil.model.strings import U8

IDENTIFIER: Final = b"Ichk"


class Link:
    """Marks a field that is an offset to something written later."""


LINK: Final = Link()
Field: TypeAlias = bytes | Link | None
"""What a table holds in one slot: inline bytes, an offset, or nothing."""


class Writer:
    """A FlatBuffer under construction; what a table points to comes after it."""

    def __init__(self) -> None:
        self.data = bytearray(4) + IDENTIFIER

    def table(self, fields: Sequence[Field]) -> tuple[int, dict[int, int]]:
        """Write a table; return its position, and the places of its links by slot.

        Inline bytes are written without alignment of their own: they must be bytes or ids.
        """
        vtable, places = _form(tuple(map(_width, fields)))
        at = self._begin()
        self.data += vtable
        table = self._begin()
        links = {slot: table + place for slot, place in places}
        self.data += struct.pack("<i", table - at) + bytes(4 * len(links))
        self.data += b"".join([value for value in fields if isinstance(value, bytes)])
        return table, links

    def root(self, fields: Sequence[Field]) -> dict[int, int]:
        """Write the root table; return the places of its links by slot."""
        at, links = self.table(fields)
        struct.pack_into("<I", self.data, 0, at)
        return links

    def blob(self, link: int, data: bytes, *, count: int | None = None, end: bytes = b"") -> None:
        """Write a vector of bytes or small structs (or a string, with NUL for `end`)."""
        self.point(link)
        self.data += struct.pack("<I", len(data) if count is None else count) + data + end

    def text(self, link: int, text: str) -> None:
        """Write a string."""
        self.blob(link, text.encode(), end=b"\0")

    def tables(self, link: int, rows: Sequence[Sequence[Field]]) -> list[dict[int, int]]:
        """Write a vector of tables; return the places of the links of each."""
        vector = self.point(link)
        self.data += struct.pack("<I", len(rows)) + bytes(4 * len(rows))
        found = []
        for number, fields in enumerate(rows, 1):
            at, links = self.table(fields)
            struct.pack_into("<I", self.data, vector + 4 * number, at - (vector + 4 * number))
            found.append(links)
        return found

    def point(self, link: int) -> int:
        """Let a link point to what is written next; return its position."""
        at = self._begin()
        struct.pack_into("<I", self.data, link, at - link)
        return at

    def finish(self, parts: Sequence[tuple[int, Sequence[U8]]]) -> list[Body]:
        """Add vectors of tables, each behind its link, and return the pieces of the whole.

        Raises:
            FormatError: it is larger than a FlatBuffer may be.
        """
        self._begin(8)
        at = len(self.data)
        for link, part in parts:
            struct.pack_into("<I", self.data, link, at - link)
            at += sum(map(len, part))
            check_size(at)
        return [bytes(self.data), *(piece.data for _, part in parts for piece in part)]

    def _begin(self, align: int = 4) -> int:
        size = len(self.data)
        gap = -size % align
        if gap:
            self.data += bytes(gap)
        return size + gap


def _width(field: Field) -> int:
    """Bytes of a field, 0 when it is absent and -1 when it is a link."""
    if isinstance(field, bytes):
        return len(field)
    return 0 if field is None else -1


@cache
def _form(widths: tuple[int, ...]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The vtable of such fields, and slot and place of the links, which come first."""
    slots, size = [0] * len(widths), 4
    links = [slot for slot, width in enumerate(widths) if width < 0]
    for slot in links:
        slots[slot] = size
        size += 4
    for slot, width in enumerate(widths):
        if width > 0:
            slots[slot] = size
            size += width
    return vtable_of(slots, size), tuple((slot, slots[slot]) for slot in links)


def vtable_of(slots: Sequence[int], size: int) -> bytes:
    """The vtable of a table of `size` bytes with its fields at these places, 0 for none."""
    used = max((i + 1 for i, at in enumerate(slots) if at), default=0)
    return struct.pack(f"<{2 + used}H", 4 + 2 * used, size, *slots[:used])


def check_size(size: int) -> None:
    """Refuse what is larger than readers accept."""
    if size > MAX_BODY:
        raise FormatError(
            "more references than one file can hold; split the manifests of this array into "
            "smaller ones",
            kind=ErrorKind.SERIALIZATION,
            size=size,
        )
