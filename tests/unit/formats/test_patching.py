"""Manifests changed in their bytes hold what manifests made anew would hold."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.formats import manifest as manifests
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.manifest import Manifest, decode_manifest, encode_manifest
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, StringPool, VirtualRef
from frazil.model.combining import overlay
from frazil.model.nodes import Coordinates
from tests.support.manifests import Compression

KEY = "manifests/TEST"
NEW_KEY = "manifests/NEW"
OLD, NEW = ManifestId(range(12)), ManifestId(range(1, 13))
NODE, OTHER = NodeId(b"node-001"), NodeId(b"node-002")
SIDE = 200
CHANGES: dict[Coordinates, ChunkRef] = {
    (0, 0): VirtualRef("s3://other/é.nc", 7, 70, "tag"),
    (3, 4): InlineRef(b"bytes"),
    (100, 199): NativeRef(ChunkId(range(12)), 5, 6),
    (199, 199): VirtualRef("s3://bucket/file-3.nc", 2**40, 8, 1_700_000_000),
}


def table() -> ChunkTable:
    """40,000 virtual references to 50 files."""
    coords = np.indices((SIDE, SIDE)).reshape(2, -1).T.astype(np.uint32)
    files = StringPool.of([f"s3://bucket/file-{n}.nc" for n in range(50)])
    number = (coords[:, 0] // 4).astype(np.int32)
    return ChunkTable.virtual(coords, number, files, np.arange(len(coords)), 100)


def opened(compression: Compression | None = None) -> Manifest:
    blob = encode_manifest(OLD, {NODE: table()}, spec=2, compress_locations=compression)
    return decode_manifest(blob, key=KEY)


def no_coords() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.zeros((0, 2), np.uint32)


def test_some_references_are_exchanged_and_all_others_stay() -> None:
    changes = ChunkTable.from_refs(2, CHANGES.items())
    manifest = opened().patched(NEW, NODE, changes, key=NEW_KEY)
    assert manifest is not None
    again = decode_manifest(manifest.seal(spec=2), key=KEY)
    assert (again.id, again.nodes(), again.num_refs) == (NEW, (NODE,), SIDE * SIDE)
    for coords, ref in CHANGES.items():
        assert again.find(NODE, coords) == ref
    found = again.table(NODE)
    assert found is not None
    assert list(found.refs()) == list(overlay(table(), changes, no_coords()).refs())


def test_a_patched_manifest_can_be_patched_again() -> None:
    manifest = opened()
    for number, (coords, ref) in enumerate(CHANGES.items(), 1):
        id_ = ManifestId(bytes([number]) * 12)
        made = manifest.patched(id_, NODE, ChunkTable.from_refs(2, [(coords, ref)]), key=NEW_KEY)
        assert made is not None
        manifest = decode_manifest(made.seal(spec=1), key=KEY)
    found = manifest.table(NODE)
    assert found is not None
    expected = overlay(table(), ChunkTable.from_refs(2, CHANGES.items()), no_coords())
    assert list(found.refs()) == list(expected.refs())


def test_a_chunk_without_reference_needs_columns() -> None:
    refs: dict[Coordinates, ChunkRef] = {**CHANGES, (SIDE, 0): InlineRef(b"new")}
    assert opened().patched(NEW, NODE, ChunkTable.from_refs(2, refs.items()), key=NEW_KEY) is None


def test_columns_that_are_there_are_used() -> None:
    manifest = opened()
    assert manifest.table(NODE) is not None
    assert (
        manifest.patched(NEW, NODE, ChunkTable.from_refs(2, CHANGES.items()), key=NEW_KEY) is None
    )


def test_other_forms_of_manifests_need_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ChunkTable.from_refs(2, CHANGES.items())
    packed = opened(Compression())
    assert packed.patched(NEW, NODE, changes, key=NEW_KEY) is None
    both = encode_manifest(OLD, {NODE: table(), OTHER: table()}, spec=2)
    assert decode_manifest(both, key=KEY).patched(NEW, NODE, changes, key=NEW_KEY) is None
    monkeypatch.setattr(manifests, "MAX_SIZE", 100_000)
    assert opened().patched(NEW, NODE, changes, key=NEW_KEY) is None


def test_a_manifest_that_has_grown_by_an_eighth_needs_columns() -> None:
    manifest: Manifest | None = opened()
    changes = ChunkTable.from_refs(2, [((3, 4), InlineRef(bytes(20_000)))])
    sizes = []
    while manifest is not None:
        sizes.append(len(unseal(manifest.seal(spec=2), FileKind.MANIFEST, key=KEY).body))
        manifest = manifest.patched(NEW, NODE, changes, key=NEW_KEY)
    assert 9 / 8 * sizes[0] < sizes[-1] < 9 / 8 * sizes[0] + 25_000
    assert len(sizes) > 5


def test_errors_of_a_patched_manifest_name_its_own_file() -> None:
    blob = encode_manifest(OLD, {NODE: table()}, spec=2)
    body = bytearray(unseal(blob, FileKind.MANIFEST, key=KEY).body)
    start, _ = decode_manifest(blob, key=KEY)._arrays[NODE]
    place = start + 4 * (7 * SIDE + 7)
    body[place : place + 4] = b"\xff\xff\xff\x7f"
    damaged = decode_manifest(seal(memoryview(body), FileKind.MANIFEST, spec=2), key=KEY)
    changes = ChunkTable.from_refs(2, CHANGES.items())
    manifest = damaged.patched(NEW, NODE, changes, key=NEW_KEY)
    assert manifest is not None
    with pytest.raises(FormatError) as caught:
        manifest.find(NODE, (7, 7))
    assert NEW_KEY in str(caught.value)
    assert KEY not in str(caught.value)
