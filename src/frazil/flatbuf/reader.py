"""FlatBuffers tables, read with bounds checks.

Every read checks that it stays inside the buffer, so damaged bytes end in a `FormatError`.
Positions are plain ints; a `Table` is a position with its vtable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError

U16: Final = struct.Struct("<H")
U32: Final = struct.Struct("<I")
I32: Final = struct.Struct("<i")
U64: Final = struct.Struct("<Q")
SHARED: Final = 1 << 20
"""Bytes that may be read more than once, because several tables point to them."""
REPEATS_FROM: Final = 1024
"""Items of a list from which on repetitions count as an attack."""
MAX_FIELDS: Final = 64
"""Fields of a table that are looked at; a vtable may list 32,765."""
LARGEST_VTABLE: Final = 2 * (2 + MAX_FIELDS)
"""Bytes of a vtable that are looked at."""
MAX_LAYOUTS: Final = 4096
"""Different vtables in one file; a writer needs one for each combination of fields."""


class Buffer:
    """The body of one file; `key` names the file in errors."""

    __slots__ = ("_layouts", "_left", "_vtables", "data", "key", "size")

    def __init__(self, data: bytes | memoryview, key: str) -> None:
        self.data = data
        self.key = key
        self.size = len(data)
        self._left: int | None = None
        self._vtables: dict[int, tuple[int, ...]] = {}
        self._layouts: dict[tuple[int, ...], tuple[int, ...]] = {}

    def fail(self, problem: str) -> FormatError:
        """Make the error for damage found in this file."""
        return FormatError(f"damaged file: {problem}", key=self.key)

    @contextmanager
    def once(self) -> Iterator[None]:
        """For a reader that takes every part of the file once.

        Offsets may point from many places to one: what is read then costs more than the file can
        justify, and is refused when that is noticed.
        """
        self._left = self.size + SHARED
        try:
            yield
        finally:
            self._left = None

    def spend(self, size: int) -> None:
        """Count bytes that are taken out of the file."""
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise self.fail("the same bytes are used too often")

    def few_repeats(self, items: npt.NDArray[np.void]) -> None:
        """Refuse a long list of which most items are repetitions: ids are random, and differ."""
        if len(items) > REPEATS_FROM and 2 * len(np.unique(items)) < len(items):
            raise self.fail("the same item is listed too often")

    def read(self, form: struct.Struct, at: int) -> int:
        """Read one number."""
        if at < 0 or at + form.size > self.size:
            raise self.fail("offset outside the file")
        value: int = form.unpack_from(self.data, at)[0]
        return value

    def slice(self, at: int, length: int) -> bytes:
        """Read raw bytes."""
        if at < 0 or length < 0 or at + length > self.size:
            raise self.fail("bytes outside the file")
        self.spend(length)
        return bytes(self.data[at : at + length])

    def text(self, at: int) -> str:
        """Read a string."""
        try:
            return self.slice(at + 4, self.read(U32, at)).decode()
        except UnicodeDecodeError as error:
            raise self.fail("text is not UTF-8") from error

    def vtable(self, at: int) -> tuple[int, ...]:
        """Size of a table and the places of its fields; tables mostly share their vtables."""
        known = self._vtables.get(at)
        if known is None:
            size = self.read(U16, at)
            if size < 4 or size % 2 or at + size > self.size:
                raise self.fail("impossible vtable")
            count = min(size // 2 - 1, 1 + MAX_FIELDS)
            known = struct.unpack(f"<{count}H", self.slice(at + 2, 2 * count))
            known = self._vtables[at] = self._layouts.setdefault(known, known)
            if len(self._layouts) > MAX_LAYOUTS:
                raise self.fail("too many table layouts")
        return known

    def root(self) -> Table:
        """The root table."""
        return Table(self, self.read(U32, 0))


class Table:
    """One table; slot numbers are those of the schema."""

    __slots__ = ("_slots", "buffer", "position", "size")

    def __init__(self, buffer: Buffer, position: int) -> None:
        self._slots = buffer.vtable(position - buffer.read(I32, position))
        self.size = self._slots[0]
        if position + self.size > buffer.size:
            raise buffer.fail("table outside the file")
        buffer.spend(4 + self.size)
        self.buffer = buffer
        self.position = position

    def at(self, slot: int) -> int | None:
        """Position of a field, or None when it is absent."""
        offset = self._slots[slot + 1] if slot + 1 < len(self._slots) else 0
        return self.position + offset if offset else None

    def number(self, slot: int, form: struct.Struct, default: int = 0) -> int:
        """A scalar field."""
        at = self.at(slot)
        return default if at is None else self.buffer.read(form, at)

    def byte(self, slot: int, default: int = 0) -> int:
        """A u8 field."""
        at = self.at(slot)
        return default if at is None else self.buffer.slice(at, 1)[0]

    def struct_bytes(self, slot: int, length: int) -> bytes | None:
        """An inline struct field, such as an id."""
        at = self.at(slot)
        return None if at is None else self.buffer.slice(at, length)

    def required_bytes(self, slot: int, length: int, name: str) -> bytes:
        """An inline struct field that must be there."""
        found = self.struct_bytes(slot, length)
        if found is None:
            raise self.buffer.fail(f"missing required field {name}")
        return found

    def target(self, slot: int) -> int | None:
        """Position an offset field points to."""
        at = self.at(slot)
        if at is None:
            return None
        return at + self.buffer.read(U32, at)

    def table(self, slot: int) -> Table | None:
        """A table field."""
        at = self.target(slot)
        return None if at is None else Table(self.buffer, at)

    def vector(self, slot: int, item_size: int) -> tuple[int, int] | None:
        """Position of the first item and number of items, checked to lie in the file."""
        at = self.target(slot)
        if at is None:
            return None
        count = self.buffer.read(U32, at)
        if at + 4 + count * item_size > self.buffer.size:
            raise self.buffer.fail("vector outside the file")
        return at + 4, count

    def required_vector(self, slot: int, item_size: int, name: str) -> tuple[int, int]:
        """A vector field that must be there."""
        found = self.vector(slot, item_size)
        if found is None:
            raise self.buffer.fail(f"missing required field {name}")
        return found

    def blob(self, slot: int) -> bytes | None:
        """A byte vector field."""
        found = self.vector(slot, 1)
        return None if found is None else self.buffer.slice(*found)

    def required_blob(self, slot: int, name: str) -> bytes:
        """A byte vector field that must be there."""
        found = self.required_vector(slot, 1, name)
        return self.buffer.slice(*found)

    def text(self, slot: int) -> str | None:
        """A string field."""
        at = self.target(slot)
        return None if at is None else self.buffer.text(at)

    def required_text(self, slot: int, name: str) -> str:
        """A string field that must be there."""
        found = self.text(slot)
        if found is None:
            raise self.buffer.fail(f"missing required field {name}")
        return found

    def structs(self, slot: int, length: int, name: str | None = None) -> list[bytes]:
        """A vector of structs; `name` makes it required."""
        found = self.required_vector(slot, length, name) if name else self.vector(slot, length)
        if found is None:
            return []
        start, count = found
        data = self.buffer.data
        if count > REPEATS_FROM:
            self.buffer.few_repeats(np.frombuffer(data, f"V{length}", count, start))
        return [bytes(data[i : i + length]) for i in range(start, start + count * length, length)]

    def tables(self, slot: int, name: str | None = None) -> Iterator[Table]:
        """A vector of tables; `name` makes it required."""
        found = self.required_vector(slot, 4, name) if name else self.vector(slot, 4)
        if found is None:
            return
        start, count = found
        for at in range(start, start + 4 * count, 4):
            yield Table(self.buffer, at + self.buffer.read(U32, at))
