"""Chunk references: single ones as records, the references of an array as columns.

A `ChunkTable` is what a manifest is in memory. Its rows are in ascending order of coordinates;
all columns are numpy arrays of one length, and text columns are numbers into a `Strings` pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from frazil.ids import ChunkId
from frazil.model.nodes import Coordinates, Extents

U8: TypeAlias = npt.NDArray[np.uint8]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I32: TypeAlias = npt.NDArray[np.int32]
Rows: TypeAlias = npt.NDArray[np.intp]

ABSENT: Final = -1
DENSE_CELLS: Final = 64 << 20
"""Largest grid looked up through a dense row index; 4 bytes a cell."""


class ChunkType(IntEnum):
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


@dataclass(frozen=True, slots=True)
class VirtualRef:
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


class Strings(Sequence[str]):
    """An immutable pool of texts in one UTF-8 buffer: `data[ends[i-1]:ends[i]]` is text i."""

    def __init__(self, data: bytes, ends: npt.NDArray[np.int64]) -> None:
        self.data = data
        self.ends = ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Pack texts."""
        encoded = [text.encode() for text in texts]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        return cls(b"".join(encoded), ends)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = int(self.ends[index - 1]) if index else 0
        return str(self.data[start : int(self.ends[index])], "utf-8")

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self.ends.tolist():
            yield str(self.data[start:end], "utf-8")
            start = end


NO_STRINGS: Final = Strings(b"", np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
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
    inline_data: bytes | memoryview = b""
    _index: dict[str, object] = field(default_factory=dict, repr=False)

    # --- making tables ---

    @classmethod
    def empty(cls, ndim: int) -> ChunkTable:
        """A table without rows."""
        return cls.native(np.zeros((0, ndim), np.uint32), np.zeros((0, 12), np.uint8), 0, 0)

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
            kind=np.full(n, ChunkType.native, np.uint8),
            offset=_column(offset, n),
            length=_column(length, n),
            chunk_id=chunk_id,
            location=np.full(n, ABSENT, np.int32),
            etag=np.full(n, ABSENT, np.int32),
            last_modified=np.zeros(n, np.uint32),
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
            kind=np.full(n, ChunkType.virtual, np.uint8),
            offset=_column(offset, n),
            length=_column(length, n),
            chunk_id=np.zeros((n, 12), np.uint8),
            location=location,
            etag=np.full(n, ABSENT, np.int32) if etag is None else etag,
            last_modified=np.broadcast_to(np.asarray(last_modified, np.uint32), (n,)),
            locations=locations,
            etags=etags,
        )

    @classmethod
    def from_refs(cls, ndim: int, refs: Iterable[tuple[Coordinates, ChunkRef]]) -> ChunkTable:
        """A table from single references in any order; coordinates must be distinct."""
        ordered = sorted(refs, key=lambda item: item[0])
        n = len(ordered)
        coords = np.array([c for c, _ in ordered], np.uint32).reshape(n, ndim)
        kind = np.zeros(n, np.uint8)
        offset = np.zeros(n, np.uint64)
        length = np.zeros(n, np.uint64)
        chunk_id = np.zeros((n, 12), np.uint8)
        location = np.full(n, ABSENT, np.int32)
        etag = np.full(n, ABSENT, np.int32)
        last_modified = np.zeros(n, np.uint32)
        locations: dict[str, int] = {}
        etags: dict[str, int] = {}
        inline = bytearray()
        for row, (_, ref) in enumerate(ordered):
            match ref:
                case NativeRef():
                    kind[row] = ChunkType.native
                    chunk_id[row] = np.frombuffer(ref.chunk_id, np.uint8)
                    offset[row] = ref.offset
                case VirtualRef():
                    kind[row] = ChunkType.virtual
                    location[row] = locations.setdefault(ref.location, len(locations))
                    offset[row] = ref.offset
                    if isinstance(ref.checksum, str):
                        etag[row] = etags.setdefault(ref.checksum, len(etags))
                    elif ref.checksum is not None:
                        last_modified[row] = ref.checksum
                case InlineRef():
                    kind[row] = ChunkType.inline
                    offset[row] = len(inline)
                    inline += ref.data
            length[row] = ref.length
        return cls(
            coords=coords,
            kind=kind,
            offset=offset,
            length=length,
            chunk_id=chunk_id,
            location=location,
            etag=etag,
            last_modified=last_modified,
            locations=Strings.of(locations),
            etags=Strings.of(etags),
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
        low, high = self.coords.min(axis=0).tolist(), self.coords.max(axis=0).tolist()
        return tuple((int(a), int(b) + 1) for a, b in zip(low, high, strict=True))

    def ref(self, row: int) -> ChunkRef:
        """The reference in one row."""
        offset, length = int(self.offset[row]), int(self.length[row])
        match self.kind[row]:
            case ChunkType.native:
                return NativeRef(ChunkId(self.chunk_id[row].tobytes()), offset, length)
            case ChunkType.inline:
                return InlineRef(bytes(self.inline_data[offset : offset + length]))
            case _:
                return VirtualRef(
                    self.locations[int(self.location[row])], offset, length, self._checksum(row)
                )

    def _checksum(self, row: int) -> str | int | None:
        if self.etag[row] != ABSENT:
            return self.etags[int(self.etag[row])]
        return int(self.last_modified[row]) or None

    def refs(self) -> Iterator[tuple[Coordinates, ChunkRef]]:
        """All rows as records; for small tables."""
        for row, coords in enumerate(self.coords.tolist()):
            yield tuple(coords), self.ref(row)

    def find(self, coords: Coordinates) -> int:
        """Row of a chunk, or -1."""
        if len(coords) != self.ndim:
            return ABSENT
        return int(self.find_many(np.array([coords], np.int64).reshape(1, self.ndim))[0])

    def find_many(self, coords: npt.NDArray[np.integer]) -> Rows:
        """Rows of many chunks, -1 where there is none; `coords` is (m, ndim)."""
        n = len(self)
        if n == 0:
            return np.full(len(coords), ABSENT, np.intp)
        if self.ndim == 0:
            return np.zeros(len(coords), np.intp)
        low, sizes = self._box
        local = coords.astype(np.int64) - low
        inside = ((local >= 0) & (local < sizes)).all(axis=1)
        keys = self._keys
        wanted = local @ _strides(sizes)
        rows = np.searchsorted(keys, wanted)
        rows[rows == n] = 0
        found: Rows = np.where(inside & (keys[rows] == wanted), rows, ABSENT)
        return found

    @cached_property
    def _box(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        low = self.coords.min(axis=0).astype(np.int64)
        return low, self.coords.max(axis=0).astype(np.int64) - low + 1

    @cached_property
    def _keys(self) -> npt.NDArray[np.int64]:
        low, sizes = self._box
        keys: npt.NDArray[np.int64] = (self.coords.astype(np.int64) - low) @ _strides(sizes)
        return keys

    # --- deriving ---

    def take(self, rows: Rows | npt.NDArray[np.bool_]) -> ChunkTable:
        """The chosen rows, which must be ascending; text pools are shared."""
        return ChunkTable(
            coords=self.coords[rows],
            kind=self.kind[rows],
            offset=self.offset[rows],
            length=self.length[rows],
            chunk_id=self.chunk_id[rows],
            location=self.location[rows],
            etag=self.etag[rows],
            last_modified=self.last_modified[rows],
            locations=self.locations,
            etags=self.etags,
            inline_data=self.inline_data,
        )

    def within(self, extents: Extents) -> ChunkTable:
        """The rows whose coordinates lie in a box."""
        if not extents or not len(self):
            return self
        low = np.array([start for start, _ in extents], np.int64)
        high = np.array([end for _, end in extents], np.int64)
        inside = ((self.coords >= low) & (self.coords < high)).all(axis=1)
        return self if inside.all() else self.take(inside)


def _column(values: npt.ArrayLike, n: int) -> U64:
    return np.broadcast_to(np.asarray(values, np.uint64), (n,))


def _strides(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """C-order strides of a box, in cells."""
    strides = np.ones(len(sizes), np.int64)
    strides[:-1] = np.cumprod(sizes[:0:-1])[::-1]
    return strides


def concat(tables: Sequence[ChunkTable], ndim: int) -> ChunkTable:
    """Unite tables with distinct coordinates into one, in order."""
    raise NotImplementedError


def overlay(base: ChunkTable, changes: ChunkTable, dropped: U32) -> ChunkTable:
    """`base` without the rows at the coordinates of `changes` and `dropped`, plus `changes`."""
    raise NotImplementedError
