"""MessagePack as the Rust libraries of 2024 wrote it, read within bounds and written alike.

Floats of single and double precision are different things there, byte strings and lists of small
numbers too, and maps may have lists for keys. The reader allocates nothing on the word of a
length alone: a container grows by the items that are really there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgpack

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import values_justified

MessageValue: TypeAlias = Any
"""None, bool, int, float, `Single`, str, bytes, a sequence or a mapping of these."""

MAX_DEPTH: Final = 128
"""Containers inside containers; JSON readers of that age stopped there too."""

_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")
_SIZES: Final = {1: struct.Struct(">B"), 2: struct.Struct(">H"), 4: struct.Struct(">I")}
_INTS: Final = {
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}


class Single(float):
    """A number stored in four bytes."""

    __slots__ = ()


# --- reading ---


def unpack_message(data: bytes, *, key: str, packed: int | None = None) -> MessageValue:
    """Read one whole message, which took `packed` bytes in its file.

    Raises:
        FormatError: it is damaged, incomplete, nested too deep or followed by other bytes, or
            has more values than so many bytes can justify.
    """
    reader = MessageReader(data, key=key, packed=packed)
    value = reader.value()
    reader.finish()
    return value


class MessageReader:
    """Reads a message piece by piece."""

    __slots__ = ("_data", "_depth", "_left", "at", "key")

    def __init__(self, data: bytes, *, key: str, at: int = 0, packed: int | None = None) -> None:
        self._data = data
        self._depth = 0
        self._left = values_justified(len(data) if packed is None else packed)
        self.at = at
        self.key = key

    def fail(self, problem: str) -> FormatError:
        """The error for damage in this message."""
        return FormatError(
            f"damaged MessagePack: {problem}",
            kind=ErrorKind.DESERIALIZATION,
            key=self.key,
            at=self.at,
        )

    def finish(self) -> None:
        """Check that nothing follows."""
        if self.at != len(self._data):
            raise self.fail("bytes after the end")

    def array_header(self) -> int:
        """The number of items of a list that begins here; the items come next."""
        return self._count(0x90, 0xDC, 1, "a list was expected")

    def map_header(self) -> int:
        """The number of pairs of a map that begins here; keys and values come next."""
        return self._count(0x80, 0xDE, 2, "a map was expected")

    def _count(self, short: int, long: int, bytes_each: int, problem: str) -> int:
        code = self._byte()
        if short <= code < short + 16:
            return self._counted(code & 15, bytes_each)
        if code in (long, long + 1):
            return self._counted(self._size(2 if code == long else 4), bytes_each)
        self.at -= 1
        raise self.fail(problem)

    def is_map(self) -> bool:
        """Whether a map comes next."""
        if self.at >= len(self._data):
            raise self.fail("unexpected end")
        code = self._data[self.at]
        return 0x80 <= code <= 0x8F or code in (0xDE, 0xDF)

    def value(self, *, as_key: bool = False) -> MessageValue:
        """The value that comes next; lists in keys are tuples."""
        code = self._byte()
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 256
        if 0xA0 <= code < 0xC0:
            return self._text(code & 31)
        if code < 0x90:
            return self._map(code & 15, as_key=as_key)
        if code < 0xA0:
            return self._list(code & 15, as_key=as_key)
        return self._other(code, as_key=as_key)

    def _other(self, code: int, *, as_key: bool) -> MessageValue:
        if code == 0xC0:
            return None
        if code in (0xC2, 0xC3):
            return code == 0xC3
        if code in _INTS:
            return self._unpack(_INTS[code])
        if code == 0xCA:
            return Single(self._unpack(_F32))
        if code == 0xCB:
            return self._unpack(_F64)
        if 0xC4 <= code <= 0xC6:
            return self._bytes(self._size(1 << code - 0xC4))
        if 0xD9 <= code <= 0xDB:
            return self._text(self._size(1 << code - 0xD9))
        if code in (0xDC, 0xDD):
            return self._list(self._size(2 if code == 0xDC else 4), as_key=as_key)
        if code in (0xDE, 0xDF):
            return self._map(self._size(2 if code == 0xDE else 4), as_key=as_key)
        raise self.fail(f"type byte {code:#x} has no meaning here")

    def _list(self, count: int, *, as_key: bool) -> Sequence[MessageValue]:
        self._counted(count, 1)
        self._enter()
        value = self.value
        items = [value(as_key=as_key) for _ in range(count)]
        self._depth -= 1
        return tuple(items) if as_key else items

    def _map(self, count: int, *, as_key: bool) -> dict[MessageValue, MessageValue]:
        if as_key:
            raise self.fail("a map as key of a map")
        self._counted(count, 2)
        self._enter()
        value = self.value
        found = {value(as_key=True): value() for _ in range(count)}
        self._depth -= 1
        if len(found) != count:
            raise self.fail("a map has a key twice")
        return found

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.fail("nested too deep")

    def _counted(self, count: int, bytes_each: int) -> int:
        if count * bytes_each > len(self._data) - self.at:
            raise self.fail("more items than the file can hold")
        self._left -= 1 + count * bytes_each
        if self._left < 0:
            raise self.fail("more values than a file of its size can hold")
        return count

    def _byte(self) -> int:
        at = self.at
        if at >= len(self._data):
            raise self.fail("unexpected end")
        self.at = at + 1
        return self._data[at]

    def _size(self, width: int) -> int:
        return int(self._unpack(_SIZES[width]))

    def _unpack(self, form: struct.Struct) -> MessageValue:
        at = self.at
        if at + form.size > len(self._data):
            raise self.fail("unexpected end")
        self.at = at + form.size
        return form.unpack_from(self._data, at)[0]

    def _bytes(self, size: int) -> bytes:
        at = self.at
        if at + size > len(self._data):
            raise self.fail("unexpected end")
        self.at = at + size
        return self._data[at : at + size]

    def _text(self, size: int) -> str:
        try:
            return self._bytes(size).decode()
        except UnicodeDecodeError as error:
            raise self.fail("text is not UTF-8") from error


# --- writing ---


def pack_message(value: MessageValue) -> bytes:
    """Write a value in as few bytes as its type allows.

    Raises:
        FormatError: it has a number, text or type that MessagePack cannot hold.
    """
    out = bytearray()
    _pack(value, out.extend, 0)
    return bytes(out)


def array_header(count: int) -> bytes:
    """The bytes before the items of a list."""
    return _header(count, 0x90, 0xDC)


def map_header(count: int) -> bytes:
    """The bytes before the pairs of a map."""
    return _header(count, 0x80, 0xDE)


def _header(count: int, short: int, code: int) -> bytes:
    if count < 16:
        return bytes([short | count])
    if count < 1 << 16:
        return bytes([code]) + count.to_bytes(2, "big")
    if count >= 1 << 32:
        raise _cannot("more than 4 GiB in one piece")
    return bytes([code + 1]) + count.to_bytes(4, "big")


def packed_struct(names: Sequence[str], fields: Sequence[bytes], *, named: bool) -> bytes:
    """A struct whose fields are packed already: a map with their names, or a list."""
    if not named:
        return array_header(len(fields)) + b"".join(fields)
    pairs = zip(map(pack_scalar, names), fields, strict=True)
    return map_header(len(fields)) + b"".join(name + field for name, field in pairs)


def pack_scalar(value: MessageValue) -> bytes:
    """A value that holds no others: a number, a text, a byte string, a truth value or None."""
    if isinstance(value, Single):
        return b"\xca" + _F32.pack(value)
    try:
        packed: bytes = msgpack.packb(value)
    except UnicodeEncodeError as error:
        raise _cannot("a text that is not Unicode") from error
    except OverflowError as error:
        raise _cannot(f"the number {value}, which has more than 64 bits") from error
    except ValueError as error:
        raise _cannot("more than 4 GiB in one piece") from error
    return packed


def _cannot(what: str) -> FormatError:
    return FormatError(f"MessagePack cannot hold {what}", kind=ErrorKind.SERIALIZATION)


def _pack(value: MessageValue, put: Callable[[bytes], object], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _cannot("containers nested this deep")
    if value is None or isinstance(value, str | int | float | bytes):
        put(pack_scalar(value))
    elif isinstance(value, Mapping):
        put(map_header(len(value)))
        for name, item in value.items():
            _pack(name, put, depth + 1)
            _pack(item, put, depth + 1)
    elif isinstance(value, Sequence):
        put(array_header(len(value)))
        for item in value:
            _pack(item, put, depth + 1)
    else:
        raise _cannot(f"a {type(value).__name__}")
