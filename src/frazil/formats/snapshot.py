"""Snapshot files of spec 1 and 2 (format reference 3.4).

Nodes are read as columns: a snapshot has as many tables as it has dimensions, dimension names
and manifest pointers, and a deep hierarchy has many thousands of those.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.flat import U64, Buffer, Table
from frazil.formats.flat_columns import (
    I64,
    Spans,
    TableColumns,
    numbers_at,
    spread,
    table_columns,
)
from frazil.formats.flat_writer import OFFSET, FlatWriter, Layout
from frazil.formats.metadata import codec_of, read_metadata, write_metadata
from frazil.ids import ManifestId, NodeId, SnapshotId, node_path
from frazil.model.history import MAX_MICROS, ManifestFile, Snapshot
from frazil.model.nodes import (
    ArrayNode,
    Dimension,
    Extents,
    GroupNode,
    ManifestRef,
    Node,
    path_order,
)

ARRAY: Final = 1
GROUP: Final = 2

SNAPSHOT: Final = Layout("id12", "id12", OFFSET, "u64", OFFSET, OFFSET, OFFSET, OFFSET)
NODE: Final = Layout("id8", OFFSET, OFFSET, "u8", OFFSET)
GROUP_DATA: Final = Layout()
ARRAY_DATA: Final = Layout(OFFSET, OFFSET, OFFSET, OFFSET)
DIMENSION: Final = Layout("u64", "u32")
DIMENSION_NAME: Final = Layout(OFFSET)
MANIFEST_REF: Final = Layout("id12", OFFSET)
MANIFEST_FILE: Final = Layout("id12", "u64", "u32")
MANIFEST_FILE_V1: Final = struct.Struct("<12s4xQI4x")
DIMENSION_V1: Final = struct.Struct("<QQ")


# --- reading ---


def decode_snapshot(blob: bytes, *, key: str) -> Snapshot:
    """Read a snapshot file; nodes come out checked and in order.

    Raises:
        FormatError: the file is damaged or not a snapshot.
    """
    envelope = unseal(blob, FileKind.SNAPSHOT, key=key)
    buffer = Buffer(envelope.body, key)
    root = buffer.root()
    parent = root.struct_bytes(1, 12)
    flushed_at = root.number(3, U64)
    if flushed_at > MAX_MICROS:
        raise buffer.fail("impossible time")
    return Snapshot(
        id=SnapshotId(root.required_bytes(0, 12, "id")),
        parent_id=None if parent is None else SnapshotId(parent),
        nodes=_read_nodes(root),
        flushed_at=flushed_at,
        message=root.required_text(4, "message"),
        metadata=read_metadata(root, 5, codec_of(envelope.spec, key), "metadata"),
        manifest_files=tuple(_read_manifest_files(root)),
    )


def _read_manifest_files(root: Table) -> Iterator[ManifestFile]:
    for raw in root.structs(6, MANIFEST_FILE_V1.size, "manifest_files"):
        name, size, count = MANIFEST_FILE_V1.unpack(raw)
        yield ManifestFile(ManifestId(name), size, count)
    if root.at(7) is None:
        return
    files = table_columns(root, 7, "manifest_files_v2")
    yield from map(
        ManifestFile,
        map(ManifestId, _ids(files, 0, 12)),
        files.longs(1).tolist(),
        files.numbers(2, "<u4").tolist(),
    )


def _ids(tables: TableColumns, slot: int, width: int) -> Iterator[bytes]:
    raw = tables.ids(slot, width, "id").tobytes()
    return (raw[at : at + width] for at in range(0, len(raw), width))


def _read_nodes(root: Table) -> tuple[Node, ...]:
    buffer = root.buffer
    tables = table_columns(root, 2, "nodes")
    data = bytes(buffer.data)
    paths = _read_paths(tables, data)
    documents = tables.vectors(2, 1, "user_data").slices(data)
    kinds = tables.numbers(3, "u1")
    targets = tables.targets(4, "node_data")
    is_array = kinds == ARRAY
    if not (is_array | (kinds == GROUP)).all():
        raise buffer.fail("a node is neither a group nor an array")
    TableColumns(buffer, targets[~is_array])  # a group has nothing to read, but must be there
    arrays = _read_arrays(TableColumns(buffer, targets[is_array]), data)
    nodes: list[Node] = []
    for raw, path, document, kind in zip(
        _ids(tables, 0, 8), paths, documents, kinds.tolist(), strict=True
    ):
        if kind == GROUP:
            nodes.append(GroupNode(NodeId(raw), path, document))
        else:
            nodes.append(ArrayNode(NodeId(raw), path, document, *next(arrays)))
    return tuple(nodes)


def _read_paths(tables: TableColumns, data: bytes) -> list[str]:
    buffer = tables.buffer
    raw_paths = tables.vectors(1, 1, "path").slices(data)
    # Readers search by path, so a snapshot out of order would hide nodes instead of failing.
    if any(a >= b for a, b in pairwise(raw_paths)):
        raise buffer.fail("nodes are not in order of their paths")
    try:
        paths = [raw.decode() for raw in raw_paths]
        if [node_path(path) for path in paths] != paths:
            raise buffer.fail("invalid node path")
    except UnicodeDecodeError as error:
        raise buffer.fail("text is not UTF-8") from error
    except InvalidInputError as error:
        raise buffer.fail(str(error)) from error
    return paths


class _ArrayFields(NamedTuple):
    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None
    manifests: tuple[ManifestRef, ...]


def _read_arrays(tables: TableColumns, data: bytes) -> Iterator[_ArrayFields]:
    shapes = list(_read_shapes(tables))
    names = _read_names(tables, data)
    refs, counts = tables.children(2, "manifests")
    ranks = np.repeat(np.array([len(shape) for shape in shapes], np.int64), counts)
    manifests = map(ManifestRef, map(ManifestId, _ids(refs, 0, 12)), _read_extents(refs, ranks))
    return (
        _ArrayFields(shape, known, tuple(islice(manifests, count)))
        for shape, known, count in zip(shapes, names, counts.tolist(), strict=True)
    )


def _read_shapes(tables: TableColumns) -> Iterator[tuple[Dimension, ...]]:
    old = tables.vectors(0, DIMENSION_V1.size, "shape")
    has_new = tables.places(3) != 0
    new, new_counts = tables.children(3)
    old_counts = np.where(has_new, 0, old.counts)
    dimensions_v1 = _read_old_dimensions(tables.buffer, Spans(old.starts, old_counts))
    dimensions_v2 = map(Dimension, new.longs(0).tolist(), new.numbers(1, "<u4").tolist())
    return (
        (*islice(dimensions_v1, before), *islice(dimensions_v2, now))
        for before, now in zip(old_counts.tolist(), new_counts.tolist(), strict=True)
    )


def _read_old_dimensions(buffer: Buffer, spans: Spans) -> Iterator[Dimension]:
    for at in spread(spans, DIMENSION_V1.size).tolist():
        length, chunk = DIMENSION_V1.unpack_from(buffer.data, at)
        if length and not chunk:
            raise buffer.fail("a dimension with elements has chunks of length zero")
        yield Dimension(length, -(-length // chunk) if chunk else 0)


def _read_names(tables: TableColumns, data: bytes) -> Iterator[tuple[str | None, ...] | None]:
    has_names = tables.places(1) != 0
    names, counts = tables.children(1)
    spans = names.vectors(0, 1)
    try:
        texts = iter(
            [
                raw.decode() if at else None
                for raw, at in zip(spans.slices(data), spans.starts.tolist(), strict=True)
            ]
        )
    except UnicodeDecodeError as error:
        raise tables.buffer.fail("text is not UTF-8") from error
    for here, count in zip(has_names.tolist(), counts.tolist(), strict=True):
        yield tuple(islice(texts, count)) if here else None


def _read_extents(refs: TableColumns, ranks: I64) -> Iterator[Extents]:
    spans = refs.vectors(1, 8, "extents")
    if (spans.counts != ranks).any():
        raise refs.buffer.fail("a manifest covers another number of axes than its array has")
    at = spread(spans, 8)
    starts = numbers_at(refs.buffer, at, "<u4")
    ends = numbers_at(refs.buffer, at + 4, "<u4")
    if (starts > ends).any():
        raise refs.buffer.fail("a manifest covers a range that ends before it begins")
    ranges = zip(starts.tolist(), ends.tolist(), strict=True)
    return (tuple(islice(ranges, rank)) for rank in ranks.tolist())


# --- writing ---


def encode_snapshot(snapshot: Snapshot, *, spec: int, level: int = 3) -> bytes:
    """Write a snapshot file; nodes and manifests are put in order."""
    writer = FlatWriter()
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
    return seal(writer.finish(root), FileKind.SNAPSHOT, spec=spec, level=level)


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
