"""The references of one array: FlatBuffers tables `ChunkRef` as columns."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import TableColumns, pool_bytes, pool_strings, tables_at, vectors_at
from frazil.flatbuf.reader import I32, U16, U32, U64, Buffer, Table
from frazil.flatbuf.strided import ByteRuns, Scalars, Texts, encode_tables
from frazil.flatbuf.tuning import SEGMENT_ROWS
from frazil.flatbuf.writer import MAX_SIZE, TableBlocks
from frazil.formats.locations import (
    MAX_LOCATION,
    LocationCompression,
    PackedStrings,
    decode_location,
    pack,
    train,
    unpack_location,
    unpacker,
)
from frazil.ids import ChunkId
from frazil.model.chunks import (
    ABSENT,
    ChunkRef,
    ChunkTable,
    ChunkType,
    InlineRef,
    NativeRef,
    StringPool,
    VirtualRef,
    constant,
)
from frazil.model.lookup import is_ascending
from frazil.model.nodes import Coordinates
from frazil.model.strings import gather_runs

INDEX, INLINE, OFFSET, LENGTH, CHUNK_ID, LOCATION, ETAG, LAST_MODIFIED, PACKED = range(9)
SMALLEST_REF: Final = 16
"""Bytes of a reference: 4 each for its place in the vector, its vtable, the place of its
coordinates, and their number."""
MAX_NDIM: Final = 1024
"""Arrays have fewer axes; more are taken for damage."""
LARGEST_TABLE: Final = 96
"""Bytes of a reference with all fields, without coordinates and texts but with their lengths."""
ROOM: Final = 1 << 20
"""Bytes for what a manifest holds besides references."""


# --- one reference ---


def find_ref(
    buffer: Buffer, start: int, count: int, coords: Coordinates, dictionary: bytes
) -> ChunkRef | None:
    """Find a chunk by binary search in the vector of references."""
    row = find_row(buffer, start, count, coords)
    if row == ABSENT:
        return None
    at = start + 4 * row
    return _ref(Table(buffer, at + buffer.read(U32, at)), dictionary)


def find_row(buffer: Buffer, start: int, count: int, coords: Coordinates) -> int:
    """The place of a chunk in the vector of references, or -1."""
    form = struct.Struct(f"<{len(coords)}I")
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        at = start + 4 * middle
        found = _index(buffer, at + buffer.read(U32, at), form)
        if found == coords:
            return middle
        if found < coords:
            low = middle + 1
        else:
            high = middle
    return ABSENT


def _index(buffer: Buffer, table: int, form: struct.Struct) -> Coordinates:
    """Coordinates of a reference, read without its other fields."""
    vtable = table - buffer.read(I32, table)
    slot = buffer.read(U16, vtable + 4) if buffer.read(U16, vtable) > 4 else 0
    if not slot:
        raise buffer.fail("missing required field index")
    vector = table + slot + buffer.read(U32, table + slot)
    if buffer.read(U32, vector) * 4 != form.size:
        raise buffer.fail("chunk coordinates of different rank")
    if vector + 4 + form.size > buffer.size:
        raise buffer.fail("vector outside the file")
    return form.unpack_from(buffer.data, vector + 4)


def _ref(table: Table, dictionary: bytes) -> ChunkRef:
    """Read one reference; the order of the questions is that of the format."""
    buffer = table.buffer
    offset, length = table.number(OFFSET, U64), table.number(LENGTH, U64)
    chunk_id = table.struct_bytes(CHUNK_ID, 12)
    if chunk_id is not None:
        return NativeRef(ChunkId(chunk_id), offset, length)
    packed = table.blob(PACKED)
    if packed is not None:
        raw = unpack_location(packed, unpacker(dictionary, buffer.key), buffer.key)
        location: str | None = decode_location(raw, buffer.key)
    else:
        location = table.text(LOCATION)
    if location is not None:
        etag = table.text(ETAG)
        checksum = (table.number(LAST_MODIFIED, U32) or None) if etag is None else etag
        return VirtualRef(location, offset, length, checksum)
    data = table.blob(INLINE)
    if data is None:
        raise buffer.fail("reference without chunk id, location or bytes")
    return InlineRef(data)


# --- all references of an array ---


def decode_refs(buffer: Buffer, start: int, count: int, dictionary: bytes) -> ChunkTable:
    """Read the references of one array as columns."""
    if not count:
        return ChunkTable.empty(0)
    columns = _Columns(buffer, count, _rank(buffer, start))
    for first in range(0, count, SEGMENT_ROWS):
        size = min(SEGMENT_ROWS, count - first)
        for group in ref_groups(buffer, start + 4 * first, size):
            columns.add(group, slice(first, first + size))
    return columns.finish(dictionary)


def ref_groups(buffer: Buffer, start: int, count: int) -> Iterator[TableColumns]:
    """The references of a vector, grouped by the fields they have."""
    return tables_at(buffer, start, count, "references", smallest=SMALLEST_REF).groups()


def _rank(buffer: Buffer, start: int) -> int:
    """Number of coordinates of the first reference."""
    _, ndim = Table(buffer, start + buffer.read(U32, start)).required_vector(INDEX, 4, "index")
    if ndim > MAX_NDIM:
        raise buffer.fail("too many dimensions")
    return ndim


class _Columns:
    """Columns of one array while they are put together from groups of equal layout."""

    def __init__(self, buffer: Buffer, count: int, ndim: int) -> None:
        self._buffer = buffer
        self._count = count
        self._ndim = ndim
        self._found: dict[str, npt.NDArray[Any]] = {}
        self._kinds: list[tuple[slice, npt.NDArray[np.intp] | slice, ChunkType]] = []

    def add(self, group: TableColumns, part: slice) -> None:
        """Take over the fields of a group of some part of the rows.

        What kind of references they are, their fields tell.
        """
        put = partial(self._put, part, group.rows)
        put("coords", group.equal_vectors(INDEX, self._ndim, "index"))
        if group.has(CHUNK_ID):
            kind = ChunkType.native
            raw = np.ascontiguousarray(group.values(CHUNK_ID, "V12"))
            put("chunk_id", raw.view(np.uint8).reshape(-1, 12))
        elif group.has(PACKED) or group.has(LOCATION):
            kind = ChunkType.virtual
            slot, name = (PACKED, "packed") if group.has(PACKED) else (LOCATION, "plain")
            put(name, group.pointers(slot))
            if group.has(ETAG):
                put("etag", group.pointers(ETAG))
            elif group.has(LAST_MODIFIED):
                put("last_modified", group.values(LAST_MODIFIED, "<u4"))
        elif group.has(INLINE):
            kind = ChunkType.inline
            starts, lengths = vectors_at(self._buffer, group.pointers(INLINE), 1)
            put("offset", starts.astype(np.uint64))
            put("length", lengths.astype(np.uint64))
        else:
            raise self._buffer.fail("reference without chunk id, location or bytes")
        self._kinds.append((part, group.rows, kind))
        if kind != ChunkType.inline:
            for slot, name in ((OFFSET, "offset"), (LENGTH, "length")):
                if group.has(slot):
                    put(name, group.values(slot, "<u8"))

    def _put(
        self,
        part: slice,
        rows: npt.NDArray[np.intp] | slice,
        name: str,
        values: npt.NDArray[Any],
    ) -> None:
        column = self._found.get(name)
        if column is None:
            shape = (self._count, *values.shape[1:])
            column = self._found[name] = np.zeros(shape, values.dtype)
        column[part][rows] = values

    def _kind(self) -> npt.NDArray[np.uint8]:
        distinct = {kind for _, _, kind in self._kinds}
        if len(distinct) == 1:
            return constant(distinct.pop(), np.uint8, self._count)
        column = np.zeros(self._count, np.uint8)
        for part, rows, kind in self._kinds:
            column[part][rows] = kind
        return column

    def _column(self, name: str, dtype: npt.DTypeLike, *width: int) -> npt.NDArray[Any]:
        found = self._found.pop(name, None)
        return constant(0, dtype, self._count, *width) if found is None else found

    def finish(self, dictionary: bytes) -> ChunkTable:
        """Make the table, checking the order of its rows."""
        coords = self._column("coords", np.uint32)
        if not is_ascending(coords):
            raise self._buffer.fail("references are not in ascending order")
        kind = self._kind()
        location, locations = self._locations(dictionary)
        etag, etags = self._texts("etag")
        offset, inline_data = self._inline(kind)
        return ChunkTable(
            coords=coords,
            kind=kind,
            offset=offset,
            length=self._column("length", np.uint64),
            chunk_id=self._column("chunk_id", np.uint8, 12),
            location=location,
            etag=etag,
            last_modified=self._column("last_modified", np.uint32),
            locations=locations,
            etags=etags,
            inline_data=inline_data,
        )

    def _texts(self, name: str) -> tuple[npt.NDArray[np.int32], Sequence[str]]:
        if name not in self._found:
            return constant(ABSENT, np.int32, self._count), StringPool.of([])
        return pool_strings(self._buffer, self._found.pop(name))

    def _locations(self, dictionary: bytes) -> tuple[npt.NDArray[np.int32], Sequence[str]]:
        numbers, plain = self._texts("plain")
        if "packed" not in self._found:
            return numbers, plain
        key = self._buffer.key
        packed_numbers, data, ends = pool_bytes(self._buffer, self._found.pop("packed"))
        packed = PackedStrings(data, ends, dictionary, key)
        if not len(plain):
            return packed_numbers, packed
        both = StringPool.of([*plain, *packed])
        return np.where(packed_numbers >= 0, packed_numbers + len(plain), numbers), both

    def _inline(self, kind: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], bytes]:
        """Bring inline bytes together, so that the file need not be kept for them."""
        offset = self._column("offset", np.uint64)
        rows = np.flatnonzero(kind == ChunkType.inline)
        if not len(rows):
            return offset, b""
        lengths = self._found["length"][rows].astype(np.int64)
        if int(lengths.sum()) > self._buffer.size:
            raise self._buffer.fail("overlapping bytes")
        data, ends = gather_runs(self._buffer.data, offset[rows].astype(np.int64), lengths)
        offset[rows] = ends - lengths
        return offset, data


# --- writing ---


@dataclass(frozen=True, slots=True)
class LocationDictionary:
    """The dictionary of a manifest and the level its locations are compressed with."""

    dictionary: bytes
    level: int


def plan_packing(
    tables: Iterable[ChunkTable], settings: LocationCompression | None
) -> LocationDictionary | None:
    """Decide whether to compress locations, and train the dictionary."""
    if settings is None:
        return None
    tables = list(tables)
    virtual = [table.kind == ChunkType.virtual for table in tables]
    wanted = 1000 if settings.min_num_chunks is None else settings.min_num_chunks
    if sum(int(rows.sum()) for rows in virtual) < max(1, wanted):
        return None
    samples = [
        table.locations[number]
        for table, rows in zip(tables, virtual, strict=True)
        for number in np.unique(table.location[rows]).tolist()
    ]
    dictionary = train(samples, settings)
    level = settings.compression_level
    return (
        None
        if dictionary is None
        else LocationDictionary(dictionary, 3 if level is None else level)
    )


def may_fit(table: ChunkTable, limit: int = MAX_SIZE - ROOM) -> bool:
    """Whether readers certainly take a manifest with these references.

    They refuse 2 GiB, and count a text again for each reference that leads to it.
    """
    fixed = len(table) * (LARGEST_TABLE + 4 * table.ndim) + len(table.inline_data)
    pools = ((table.location, table.locations), (table.etag, table.etags))
    longest = [_longest(texts) for _, texts in pools]
    # A text takes space in the file and again in the reader's count.
    if fixed + 2 * len(table) * sum(longest) <= limit:
        return True
    return fixed + 2 * sum(_counted(numbers, texts) for numbers, texts in pools) <= limit


def _longest(texts: Sequence[str]) -> int:
    if not len(texts):
        return 0
    if isinstance(texts, PackedStrings):  # not worth unpacking
        return MAX_LOCATION
    return int(StringPool.of(texts).sizes.max())


def _counted(numbers: npt.NDArray[np.int32], texts: Sequence[str]) -> int:
    present = numbers[numbers >= 0]
    return int(StringPool.of(texts).sizes[present].sum()) if len(present) else 0


def encode_refs(table: ChunkTable, packing: LocationDictionary | None) -> TableBlocks:
    """Write the references of one array, with no field that none of them uses."""
    counts = np.bincount(table.kind, minlength=len(ChunkType)).tolist()
    natives, virtuals, inlines = counts[ChunkType.native : ChunkType.inline + 1]
    scalars, strings = [], []
    if natives or virtuals:
        ranged = table.kind != ChunkType.inline if inlines else None
        for slot, values in ((OFFSET, table.offset), (LENGTH, table.length)):
            kept = values if ranged is None else values * ranged
            scalars.append(Scalars(slot, kept.astype("<u8", copy=False), ranged))
    if natives:
        ids = np.ascontiguousarray(table.chunk_id).view("V12").ravel()
        is_native = table.kind == ChunkType.native if natives < len(table) else None
        scalars.append(Scalars(CHUNK_ID, ids, is_native))
    if virtuals:
        is_virtual = table.kind == ChunkType.virtual if virtuals < len(table) else None
        if table.last_modified.any():
            modified = table.last_modified.astype("<u4", copy=False)
            scalars.append(Scalars(LAST_MODIFIED, modified, is_virtual))
        strings += _encode_locations(table, packing)
        if (table.etag >= 0).any():
            strings.append(Texts(ETAG, table.etag, StringPool.of(table.etags)))
    if inlines:
        numbers = np.arange(len(table), dtype=np.int32)
        if inlines < len(table):
            numbers[table.kind != ChunkType.inline] = ABSENT
        data = table.inline_data, table.offset.astype(np.int64), table.length.astype(np.int64)
        strings.append(Texts(INLINE, numbers, ByteRuns(*data), is_text=False))
    return encode_tables(table.coords, scalars, strings)


def _encode_locations(table: ChunkTable, packing: LocationDictionary | None) -> list[Texts]:
    """Plain locations, or packed ones and those too long to be packed."""
    if packing is None:
        return [Texts(LOCATION, table.location, StringPool.of(table.locations))]
    compact = table.compact()
    pool_ = StringPool.of(compact.locations)
    lengths = np.diff(pool_.ends, prepend=0)
    is_long = np.append(lengths > MAX_LOCATION, False)
    frames = pack(pool_, packing.dictionary, packing.level)
    long_rows = is_long[compact.location]
    found = [Texts(PACKED, np.where(long_rows, ABSENT, compact.location), frames, is_text=False)]
    if long_rows.any():
        found.append(Texts(LOCATION, np.where(long_rows, compact.location, ABSENT), pool_))
    return found
