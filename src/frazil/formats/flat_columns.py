"""One field of many FlatBuffers tables at once, as numpy columns.

The tables may have any vtables. Every position is checked against the file before it is read,
and a file that points to the same bytes from many places is refused once the sum would exceed
what a writer could have meant.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from frazil.formats.flat import SHARED, Buffer, Table

I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
U8: TypeAlias = npt.NDArray[np.uint8]
Raw: TypeAlias = npt.NDArray[np.bytes_]

SMALLEST_TABLE: Final = 8
"""Bytes of a table without fields: its place in a vector, and the way to its vtable."""
FEW: Final = 8
T = TypeVar("T", np.int64, np.uint64)


class Spans(NamedTuple):
    """A vector field of each table: first item and number of items; `starts` is 0 if absent."""

    starts: I64
    counts: I64

    def slices(self, data: bytes) -> list[bytes]:
        """The bytes of each vector of bytes."""
        pairs = zip(self.starts.tolist(), (self.starts + self.counts).tolist(), strict=True)
        return [data[a:b] for a, b in pairs]


def spread(spans: Spans, width: int) -> I64:
    """Positions of all items of all vectors, one after the other."""
    before = np.cumsum(spans.counts) - spans.counts
    total = int(spans.counts.sum())
    first = np.repeat(spans.starts - width * before, spans.counts)
    return first + width * np.arange(total, dtype=np.int64)


def numbers_at(buffer: Buffer, at: I64, form: str) -> npt.NDArray[np.int64]:
    """Read a number of up to four bytes at each position."""
    return _gather(buffer, at, form).astype(np.int64)


def _gather(buffer: Buffer, at: I64, form: str) -> npt.NDArray[np.generic]:
    dtype = np.dtype(form)
    if not len(at):
        return np.zeros(0, dtype)
    room = buffer.size - dtype.itemsize + 1
    # Seen as unsigned, a negative position is a very large one.
    if int(at.view(np.uint64).max()) >= room:
        raise buffer.fail("offset outside the file")
    # A view with a stride of one byte reads at any position, aligned or not.
    view = np.ndarray((room,), dtype, buffer=buffer.data, strides=(1,))
    return view[at]


class TableColumns:
    """Tables at given positions; slot numbers are those of the schema."""

    __slots__ = ("_kinds", "_layouts", "buffer", "positions")

    def __init__(self, buffer: Buffer, positions: I64) -> None:
        self.buffer = buffer
        self.positions = positions
        vtables, self._kinds = _distinct(positions - numbers_at(buffer, positions, "<i4"))
        self._layouts = [buffer.vtable(at) for at in vtables]
        largest = max([layout[0] for layout in self._layouts], default=0)
        if len(positions) and int(positions.max()) + largest > buffer.size:
            self._check_sizes()

    def _check_sizes(self) -> None:
        """Look closer when a table near the end of the file might not fit into it."""
        sizes = np.array([layout[0] for layout in self._layouts])
        if int((self.positions + sizes[self._kinds]).max()) > self.buffer.size:
            raise self.buffer.fail("table outside the file")

    def __len__(self) -> int:
        return len(self.positions)

    def first_byte(self) -> int:
        """The lowest position of a table or of its vtable; there must be a table."""
        vtables = self.positions - numbers_at(self.buffer, self.positions, "<i4")
        return int(min(self.positions.min(), vtables.min()))

    def places(self, slot: int, name: str | None = None) -> I64:
        """Positions of a field, 0 where it is absent; `name` makes it required."""
        offsets = [layout[slot + 1] if slot + 1 < len(layout) else 0 for layout in self._layouts]
        if all(offsets):
            if len(offsets) == 1:
                return self.positions + offsets[0]
            return self.positions + np.array(offsets, np.int64)[self._kinds]
        if name is not None:
            raise self.buffer.fail(f"missing required field {name}")
        each = np.array(offsets, np.int64)[self._kinds]
        return np.where(each == 0, 0, self.positions + each)

    def numbers(self, slot: int, form: str, default: int = 0) -> I64:
        """A scalar field of up to four bytes."""
        return self._read(self.places(slot), form, np.int64, default)

    def longs(self, slot: int) -> U64:
        """A u64 field."""
        return self._read(self.places(slot), "<u8", np.uint64)

    def _read(self, at: I64, form: str, wide: type[T], default: int = 0) -> npt.NDArray[T]:
        if at.all():
            return _gather(self.buffer, at, form).astype(wide)
        here = at != 0
        values = np.full(len(at), default, wide)
        values[here] = _gather(self.buffer, at[here], form)
        return values

    def ids(self, slot: int, width: int, name: str) -> Raw:
        """An id field that must be there, as fixed-width bytes."""
        return _gather(self.buffer, self.places(slot, name), f"S{width}").astype(f"S{width}")

    def targets(self, slot: int, name: str | None = None) -> I64:
        """Where an offset field points to, 0 where it is absent."""
        at = self.places(slot, name)
        return at + self._read(at, "<u4", np.int64)

    def vectors(self, slot: int, width: int, name: str | None = None) -> Spans:
        """A vector field, checked to lie in the file."""
        at = self.targets(slot, name)
        counts = self._read(at, "<u4", np.int64)
        starts = at + 4 * (at != 0)
        if len(at) and int((starts + counts * width).max()) > self.buffer.size:
            raise self.buffer.fail("vector outside the file")
        # Writers share a vector at most where it is empty, or small beside what refers to it.
        if int(counts.sum()) * width > self.buffer.size + SHARED:
            raise self.buffer.fail("the same bytes are used too often")
        return Spans(starts, counts)

    def texts(self, slot: int, name: str | None = None) -> Spans:
        """A string field, checked to end in a NUL."""
        spans = self.vectors(slot, 1, name)
        ends = (spans.starts + spans.counts)[spans.starts != 0]
        if numbers_at(self.buffer, ends, "u1").any():
            raise self.buffer.fail("text without an end")
        return spans

    def children(self, slot: int, name: str | None = None) -> tuple[TableColumns, I64]:
        """A field that is a vector of tables: all those tables, and how many each one has."""
        spans = self.vectors(slot, 4, name)
        at = spread(spans, 4)
        return TableColumns(self.buffer, at + numbers_at(self.buffer, at, "<u4")), spans.counts


def _distinct(values: I64) -> tuple[list[int], npt.NDArray[np.intp]]:
    """The different values, and for each value which of those it is.

    Files have one vtable for each combination of fields, so sorting is rarely worth it.
    """
    kinds = np.zeros(len(values), np.intp)
    found: list[int] = []
    rest = values
    while len(rest) and len(found) < FEW:
        kinds[values == rest[0]] = len(found)
        found.append(int(rest[0]))
        rest = rest[rest != rest[0]]
    if not len(rest):
        return found, kinds
    many, kinds = np.unique(values, return_inverse=True)
    return many.tolist(), kinds


def table_columns(
    root: Table, slot: int, name: str, *, smallest: int = SMALLEST_TABLE
) -> TableColumns:
    """All tables of a vector field of one table; each takes `smallest` bytes at least.

    Raises:
        FormatError: there are more than the file can hold.
    """
    start, count = root.required_vector(slot, 4, name)
    if count * smallest > root.buffer.size:
        raise root.buffer.fail(f"more {name} than the file can hold")
    at = start + 4 * np.arange(count, dtype=np.int64)
    return TableColumns(root.buffer, at + numbers_at(root.buffer, at, "<u4"))
