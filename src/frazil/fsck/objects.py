"""What references need: chunk objects that are long enough, and sources that are unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, U8, U64, ByteStrings
from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.fsck.findings import SHOWN_CHUNKS, Code, Finding
from frazil.fsck.tuning import FEW_OBJECTS
from frazil.ids import ManifestId, NodeId, crockford_many
from frazil.maintenance.id_sets import ID_WIDTH, RowSet, id_rows, range_ends
from frazil.maintenance.listing import Objects, list_older
from frazil.masking import shown_url
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, VirtualRef
from frazil.model.nodes import Coordinates
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Storage
from frazil.transaction.context import Context

SourceVersion: TypeAlias = tuple[str, str | int | None]
"""Location and checksum of a virtual reference."""

ALL: Final = datetime.max.replace(tzinfo=UTC)


def virtual_needs(table: ChunkTable) -> Iterator[tuple[SourceVersion, tuple[int, int]]]:
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
        yield (table.locations[location], checksum), (end, count)


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


def _names(ids: U8) -> ByteStrings:
    # numpy ignores zeros at the end of such texts, which equal widths make harmless.
    return np.ascontiguousarray(ids).view(f"S{ID_WIDTH}").ravel()


@dataclass(slots=True)
class ObjectUser:
    """An array whose references need an object that is missing or too short."""

    node_id: NodeId
    path: str | None
    end: int = 0
    references: int = 0
    chunks: list[Coordinates] = field(default_factory=list)
    """some of those that need it"""

    def join(self, other: ObjectUser) -> None:
        """Take over what others need of the same object; only chunks of this array are named."""
        self.end = max(self.end, other.end)
        self.references += other.references
        if self.node_id == other.node_id:
            self.chunks += other.chunks[: SHOWN_CHUNKS - len(self.chunks)]


@dataclass(slots=True, eq=False)
class Needs:
    """What the references of many manifests need; grows."""

    objects: ChunkObjects
    named: RowSet = field(default_factory=RowSet)
    """chunk objects that references name"""
    short: dict[ManifestId, U8] = field(default_factory=dict)
    """those of them that are missing or too short, by the manifests that need them"""
    sources: dict[SourceVersion, tuple[int, int]] = field(default_factory=dict)
    """how long sources must be, and how many references need them"""
    users: dict[bytes, ObjectUser] = field(default_factory=dict)
    """which references need objects that are missing or too short"""

    def add_objects(self, manifest_id: ManifestId, ids: U8, ends: U64) -> None:
        """Take over the objects that a manifest needs, and how long they must be."""
        self.named.add(ids)
        bad = self.objects.are_short(ids, ends)
        if bad.any():
            self.short[manifest_id] = ids[bad]

    def add_sources(self, sources: Iterable[tuple[SourceVersion, tuple[int, int]]]) -> None:
        """Take over sources, how long they must be, and how many references need them."""
        for source, (end, count) in sources:
            longest, total = self.sources.get(source, (0, 0))
            self.sources[source] = max(longest, end), total + count

    def add_users(self, users: Mapping[bytes, ObjectUser]) -> None:
        """Take over which references need objects that are missing or too short."""
        for name, user in users.items():
            self.users.setdefault(name, ObjectUser(user.node_id, user.path)).join(user)

    def findings(self) -> list[Finding]:
        """What is wrong with chunk objects, by array."""
        ids = id_rows(self.users)
        rows = zip(
            crockford_many(ids), self.objects.sizes(ids).tolist(), self.users.values(), strict=True
        )
        found = [
            Finding(
                Code.CHUNK_MISSING if size < 0 else Code.CHUNK_SHORT,
                CHUNKS + name,
                "" if size < 0 else f"it has {size} bytes, {one.end} are needed",
                one.path,
                tuple(one.chunks),
                one.references,
            )
            for name, size, one in rows
        ]
        return sorted(found, key=lambda each: (each.path or "", each.chunks, each.target))


# --- sources of virtual chunks ---

_CODES: Final = {
    ErrorKind.VIRTUAL_CHUNK_MODIFIED: Code.SOURCE_CHANGED,
    ErrorKind.INVALID_OBJECT_SIZE: Code.SOURCE_SHORT,
}


def ask_source(context: Context, source: SourceVersion, end: int, count: int) -> Finding | None:
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
    return Finding(code, shown_url(location), detail, references=count)
