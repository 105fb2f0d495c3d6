"""NetCDF 3 (classic, 64-bit offset and 64-bit data): the header says where every value is.

The header is read piece by piece, so that files may be anywhere; sizes in it are checked before
anything is allocated.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from frazil.cf.decoding import FILL
from frazil.ingestion.encoding import Meaning, encoded_attributes, encoding_of
from frazil.ingestion.records import (
    FileReferences,
    FileVariable,
    InputFile,
    ParsedFile,
    ordered_json,
)
from frazil.ingestion.sources import bad_file, read_head
from frazil.ingestion.tuning import HEADER_BYTES

LARGEST_HEADER: Final = 64 << 20
"""Larger headers are refused: real ones have at most a few megabytes."""
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 0x0A, 0x0B, 0x0C
_TEXT: Final = 2
_TYPES: Final[dict[int, tuple[np.dtype[Any], Any]]] = {
    1: (np.dtype(">i1"), -127),
    _TEXT: (np.dtype("S1"), b"\x00"),
    3: (np.dtype(">i2"), -32767),
    4: (np.dtype(">i4"), -2147483647),
    5: (np.dtype(">f4"), 9.9692099683868690e36),
    6: (np.dtype(">f8"), 9.9692099683868690e36),
    7: (np.dtype(">u1"), 255),
    8: (np.dtype(">u2"), 65535),
    9: (np.dtype(">u4"), 4294967295),
    10: (np.dtype(">i8"), -9223372036854775806),
    11: (np.dtype(">u8"), 18446744073709551614),
}
"""types by their numbers, and what the library writes where nobody wrote"""


class _ShortError(Exception):
    """The header goes on beyond what was read of it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A variable as the header has it."""

    name: str
    dims: tuple[int, ...]
    attrs: dict[str, Any]
    kind: int
    begin: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""
        return _TYPES[self.kind][0]

    def slab(self, lengths: list[int]) -> int:
        """Bytes of one record."""
        return prod(lengths[dim] for dim in self.dims[1:]) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Header:
    records: int
    dims: list[tuple[str, int]]
    attrs: dict[str, Any]
    entries: list[_Entry]


def scan_netcdf3(source: InputFile) -> ParsedFile:
    """The variables of a NetCDF 3 file."""
    size = source.identity.size if source.identity else 0
    header = _read_header(source, size)
    lengths = [length for _, length in header.dims]
    record = [number for number, length in enumerate(lengths) if length == 0]
    growing = [each for each in header.entries if each.dims[:1] == tuple(record[:1]) and record]
    slabs = [each.slab(lengths) for each in growing]
    # A single one is not padded, which the format calls a special case.
    step = slabs[0] if len(slabs) == 1 else sum(-(-slab // 4) * 4 for slab in slabs)
    variables = [
        _variable(source.url, entry, header, step, size, is_record=entry in growing)
        for entry in header.entries
    ]
    pairs = zip(header.entries, variables, strict=True)
    unheld = [one.name for one, made in pairs if FILL in one.attrs and FILL not in made.attrs]
    what = "fill values that their type cannot hold are not taken"
    notes = (f"{what}: {', '.join(unheld)}",) if unheld else ()
    return ParsedFile(variables, ordered_json(header.attrs), notes)


def _variable(
    url: str, entry: _Entry, header: _Header, step: int, size: int, *, is_record: bool
) -> FileVariable:
    dtype = entry.dtype
    lengths = [length or header.records for _, length in header.dims]
    shape = tuple(lengths[dim] for dim in entry.dims)
    chunks = (1, *shape[1:]) if is_record else shape
    each, count = prod(chunks) * dtype.itemsize, shape[0] if is_record else 1
    if not each or not prod(shape):
        count = 0
    elif entry.begin + (count - 1) * step * is_record + each > size:
        raise bad_file("the file is shorter than its header says", url)
    index = np.arange(count)
    offset = entry.begin + index.astype(np.uint64) * np.uint64(step)
    attrs = dict(entry.attrs)
    fill = attrs.pop(FILL, None)
    if fill is not None:
        attrs |= encoded_attributes(fill, dtype)
    known = fill if FILL in attrs else _TYPES[entry.kind][1]
    value = known if dtype.kind == "S" else np.asarray(known).astype(dtype).reshape(()).item()
    return FileVariable(
        entry.name,
        tuple(header.dims[dim][0] for dim in entry.dims),
        shape,
        tuple(max(1, n) for n in chunks),
        encoding_of(Meaning(dtype, value)),
        ordered_json(attrs),
        FileReferences.of_file(url, index, offset, np.full(len(index), each)),
    )


def _read_header(source: InputFile, size: int) -> _Header:
    length, url = HEADER_BYTES, source.url
    while True:
        data = read_head(url, min(length, max(size, 1)), source.options)
        try:
            return _Parser(data, url).header()
        except _ShortError:
            if length >= min(size, LARGEST_HEADER):
                raise bad_file("the header of the file is cut off", url) from None
            length *= 8
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise bad_file(f"the header of the file is damaged: {error}", url) from None


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
            detail = "the number of records is missing, as in a file being written"
            raise bad_file(detail, self._url)
        dims = [(self._name(), self._number(self._count)) for _ in range(self._list(_DIMENSIONS))]
        if any(length < 0 for _, length in dims):
            raise bad_file("a dimension has no known length", self._url)
        self._dims = len(dims)
        attrs = self._attributes()
        entries = [self._entry() for _ in range(self._list(_VARIABLES))]
        return _Header(records, dims, attrs, entries)

    def _entry(self) -> _Entry:
        name = self._name()
        dims = tuple(self._number(self._count) for _ in range(self._length()))
        if not all(0 <= dim < self._dims for dim in dims):
            raise bad_file(f"the variable {name!r} has no known dimensions", self._url)
        attrs = self._attributes()
        kind = self._number(">i")
        self._number(self._count)  # its size, which large variables cannot tell
        begin = self._number(self._offset)
        if kind not in _TYPES or begin < 0:
            raise bad_file(f"the variable {name!r} has no known type or place", self._url)
        return _Entry(name, dims, attrs, kind, begin)

    def _attributes(self) -> dict[str, Any]:
        return dict(self._attribute() for _ in range(self._list(_ATTRIBUTES)))

    def _attribute(self) -> tuple[str, Any]:
        name, kind, count = self._name(), self._number(">i"), self._length()
        dtype = _TYPES[kind][0]
        raw = self._take(count * dtype.itemsize)
        self._take(-len(raw) % 4)
        if kind == _TEXT:
            return name, raw.rstrip(b"\x00").decode("utf-8", "replace")
        values = np.frombuffer(raw, dtype).tolist()
        return name, values[0] if len(values) == 1 else values

    def _list(self, tag: int) -> int:
        found, count = self._number(">i"), self._length()
        if found not in (tag, 0) or (found == 0 and count):
            raise bad_file("the header of the file is damaged", self._url)
        return count

    def _length(self) -> int:
        count = self._number(self._count)
        if not 0 <= count <= LARGEST_HEADER:
            raise bad_file("the header of the file is damaged", self._url)
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
