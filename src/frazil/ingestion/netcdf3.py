"""NetCDF 3 (classic, 64-bit offset and 64-bit data): the header says where every value is.

The header is read piece by piece, so that files may be anywhere; sizes in it are checked before
anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from frazil.errors import InvalidInputError, unsuitable
from frazil.ingestion.encoding import Meaning, encoded_attributes, encoding_of
from frazil.ingestion.parsed import Parsed
from frazil.ingestion.records import Identity, References, Variable, plain
from frazil.ingestion.sources import read_head, shown

FIRST: Final = 64 << 10
LARGEST_HEADER: Final = 64 << 20
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 0x0A, 0x0B, 0x0C
_TYPES: Final = {
    1: ">i1",
    2: "S1",
    3: ">i2",
    4: ">i4",
    5: ">f4",
    6: ">f8",
    7: ">u1",
    8: ">u2",
    9: ">u4",
    10: ">i8",
    11: ">u8",
}
_FILLS: Final = {
    1: -127,
    2: b"\x00",
    3: -32767,
    4: -2147483647,
    5: 9.9692099683868690e36,
    6: 9.9692099683868690e36,
    7: 255,
    8: 65535,
    9: 4294967295,
    10: -9223372036854775806,
    11: 18446744073709551614,
}
"""What the library writes where nobody wrote."""


class _ShortError(Exception):
    """The header goes on beyond what was read of it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A variable as the header has it."""

    name: str
    dims: tuple[int, ...]
    attrs: dict[str, Any]
    kind: int
    size: int
    begin: int


@dataclass(frozen=True, slots=True)
class _Header:
    records: int
    dims: list[tuple[str, int]]
    attrs: dict[str, Any]
    entries: list[_Entry]


def scan_netcdf3(url: str, options: Mapping[str, Any], identity: Identity | None) -> Parsed:
    """The variables of a NetCDF 3 file.

    Raises:
        InvalidInputError: the header is damaged, or the file shorter than it says.
    """
    size = identity.size if identity else 0
    header = _read_header(url, options, size)
    lengths = [length for _, length in header.dims]
    record = [number for number, length in enumerate(lengths) if length == 0]
    growing = [each for each in header.entries if each.dims[:1] == tuple(record[:1]) and record]
    step = sum(_padded(each, lengths) for each in growing)
    if len(growing) == 1:  # a single one is not padded, which the format calls a special case
        step = _slab(growing[0], lengths)
    variables = [
        _variable(url, entry, header, step, size, is_record=entry in growing)
        for entry in header.entries
    ]
    return Parsed(variables, plain(header.attrs))


def _slab(entry: _Entry, lengths: list[int]) -> int:
    """Bytes of one record of a variable."""
    return prod(lengths[dim] for dim in entry.dims[1:]) * np.dtype(_TYPES[entry.kind]).itemsize


def _padded(entry: _Entry, lengths: list[int]) -> int:
    return -(-_slab(entry, lengths) // 4) * 4


def _variable(
    url: str, entry: _Entry, header: _Header, step: int, size: int, *, is_record: bool
) -> Variable:
    dtype = np.dtype(_TYPES[entry.kind])
    lengths = [length or header.records for _, length in header.dims]
    shape = tuple(lengths[dim] for dim in entry.dims)
    if is_record:
        chunks = (1, *shape[1:])
        each = prod(shape[1:]) * dtype.itemsize
        if each and shape[0] and entry.begin + (shape[0] - 1) * step + each > size:
            raise _damaged("the file is shorter than its header says", url)
        index = np.arange(shape[0])
        offset = entry.begin + index.astype(np.uint64) * np.uint64(step)
    else:
        chunks, each = shape, prod(shape) * dtype.itemsize
        index, offset = np.zeros(1, np.int64), np.array([entry.begin], np.uint64)
    if not each or not prod(shape):
        index, offset = index[:0], offset[:0]
    if len(offset) and int(offset[-1]) + each > size:
        raise _damaged("the file is shorter than its header says", url)
    attrs = dict(entry.attrs)
    fill = attrs.pop("_FillValue", None)
    known = _FILLS[entry.kind] if fill is None else fill
    if fill is not None:
        attrs |= encoded_attributes(fill, dtype)
    value = known if dtype.kind == "S" else np.asarray(known).astype(dtype).reshape(()).item()
    return Variable(
        entry.name,
        tuple(header.dims[dim][0] for dim in entry.dims),
        shape,
        tuple(max(1, n) for n in chunks),
        encoding_of(Meaning(dtype, value)),
        plain(attrs),
        References.of_file(url, index, offset, np.full(len(index), each)),
    )


def _read_header(url: str, options: Mapping[str, Any], size: int) -> _Header:
    length = FIRST
    while True:
        data = read_head(url, min(length, max(size, 1)), options)
        try:
            return _Parser(data, url).header()
        except _ShortError:
            if length >= min(size, LARGEST_HEADER):
                raise _damaged("the header of the file is cut off", url) from None
            length *= 8
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise _damaged(f"the header of the file is damaged: {error}", url) from None


class _Parser:
    """Reads a header from its first bytes."""

    def __init__(self, data: bytes, url: str) -> None:
        self._data = data
        self._at = 4
        self._dims = 0
        self._url = url
        version = data[3]
        self._count = ">q" if version == 5 else ">i"
        self._offset = ">i" if version == 1 else ">q"

    def header(self) -> _Header:
        """The whole header."""
        records = self._number(self._count)
        if records < 0:
            raise _damaged(
                "the number of records is not told, as in a file being written", self._url
            )
        dims = [(self._name(), self._number(self._count)) for _ in range(self._list(_DIMENSIONS))]
        if any(length < 0 for _, length in dims):
            raise _damaged("a dimension has no known length", self._url)
        self._dims = len(dims)
        attrs = self._attributes()
        entries = [self._entry() for _ in range(self._list(_VARIABLES))]
        return _Header(records, dims, attrs, entries)

    def _entry(self) -> _Entry:
        name = self._name()
        dims = tuple(self._number(self._count) for _ in range(self._length()))
        if not all(0 <= dim < self._dims for dim in dims):
            raise _damaged(f"the variable {name!r} has no known dimensions", self._url)
        attrs = self._attributes()
        kind = self._number(">i")
        size = self._number(self._count)
        begin = self._number(self._offset)
        if kind not in _TYPES or begin < 0:
            raise _damaged(f"the variable {name!r} has no known type or place", self._url)
        return _Entry(name, dims, attrs, kind, size, begin)

    def _attributes(self) -> dict[str, Any]:
        return dict(self._attribute() for _ in range(self._list(_ATTRIBUTES)))

    def _attribute(self) -> tuple[str, Any]:
        name, kind, count = self._name(), self._number(">i"), self._length()
        dtype = np.dtype(_TYPES[kind])
        raw = self._take(count * dtype.itemsize)
        self._take(-len(raw) % 4)
        if kind == 2:
            return name, raw.rstrip(b"\x00").decode("utf-8", "replace")
        values = np.frombuffer(raw, dtype).tolist()
        return name, values[0] if len(values) == 1 else values

    def _list(self, tag: int) -> int:
        found, count = self._number(">i"), self._length()
        if found not in (tag, 0) or (found == 0 and count):
            raise _damaged("the header of the file is damaged", self._url)
        return count

    def _length(self) -> int:
        count = self._number(self._count)
        if not 0 <= count <= LARGEST_HEADER:
            raise _damaged("the header of the file is damaged", self._url)
        return count

    def _name(self) -> str:
        raw = self._take(self._length())
        self._take(-len(raw) % 4)
        return raw.decode()

    def _number(self, form: str) -> int:
        found: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return found

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise _ShortError
        taken = self._data[self._at : end]
        self._at = end
        return taken


def _damaged(message: str, url: str) -> InvalidInputError:
    return unsuitable(message, file=shown(url))
