"""FlatBuffers built from the end to the beginning.

References in a FlatBuffer point forward, so what is referred to is written first, nearer to the
end of the file. An object is named by its distance from the end; each object is one piece of
bytes, and the pieces are joined in reverse order once the root table is known.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from frazil.errors import ErrorKind, FormatError

IDENTIFIER: Final = b"Ichk"
OFFSET: Final = "offset"
_FORMS: Final = {
    "u8": ("B", 1, 1),
    "u16": ("H", 2, 2),
    "u32": ("I", 4, 4),
    "i32": ("i", 4, 4),
    "u64": ("Q", 8, 8),
    "id8": ("8s", 8, 1),
    "id12": ("12s", 12, 1),
    OFFSET: ("I", 4, 4),
}
"""struct code, size and alignment"""


class _Plan(NamedTuple):
    """How to write tables that have the same fields."""

    form: struct.Struct
    order: tuple[int, ...]
    """slots in the order they are stored"""
    offsets: tuple[tuple[int, int], ...]
    """for offset fields: place among the stored values, and in the table"""
    vtable: bytes
    alignment: int


class Layout:
    """The fields of a table in slot order, such as `Layout("id12", "offset", "u64")`.

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
        # Four bytes are taken by the way to the vtable. Fields of eight follow those of four,
        # so that at most one gap of four is needed.
        order = sorted(slots, key=lambda slot: (4, 8, 2, 1).index(forms[slot][2]))
        code, at, places = "<i", 4, dict.fromkeys(range(len(present)), 0)
        for slot in order:
            letter, size, alignment = forms[slot]
            gap = -at % alignment
            code += f"{gap}x{letter}" if gap else letter
            places[slot] = at + gap
            at += gap + size
        used = max(slots, default=-1) + 1
        vtable = struct.pack(
            f"<HH{used}H", 4 + 2 * used, at, *(places[slot] for slot in range(used))
        )
        offsets = [(n, places[slot]) for n, slot in enumerate(order) if self.forms[slot] == OFFSET]
        widest = max([4, *(form[2] for form in forms.values())])
        return _Plan(struct.Struct(code), tuple(order), tuple(offsets), vtable, widest)


class FlatWriter:
    """Collects the objects of one file; every method returns a distance from its end."""

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._size = 0
        self._vtables: dict[bytes, int] = {}

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
        raw = text.encode()
        return self._add(len(raw).to_bytes(4, "little") + raw + b"\0", 4)

    def blob(self, raw: bytes) -> int:
        """A vector of bytes."""
        return self._add(len(raw).to_bytes(4, "little") + raw, 4)

    def structs(self, raw: bytes, count: int, alignment: int) -> int:
        """A vector of structs or numbers, given as they are stored."""
        if alignment > 4:
            self._add(b"", 8)
            self._add(bytes(-len(raw) % alignment), 1)
        return self._add(count.to_bytes(4, "little") + raw, 4)

    def offsets(self, targets: Sequence[int]) -> int:
        """A vector of tables or strings."""
        count = len(targets)
        if self._size % 4:
            self._add(b"", 4)
        first = self._size + 4 * count
        away = [first - 4 * n - target for n, target in enumerate(targets)]
        return self._add(struct.pack(f"<{count + 1}I", count, *away), 4)

    def whole(self, piece: memoryview, inside: int) -> int:
        """Bytes made elsewhere that refer only to each other; `inside` is the object meant."""
        self._add(bytes(-(self._size + len(piece)) % 8), 1)
        self._pieces.append(piece)
        self._size += len(piece)
        return self._size - inside

    def table(self, layout: Layout, *values: int | bytes | None) -> int:
        """A table; fields that are None or zero are left out.

        Raises:
            FormatError: a number is too large for its field.
        """
        plan = layout.plan(tuple(map(bool, values)))
        vtable = self._vtables.get(plan.vtable)
        if vtable is None:
            vtable = self._vtables[plan.vtable] = self._add(plan.vtable, 2)
        stored: list[int | bytes | None] = [values[slot] for slot in plan.order]
        size = plan.form.size
        position = self._size + size + -(self._size + size) % plan.alignment
        for n, at in plan.offsets:
            stored[n] = position - at - values[plan.order[n]]  # type: ignore[operator]  # a distance
        try:
            packed = plan.form.pack(vtable - position, *stored)
        except struct.error as error:
            raise FormatError(
                f"a value does not fit into its field: {error}", kind=ErrorKind.SERIALIZATION
            ) from error
        return self._add(packed, plan.alignment)

    def part(self) -> bytes:
        """Everything so far, to go before or after what it does not refer to; a multiple of 8."""
        self._add(b"", 8)
        return b"".join(reversed(self._pieces))

    def finish(self, root: int) -> bytes:
        """The whole file."""
        self._add(b"", 4)
        # The head is eight bytes long and the file a multiple of eight, so that what is aligned
        # from the end is aligned from the beginning.
        self._add(b"", 8)
        size = self._size + 8
        self._pieces.append(struct.pack("<I4s", size - root, IDENTIFIER))
        return b"".join(reversed(self._pieces))
