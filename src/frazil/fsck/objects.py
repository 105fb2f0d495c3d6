"""What references need: chunk objects that are long enough, and sources that are unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.fsck.findings import SHOWN_CHUNKS, Code, Finding
from frazil.ids import NodeId, crockford_many
from frazil.maintenance.id_sets import ID_WIDTH, U8, U64, RowSet, native_needs, range_ends
from frazil.maintenance.listing import Objects, list_older
from frazil.masking import shown_url
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, VirtualRef
from frazil.model.nodes import Coordinates
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Storage
from frazil.transaction.context import Context

I64: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = npt.NDArray[np.bytes_]
SourceVersion: TypeAlias = tuple[str, str | int | None]
"""Location and checksum of a virtual reference."""

FEW_OBJECTS: Final = 256
"""So many objects are asked for one by one; listing all others with them would take longer."""
ALL: Final = datetime.max.replace(tzinfo=UTC)


def virtual_needs(table: ChunkTable) -> Iterator[tuple[SourceVersion, int, int]]:
    """The sources of the virtual references of a table: how long each must be, how many refer."""
    rows = np.flatnonzero(table.kind == ChunkType.virtual)
    if not len(rows):
        return
    columns = np.empty((len(rows), 3), np.int64)
    columns[:, 0] = table.location[rows]
    columns[:, 1] = table.etag[rows]
    columns[:, 2] = table.last_modified[rows]
    found, places = np.unique(columns, axis=0, return_inverse=True)
    places = places.reshape(-1)
    ends = np.zeros(len(found), np.uint64)
    np.maximum.at(ends, places, range_ends(table.offset[rows], table.length[rows]))
    counts = np.bincount(places, minlength=len(found)).tolist()
    for row, end, count in zip(found.tolist(), ends.tolist(), counts, strict=True):
        location, etag, seconds = row
        checksum = table.etags[etag] if etag != ABSENT else seconds or None
        yield (table.locations[location], checksum), end, count


# --- chunk objects ---


class ChunkObjects:
    """The chunk objects of a repository: a few are asked for, many are listed, once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asked: dict[bytes, int] = {}
        self._listed: Objects | None = None
        self._order: npt.NDArray[np.intp] = np.zeros(0, np.intp)

    def sizes(self, ids: U8) -> I64:
        """Sizes of objects, -1 for those that are not there; `ids` is (n, 12)."""
        wanted, places = np.unique(_names(ids), return_inverse=True)
        rows = wanted.view(np.uint8).reshape(-1, ID_WIDTH)
        if self._listed is None and len(rows) + len(self._asked) <= FEW_OBJECTS:
            return self._ask(rows)[places]
        listed = self.listed()
        if not len(listed):
            return np.full(len(ids), -1, np.int64)
        names = _names(listed.ids)
        at = np.minimum(np.searchsorted(names, wanted, sorter=self._order), len(names) - 1)
        found = self._order[at]
        sizes = np.where(names[found] == wanted, listed.sizes[found].astype(np.int64), -1)
        return sizes[places]

    def are_short(self, ids: U8, ends: U64) -> npt.NDArray[np.bool_]:
        """Which objects are missing, or shorter than references need."""
        sizes = self.sizes(ids)
        return (sizes < 0) | (sizes.astype(np.uint64) < ends)

    def listed(self) -> Objects:
        """All chunk objects."""
        if self._listed is None:
            self._listed = list_older(self._storage, CHUNKS, ALL)
            self._order = np.argsort(_names(self._listed.ids))
        return self._listed

    def _ask(self, rows: U8) -> I64:
        raw = [row.tobytes() for row in rows]
        fresh = [row for row, name in enumerate(raw) if name not in self._asked]
        keys = [CHUNKS + name for name in crockford_many(rows[fresh])]
        for row, item in zip(fresh, self._storage.each(self._storage.head, keys), strict=True):
            self._asked[raw[row]] = -1 if item is None else item.size_bytes
        return np.array([self._asked[name] for name in raw], np.int64)


def _names(ids: U8) -> Names:
    # numpy ignores zeros at the end of such texts, which equal widths make harmless.
    return np.ascontiguousarray(ids).view(f"S{ID_WIDTH}").ravel()


@dataclass(slots=True)
class _Short:
    """An object that is missing or too short, and who needs it."""

    node_id: NodeId
    """an array that needs it"""
    size: int
    end: int = 0
    references: int = 0
    chunks: list[Coordinates] = field(default_factory=list)
    """some of the chunks of that array that need it"""


@dataclass(slots=True, eq=False)
class Needs:
    """What the references of many manifests need; grows."""

    objects: ChunkObjects
    native_references: int = 0
    virtual_references: int = 0
    named: RowSet = field(default_factory=RowSet)
    """chunk objects that references name"""
    sources: dict[SourceVersion, tuple[int, int]] = field(default_factory=dict)
    """how long sources must be, and how many references need them"""
    _short: dict[bytes, _Short] = field(default_factory=dict)

    def add(self, node_id: NodeId, table: ChunkTable) -> None:
        """Take over the references of an array in a manifest."""
        ids, ends = native_needs(table)
        self.native_references += len(ids)
        self.named.add(ids)
        bad = np.flatnonzero(self.objects.are_short(ids, ends))
        if len(bad):
            coords = table.coords[table.kind == ChunkType.native][bad].tolist()
            sizes = self.objects.sizes(ids[bad]).tolist()
            for row, size, index in zip(bad.tolist(), sizes, coords, strict=True):
                one = self._short.setdefault(ids[row].tobytes(), _Short(node_id, size))
                one.end = max(one.end, int(ends[row]))
                one.references += 1
                if one.node_id == node_id and len(one.chunks) < SHOWN_CHUNKS:
                    one.chunks.append(tuple(index))
        for source, end, count in virtual_needs(table):
            longest, total = self.sources.get(source, (0, 0))
            self.sources[source] = max(longest, end), total + count
            self.virtual_references += count

    @property
    def nodes(self) -> set[NodeId]:
        """Arrays that need objects which are not as they should be."""
        return {one.node_id for one in self._short.values()}

    def findings(self, paths: dict[NodeId, str]) -> list[Finding]:
        """What is wrong with chunk objects, by array; `paths` tells where arrays are."""
        found = [
            object_finding(
                CHUNKS + name, one.size, one.end, paths.get(one.node_id), one.references, one.chunks
            )
            for one, name in zip(self._short.values(), self._short_names(), strict=True)
        ]
        return sorted(found, key=lambda each: (each.path or "", each.chunks))

    def _short_names(self) -> list[str]:
        raw = np.frombuffer(b"".join(self._short), np.uint8)
        return crockford_many(raw.reshape(-1, ID_WIDTH))


def object_finding(
    key: str,
    size: int,
    end: int,
    path: str | None,
    references: int,
    chunks: Iterable[Coordinates] = (),
) -> Finding:
    """What is wrong with a chunk object; its size is -1 where it is not there."""
    code = Code.CHUNK_MISSING if size < 0 else Code.CHUNK_SHORT
    detail = "" if size < 0 else f"it has {size} bytes, {end} are needed"
    return Finding(code, key, detail, path, tuple(chunks), references)


# --- sources of virtual chunks ---

_CODES: Final = {
    ErrorKind.VIRTUAL_CHUNK_MODIFIED: Code.SOURCE_CHANGED,
    ErrorKind.INVALID_OBJECT_SIZE: Code.SOURCE_SHORT,
}


def ask_source(
    context: Context, source: SourceVersion, end: int, count: int, path: str | None = None
) -> Finding | None:
    """Ask a source of virtual chunks for the last byte that `count` references need of it.

    It is asked under the checksum that was recorded.
    """
    location, checksum = source
    try:
        context.containers.fetch(VirtualRef(location, max(end, 1) - 1, 1, checksum))
    except InvalidInputError as error:
        code, detail = Code.SOURCE_UNAUTHORIZED, str(error)
    except StorageError as error:
        code, detail = _CODES.get(error.kind, Code.SOURCE_UNREADABLE), str(error)
    else:
        return None
    return Finding(code, shown_url(location), detail, path, references=count)
