"""Chunk references read one by one, gathered into the columns the model keeps them in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, FormatError
from frazil.ids import NodeId
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, StringPool, constant
from frazil.model.lookup import ascending_order, is_ascending
from frazil.model.nodes import Coordinates

NATIVE: Final = int(ChunkType.native)
VIRTUAL: Final = int(ChunkType.virtual)
INLINE: Final = int(ChunkType.inline)
_NO_ID: Final = bytes(12)


class TableBuilder:
    """Gathers references of one array and rank."""

    def __init__(self) -> None:
        self._coords: list[Coordinates] = []
        self._kind = bytearray()
        self._offset: list[int] = []
        self._length: list[int] = []
        self._id: list[bytes] = []
        self._location: dict[int, int] = {}
        self._etag: dict[int, int] = {}
        self._modified: dict[int, int] = {}
        self._locations: dict[str, int] = {}
        self._etags: dict[str, int] = {}
        self._inline: list[bytes] = []

    def __len__(self) -> int:
        return len(self._kind)

    def native(self, coords: Coordinates, chunk_id: bytes, offset: int, length: int) -> None:
        """Add a range of a chunk object."""
        self._add(coords, NATIVE, offset, length, chunk_id)

    def inline(self, coords: Coordinates, data: bytes) -> None:
        """Add bytes that are in the manifest."""
        self._inline.append(data)
        self._add(coords, INLINE, 0, len(data), _NO_ID)

    def virtual(
        self,
        coords: Coordinates,
        location: str,
        offset: int,
        length: int,
        checksum: str | int | None = None,
    ) -> None:
        """Add a range of an object outside the repository."""
        row = len(self._kind)
        self._location[row] = self._locations.setdefault(location, len(self._locations))
        if isinstance(checksum, str):
            self._etag[row] = self._etags.setdefault(checksum, len(self._etags))
        elif checksum:
            self._modified[row] = checksum
        self._add(coords, VIRTUAL, offset, length, _NO_ID)

    def _add(self, coords: Coordinates, kind: int, offset: int, length: int, id: bytes) -> None:
        self._coords.append(coords)
        self._kind.append(kind)
        self._offset.append(offset)
        self._length.append(length)
        self._id.append(id)

    def finish(self, ndim: int, *, key: str) -> ChunkTable:
        """The table, its rows in order.

        Raises:
            FormatError: two references have the same coordinates.
        """
        n = len(self._kind)
        kind = np.frombuffer(bytes(self._kind), np.uint8)
        offset = np.array(self._offset, np.uint64)
        length = np.array(self._length, np.uint64)
        is_inline = kind == INLINE
        if is_inline.any():
            ends = np.cumsum(length[is_inline], dtype=np.uint64)
            offset[is_inline] = ends - length[is_inline]
        table = ChunkTable(
            coords=np.array(self._coords, np.uint32).reshape(n, ndim),
            kind=kind,
            offset=offset,
            length=length,
            chunk_id=np.frombuffer(b"".join(self._id), np.uint8).reshape(n, 12),
            location=_sparse(self._location, ABSENT, np.int32, n),
            etag=_sparse(self._etag, ABSENT, np.int32, n),
            last_modified=_sparse(self._modified, 0, np.uint32, n),
            locations=StringPool.of(list(self._locations)),
            etags=StringPool.of(list(self._etags)),
            inline_data=b"".join(self._inline),
        )
        return sorted_rows(table, key=key)


def sorted_rows(table: ChunkTable, *, key: str) -> ChunkTable:
    """The rows of a table in order of their coordinates."""
    order = ascending_order(table.coords)
    if order is not None:
        table = table.take(order)
    if not is_ascending(table.coords):
        raise FormatError(
            "damaged file: two references for one chunk", kind=ErrorKind.DESERIALIZATION, key=key
        )
    return table


def _sparse(values: dict[int, int], default: int, dtype: npt.DTypeLike, n: int) -> npt.NDArray[Any]:
    if not values:
        return constant(default, dtype, n)
    column: npt.NDArray[Any] = np.full(n, default, dtype)
    column[np.fromiter(values, np.intp, len(values))] = list(values.values())
    return column


class ManifestBuilder:
    """Gathers the references of all arrays of a manifest, by node and rank."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._tables: dict[NodeId, dict[int, TableBuilder]] = defaultdict(
            lambda: defaultdict(TableBuilder)
        )

    def of(self, node: NodeId, ndim: int) -> TableBuilder:
        """Where references of this array and rank go."""
        return self._tables[node][ndim]

    def finish(self) -> tuple[Mapping[NodeId, ChunkTable], Mapping[NodeId, Sequence[ChunkTable]]]:
        """The table of each array with most rows, and those of other ranks.

        Raises:
            FormatError: two references have the same coordinates.
        """
        tables: dict[NodeId, ChunkTable] = {}
        strays: dict[NodeId, Sequence[ChunkTable]] = {}
        for node, ranks in sorted(self._tables.items()):
            tables[node], *others = [
                builder.finish(ndim, key=self._key)
                for ndim, builder in sorted(ranks.items(), key=lambda item: -len(item[1]))
            ]
            if others:
                strays[node] = others
        return tables, strays
