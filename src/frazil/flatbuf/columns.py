"""One field of many FlatBuffers tables at once, as numpy columns.

The tables may have any vtables, and nothing is assumed about alignment. Every position is checked
against the file before it is read. A file may point to the same bytes from many places. It is
refused once the sum is larger than any writer makes it, so that damaged or hostile bytes end in a
`FormatError` in bounded time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from frazil.arrays import I32, I64, U8, U32, U64, ByteStrings
from frazil.flatbuf.reader import LARGEST_VTABLE, SHARED, Buffer, Table
from frazil.flatbuf.tuning import VTABLES_AT_ONCE, WHOLE_TABLE
from frazil.model.lookup import ABSENT
from frazil.model.strings import StringPool, by_length, gather_runs, opaque_items
from frazil.model.tuning import SAMPLED_TEXTS

RowSelection: TypeAlias = npt.NDArray[np.intp] | slice

SMALLEST_TABLE: Final = 8
"""Bytes of a table without fields: its place in a vector, and the way to its vtable."""
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


def gather(buffer: Buffer, at: I64, form: npt.DTypeLike) -> npt.NDArray[Any]:
    """Read one item at each position."""
    dtype = np.dtype(form)
    if not len(at):
        return np.zeros(0, dtype)
    room = buffer.size - dtype.itemsize + 1
    # Seen as unsigned, a negative position is a very large one.
    if int(at.view(np.uint64).max()) >= room:
        raise buffer.fail("offset outside the file")
    # A view with a stride of one byte reads at any position, aligned or not.
    return np.ndarray((room,), dtype, buffer.data, 0, (1,))[at]


def numbers_at(buffer: Buffer, at: I64, form: str) -> I64:
    """Read a number of up to four bytes at each position."""
    return gather(buffer, at, form).astype(np.int64)


def vectors_at(buffer: Buffer, at: I64, width: int) -> Spans:
    """The vectors at these positions, checked to lie in the file; position 0 stands for none."""
    if at.all():
        counts, starts = numbers_at(buffer, at, "<u4"), at + 4
    else:
        here = at != 0
        counts, starts = np.zeros(len(at), np.int64), at + 4 * here
        counts[here] = numbers_at(buffer, at[here], "<u4")
    if len(at) and int((starts + counts * width).max()) > buffer.size:
        raise buffer.fail("vector outside the file")
    # Writers share a vector at most where it is empty, or small beside what refers to it.
    if int(counts.sum()) * width > buffer.size + SHARED:
        raise buffer.fail("overlapping vectors: the same bytes are used too often")
    return Spans(starts, counts)


class TableColumns:
    """Tables at given positions; slot numbers are those of the schema."""

    __slots__ = ("_kinds", "_layouts", "_whole", "buffer", "positions", "rows")

    def __init__(self, buffer: Buffer, positions: I64) -> None:
        self.buffer = buffer
        self.positions = positions
        self.rows: RowSelection = slice(None)
        """of a group: which of the tables it was made of these are"""
        self._whole: npt.NDArray[np.void] | None = None
        vtables: I64 = positions - gather(buffer, positions, "<i4")
        self._layouts, self._kinds = _layouts(buffer, vtables)
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

    def groups(self) -> Iterator[TableColumns]:
        """The tables by layout: those of a group have all the same fields, at the same places."""
        if len(self._layouts) == 1:
            yield self._group(slice(None), self._layouts[0])
            return
        order = np.argsort(self._kinds, kind="stable")
        edges = np.flatnonzero(np.diff(self._kinds[order])) + 1
        for rows in np.split(order, edges) if len(order) else ():
            yield self._group(rows, self._layouts[int(self._kinds[rows[0]])])

    def _group(self, rows: RowSelection, layout: tuple[int, ...]) -> TableColumns:
        group = object.__new__(TableColumns)
        group.buffer, group.positions, group.rows = self.buffer, self.positions[rows], rows
        group._layouts, group._kinds = [layout], np.zeros(1, np.uint16)
        size, group._whole = layout[0], None
        if 4 <= size <= WHOLE_TABLE and len(group) * size <= 2 * self.buffer.size:
            group._whole = gather(self.buffer, group.positions, f"V{size}")
        return group

    def has(self, slot: int) -> bool:
        """Whether the tables of a group have this field."""
        return slot + 1 < len(self._layouts[0]) and self._layouts[0][slot + 1] != 0

    def values(self, slot: int, form: npt.DTypeLike) -> npt.NDArray[Any]:
        """An inline field of a group that has it."""
        dtype, at = np.dtype(form), self._layouts[0][slot + 1]
        whole = self._whole
        if whole is not None and at + dtype.itemsize <= whole.itemsize:
            return np.ndarray(whole.shape, dtype, whole.data, at, (whole.itemsize,))
        return gather(self.buffer, self.positions + at, dtype)

    def pointers(self, slot: int) -> I64:
        """Where an offset field of a group that has it points to."""
        pointers: I64 = self.positions + self._layouts[0][slot + 1] + self.values(slot, "<u4")
        return pointers

    def equal_vectors(self, slot: int, count: int, name: str) -> U32:
        """A field of a group that is a vector of `count` u32 in each table; shape (n, count).

        Raises:
            FormatError: a table lacks the field or has another number of items.
        """
        if not self.has(slot):
            raise self.buffer.fail(f"missing required field {name}")
        if len(self) * count * 4 > self.buffer.size:
            raise self.buffer.fail(f"{name}: more numbers than the file can hold")
        items = gather(self.buffer, self.pointers(slot), f"V{4 + 4 * count}")
        numbers = items.view("<u4").reshape(len(self), 1 + count)
        if (numbers[:, 0] != count).any():
            raise self.buffer.fail(f"{name}: vectors of different rank")
        return np.ascontiguousarray(numbers[:, 1:])

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
            return gather(self.buffer, at, form).astype(wide)
        here = at != 0
        values = np.full(len(at), default, wide)
        values[here] = gather(self.buffer, at[here], form)
        return values

    def ids(self, slot: int, width: int, name: str) -> ByteStrings:
        """An id field that must be there, as fixed-width bytes."""
        return gather(self.buffer, self.places(slot, name), f"S{width}")

    def targets(self, slot: int, name: str | None = None) -> I64:
        """Where an offset field points to, 0 where it is absent."""
        at = self.places(slot, name)
        return at + self._read(at, "<u4", np.int64)

    def vectors(self, slot: int, width: int, name: str | None = None) -> Spans:
        """A vector field, checked to lie in the file."""
        return vectors_at(self.buffer, self.targets(slot, name), width)

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


def _layouts(buffer: Buffer, vtables: I64) -> tuple[list[tuple[int, ...]], npt.NDArray[np.uint16]]:
    """The different contents of vtables, and for each table which of those it has.

    Neighbours mostly share a vtable, so that only the first of each run is looked at.
    """
    heads = np.flatnonzero(vtables[1:] != vtables[:-1]) + 1
    if not len(heads):
        return [buffer.vtable(int(at)) for at in vtables[:1]], np.zeros(len(vtables), np.uint16)
    edges = np.concatenate([[0], heads, [len(vtables)]])
    places, which = np.unique(vtables[edges[:-1]], return_inverse=True)
    contents: dict[tuple[int, ...], int] = {}
    parts = [
        _layout_numbers(buffer, places[start : start + VTABLES_AT_ONCE], contents)
        for start in range(0, len(places), VTABLES_AT_ONCE)
    ]
    numbers = np.concatenate(parts)[which]
    return list(contents), np.repeat(numbers, edges[1:] - edges[:-1])


def _layout_numbers(
    buffer: Buffer, places: I64, contents: dict[tuple[int, ...], int]
) -> npt.NDArray[np.uint16]:
    """Number the contents of vtables; of equal ones only the first is decoded.

    Rows that were added one by one have a vtable each, and nearly all of those are equal.
    """
    numbers = np.zeros(len(places), np.uint16)
    sizes = np.clip(numbers_at(buffer, places, "<u2"), 2, LARGEST_VTABLE)
    for size in np.unique(sizes).tolist():
        here = np.flatnonzero(sizes == size)
        vtables = gather(buffer, places[here], f"V{size}")
        _, firsts, equals = np.unique(vtables, return_index=True, return_inverse=True)
        layouts = [buffer.vtable(at) for at in places[here[firsts]].tolist()]
        known = [contents.setdefault(layout, len(contents)) for layout in layouts]
        numbers[here] = np.array(known, np.uint16)[equals]
    return numbers


def tables_at(
    buffer: Buffer, start: int, count: int, name: str, *, smallest: int = SMALLEST_TABLE
) -> TableColumns:
    """All tables of a vector that `Table.vector` found; each takes `smallest` bytes at least.

    Raises:
        FormatError: there are more than the file can hold.
    """
    if count * smallest > buffer.size:
        raise buffer.fail(f"more {name} than the file can hold")
    offsets = np.frombuffer(buffer.data, "<u4", count, start)
    return TableColumns(buffer, np.arange(start, start + 4 * count, 4, dtype=np.int64) + offsets)


def table_columns(
    root: Table, slot: int, name: str, *, smallest: int = SMALLEST_TABLE
) -> TableColumns:
    """All tables of a vector field of one table, as `tables_at` gives them."""
    return tables_at(root.buffer, *root.required_vector(slot, 4, name), name, smallest=smallest)


def pool_bytes(buffer: Buffer, positions: I64) -> tuple[I32, bytes, I64]:
    """Pool byte vectors, equal ones once; position 0 stands for none.

    Returns the number of each row in the pool (-1 for none), the bytes, and the end of each.
    """
    numbers = np.full(len(positions), ABSENT, np.int32)
    present = np.flatnonzero(positions)
    if not len(present):
        return numbers, b"", np.zeros(0, np.int64)
    some = positions if len(present) == len(positions) else positions[present]
    distinct, number = _distinct_positions(some)
    starts, lengths = vectors_at(buffer, distinct, 1)
    data, ends = gather_runs(buffer.data, starts, lengths)
    heads = _first_of_equals(np.frombuffer(data, np.uint8), ends, lengths)
    if len(heads) < len(ends):
        member = np.zeros(len(ends), np.int32)
        member[heads] = 1
        number = (np.cumsum(member, dtype=np.int32) - 1)[number]
        data, ends = gather_runs(data, (ends - lengths)[heads], lengths[heads])
    again, data, ends = _without_repeats(data, ends)
    numbers[present] = number if again is None else again[number]
    return numbers, data, ends


def _without_repeats(data: bytes, ends: I64) -> tuple[I32 | None, bytes, I64]:
    """Drop repetitions anywhere in a pool, if a sample shows that there are many.

    Returns the new number of each item, or None when nothing changed.
    """
    if len(ends) > SAMPLED_TEXTS:
        picked = np.linspace(0, len(ends) - 1, SAMPLED_TEXTS).astype(np.int64)
        sample = [data[ends[i - 1] if i else 0 : ends[i]] for i in picked.tolist()]
        if 2 * len(set(sample)) > SAMPLED_TEXTS:
            return None, data, ends
    items = [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
    distinct = dict.fromkeys(items, 0)
    if len(distinct) == len(items):
        return None, data, ends
    for number, item in enumerate(distinct):
        distinct[item] = number
    numbers = np.fromiter(map(distinct.__getitem__, items), np.int32, len(items))
    lengths = np.fromiter(map(len, distinct), np.int64, len(distinct))
    return numbers, b"".join(distinct), np.cumsum(lengths, dtype=np.int64)


def _distinct_positions(positions: I64) -> tuple[I64, I32]:
    """Positions without repetitions, and the number of each in that list."""
    is_head = np.ones(len(positions), bool)
    np.not_equal(positions[1:], positions[:-1], out=is_head[1:])
    heads = positions[is_head]
    number = np.cumsum(is_head, dtype=np.int32) - np.int32(1)
    # Writers put texts in the order of the tables or, building from the end, in the reverse.
    if (heads[1:] > heads[:-1]).all() or (heads[1:] < heads[:-1]).all():
        return heads, number
    distinct, inverse = np.unique(heads, return_inverse=True)
    return distinct, inverse.astype(np.int32)[number]


def _first_of_equals(data: U8, ends: I64, lengths: I64) -> npt.NDArray[np.intp]:
    """Which runs differ from the run before them.

    Foreign writers store a text once for each reference; references to one object follow each
    other, so comparing neighbours finds nearly all repetitions at the cost of one pass.
    """
    starts = ends - lengths
    differs = np.ones(len(ends), bool)
    candidates = np.flatnonzero(lengths[1:] == lengths[:-1]) + 1
    if len(candidates) > SAMPLED_TEXTS and not _any_equal(data, starts, lengths, candidates):
        return np.arange(len(ends))
    for length, chosen in by_length(lengths[candidates]):
        rows, items = candidates[chosen], opaque_items(data, length)
        differs[rows] = items[starts[rows]] != items[starts[rows - 1]]
    return np.flatnonzero(differs)


def _any_equal(data: U8, starts: I64, lengths: I64, candidates: npt.NDArray[np.intp]) -> bool:
    """Whether any of a sample of runs is equal to the run before it."""
    picked = candidates[np.linspace(0, len(candidates) - 1, SAMPLED_TEXTS).astype(np.intp)]
    pairs = zip(starts[picked - 1].tolist(), starts[picked].tolist(), strict=True)
    return any(
        data[before : before + size].tobytes() == data[at : at + size].tobytes()
        for (before, at), size in zip(pairs, lengths[picked].tolist(), strict=True)
    )


def pool_strings(buffer: Buffer, positions: I64) -> tuple[I32, StringPool]:
    """Pool strings as `pool_bytes` does, checked to be UTF-8."""
    numbers, data, ends = pool_bytes(buffer, positions)
    found = StringPool(data, ends)
    if not found.is_utf8():
        raise buffer.fail("text is not UTF-8")
    return numbers, found
