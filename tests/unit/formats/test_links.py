"""Reading only links gives what reading everything gives."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.formats.manifest import encode_manifest, native_chunk_ids
from frazil.formats.snapshot import decode_snapshot, encode_snapshot, manifest_files, snapshot_links
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import GroupNode

PACK, OTHER = ChunkId.random(), ChunkId.random()
FILES = tuple(sorted((ManifestFile(ManifestId.random(), 9, n) for n in range(5)), key=repr))


def snapshot_file(spec: int, files: tuple[ManifestFile, ...] = FILES) -> bytes:
    root = GroupNode(NodeId(bytes(8)), "/", b"{}")
    parent = SnapshotId.random() if spec == 1 else None
    made = Snapshot(SnapshotId.random(), parent, (root,), 77, "née", {"a": [1]}, files)
    return encode_snapshot(made, spec=spec)


def manifest_file(spec: int) -> bytes:
    packed = ChunkTable.from_refs(
        1, (((n,), NativeRef(PACK if n % 2 else OTHER, 10 * n, 10)) for n in range(6))
    )
    mixed = ChunkTable.from_refs(
        1,
        [
            ((0,), InlineRef(b"abc")),
            ((1,), VirtualRef("s3://bucket/a", 0, 1, "etag")),
            ((2,), NativeRef(PACK, 0, 10)),
        ],
    )
    foreign = ChunkTable.from_refs(0, [((), VirtualRef("s3://bucket/a", 0, 1))])
    tables = (packed, mixed, foreign)
    arrays = {NodeId(bytes([n] * 8)): table for n, table in enumerate(tables)}
    return encode_manifest(ManifestId.random(), arrays, spec=spec)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("files", [FILES, ()])
def test_snapshots(spec: int, files: tuple[ManifestFile, ...]) -> None:
    blob = snapshot_file(spec, files)
    whole = decode_snapshot(blob, key="s")
    assert manifest_files(blob, key="s") == whole.manifest_files
    entry, found = snapshot_links(blob, key="s")
    assert found == whole.manifest_files
    assert (entry.id, entry.parent_id, entry.flushed_at) == (whole.id, whole.parent_id, 77)
    assert (entry.message, entry.metadata) == ("née", {"a": [1]})


@pytest.mark.parametrize("spec", [1, 2])
def test_manifests(spec: int) -> None:
    found = [row.tobytes() for row in native_chunk_ids(manifest_file(spec), key="m")]
    assert sorted(found) == sorted([PACK, OTHER] * 3 + [PACK])


def test_a_manifest_without_native_chunks() -> None:
    blob = encode_manifest(ManifestId.random(), {}, spec=2)
    assert np.array_equal(native_chunk_ids(blob, key="m"), np.zeros((0, 12), np.uint8))


@pytest.mark.parametrize("size", range(0, 150, 7))
def test_truncated_files_are_damage(size: int) -> None:
    with pytest.raises(FormatError, match="key=s"):
        manifest_files(snapshot_file(2)[:size], key="s")
    with pytest.raises(FormatError, match="key=s"):
        snapshot_links(snapshot_file(1)[:size], key="s")
    with pytest.raises(FormatError, match="key=m"):
        native_chunk_ids(manifest_file(2)[:size], key="m")


def test_files_of_another_kind_are_refused() -> None:
    with pytest.raises(FormatError):
        native_chunk_ids(snapshot_file(2), key="m")
    with pytest.raises(FormatError):
        manifest_files(manifest_file(2), key="s")
