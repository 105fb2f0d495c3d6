"""What the footer of a Parquet file says of sizes, read without the library's help.

The library ends the process, and with it ours, when it is asked for the columns of a damaged
footer. So the few numbers that must be known before anything is unpacked are read here, from
Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from frazil.errors import ErrorKind, FormatError

MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""Bytes of the footer's length and the magic at the end."""
MAX_DEPTH: Final = 32
MAX_VARINT: Final = 10

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
FIXED: Final = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}
"""Bytes of types that always have as many."""
ROW_GROUPS: Final = 4
"""Field of a file's metadata."""
COLUMNS: Final = 1
"""Field of a row group."""
COLUMN_METADATA: Final = 3
"""Field of a column chunk."""
UNCOMPRESSED_SIZE: Final = 6
"""Field of a column's metadata."""


def column_sizes(blob: bytes, *, key: str) -> list[int]:
    """How many bytes each column of each row group says it unpacks to.

    Raises:
        FormatError: the footer is damaged.
    """
    length = int.from_bytes(blob[-TAIL : -len(MAGIC)], "little")
    if len(blob) < TAIL or blob[-len(MAGIC) :] != MAGIC or length > len(blob) - TAIL:
        raise _damaged(key)
    reader = _Compact(blob[len(blob) - TAIL - length : len(blob) - TAIL], key)
    return [
        size
        for field, kind in reader.fields()
        for _ in reader.structs(kind, field == ROW_GROUPS)
        for size in _sizes_of_group(reader)
    ]


def _sizes_of_group(reader: _Compact) -> Iterator[int]:
    for field, kind in reader.fields():
        for _ in reader.structs(kind, field == COLUMNS):
            yield from _sizes_of_column(reader)


def _sizes_of_column(reader: _Compact) -> Iterator[int]:
    for field, kind in reader.fields():
        if field != COLUMN_METADATA or kind != STRUCT:
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner == UNCOMPRESSED_SIZE and inner_kind == I64:
                yield reader.integer()
            else:
                reader.skip(inner_kind)


def _damaged(key: str) -> FormatError:
    return FormatError("damaged Parquet footer", kind=ErrorKind.DESERIALIZATION, key=key)


class _Compact:
    """Reads Thrift's compact protocol from the front; what is not asked for is skipped."""

    def __init__(self, data: bytes, key: str) -> None:
        self._data = data
        self._key = key
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a struct, as id and type; each must be read or skipped before the next."""
        field = 0
        while (head := self._byte()) != 0:
            kind, delta = head & 15, head >> 4
            field = field + delta if delta else self.integer()
            yield field, kind

    def structs(self, kind: int, is_wanted: bool) -> Iterator[None]:
        """Stand before each struct of a list, if it is a wanted one; skip anything else."""
        if not is_wanted or kind != LIST:
            self.skip(kind)
            return
        count, item = self._list_head()
        if item != STRUCT:
            raise _damaged(self._key)
        for _ in range(count):
            yield

    def integer(self) -> int:
        """A signed number."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value."""
        if depth > MAX_DEPTH:
            raise _damaged(self._key)
        if kind in FIXED:
            self._move(FIXED[kind])
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            self._move(self._varint())
        elif kind in (LIST, SET):
            count, item = self._list_head()
            self._skip_items(count, (item,), depth)
        elif kind == MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._skip_items(count, (kinds >> 4, kinds & 15), depth)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise _damaged(self._key)

    def _skip_items(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                # In a list, other than in a struct, a truth value has a byte of its own.
                self.skip(BYTE if kind in (TRUE, FALSE) else kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return (self._varint() if count == 15 else count), head & 15

    def _varint(self) -> int:
        found = 0
        for number in range(MAX_VARINT):
            byte = self._byte()
            found |= (byte & 127) << (7 * number)
            if byte < 128:
                return found
        raise _damaged(self._key)

    def _byte(self) -> int:
        self._move(1)
        return self._data[self._at - 1]

    def _move(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise _damaged(self._key)
