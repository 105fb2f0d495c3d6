"""Vectors of FlatBuffers tables read as numpy columns.

Tables of one vector are grouped by the content of their vtables, because all tables of a group
have each field at the same place. Every position is checked against the file before it is read,
and no read copies more than the file could honestly hold, so that damaged or hostile bytes end
in a `FormatError` in bounded time and memory. Nothing is assumed about alignment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.formats.flat import U16, Buffer
from frazil.model.chunks import ABSENT
from frazil.model.strings import I32, I64, U8, Strings, by_length, gather_runs, opaque_items

U32: TypeAlias = npt.NDArray[np.uint32]

MAX_LAYOUTS: Final = 4096
"""Different vtables in one vector; a writer needs one for each combination of fields."""
WHOLE_RECORD: Final = 128
"""Fields of a table up to this size are fetched by one gather, of larger ones one by one."""
SMALLEST_TABLE: Final = 16
"""Bytes of a table with coordinates: 4 each for its place in the vector, its vtable, the place
of the coordinates, and their number."""
SAMPLE: Final = 4096
"""Texts looked at to tell whether a pool has many repetitions."""


def file_bytes(buffer: Buffer) -> U8:
    """The file as an array."""
    return np.frombuffer(buffer.data, np.uint8)


@dataclass(frozen=True, slots=True)
class Run:
    """Byte runs found in a file: where each begins and how long it is."""

    starts: I64
    lengths: I64


class Group:
    """Tables of a vector that share one layout; `rows` are their places in the vector."""

    __slots__ = ("_buffer", "_bytes", "_record", "_slots", "_width", "positions", "rows")

    def __init__(
        self,
        buffer: Buffer,
        positions: I64,
        slots: tuple[int, ...],
        *,
        widths: Sequence[int],
        rows: npt.NDArray[np.intp] | slice,
    ) -> None:
        self.positions = positions
        self.rows = rows
        self._buffer = buffer
        self._bytes = file_bytes(buffer)
        self._slots = slots
        self._width = 0
        self._record: npt.NDArray[np.void] | None = None
        reach = max((at + w for at, w in zip(slots, widths, strict=False) if at), default=4)
        if int(positions.max()) + reach > buffer.size:
            raise buffer.fail("table outside the file")
        if reach <= WHOLE_RECORD and len(positions) * reach <= 2 * buffer.size:
            self._width = reach
            self._record = opaque_items(self._bytes, reach)[positions]

    def has(self, slot: int) -> bool:
        """Whether the tables have this field."""
        return slot < len(self._slots) and self._slots[slot] != 0

    def values(self, slot: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An inline field of all tables; the caller knows that they have it."""
        form = np.dtype(dtype)
        at = self._slots[slot]
        if self._record is not None:
            return np.ndarray(
                self._record.shape, form, buffer=self._record, offset=at, strides=(self._width,)
            )
        return _gather(self._buffer, self._bytes, self.positions + at, form)

    def targets(self, slot: int) -> I64:
        """Where an offset field points to, checked to leave room for a length."""
        targets: I64 = self.positions + self._slots[slot] + self.values(slot, "<u4")
        if int(targets.max()) + 4 > self._buffer.size:
            raise self._buffer.fail("offset outside the file")
        return targets

    def coordinates(self, slot: int, ndim: int) -> U32:
        """A field that is a vector of `ndim` u32; shape (n, ndim).

        Raises:
            FormatError: a table lacks the field or has another number of items.
        """
        if not self.has(slot):
            raise self._buffer.fail("missing required field index")
        starts = self.targets(slot)
        n = len(starts)
        if n * ndim * 4 > self._buffer.size:
            raise self._buffer.fail("more coordinates than the file can hold")
        items = _gather(self._buffer, self._bytes, starts, np.dtype(f"V{4 + 4 * ndim}"))
        numbers = items.view("<u4").reshape(n, 1 + ndim)
        if (numbers[:, 0] != ndim).any():
            raise self._buffer.fail("chunk coordinates of different rank")
        return np.ascontiguousarray(numbers[:, 1:])


def groups(buffer: Buffer, start: int, count: int, widths: Sequence[int]) -> Iterator[Group]:
    """The tables of a vector, by layout; `widths` tells the bytes of each field of interest.

    `start` and `count` come from `Table.vector`, so the vector itself lies in the file.
    """
    if not count:
        return
    if count * SMALLEST_TABLE > buffer.size:
        raise buffer.fail("more tables than the file can hold")
    data = file_bytes(buffer)
    offsets = np.frombuffer(buffer.data, "<u4", count, start)
    positions: I64 = np.arange(start, start + 4 * count, 4, dtype=np.int64) + offsets
    vtables: I64 = positions - _gather(buffer, data, positions, np.dtype("<i4"))
    if int(vtables.min()) < 0 or int(vtables.max()) + 4 > buffer.size:
        raise buffer.fail("vtable outside the file")
    layouts, number = _layouts(buffer, vtables, len(widths))
    if len(layouts) == 1:
        yield Group(buffer, positions, layouts[0], widths=widths, rows=slice(None))
        return
    order = np.argsort(number, kind="stable")
    edges = np.flatnonzero(np.diff(number[order])) + 1
    for rows in np.split(order, edges):
        layout = layouts[int(number[rows[0]])]
        yield Group(buffer, positions[rows], layout, widths=widths, rows=rows)


def _layouts(
    buffer: Buffer, vtables: I64, slots: int
) -> tuple[list[tuple[int, ...]], npt.NDArray[np.uint16]]:
    """The different layouts, and the number of the layout of each table."""
    heads = np.concatenate([[0], np.flatnonzero(vtables[1:] != vtables[:-1]) + 1])
    known: dict[int, int] = {}
    layouts: dict[tuple[int, ...], int] = {}
    for at in vtables[heads].tolist():
        if at in known:
            continue
        size = buffer.read(U16, at)
        if size < 4 or size % 2:
            raise buffer.fail("impossible vtable")
        count = min((size - 4) // 2, slots)
        layout = struct.unpack(f"<{count}H", buffer.slice(at + 4, 2 * count))
        known[at] = layouts.setdefault(layout, len(layouts))
        if len(layouts) > MAX_LAYOUTS:
            raise buffer.fail("too many table layouts")
    of_heads = np.fromiter(map(known.__getitem__, vtables[heads].tolist()), np.uint16, len(heads))
    return list(layouts), np.repeat(of_heads, np.diff(np.append(heads, len(vtables))))


def _gather(buffer: Buffer, data: U8, positions: I64, form: np.dtype[Any]) -> npt.NDArray[Any]:
    """Read one item at each position."""
    width = form.itemsize
    if int(positions.min()) < 0 or int(positions.max()) + width > buffer.size:
        raise buffer.fail("offset outside the file")
    return opaque_items(data, width)[positions].view(form)


def runs(buffer: Buffer, positions: I64) -> Run:
    """The byte vectors or strings at these positions, checked to lie in the file.

    Raises:
        FormatError: one reaches outside, or together they are longer than the file, which
            vectors at distinct positions cannot honestly be.
    """
    if not len(positions):
        return Run(np.zeros(0, np.int64), np.zeros(0, np.int64))
    data = file_bytes(buffer)
    lengths = _gather(buffer, data, positions, np.dtype("<u4")).astype(np.int64)
    starts = positions + 4
    if int((starts + lengths).max()) > buffer.size:
        raise buffer.fail("bytes outside the file")
    if int(lengths.sum()) > buffer.size:
        raise buffer.fail("overlapping bytes")
    return Run(starts, lengths)


def pool(buffer: Buffer, positions: I64) -> tuple[I32, bytes, I64]:
    """Pool byte vectors, equal ones once; position 0 stands for none.

    Returns the number of each row in the pool (-1 for none), the bytes, and the end of each.
    """
    numbers = np.full(len(positions), ABSENT, np.int32)
    present = np.flatnonzero(positions)
    if not len(present):
        return numbers, b"", np.zeros(0, np.int64)
    some = positions if len(present) == len(positions) else positions[present]
    distinct, number = _distinct_positions(some)
    found = runs(buffer, distinct)
    data, ends = gather_runs(buffer.data, found.starts, found.lengths)
    heads = _first_of_equals(np.frombuffer(data, np.uint8), ends, found.lengths)
    if len(heads) < len(ends):
        member = np.zeros(len(ends), np.int32)
        member[heads] = 1
        number = (np.cumsum(member, dtype=np.int32) - 1)[number]
        data, ends = gather_runs(data, (ends - found.lengths)[heads], found.lengths[heads])
    again, data, ends = _without_repeats(data, ends)
    numbers[present] = number if again is None else again[number]
    return numbers, data, ends


def _without_repeats(data: bytes, ends: I64) -> tuple[I32 | None, bytes, I64]:
    """Drop repetitions anywhere in a pool, if a sample shows that there are many.

    Returns the new number of each item, or None when nothing changed.
    """
    if len(ends) > SAMPLE:
        picked = np.linspace(0, len(ends) - 1, SAMPLE).astype(np.int64)
        sample = [data[ends[i - 1] if i else 0 : ends[i]] for i in picked.tolist()]
        if 2 * len(set(sample)) > SAMPLE:
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
    if len(candidates) > SAMPLE and not _any_equal(data, starts, lengths, candidates):
        return np.arange(len(ends))
    for length, chosen in by_length(lengths[candidates]):
        rows, items = candidates[chosen], opaque_items(data, length)
        differs[rows] = items[starts[rows]] != items[starts[rows - 1]]
    return np.flatnonzero(differs)


def _any_equal(data: U8, starts: I64, lengths: I64, candidates: npt.NDArray[np.intp]) -> bool:
    """Whether any of a sample of runs is equal to the run before it."""
    picked = candidates[np.linspace(0, len(candidates) - 1, SAMPLE).astype(np.intp)]
    pairs = zip(starts[picked - 1].tolist(), starts[picked].tolist(), strict=True)
    return any(
        data[before : before + size].tobytes() == data[at : at + size].tobytes()
        for (before, at), size in zip(pairs, lengths[picked].tolist(), strict=True)
    )


def texts(buffer: Buffer, positions: I64) -> tuple[I32, Strings]:
    """Pool strings as `pool` does, checked to be UTF-8."""
    numbers, data, ends = pool(buffer, positions)
    found = Strings(data, ends)
    if not found.is_utf8():
        raise buffer.fail("text is not UTF-8")
    return numbers, found
