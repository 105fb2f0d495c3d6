"""JSON values as FlexBuffers.

Reading trusts nothing: every position is checked, nesting is limited, and a buffer whose values
point to each other again and again is refused instead of being unfolded.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.envelope import SMALL_VALUES
from frazil.model.plain import JSON, ValueCodec

MAX_DEPTH: Final = 128
"""Nesting that no metadata needs; deeper ones are refused before Python's stack ends."""
MIN_TEXT_LIMIT: Final = 1 << 20
"""Texts of a value may always have this size together,"""
MAX_TEXT_SHARING: Final = 16
"""or so many times the bytes of the value: offsets can point to one text again and again."""

NULL, INT, UINT, FLOAT, KEY, STRING = range(6)
INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, VECTOR = range(6, 11)
INT_VECTOR, UINT_VECTOR, FLOAT_VECTOR, KEY_VECTOR, STRING_VECTOR = range(11, 16)
FIRST_FIXED: Final = 16
LAST_FIXED: Final = 24
BLOB: Final = 25
BOOL: Final = 26
BOOL_VECTOR: Final = 36

_FLOAT_FORMS: Final = {2: struct.Struct("<e"), 4: struct.Struct("<f"), 8: struct.Struct("<d")}
_ITEM_TYPE: Final = {
    INT_VECTOR: INT,
    UINT_VECTOR: UINT,
    FLOAT_VECTOR: FLOAT,
    KEY_VECTOR: KEY,
    STRING_VECTOR: STRING,
    BOOL_VECTOR: BOOL,
}
_VECTOR_TYPE: Final = {
    INT: INT_VECTOR,
    UINT: UINT_VECTOR,
    FLOAT: FLOAT_VECTOR,
    BOOL: BOOL_VECTOR,
}


def loads(data: bytes, *, key: str) -> JSON:
    """Read a value; `key` names the file in errors."""
    # Most values are one number or one short word, which need no bookkeeping.
    if len(data) > 2:
        width, kind = data[-1], data[-2] >> 2
        if kind == UINT and width == len(data) - 2 and width in (1, 2, 4, 8):
            return int.from_bytes(data[:width], "little")
        if kind == STRING and width == 1 and data[0] == len(data) - 5 == data[-3] - 1:
            return _text(data[1:-4], key)
    return _Reader(data, key).root()


def _damaged(problem: str, key: str) -> FormatError:
    return FormatError(
        f"damaged metadata value: {problem}", kind=ErrorKind.DESERIALIZATION, key=key
    )


def _text(raw: bytes, key: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _damaged("text is not UTF-8", key) from error


class _Reader:
    """One pass over one buffer."""

    __slots__ = ("_data", "_key", "_text_left", "_values_left")

    def __init__(self, data: bytes, key: str) -> None:
        self._data = data
        self._key = key
        # Each value takes a byte of its own at least, unless vectors share their items.
        self._values_left = min(len(data) + 1, SMALL_VALUES)
        self._text_left = max(MIN_TEXT_LIMIT, MAX_TEXT_SHARING * len(data))

    def root(self) -> JSON:
        data = self._data
        if len(data) < 3:
            raise self._fail("value is too short")
        width = data[-1]
        if width not in (1, 2, 4, 8) or len(data) < 2 + width:
            raise self._fail("impossible width")
        return self._value(len(data) - 2 - width, width, data[-2], MAX_DEPTH)

    def _fail(self, problem: str) -> FormatError:
        return _damaged(problem, self._key)

    def _uint(self, at: int, width: int, *, signed: bool = False) -> int:
        if at < 0 or at + width > len(self._data):
            raise self._fail("offset outside the value")
        return int.from_bytes(self._data[at : at + width], "little", signed=signed)

    def _float(self, at: int, width: int) -> float:
        form = _FLOAT_FORMS.get(width)
        if form is None or at < 0 or at + width > len(self._data):
            raise self._fail("impossible float")
        value: float = form.unpack_from(self._data, at)[0]
        return value

    def _target(self, at: int, width: int) -> int:
        """Follow an offset, which counts backwards from its own place."""
        target = at - self._uint(at, width)
        if target < 0:
            raise self._fail("offset outside the value")
        return target

    def _decode(self, start: int, end: int) -> str:
        self._text_left -= end - start
        if self._text_left < 0:
            raise self._fail("the same text is used too often")
        if end > len(self._data):
            raise self._fail("text outside the value")
        return _text(self._data[start:end], self._key)

    def _key_text(self, at: int) -> str:
        end = self._data.find(0, at)
        if end < 0:
            raise self._fail("key without an end")
        return self._decode(at, end)

    def _value(self, at: int, width: int, packed: int, depth: int) -> JSON:
        """The value at `at`, stored in a parent whose items have `width` bytes."""
        self._values_left -= 1
        if self._values_left < 0:
            raise self._fail("more values than the buffer can hold")
        if depth < 0:
            raise self._fail("nested too deeply")
        kind = packed >> 2
        own = 1 << (packed & 3)
        if kind == UINT:
            return self._uint(at, width)
        if kind == BOOL:
            return self._uint(at, width) != 0
        if kind == NULL:
            return None
        if kind == INT:
            return self._uint(at, width, signed=True)
        if kind == FLOAT:
            return self._float(at, width)
        return self._distant(self._target(at, width), kind, own, depth)

    def _distant(self, at: int, kind: int, width: int, depth: int) -> JSON:
        """A value that its parent only points to."""
        if kind == STRING:
            return self._decode(at, at + self._uint(at - width, width))
        if kind == KEY:
            return self._key_text(at)
        if kind == MAP:
            return self._map(at, width, depth)
        if kind == INDIRECT_INT:
            return self._uint(at, width, signed=True)
        if kind == INDIRECT_UINT:
            return self._uint(at, width)
        if kind == INDIRECT_FLOAT:
            return self._float(at, width)
        if FIRST_FIXED <= kind <= LAST_FIXED:
            item = (INT, UINT, FLOAT)[(kind - FIRST_FIXED) % 3]
            return self._typed(at, width, 2 + (kind - FIRST_FIXED) // 3, item, depth)
        size = self._uint(at - width, width)
        if kind == VECTOR:
            return self._vector(at, width, size, depth)
        if kind == BLOB:
            return self._typed(at, 1, size, UINT, depth)  # JSON has no bytes
        if kind in _ITEM_TYPE:
            return self._typed(at, width, size, _ITEM_TYPE[kind], depth)
        raise self._fail(f"unknown type {kind}")

    def _checked(self, at: int, size: int, width: int) -> None:
        if at + size * width > len(self._data):
            raise self._fail("vector outside the value")

    def _typed(self, at: int, width: int, size: int, item: int, depth: int) -> list[JSON]:
        self._checked(at, size, width)
        packed = item << 2
        return [self._value(at + n * width, width, packed, depth - 1) for n in range(size)]

    def _vector(self, at: int, width: int, size: int, depth: int) -> list[JSON]:
        self._checked(at, size, width + 1)
        types = at + size * width
        data = self._data
        return [self._value(at + n * width, width, data[types + n], depth - 1) for n in range(size)]

    def _map(self, at: int, width: int, depth: int) -> dict[str, JSON]:
        size = self._uint(at - width, width)
        keys = self._target(at - 3 * width, width)
        key_width = self._uint(at - 2 * width, width)
        if key_width not in (1, 2, 4, 8) or self._uint(keys - key_width, key_width) != size:
            raise self._fail("keys and values differ in number")
        self._checked(keys, size, key_width)
        values = self._vector(at, width, size, depth)
        names = [self._key_text(self._target(keys + n * key_width, key_width)) for n in range(size)]
        return dict(zip(names, values, strict=True))


class _Cell(NamedTuple):
    """A value ready to be put into a parent: a number, or the place of what was written."""

    kind: int
    width: int
    """as power of two: of the number, or of the items of what was written"""
    value: int | float
    is_inline: bool


def dumps(value: JSON) -> bytes:
    """Write a value."""
    writer = _Writer()
    return writer.finish(writer.write(value, MAX_DEPTH))


def codec(key: str) -> ValueCodec:
    """The functions of this module as a codec for values of one file."""
    return ValueCodec(dumps, partial(loads, key=key))


def _refuse(problem: str) -> InvalidInputError:
    return InvalidInputError(f"metadata cannot hold {problem}", kind=ErrorKind.BAD_METADATA)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refuse("half of a surrogate pair") from error


def _uint_width(value: int) -> int:
    return 0 if value < 1 << 8 else 1 if value < 1 << 16 else 2 if value < 1 << 32 else 3


class _Writer:
    """A buffer that grows by what values point to."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def write(self, value: JSON, depth: int) -> _Cell:
        if depth < 0:
            raise _refuse("values nested so deeply")
        if value is None:
            return _Cell(NULL, 0, 0, True)
        if isinstance(value, bool):
            return _Cell(BOOL, 0, int(value), True)
        if isinstance(value, int):
            return _int_cell(value)
        if isinstance(value, float):
            return _float_cell(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, Mapping):
            return self._map(value, depth)
        if isinstance(value, (list, tuple)):
            cells = [self.write(item, depth - 1) for item in value]
            kinds = {cell.kind for cell in cells}
            if len(kinds) == 1 and cells[0].kind in _VECTOR_TYPE:
                return self._typed(cells)
            return self._vector(cells, None)
        raise _refuse(f"a {type(value).__name__}")

    def finish(self, root: _Cell) -> bytes:
        width = self._width_for([root])
        self._align(width)
        self._put(root, width)
        self._out += bytes((self._packed(root, width), 1 << width))
        return bytes(self._out)

    def _align(self, width: int) -> None:
        self._out += bytes(-len(self._out) % (1 << width))

    def _string(self, text: str) -> _Cell:
        raw = _utf8(text)
        width = _uint_width(len(raw))
        self._align(width)
        self._out += len(raw).to_bytes(1 << width, "little")
        at = len(self._out)
        self._out += raw
        self._out.append(0)
        return _Cell(STRING, width, at, False)

    def _key(self, name: object) -> tuple[bytes, _Cell]:
        if not isinstance(name, str) or "\0" in name:
            raise _refuse(f"the key {name!r}")
        raw = _utf8(name)
        at = len(self._out)
        self._out += raw
        self._out.append(0)
        return raw, _Cell(KEY, 0, at, False)

    def _map(self, value: Mapping[JSON, JSON], depth: int) -> _Cell:
        items = [(*self._key(name), self.write(item, depth - 1)) for name, item in value.items()]
        items.sort(key=lambda item: item[0])
        names = [name for _, name, _ in items]
        width = self._width_for(names, sizes=(len(names),))
        self._align(width)
        self._out += len(names).to_bytes(1 << width, "little")
        keys = _Cell(KEY_VECTOR, width, len(self._out), False)
        for name in names:
            self._put(name, width)
        return self._vector([cell for _, _, cell in items], keys)

    def _typed(self, cells: list[_Cell]) -> _Cell:
        count, kind = len(cells), cells[0].kind
        is_fixed = 2 <= count <= 4 and kind != BOOL
        width = max(cell.width for cell in cells)
        if not is_fixed:
            width = max(width, _uint_width(count))
        self._align(width)
        if not is_fixed:
            self._out += count.to_bytes(1 << width, "little")
        at = len(self._out)
        for cell in cells:
            self._put(cell, width)
        fixed = FIRST_FIXED + 3 * (count - 2) + kind - INT
        return _Cell(fixed if is_fixed else _VECTOR_TYPE[kind], width, at, False)

    def _vector(self, cells: list[_Cell], keys: _Cell | None) -> _Cell:
        """An untyped vector, or a map when keys are given."""
        head = [] if keys is None else [keys]
        width = self._width_for([*head, *cells], sizes=(len(cells),), gap=1 if head else 0)
        self._align(width)
        if keys is not None:
            self._put(keys, width)
            self._out += (1 << keys.width).to_bytes(1 << width, "little")
        self._out += len(cells).to_bytes(1 << width, "little")
        at = len(self._out)
        for cell in cells:
            self._put(cell, width)
        self._out += bytes([self._packed(cell, width) for cell in cells])
        return _Cell(MAP if head else VECTOR, width, at, False)

    def _width_for(self, cells: list[_Cell], sizes: tuple[int, ...] = (), gap: int = 0) -> int:
        """The smallest width in which every number and every offset fits."""
        width = max([0, *map(_uint_width, sizes), *(c.width for c in cells if c.is_inline)])
        distant = [int(cell.value) for cell in cells if not cell.is_inline]
        if not distant:
            return width
        while True:
            # The furthest anything of this vector can be from the first thing it points to.
            items = len(cells) + len(sizes) + gap
            end = len(self._out) + (items + 1 << width)
            if _uint_width(end - min(distant)) <= width:
                return width
            width += 1

    def _put(self, cell: _Cell, width: int) -> None:
        size = 1 << width
        if cell.kind == FLOAT:
            self._out += _FLOAT_FORMS[size].pack(cell.value)
        elif cell.is_inline:
            value = int(cell.value)
            self._out += value.to_bytes(size, "little", signed=value < 0)
        else:
            self._out += (len(self._out) - int(cell.value)).to_bytes(size, "little")

    def _packed(self, cell: _Cell, width: int) -> int:
        """Type and width in one byte; a number has the width of its parent."""
        return cell.kind << 2 | (width if cell.is_inline else cell.width)


def _int_cell(value: int) -> _Cell:
    if not -(1 << 63) <= value < 1 << 64:
        raise _refuse("an integer of more than 64 bits")
    if value < 0:
        return _Cell(INT, _uint_width(-2 * value - 1), value, True)
    return _Cell(UINT, _uint_width(value), value, True)


def _float_cell(value: float) -> _Cell:
    try:
        is_single = struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        is_single = False
    return _Cell(FLOAT, 2 if is_single else 3, value, True)
