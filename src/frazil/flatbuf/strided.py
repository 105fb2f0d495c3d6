"""Vectors of many FlatBuffers tables, written as blocks of columns.

A vector of tables is laid out in blocks of about a thousand rows. Each block has its own copy of
the vtables, then tables of one fixed size, then the texts of these rows. So all relative offsets
repeat from block to block, and zstd finds blocks nearly alike: a million references take half
the space and a quarter of the time of shared vtables and texts.

Nothing in a block depends on where it will be; only the vector before them does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from frazil.arrays import I32, I64, U8, U32
from frazil.flatbuf.tuning import BLOCK_ROWS, SEGMENT_ROWS
from frazil.flatbuf.writer import TableBlocks, check_size, room_before, vtable_of
from frazil.model.strings import StringPool, copy_runs, opaque_items


def _padded(vtables: bytes) -> U8:
    return np.frombuffer(vtables + bytes(-len(vtables) % 8), np.uint8)


@lru_cache(maxsize=64)
def _only_vtable(places: tuple[tuple[int, int], ...], size: int) -> U8:
    return _padded(vtable_of(dict(places), size))


@dataclass(frozen=True, slots=True)
class Scalars:
    """An inline field: a number or an id for each row; `present` is None for all rows."""

    slot: int
    values: npt.NDArray[Any]
    present: npt.NDArray[np.bool_] | None = None

    def part(self, rows: slice) -> Scalars:
        """The same field of some rows."""
        present = None if self.present is None else self.present[rows]
        if present is not None and present.all():
            present = None
        return Scalars(self.slot, self.values[rows], present)


class ByteRuns(NamedTuple):
    """Byte strings anywhere in some data, each for one row only."""

    data: bytes
    starts: I64
    lengths: I64

    def bounds(self, numbers: npt.NDArray[np.integer] | range) -> tuple[I64, I64]:
        """Start and length of those with these numbers."""
        chosen = slice(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
        return self.starts[chosen], self.lengths[chosen]


@dataclass(frozen=True, slots=True)
class Texts:
    """A string or byte vector field: numbers of texts in a pool, -1 where it is absent."""

    slot: int
    numbers: I32
    pool: StringPool | ByteRuns
    is_text: bool = True

    def part(self, rows: slice) -> Texts:
        """The same field of some rows."""
        return Texts(self.slot, self.numbers[rows], self.pool, self.is_text)


def block_rows(coords: U32) -> int:
    """Rows of a block: about a thousand, in step with the last axis, so that blocks are alike."""
    n, ndim = coords.shape
    if not ndim or n <= BLOCK_ROWS // 2:
        return max(1, int(n))
    last = int(coords[:, -1].max()) - int(coords[:, -1].min()) + 1
    rows: int = BLOCK_ROWS
    if last <= 2 * BLOCK_ROWS:
        rows = last * max(1, round(BLOCK_ROWS / last))
    elif last <= n:
        parts = range(last // (2 * BLOCK_ROWS) + 1, last // (BLOCK_ROWS // 2) + 1)
        rows = next((last // k for k in parts if last % k == 0), BLOCK_ROWS)
    return min(int(n), rows)


def encode_tables(
    coords: U32, scalars: Sequence[Scalars] = (), texts: Sequence[Texts] = ()
) -> TableBlocks:
    """Write tables, one for each row; slot 0 is the vector of coordinates.

    Raises:
        FormatError: they, or they with each text counted for each row, are larger than readers
            accept.
    """
    n = len(coords)
    rows = block_rows(coords)
    step = rows * max(1, SEGMENT_ROWS // rows)
    places, size, counted = np.zeros(n, np.uint32), 0, 0
    memory, room = np.zeros(0, np.uint8), room_before(n)
    for first in range(0, n, step):
        part = slice(first, first + step)
        plan = _Plan(
            coords[part], rows, [each.part(part) for each in scalars], [t.part(part) for t in texts]
        )
        counted += plan.counted
        # Readers count a text each time it is met.
        check_size(4 * n + size + plan.size_bytes + counted)
        at = room + size
        size += plan.size_bytes
        if room + size > len(memory):
            parts_left = -(-(n - first) // step)
            needed = room + size + (parts_left - 1) * plan.size_bytes
            memory = _larger(memory, slice(room, at), needed)
        places[part] = plan.write(memory[at : room + size]) + (at - room)
    return TableBlocks(places, memory[: room + size], room)


def _larger(memory: U8, used: slice, size: int) -> U8:
    """The same bytes in larger memory, with some to spare: what is not used of it costs nothing."""
    larger = np.zeros(size + size // 16, np.uint8)
    larger[used] = memory[used]
    return larger


@dataclass(frozen=True, slots=True)
class _Tail:
    """The texts of one field: those of a block lie together behind its tables."""

    field: Texts
    item_of_row: I32 | slice
    """-1 where a row has none; a slice says that row and item are the same"""
    block: I64
    starts: I64
    lengths: I64
    before: I64
    """bytes of this field's texts before each item in its block"""
    per_block: I64

    def counted(self) -> int:
        """Bytes of texts, each as often as a row leads to it."""
        item = self.item_of_row
        if not isinstance(item, slice):
            item = item[item >= 0]
        return int(self.lengths[item].sum())


class _Plan:
    """Where everything goes, and the array it is written into."""

    def __init__(
        self, coords: U32, rows: int, scalars: Sequence[Scalars], texts: Sequence[Texts]
    ) -> None:
        self.coords = coords
        self.scalars = sorted(scalars, key=lambda s: -s.values.dtype.alignment)
        self.n, self.ndim = coords.shape
        self.rows = min(rows, self.n)
        self.blocks = -(-self.n // self.rows)
        self._place_fields(texts)
        self._make_vtables(texts)
        self.tails = [self._tail(field) for field in texts]
        self._place_blocks()

    def _place_fields(self, texts: Sequence[Texts]) -> None:
        at, self.slots = 8, {0: 4}
        for scalar in self.scalars:
            self.slots[scalar.slot] = at
            at += scalar.values.dtype.itemsize
        for field in texts:
            self.slots[field.slot] = at
            at += 4
        self.size = at
        align = max([4, *(s.values.dtype.alignment for s in self.scalars)])
        self.stride = -(-(at + 4 + 4 * self.ndim) // align) * align

    def _make_vtables(self, texts: Sequence[Texts]) -> None:
        """One vtable for each combination of present fields, and which one a row has."""
        optional: list[tuple[int, npt.NDArray[np.bool_]]] = [
            (s.slot, s.present) for s in self.scalars if s.present is not None
        ]
        optional += [
            (field.slot, field.numbers >= 0) for field in texts if int(field.numbers.min()) < 0
        ]
        self.optional = {slot for slot, _ in optional}
        self.vtable_of_row: I64 | int = 0
        if not optional:
            self.vtables = _only_vtable(tuple(self.slots.items()), self.size)
            return
        code = np.zeros(self.n, np.uint16)
        for bit, (_, present) in enumerate(optional):
            code |= present.astype(np.uint16) << np.uint16(bit)
        codes = np.flatnonzero(np.bincount(code)).tolist()
        data, places = b"", np.zeros(max(codes) + 1, np.int64)
        for value in codes:
            absent = {slot for bit, (slot, _) in enumerate(optional) if not value >> bit & 1}
            places[value] = len(data)
            here = {slot: at for slot, at in self.slots.items() if slot not in absent}
            vtable = vtable_of(here, self.size)
            data += vtable + bytes(-len(vtable) % 4)
        self.vtables = _padded(data)
        self.vtable_of_row = places[code]

    def _tail(self, field: Texts) -> _Tail:
        block, number, item_of_row = self._items(field)
        starts, lengths = field.pool.bounds(number)
        sizes = lengths + (8 if field.is_text else 7) & ~3
        ends = np.cumsum(sizes)
        before = ends - sizes
        if self.blocks == 1:
            per_block = ends[-1:] if len(ends) else np.zeros(1, np.int64)
        else:
            edges = np.searchsorted(block, np.arange(self.blocks + 1))
            edge_ends = np.append(0, ends)[edges]
            before -= edge_ends[block]
            per_block = np.diff(edge_ends)
        return _Tail(field, item_of_row, block, starts, lengths, before, per_block)

    def _items(self, field: Texts) -> tuple[I64, I64 | range, I32 | slice]:
        """Block and number of each text to write, and which of them each row leads to."""
        is_complete = field.slot not in self.optional
        present = np.arange(self.n) if is_complete else np.flatnonzero(field.numbers >= 0)
        block, number = present // self.rows, field.numbers[present]
        if is_complete and (np.diff(number) == 1).all():  # a text of its own for each row
            first = int(number[0])
            return block, range(first, first + self.n), slice(None)
        item_of_row = np.full(self.n, -1, np.int32)
        if isinstance(field.pool, ByteRuns):
            item_of_row[present] = np.arange(len(present))
            return block, number.astype(np.int64), item_of_row
        is_head = np.ones(len(present), bool)
        is_head[1:] = (number[1:] != number[:-1]) | (block[1:] != block[:-1])
        block, number = block[is_head], number[is_head]
        item = np.cumsum(is_head) - 1
        if _come_and_go(number[: np.searchsorted(block, 1)]):
            keys, inverse = np.unique(block * len(field.pool) + number, return_inverse=True)
            block, number = keys // len(field.pool), keys % len(field.pool)
            item = inverse[item]
        item_of_row[present] = item
        return block, number.astype(np.int64, copy=False), item_of_row

    def _place_blocks(self) -> None:
        first = len(self.vtables)
        tables = np.full(self.blocks, first + self.rows * self.stride, np.int64)
        tables[-1] -= (self.rows * self.blocks - self.n) * self.stride
        sizes = tables.copy()
        for tail in self.tails:
            sizes += tail.per_block
        sizes = sizes + 7 & ~7
        ends = np.cumsum(sizes)
        self.bases = bases = ends - sizes
        self.tail_bases = bases + tables
        self.size_bytes = int(ends[-1])
        self.counted = sum([tail.counted() for tail in self.tails])
        self.local: I64 = np.arange(first, first + self.rows * self.stride, self.stride)
        if self.blocks > 1:
            self.local = np.tile(self.local, self.blocks)[: self.n]
            bases = np.repeat(bases, self.rows)[: self.n]
        self.positions: I64 = bases + self.local
        self.links: dict[int, I64] = {}

    def write(self, out: U8) -> I64:
        """Write everything into `out`, which is all zeros, and tell where the tables are."""
        self.out = out
        for tail in self.tails:
            self._put_texts(tail)
        self._put_tables()
        return self.positions

    def _put_texts(self, tail: _Tail) -> None:
        """Write the texts of one field and remember where those of each row are."""
        if not len(tail.block):
            return
        places = self.tail_bases[tail.block] + tail.before
        self.tail_bases = self.tail_bases + tail.per_block
        self.out.view("<u4")[places >> 2] = tail.lengths
        data = np.frombuffer(tail.field.pool.data, np.uint8)
        copy_runs(data, tail.starts, tail.lengths, self.out, places + 4)
        slot = tail.field.slot
        found = places[tail.item_of_row] - (self.positions + self.slots[slot])
        if not isinstance(tail.item_of_row, slice):
            found *= tail.item_of_row >= 0
        self.links[slot] = found

    def _put_tables(self) -> None:
        """Write the vtables and the tables."""
        tables, size = self._tables().view(np.uint8), len(self.vtables)
        if self.blocks == 1:
            first = int(self.bases[0])
            self.out[first : first + size] = self.vtables
            self.out[first + size : first + size + len(tables)] = tables
            return
        opaque_items(self.out, size)[self.bases] = self.vtables.view(f"V{size}")[0]
        full, width = self.n // self.rows, self.rows * self.stride
        firsts = self.bases + size
        opaque_items(self.out, width)[firsts[:full]] = tables[: full * width].view(f"V{width}")
        rest = tables[full * width :]
        self.out[firsts[-1] : firsts[-1] + len(rest)] = rest

    def _tables(self) -> npt.NDArray[np.void]:
        """All tables with their coordinates, as records of one size."""
        values = tuple((s.slot, s.values.dtype, self.slots[s.slot]) for s in self.scalars)
        links = tuple((slot, self.slots[slot]) for slot in self.links)
        tables = np.zeros(self.n, _record(self.size, self.ndim, self.stride, values, links))
        tables["vtable"] = self.local - self.vtable_of_row
        tables["link 0"] = self.size - 4
        tables["ndim"] = self.ndim
        tables["coords"] = self.coords
        for scalar in self.scalars:
            tables[f"value {scalar.slot}"] = scalar.values
        for slot, link in self.links.items():
            tables[f"link {slot}"] = link
        return tables


def _come_and_go(number: npt.NDArray[np.integer]) -> bool:
    """Whether texts occur again within a block, so that each is better written once."""
    return 2 * len(np.unique(number)) < len(number)


@lru_cache(maxsize=64)
def _record(
    size: int,
    ndim: int,
    stride: int,
    values: tuple[tuple[int, np.dtype[Any], int], ...],
    links: tuple[tuple[int, int], ...],
) -> np.dtype[np.void]:
    """A table and its coordinates; values and links are given by slot and with their places."""
    form: dict[str, tuple[npt.DTypeLike, int]] = {
        "vtable": ("<i4", 0),
        "link 0": ("<u4", 4),
        "ndim": ("<u4", size),
        "coords": (("<u4", (ndim,)), size + 4),
    }
    form |= {f"value {slot}": (dtype, at) for slot, dtype, at in values}
    form |= {f"link {slot}": ("<u4", at) for slot, at in links}
    formats, offsets = zip(*form.values(), strict=True)
    return np.dtype(
        {"names": list(form), "formats": formats, "offsets": offsets, "itemsize": stride}
    )
