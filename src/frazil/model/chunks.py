"""Chunk references: single ones as records, the references of an array as columns.

A `ChunkTable` is what a manifest is in memory. Its rows are in ascending order of coordinates;
all columns are numpy arrays of one length, and text columns are numbers into a `StringPool` pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import I32, U8, U32, U64, Rows
from frazil.ids import ChunkId
from frazil.masking import MaskedRecord
from frazil.model.lookup import ABSENT as ABSENT
from frazil.model.lookup import Lookup, lookup_for
from frazil.model.nodes import Coordinates, Extents
from frazil.model.settings import NamedInt
from frazil.model.strings import NO_STRINGS as NO_STRINGS
from frazil.model.strings import StringPool as StringPool
from frazil.model.strings import gather_runs


class ChunkType(NamedInt):
    """Where the bytes of a chunk are."""

    uninitialized = 0
    native = 1
    virtual = 2
    inline = 3


@dataclass(frozen=True, slots=True)
class NativeRef:
    """A range of an object below `chunks/`."""

    chunk_id: ChunkId
    offset: int
    length: int


@dataclass(frozen=True, slots=True, repr=False)
class VirtualRef(MaskedRecord):
    """A range of an object outside the repository.

    `checksum` is an ETag, or the last-modified time in whole seconds since 1970.
    """

    location: str
    offset: int
    length: int
    checksum: str | int | None = None


@dataclass(frozen=True, slots=True)
class InlineRef:
    """The bytes themselves, kept in the manifest."""

    data: bytes

    @property
    def length(self) -> int:
        """Size in bytes."""
        return len(self.data)


ChunkRef: TypeAlias = NativeRef | VirtualRef | InlineRef


COLUMNS: Final = (
    "coords",
    "kind",
    "offset",
    "length",
    "chunk_id",
    "location",
    "etag",
    "last_modified",
)
"""Names of the columns of a `ChunkTable`."""
_NATIVE, _VIRTUAL, _INLINE = int(ChunkType.native), int(ChunkType.virtual), int(ChunkType.inline)
_NO_ID: Final = bytes(12)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkTable:
    """References of one array, ascending by coordinates; never changed once made.

    For native and virtual rows `offset` and `length` are the byte range in the object; for
    inline rows they are the range in `inline_data`.
    """

    coords: U32
    """(n, ndim)"""
    kind: U8
    offset: U64
    length: U64
    chunk_id: U8
    """(n, 12); zero for other kinds"""
    location: I32
    """number of the text in `locations`, or -1"""
    etag: I32
    """number of the text in `etags`, or -1"""
    last_modified: U32
    """seconds since 1970, 0 for none"""
    locations: Sequence[str] = NO_STRINGS
    etags: Sequence[str] = NO_STRINGS
    inline_data: bytes = b""

    def __repr__(self) -> str:
        return f"ChunkTable({len(self.kind)} references)"

    # --- making tables ---

    @staticmethod
    @lru_cache(maxsize=32)
    def empty(ndim: int) -> ChunkTable:
        """A table without rows."""
        return ChunkTable.native(np.zeros((0, ndim), np.uint32), np.zeros((0, 12), np.uint8), 0, 0)

    @classmethod
    def native(
        cls,
        coords: npt.NDArray[np.uint32],
        chunk_id: U8,
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
    ) -> ChunkTable:
        """A table of native references, from columns already in order."""
        n = len(coords)
        return cls(
            coords=np.ascontiguousarray(coords, np.uint32),
            kind=constant(ChunkType.native, np.uint8, n),
            offset=_column(offset, n),
            length=_column(length, n),
            chunk_id=chunk_id,
            location=constant(ABSENT, np.int32, n),
            etag=constant(ABSENT, np.int32, n),
            last_modified=constant(0, np.uint32, n),
        )

    @classmethod
    def virtual(
        cls,
        coords: npt.NDArray[np.uint32],
        location: I32,
        locations: Sequence[str],
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
        *,
        last_modified: npt.ArrayLike = 0,
        etag: I32 | None = None,
        etags: Sequence[str] = NO_STRINGS,
    ) -> ChunkTable:
        """A table of virtual references, from columns already in order."""
        n = len(coords)
        return cls(
            coords=np.ascontiguousarray(coords, np.uint32),
            kind=constant(ChunkType.virtual, np.uint8, n),
            offset=_column(offset, n),
            length=_column(length, n),
            chunk_id=constant(0, np.uint8, n, 12),
            location=location,
            etag=constant(ABSENT, np.int32, n) if etag is None else etag,
            last_modified=np.broadcast_to(np.asarray(last_modified, np.uint32), (n,)),
            locations=locations,
            etags=etags,
        )

    @classmethod
    def from_refs(cls, ndim: int, refs: Iterable[tuple[Coordinates, ChunkRef]]) -> ChunkTable:
        """A table from single references in any order; coordinates must be distinct."""
        ordered = sorted(refs, key=lambda item: item[0])
        n = len(ordered)
        locations: dict[str, int] = {}
        etags: dict[str, int] = {}
        inline = bytearray()
        rows: list[tuple[Any, ...]] = []
        for _, ref in ordered:
            match ref:
                case NativeRef():
                    rows.append((_NATIVE, ref.offset, ref.length, ref.chunk_id, ABSENT, ABSENT, 0))
                case VirtualRef():
                    place = locations.setdefault(ref.location, len(locations))
                    tag, time = ABSENT, 0
                    if isinstance(ref.checksum, str):
                        tag = etags.setdefault(ref.checksum, len(etags))
                    elif ref.checksum is not None:
                        time = ref.checksum
                    rows.append((_VIRTUAL, ref.offset, ref.length, _NO_ID, place, tag, time))
                case InlineRef():
                    size = len(ref.data)
                    rows.append((_INLINE, len(inline), size, _NO_ID, ABSENT, ABSENT, 0))
                    inline += ref.data
        columns = zip(*rows, strict=True) if rows else [()] * 7
        kind, offset, length, chunk_id, location, etag, last_modified = columns
        return cls(
            coords=np.array([c for c, _ in ordered], np.uint32).reshape(n, ndim),
            kind=np.array(kind, np.uint8),
            offset=np.array(offset, np.uint64),
            length=np.array(length, np.uint64),
            chunk_id=np.frombuffer(b"".join(chunk_id), np.uint8).reshape(n, 12),
            location=np.array(location, np.int32),
            etag=np.array(etag, np.int32),
            last_modified=np.array(last_modified, np.uint32),
            locations=StringPool.of(locations),
            etags=StringPool.of(etags),
            inline_data=bytes(inline),
        )

    # --- reading ---

    def __len__(self) -> int:
        return len(self.coords)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.coords.shape[1])

    @cached_property
    def extents(self) -> Extents:
        """Bounding box of the coordinates; empty for scalar arrays and empty tables."""
        if not len(self):
            return ()
        # Rows ascend, so the first axis needs no search.
        ends = [(self.coords[0, 0], self.coords[-1, 0])] if self.ndim else []
        for axis in range(1, self.ndim):
            column = self.coords[:, axis]
            ends.append((column.min(), column.max()))
        return tuple((int(low), int(high) + 1) for low, high in ends)

    def ref(self, row: int) -> ChunkRef:
        """The reference in one row."""
        # `item` gives plain numbers; numpy's own are slow to make and to compare.
        offset, length = self.offset.item(row), self.length.item(row)
        kind = self.kind.item(row)
        if kind == _NATIVE:
            return NativeRef(ChunkId(self.chunk_id[row].tobytes()), offset, length)
        if kind == _INLINE:
            return InlineRef(bytes(self.inline_data[offset : offset + length]))
        location = self.locations[self.location.item(row)]
        return VirtualRef(location, offset, length, self._checksum(row))

    def _checksum(self, row: int) -> str | int | None:
        etag = self.etag.item(row)
        if etag != ABSENT:
            return self.etags[etag]
        return self.last_modified.item(row) or None

    def refs(self) -> Iterator[tuple[Coordinates, ChunkRef]]:
        """All rows as records; for small tables."""
        for row, coords in enumerate(self.coords.tolist()):
            yield tuple(coords), self.ref(row)

    def find(self, coords: Coordinates) -> int:
        """Row of a chunk, or -1."""
        return self._lookup.row(coords) if len(coords) == self.ndim else ABSENT

    def find_many(self, coords: npt.NDArray[np.integer]) -> Rows:
        """Rows of many chunks, -1 where there is none; `coords` is (m, ndim)."""
        return self._lookup.rows(coords)

    @cached_property
    def _lookup(self) -> Lookup:
        return lookup_for(self.coords)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    # --- deriving ---

    def take(self, rows: Rows | npt.NDArray[np.bool_] | slice) -> ChunkTable:
        """The chosen rows, which must be ascending; text pools are shared."""
        if isinstance(rows, np.ndarray) and rows.dtype == bool:
            rows = np.flatnonzero(rows)
        columns: dict[str, Any] = {name: _picked(getattr(self, name), rows) for name in COLUMNS}
        return replace(self, **columns)

    def at(self, coords: U32) -> ChunkTable:
        """The same references at other coordinates, which must ascend."""
        return replace(self, coords=np.ascontiguousarray(coords, np.uint32))

    def within(self, extents: Extents) -> ChunkTable:
        """The rows whose coordinates lie in a box."""
        if not extents or not len(self):
            return self
        start, stop = np.searchsorted(self.coords[:, 0], extents[0])
        table = self.take(slice(start, stop)) if stop - start < len(self) else self
        inside = np.ones(len(table), bool)
        for axis, (low, high) in enumerate(extents[1:], 1):
            column = table.coords[:, axis]
            inside &= (column >= low) & (column < high)
        return table if inside.all() else table.take(inside)

    def compact(self) -> ChunkTable:
        """The same rows without the texts and inline bytes that no row uses."""
        location, locations = _compact_texts(self.location, self.locations)
        etag, etags = _compact_texts(self.etag, self.etags)
        inline = np.flatnonzero(self.kind == ChunkType.inline)
        offset, data = self.offset, self.inline_data
        if int(self.length[inline].sum()) != len(data):
            lengths = self.length[inline].astype(np.int64)
            data, ends = gather_runs(data, self.offset[inline].astype(np.int64), lengths)
            offset = self.offset.copy()
            offset[inline] = ends - lengths
        return replace(
            self,
            offset=offset,
            location=location,
            locations=locations,
            etag=etag,
            etags=etags,
            inline_data=data,
        )


def constant(value: npt.ArrayLike, dtype: npt.DTypeLike, *shape: int) -> npt.NDArray[Any]:
    """A read-only column with one value everywhere; it takes no memory."""
    # Ten times as fast as numpy's broadcast_to, which small commits call a dozen times.
    one = np.array(value, dtype)
    return np.ndarray(shape, one.dtype, one.tobytes(), 0, (0,) * len(shape))


def _picked(column: npt.NDArray[Any], rows: npt.NDArray[Any] | slice) -> npt.NDArray[Any]:
    """Some items of a column; one with a single value everywhere stays without memory."""
    picked: npt.NDArray[Any]
    if isinstance(rows, slice):
        picked = column[rows]
    elif len(column) and column.strides[0] == 0:
        picked = np.broadcast_to(column[0], (len(rows), *column.shape[1:]))
    elif column.ndim > 1 and column.shape[1] and column.flags.c_contiguous:
        # numpy gathers opaque items several times as fast as rows.
        items = column.view(f"V{column.itemsize * column.shape[1]}").ravel()
        picked = items[rows].view(column.dtype).reshape(-1, column.shape[1])
    else:
        picked = column[rows]
    return picked


def _column(values: npt.ArrayLike, n: int) -> U64:
    found = np.asarray(values, np.uint64)
    return np.broadcast_to(found, (n,)) if found.ndim else constant(found, np.uint64, n)


def _compact_texts(numbers: I32, pool: Sequence[str]) -> tuple[I32, Sequence[str]]:
    used = np.zeros(len(pool) + 1, bool)  # one more, for the -1 of rows without text
    used[numbers] = True
    used = used[:-1]
    if used.all():
        return numbers, pool
    renumber = np.append(np.cumsum(used, dtype=np.int32) - 1, ABSENT).astype(np.int32)
    return renumber[numbers], StringPool.of(pool).take(np.flatnonzero(used))
