"""Snapshot files of spec 1 and 2."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.columns import table_columns
from frazil.flatbuf.growth import mark_of
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats.envelope import FileKind, require_id, seal_table, unseal
from frazil.formats.metadata import codec_of, read_metadata, read_time, write_metadata
from frazil.formats.nodes import ARRAY, DIMENSION_V1, GROUP, raw_ids
from frazil.formats.snapshot_nodes import NodeTable, read_nodes
from frazil.ids import ManifestId, SnapshotId
from frazil.model.history import ManifestFile, Snapshot, SnapshotEntry
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node, path_order

SNAPSHOT: Final = TableLayout("id12", "id12", OFFSET, "u64", OFFSET, OFFSET, OFFSET, OFFSET)
NODE: Final = TableLayout("id8", OFFSET, OFFSET, "u8", OFFSET)
GROUP_DATA: Final = TableLayout()
ARRAY_DATA: Final = TableLayout(OFFSET, OFFSET, OFFSET, OFFSET)
DIMENSION: Final = TableLayout("u64", "u32")
DIMENSION_NAME: Final = TableLayout(OFFSET)
MANIFEST_REF: Final = TableLayout("id12", OFFSET)
MANIFEST_FILE: Final = TableLayout("id12", "u64", "u32")
MANIFEST_FILE_V1: Final = struct.Struct("<12s4xQI4x")
SMALLEST_FILE: Final = 20
"""Bytes of an entry with an id, its place in the vector included."""


# --- reading ---


def decode_snapshot(blob: bytes, *, key: str, of: SnapshotId | None = None) -> Snapshot:
    """Read a snapshot file; nodes come out checked and in order.

    It must be that of a given snapshot, `of`, if there is one.
    """
    envelope = unseal(blob, FileKind.SNAPSHOT, key=key)
    buffer = Buffer(envelope.body, key)
    require_id(buffer, of)
    with buffer.once():
        return _read_snapshot(buffer, envelope.spec)


def _read_snapshot(buffer: Buffer, spec: int) -> Snapshot:
    entry = read_entry(buffer, spec)
    return Snapshot(
        id=entry.id,
        parent_id=entry.parent_id,
        nodes=read_nodes(buffer.root(), spec),
        flushed_at=entry.flushed_at,
        message=entry.message,
        metadata=entry.metadata,
        manifest_files=tuple(read_manifest_files(buffer)),
    )


def read_entry(buffer: Buffer, spec: int) -> SnapshotEntry:
    """What history records of a snapshot."""
    root = buffer.root()
    parent = root.struct_bytes(1, 12)
    return SnapshotEntry(
        id=SnapshotId(root.required_bytes(0, 12, "id")),
        parent_id=None if parent is None else SnapshotId(parent),
        flushed_at=read_time(root, 3),
        message=root.required_text(4, "message"),
        metadata=read_metadata(root, 5, codec_of(spec, buffer.key), "metadata"),
    )


def read_manifest_files(buffer: Buffer) -> Iterator[ManifestFile]:
    """The manifests that a snapshot lists."""
    root = buffer.root()
    for raw in root.structs(6, MANIFEST_FILE_V1.size, "manifest_files"):
        name, size, count = MANIFEST_FILE_V1.unpack(raw)
        yield ManifestFile(ManifestId(name), size, count)
    if root.at(7) is None:
        return
    files = table_columns(root, 7, "manifest_files_v2", smallest=SMALLEST_FILE)
    root.buffer.few_repeats(files.ids(0, 12, "id").view("V12"))
    yield from map(
        ManifestFile,
        map(ManifestId, raw_ids(files, 0, 12)),
        files.longs(1).tolist(),
        files.numbers(2, "<u4").tolist(),
    )


# --- what a snapshot refers to, without the rest of it ---

# Work on whole histories opens every snapshot and every manifest, and needs of each no more than
# its place in the history and the names of what it uses.


def manifest_files(
    blob: bytes, *, key: str, of: SnapshotId | None = None
) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot file lists."""
    buffer = Buffer(unseal(blob, FileKind.SNAPSHOT, key=key).body, key)
    require_id(buffer, of)
    return tuple(read_manifest_files(buffer))


def snapshot_links(
    blob: bytes, *, key: str, of: SnapshotId | None = None
) -> tuple[SnapshotEntry, tuple[ManifestFile, ...]]:
    """What history records of a snapshot file that names its parent, and its manifests."""
    envelope = unseal(blob, FileKind.SNAPSHOT, key=key)
    buffer = Buffer(envelope.body, key)
    require_id(buffer, of)
    return read_entry(buffer, envelope.spec), tuple(read_manifest_files(buffer))


# --- writing ---


def encode_snapshot(snapshot: Snapshot, *, spec: int, level: int = 3) -> bytes:
    """Write a snapshot file; nodes and manifests are put in order."""
    writer = FlatWriter()
    node_vector = _reuse_nodes(writer, snapshot.nodes, spec)
    if node_vector is None:
        nodes = _NodeWriter(writer, spec)
        ordered = sorted(snapshot.nodes, key=lambda node: path_order(node.path))
        node_vector = writer.offsets([nodes.write(node) for node in ordered])
    files = sorted(snapshot.manifest_files, key=lambda file: bytes(file.id))
    old, new = _write_manifest_files(writer, files, spec)
    root = writer.table(
        SNAPSHOT,
        bytes(snapshot.id),
        # From spec 2 on only the repo object knows parents, because expiry changes them.
        bytes(snapshot.parent_id) if spec == 1 and snapshot.parent_id is not None else None,
        node_vector,
        snapshot.flushed_at,
        writer.text(snapshot.message),
        write_metadata(writer, snapshot.metadata, codec_of(spec, "snapshot")),
        old,
        new,
    )
    return seal_table(writer, root, FileKind.SNAPSHOT, spec=spec, level=level)


def _reuse_nodes(writer: FlatWriter, nodes: Sequence[Node], spec: int) -> int | None:
    """Write nodes of which most are as they were in another file; None if that is not the case."""
    found = nodes.reusable() if isinstance(nodes, NodeTable) and nodes.spec == spec else None
    if found is None:
        return None
    data, places, changed = found
    fresh = FlatWriter()
    single = _NodeWriter(fresh, spec)
    away = [single.write(node) for node in changed.values()]
    part = fresh.part()
    end = len(data) + -len(data) % 8 + len(part)
    places[list(changed)] = end - np.array(away, np.int64)
    return writer.blocks(places, data, part, mark_of(data))


def _write_manifest_files(
    writer: FlatWriter, files: Sequence[ManifestFile], spec: int
) -> tuple[int, int | None]:
    if spec == 1:
        packed = [MANIFEST_FILE_V1.pack(f.id, f.size_bytes, f.num_chunk_refs) for f in files]
        return writer.structs(b"".join(packed), len(packed), 8), None
    tables = [
        writer.table(MANIFEST_FILE, bytes(file.id), file.size_bytes, file.num_chunk_refs)
        for file in files
    ]
    return writer.structs(b"", 0, 8), writer.offsets(tables)


class _NodeWriter:
    """Writes nodes; equal shapes, dimension names and empty tables are written once."""

    def __init__(self, writer: FlatWriter, spec: int) -> None:
        self._writer = writer
        self._spec = spec
        self._group = 0
        self._no_structs = 0
        self._shapes: dict[tuple[Dimension, ...], int] = {}
        self._names: dict[tuple[str | None, ...], int] = {}

    def write(self, node: Node) -> int:
        writer = self._writer
        if isinstance(node, GroupNode):
            kind = GROUP
            self._group = self._group or writer.table(GROUP_DATA)
            data = self._group
        else:
            kind = ARRAY
            data = self._array(node)
        document = writer.blob(node.user_data)
        return writer.table(NODE, bytes(node.id), writer.text(node.path), document, kind, data)

    def _array(self, node: ArrayNode) -> int:
        manifests = self._writer.offsets([self._manifest(ref) for ref in node.manifests])
        names = None if node.dimension_names is None else self._name_vector(node.dimension_names)
        if self._spec == 1:
            packed = b"".join(_old_dimensions(node))
            shape = self._writer.structs(packed, len(node.shape), 8)
            return self._writer.table(ARRAY_DATA, shape, names, manifests)
        self._no_structs = self._no_structs or self._writer.structs(b"", 0, 8)
        shape = self._shape_vector(node.shape)
        return self._writer.table(ARRAY_DATA, self._no_structs, names, manifests, shape)

    def _manifest(self, ref: ManifestRef) -> int:
        flat = [edge for extent in ref.extents for edge in extent]
        raw = struct.pack(f"<{len(flat)}I", *flat)
        extents = self._writer.structs(raw, len(ref.extents), 4)
        return self._writer.table(MANIFEST_REF, bytes(ref.id), extents)

    def _name_vector(self, names: tuple[str | None, ...]) -> int:
        found = self._names.get(names)
        if found is None:
            texts = [self._writer.text(name) if name else None for name in names]
            tables = [self._writer.table(DIMENSION_NAME, text) for text in texts]
            found = self._names[names] = self._writer.offsets(tables)
        return found

    def _shape_vector(self, shape: tuple[Dimension, ...]) -> int:
        found = self._shapes.get(shape)
        if found is None:
            tables = [
                self._writer.table(DIMENSION, dim.array_length, dim.num_chunks) for dim in shape
            ]
            found = self._shapes[shape] = self._writer.offsets(tables)
        return found


def _old_dimensions(node: ArrayNode) -> Iterable[bytes]:
    for dim in node.shape:
        chunk = -(-dim.array_length // dim.num_chunks) if dim.num_chunks else 0
        if dim.num_chunks != (-(-dim.array_length // chunk) if chunk else 0):
            raise FormatError(
                "spec version 1 holds only arrays with chunks of equal length",
                kind=ErrorKind.SERIALIZATION,
                path=node.path,
            )
        yield DIMENSION_V1.pack(dim.array_length, chunk)
