"""Manifests: the chunk references of arrays.

A manifest is decoded in two steps. Opening it checks the envelope and the list of arrays; the
columns of an array are made when they are first needed. Until then a single chunk is found by
binary search in the bytes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.growth import MARK_SIZE, mark_of, may_grow
from frazil.flatbuf.reader import U32, Buffer
from frazil.flatbuf.tuning import FINDS_PER_DECODE, PATCHED_FROM, PATCHED_ROWS
from frazil.flatbuf.writer import MAX_SIZE, OFFSET, FlatWriter, TableLayout
from frazil.formats.envelope import FileKind, require_id, seal, seal_table, unseal
from frazil.formats.locations import LocationCompression
from frazil.formats.refs import (
    CHUNK_ID,
    decode_refs,
    encode_refs,
    find_ref,
    find_row,
    plan_packing,
    ref_groups,
)
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import ABSENT, ChunkRef, ChunkTable
from frazil.model.nodes import Coordinates

MANIFEST: Final = TableLayout("id12", OFFSET, OFFSET, "byte")
ARRAY_REFS: Final = TableLayout("id8", OFFSET)


class Manifest:
    """The references of some arrays, each array decoded when it is first used."""

    __slots__ = ("_arrays", "_buffer", "_dictionary", "_finds", "_tables", "id", "spec")

    def __init__(self, id: ManifestId, spec: int, tables: Mapping[NodeId, ChunkTable]) -> None:
        self.id = id
        self.spec = spec
        self._tables = dict(sorted(tables.items()))
        self._arrays: dict[NodeId, tuple[int, int]] = {}
        self._buffer = Buffer(b"", "")
        self._dictionary = b""
        self._finds: dict[NodeId, int] = {}

    @classmethod
    def lazily(cls, spec: int, buffer: Buffer) -> Self:
        """A manifest over its bytes; checks everything but the references."""
        root = buffer.root()
        made = cls(ManifestId(root.required_bytes(0, 12, "id")), spec, {})
        total, last = 0, b""
        for array in root.tables(1, "arrays"):
            node = NodeId(array.required_bytes(0, 8, "node_id"))
            start, count = array.required_vector(1, 4, "refs")
            total += count
            if node <= last:
                raise buffer.fail("arrays are not in ascending order")
            if total * 4 > buffer.size:
                raise buffer.fail("more references than the file can hold")
            made._arrays[node] = start, count
            last = node
        made._buffer = buffer
        made._dictionary = root.blob(2) or b""
        return made

    def nodes(self) -> tuple[NodeId, ...]:
        """Arrays with references here, ascending."""
        return tuple(self._arrays or self._tables)

    @property
    def num_refs(self) -> int:
        """References of all arrays."""
        if self._arrays:
            return sum(count for _, count in self._arrays.values())
        return sum(map(len, self._tables.values()))

    def table(self, node_id: NodeId) -> ChunkTable | None:
        """All references of an array, or None when it has none here."""
        buffer = self._buffer  # before looking for the table: see the end of this method
        found = self._tables.get(node_id)
        if found is None and node_id in self._arrays:
            found = decode_refs(buffer, *self._arrays[node_id], self._dictionary)
            self._tables[node_id] = found
            if len(self._tables) == len(self._arrays):
                # Only now, and readers take the buffer before they look for a table: one that
                # found none still has the full buffer.
                self._buffer = Buffer(b"", buffer.key)
        return found

    def tables(self) -> Iterator[tuple[NodeId, ChunkTable]]:
        """All arrays with all their references."""
        for node_id in self.nodes():
            table = self.table(node_id)
            assert table is not None
            yield node_id, table

    def find(self, node_id: NodeId, coords: Coordinates) -> ChunkRef | None:
        """The reference of one chunk, or None."""
        buffer = self._buffer
        table = self._tables.get(node_id)
        if table is None:
            if node_id not in self._arrays:
                return None
            start, count = self._arrays[node_id]
            searched = self._finds.get(node_id, 0) + 1
            self._finds[node_id] = searched
            if searched * FINDS_PER_DECODE < count:
                return find_ref(buffer, start, count, coords, self._dictionary)
            table = self.table(node_id)
            assert table is not None
        row = table.find(coords)
        return None if row == ABSENT else table.ref(row)

    def patched(
        self, id: ManifestId, node_id: NodeId, changes: ChunkTable, *, key: str
    ) -> Self | None:
        """This manifest under another id and key, with other references for some chunks.

        Returns None where that needs columns: they are there already, there is more than one
        array, locations are compressed, or a chunk has no reference yet.
        """
        buffer = self._buffer
        if self._dictionary or self._tables or list(self._arrays) != [node_id]:
            return None
        body = patched_body(buffer, id, *self._arrays[node_id], changes)
        return None if body is None else type(self).lazily(self.spec, Buffer(body, key))

    def seal(self, *, spec: int, level: int = 3) -> bytes:
        """The file of a manifest whose columns were not needed yet."""
        return seal(memoryview(self._buffer.data), FileKind.MANIFEST, spec=spec, level=level)


def decode_manifest(blob: bytes, *, key: str, of: ManifestId | None = None) -> Manifest:
    """Open a manifest file; references are decoded when they are asked for.

    It must be that of a given manifest, `of`, if there is one.
    """
    envelope = unseal(blob, FileKind.MANIFEST, key=key)
    buffer = Buffer(envelope.body, key)
    require_id(buffer, of)
    return Manifest.lazily(envelope.spec, buffer)


def native_chunk_ids(
    blob: bytes, *, key: str, of: ManifestId | None = None
) -> npt.NDArray[np.uint8]:
    """The chunk objects that a manifest file refers to, (n, 12); repeated ones repeat."""
    buffer = Buffer(unseal(blob, FileKind.MANIFEST, key=key).body, key)
    require_id(buffer, of)
    parts = [np.zeros((0, ChunkId.width), np.uint8)]
    for array in buffer.root().tables(1, "arrays"):
        for group in ref_groups(buffer, *array.required_vector(1, 4, "refs")):
            if group.has(CHUNK_ID):
                ids = np.ascontiguousarray(group.values(CHUNK_ID, f"V{ChunkId.width}"))
                parts.append(ids.view(np.uint8).reshape(-1, ChunkId.width))
    return np.concatenate(parts)


def encode_manifest(
    id: ManifestId,
    arrays: Mapping[NodeId, ChunkTable],
    *,
    spec: int,
    level: int = 3,
    compress_locations: LocationCompression | None = None,
) -> bytes:
    """Write a manifest file.

    Locations are plain texts, each written once for the rows around it, unless
    `compress_locations` asks for a dictionary; spec 1 knows no other way than plain.

    Raises:
        FormatError: more references than one file can hold.
    """
    packing = plan_packing(arrays.values(), compress_locations) if spec >= 2 else None
    # Spec 1 has no field for the algorithm. Its absence means a dictionary to readers of
    # spec 2, which does not matter to locations that are plain.
    algorithm = b"\0" if spec >= 2 and packing is None else None
    writer = FlatWriter()
    tables = []
    for node, table in sorted(arrays.items(), reverse=True):  # what comes last is written first
        refs = writer.table_blocks(encode_refs(table, packing))
        tables.append(writer.table(ARRAY_REFS, bytes(node), refs))
    dictionary = writer.blob(packing.dictionary) if packing else None
    vector = writer.offsets(tables[::-1])
    root = writer.table(MANIFEST, bytes(id), vector, dictionary, algorithm)
    return seal_table(writer, root, FileKind.MANIFEST, spec=spec, level=level)


# --- a few references exchanged ---


def patched_body(
    buffer: Buffer, id: ManifestId, start: int, count: int, changes: ChunkTable
) -> bytes | None:
    """The body of a manifest with another id and other references for some chunks.

    To change one chunk of millions, columns would be decoded and encoded again. Instead the new
    references are put behind the old bytes, and the places that lead to the old ones are led there.

    Returns None where this way is closed: a chunk has no reference yet, or the file has grown
    by too many references that were exchanged. The vector of references begins at `start`.
    """
    if len(changes) > PATCHED_ROWS or count < PATCHED_FROM or not may_grow(buffer.data):
        return None
    rows = [find_row(buffer, start, count, tuple(coords)) for coords in changes.coords.tolist()]
    place = buffer.root().at(0)
    if ABSENT in rows or place is None:
        return None
    refs = encode_refs(changes, None)
    end = buffer.size + -buffer.size % 8
    if end + len(refs.data) + MARK_SIZE > MAX_SIZE:
        return None
    edits: list[tuple[int, bytes]] = [(place, bytes(id))]
    for row, table in zip(rows, (refs.places + end).tolist(), strict=True):
        at = start + 4 * row
        edits.append((at, U32.pack(table - at)))
    tail: list[bytes | memoryview] = [bytes(end - buffer.size), refs.data, mark_of(buffer.data)]
    return b"".join([*_edited(buffer, edits), *tail])


def _edited(buffer: Buffer, edits: Iterable[tuple[int, bytes]]) -> Iterable[bytes | memoryview]:
    """The pieces of a file with some bytes exchanged."""
    data, at = memoryview(buffer.data), 0
    for place, fresh in sorted(edits):
        yield data[at:place]
        yield fresh
        at = place + len(fresh)
    yield data[at:]
