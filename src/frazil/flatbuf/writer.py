"""FlatBuffers built from the end to the beginning.

References in a FlatBuffer point forward, so what is referred to is written first, nearer to the
end of the file. An object is named by its distance from the end; each object is one piece of
bytes, and the pieces are joined in reverse order once the root table is known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, U8
from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.columns import Spans, spread
from frazil.flatbuf.tuning import MANY_TABLES
from frazil.ids import utf8
from frazil.model.oplog import copy_frames

MAX_SIZE: Final = 2**31 - 1
"""Bytes of a FlatBuffer: offsets have 31 bits."""
OFFSET: Final = "offset"
BytesPart: TypeAlias = bytes | memoryview
TablePositions: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.uint32]
_FORMS: Final = {
    "u32": ("I", 4, 4),
    "i32!": ("4s", 4, 4),
    "u64": ("Q", 8, 8),
    "id12": ("12s", 12, 1),
    "id8": ("8s", 8, 1),
    OFFSET: ("I", 4, 4),
    "u16": ("H", 2, 2),
    "u8": ("B", 1, 1),
    "byte": ("1s", 1, 1),
}
"""struct code, size and alignment, in the order in which the fields of a table are stored; values
of those with an `s` are bytes, and never left out"""
_ORDER: Final = tuple(_FORMS)


def vtable_of(places: Mapping[int, int], size: int) -> bytes:
    """The vtable of a table of `size` bytes with fields at these places, by slot."""
    used = 1 + max(places, default=-1)
    slots = [places.get(slot, 0) for slot in range(used)]
    return struct.pack(f"<{2 + used}H", 4 + 2 * used, size, *slots)


def check_size(size: int) -> None:
    """Refuse what is larger than readers accept."""
    if size > MAX_SIZE:
        raise FormatError(
            "a manifest or transaction log would have more references than one file can hold; "
            "split the manifests of the array, or change fewer chunks in one commit",
            kind=ErrorKind.SERIALIZATION,
            size=size,
        )


class _Plan(NamedTuple):
    """How to write tables that have the same fields."""

    form: struct.Struct
    order: tuple[int, ...]
    """slots in the order they are stored"""
    offsets: tuple[tuple[int, int], ...]
    """for offset fields: place among the stored values, and in the table"""
    places: Mapping[int, int]
    """of all fields in the table, by slot"""
    vtable: bytes
    alignment: int


class TableLayout:
    """The fields of a table in slot order, such as `TableLayout("id12", "offset", "u64")`.

    Numbers that equal zero, the default of every field we write, are left out.
    """

    def __init__(self, *forms: str) -> None:
        self.forms = forms
        self._plans: dict[tuple[bool, ...], _Plan] = {}

    def plan(self, present: tuple[bool, ...]) -> _Plan:
        """The way to write a table in which only some fields are present."""
        found = self._plans.get(present)
        if found is None:
            found = self._plans[present] = self._make(present)
        return found

    def _make(self, present: tuple[bool, ...]) -> _Plan:
        slots = [slot for slot, here in enumerate(present) if here]
        forms = {slot: _FORMS[self.forms[slot]] for slot in slots}
        # Four bytes are taken by the way to the vtable. A number of four that follows them saves
        # a gap before those of eight. What is alike in all tables, the upper bytes of offsets and
        # the gap at the end, stands together, which zstd packs better by 3 %.
        order = sorted(slots, key=lambda slot: _ORDER.index(self.forms[slot]))
        code, at, places = "<i", 4, dict[int, int]()
        for slot in order:
            letter, size, alignment = forms[slot]
            gap = -at % alignment
            code += f"{gap}x{letter}" if gap else letter
            places[slot] = at + gap
            at += gap + size
        vtable = vtable_of(places, at)
        offsets = [(n, places[slot]) for n, slot in enumerate(order) if self.forms[slot] == OFFSET]
        widest = max([4, *(form[2] for form in forms.values())])
        return _Plan(struct.Struct(code), tuple(order), tuple(offsets), places, vtable, widest)


class TableBlocks(NamedTuple):
    """Tables that were written elsewhere, in memory that has room before them."""

    places: TablePositions
    """of the tables, from the beginning of their bytes"""
    memory: U8
    room: int
    """where their bytes begin, at a multiple of 8; those before it are free"""

    @property
    def data(self) -> memoryview:
        """The bytes of the tables."""
        return self.memory[self.room :].data


def room_before(count: int) -> int:
    """Bytes to leave before tables: for the vector that lists them, and 4 KiB for a small rest.

    None before few: they are quickly copied, and a file may have thousands of such lists.
    """
    return 8 * (count // 2 + 2) + 4096 if count >= MANY_TABLES else 0


class Body(NamedTuple):
    """A file that is not yet one piece of memory."""

    backwards: list[BytesPart]
    """from the end to the beginning"""
    size: int
    end: TableBlocks | None = None
    """the last piece, if there is room before it"""

    def joined(self) -> BytesPart:
        """The bytes of the file; where the end of it has room for the rest, it is not copied."""
        if self.end is None or self.size > len(self.end.memory):
            return b"".join(reversed(self.backwards))
        at = self.end.room
        for piece in self.backwards[1:]:
            at -= len(piece)
            self.end.memory[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        return self.end.memory[at:].data

    def consume(self, step: int) -> Iterator[BytesPart]:
        """The file from its beginning in parts that are given away.

        Pieces of less than `step` bytes are joined, others are not copied.
        """
        while self.backwards:
            part = [self.backwards.pop()]
            size = len(part[0])
            while self.backwards and size < step and len(self.backwards[-1]) < step:
                part.append(self.backwards.pop())
                size += len(part[-1])
            yield part[0] if len(part) == 1 else b"".join(part)


class FlatWriter:
    """Collects the objects of one file; every method returns distances from its end."""

    def __init__(self) -> None:
        self._pieces: list[BytesPart] = []
        self._size = 0
        self._vtables: dict[bytes, int] = {}
        self._nothing = 0
        self._end: TableBlocks | None = None

    def _add(self, piece: bytes, alignment: int) -> int:
        """Put a piece before all others so that it begins aligned."""
        size = self._size + len(piece)
        gap = -size % alignment
        if gap:
            piece += bytes(gap)
            size += gap
        self._pieces.append(piece)
        self._size = size
        return size

    def text(self, text: str) -> int:
        """A string."""
        return self.raw_text(utf8(text))

    def raw_text(self, raw: bytes) -> int:
        """A string, given in UTF-8."""
        return self._add(len(raw).to_bytes(4, "little") + raw + b"\0", 4)

    def blob(self, raw: bytes) -> int:
        """A vector of bytes."""
        return self._add(len(raw).to_bytes(4, "little") + raw, 4)

    def _empty(self) -> int:
        """A vector without items, of which a file needs one only."""
        if not self._nothing:
            self._nothing = self._add(bytes(4), 4)
        return self._nothing

    def structs(self, raw: bytes, count: int, alignment: int) -> int:
        """A vector of structs or numbers, given as they are stored."""
        if not count and alignment <= 4:
            return self._empty()
        if alignment > 4:
            self._add(b"", 8)
            self._add(bytes(-len(raw) % alignment), 1)
        return self._add(count.to_bytes(4, "little") + raw, 4)

    def offsets(self, targets: Sequence[int]) -> int:
        """A vector of tables or strings."""
        if not targets:
            return self._empty()
        count = len(targets)
        if self._size % 4:
            self._add(b"", 4)
        first = self._size + 4 * count
        away = [first - 4 * n - target for n, target in enumerate(targets)]
        return self._add(struct.pack(f"<{count + 1}I", count, *away), 4)

    def whole(self, *pieces: BytesPart, inside: int = 0) -> int:
        """Encoded bytes without references to the outside; `inside` is the position of the object.

        Each piece begins at a multiple of eight.
        """
        for piece in reversed(pieces):
            if gap := -(self._size + len(piece)) % 8:
                self._add(bytes(gap), 1)
            self._pieces.append(piece)
            self._size += len(piece)
        return self._size - inside

    def table_blocks(self, blocks: TableBlocks) -> int:
        """A vector of tables that were written elsewhere, and these tables."""
        size = _vector_size(len(blocks.places))
        if self._size or size > blocks.room or not len(blocks.memory):
            return self.blocks(blocks.places, blocks.data)
        self._end = end = blocks._replace(room=blocks.room - size)
        _fill_vector(end.memory[end.room : blocks.room].view("<u4"), blocks.places)
        return self.whole(end.data, inside=4)

    def blocks(self, places: TablePositions, *pieces: BytesPart) -> int:
        """A vector of tables that are in pieces made elsewhere, and these pieces."""
        words = np.zeros(_vector_size(len(places)) // 4, "<u4")
        _fill_vector(words, places)
        return self.whole(words.tobytes(), *pieces, inside=4)

    def table(self, layout: TableLayout, *values: int | bytes | None) -> int:
        """A table; fields that are None or zero are left out."""
        # What `_add` does stands here again: a small commit writes twenty tables.
        plan = layout.plan(tuple(map(bool, values)))
        vtable = self._vtables.get(plan.vtable)
        if vtable is None:
            vtable = self._vtables[plan.vtable] = self._add(plan.vtable, 2)
        stored: list[Any] = [values[slot] for slot in plan.order]
        size = self._size + plan.form.size
        gap = -size % plan.alignment
        position = size + gap
        for n, at in plan.offsets:
            stored[n] = position - at - stored[n]
        try:
            packed = plan.form.pack(vtable - position, *stored)
        except struct.error as error:
            raise FormatError(
                f"a value does not fit into its field: {error}", kind=ErrorKind.SERIALIZATION
            ) from error
        self._pieces.append(packed + bytes(gap) if gap else packed)
        self._size = position
        return position

    # --- many objects at once ---

    def frames(self, arena: bytes, starts: I64, sizes: I64, end: int) -> I64:
        """Strings or vectors of bytes, copied from an arena in which they are framed."""
        data, places = copy_frames(arena, starts, sizes, end)
        return self._add(data, 4) - places

    def vectors(self, counts: I64, targets: I64) -> I64:
        """Vectors of tables, one after the other; all empty vectors share one."""
        has_items = counts > 0
        lengths = np.where(has_items, 1 + counts, 0)
        heads = np.where(has_items, 1 + np.cumsum(lengths) - lengths, 0)
        words = np.zeros(1 + int(lengths.sum()), "<u4")
        self._add(b"", 4)
        first = self._size + words.nbytes
        words[heads] = counts
        items = spread(Spans(heads + 1, counts), 1)
        words[items] = first - 4 * items - targets
        return self._add(words.tobytes(), 4) - 4 * heads

    def tables(
        self, layout: TableLayout, count: int, *columns: npt.NDArray[Any] | None, stride: int = 4
    ) -> I64:
        """Write `count` tables with the same fields: those whose columns are not None.

        Tables are a multiple of `stride` apart. If it is large enough for two lists of tables, all
        offsets between them are equal. The vtable comes first: then the offset to it is positive,
        with zeros in its upper bytes like other offsets.
        """
        plan = layout.plan(tuple(column is not None for column in columns))
        stride = max(stride, plan.alignment)
        stride = plan.form.size + -plan.form.size % stride
        self._add(b"", 8)
        away: I64 = self._size + stride * np.arange(count, 0, -1)
        vtable = plan.vtable + bytes(-len(plan.vtable) % 4)
        values = {-1: (self._size + stride * count + len(vtable) - away).astype("<i4")}
        for slot, column in enumerate(columns):
            if column is not None:
                at = plan.places[slot]
                is_offset = layout.forms[slot] == OFFSET
                values[slot] = (away - at - column).astype("<u4") if is_offset else column
        form = np.dtype(
            {
                "names": [str(slot) for slot in values],
                "formats": [column.dtype for column in values.values()],
                "offsets": [0 if slot < 0 else plan.places[slot] for slot in values],
                "itemsize": stride,
            }
        )
        records = np.zeros(count, form)
        for slot, column in values.items():
            records[str(slot)] = column
        self._add(vtable + records.tobytes(), 4)
        return away

    # --- the whole ---

    def part(self) -> bytes:
        """All bytes so far, as a self-contained part whose length is a multiple of 8."""
        self._add(b"", 8)
        return b"".join(reversed(self._pieces))

    def finish(self, root: int, identifier: bytes) -> Body:
        """The whole file; four bytes in it tell its kind. Nothing can be added any more.

        Raises:
            FormatError: it is larger than a FlatBuffer may be.
        """
        # The head is eight bytes long and the file a multiple of eight, so that what is aligned
        # from the end is aligned from the beginning.
        self._add(b"", 8)
        size = self._size + 8
        check_size(size)
        self._pieces.append(struct.pack("<I4s", size - root, identifier))
        return Body(self._pieces, size, self._end)


def _vector_size(count: int) -> int:
    """Bytes of a vector of offsets, which tables follow; the first four are not used."""
    return 4 * (2 + count + count % 2)  # so that the tables are aligned


def _fill_vector(words: npt.NDArray[np.uint32], places: TablePositions) -> None:
    """Write a vector of offsets to tables at these places after it."""
    count, first = len(places), words.nbytes - 8
    words[1] = count
    words[2 : 2 + count] = places
    words[2 : 2 + count] += np.arange(first, first - 4 * count, -4, dtype="<u4")
