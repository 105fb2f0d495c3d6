"""Manifests of many kinds of references, also such as no writer makes."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.flatbuf.writer import FlatWriter, TableBlocks
from frazil.formats.envelope import FileKind, seal_table
from frazil.formats.manifest import ARRAY_REFS, MANIFEST, Manifest
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates

KEY = "manifests/TEST"
ID = ManifestId(range(12))
NODE = NodeId(b"node-001")
OTHER = NodeId(b"node-002")


VARIETY: Mapping[Coordinates, ChunkRef] = {
    (0, 0): InlineRef(b"tiny"),
    (0, 1): NativeRef(ChunkId(range(1, 13)), 0, 600),
    (0, 2): NativeRef(ChunkId(range(1, 13)), 600, 2**40),
    (1, 0): VirtualRef("s3://bucket/é.nc", 0, 10),
    (1, 1): VirtualRef("s3://bucket/é.nc", 10, 10, "etag-1"),
    (1, 2): VirtualRef("s3://other/k", 2**33, 10, 1_700_000_000),
    (7, 0): InlineRef(b""),
    (7, 2**32 - 1): VirtualRef("", 0, 0, ""),
}


def table_of(refs: Mapping[Coordinates, ChunkRef], ndim: int = 2) -> ChunkTable:
    return ChunkTable.from_refs(ndim, refs.items())


def refs_of(manifest: Manifest, node: NodeId = NODE) -> dict[Coordinates, ChunkRef]:
    table = manifest.table(node)
    assert table is not None
    return dict(table.refs())


def manifest_of(
    *arrays: tuple[NodeId, TableBlocks], id: bytes | None = ID, dictionary: bytes | None = None
) -> bytes:
    """A manifest around hand-made references."""
    writer = FlatWriter()
    tables = [writer.table(ARRAY_REFS, bytes(n), writer.table_blocks(b)) for n, b in arrays]
    packed = None if dictionary is None else writer.blob(dictionary)
    root = writer.table(
        MANIFEST,
        None if id is None else bytes(id),
        writer.offsets(tables),
        packed,
        b"\0" if packed is None else None,
    )
    return seal_table(writer, root, FileKind.MANIFEST, spec=2)
