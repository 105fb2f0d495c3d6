"""Snapshots, manifests, logs and chunks: as they were written, read once, or named as missing."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from frazil import config
from frazil.errors import ErrorKind, FormatError, SnapshotNotFoundError, StorageError
from frazil.formats.generation import V1, V2, Generation
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef
from frazil.model.config import CachingConfig, RepositoryConfig
from frazil.model.history import ManifestFile, Snapshot, TransactionLog
from frazil.model.nodes import GroupNode
from frazil.storage.assets import (
    Assets,
    chunk_key,
    file_attributes,
    log_key,
    manifest_key,
    snapshot_key,
)
from frazil.storage.base import Fetched
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.nodes import group_document

NODE = NodeId(b"nodenode")


@pytest.fixture
def place() -> FaultyStorage:
    """A place that counts what is asked of it."""
    return FaultyStorage(MemoryStorage())


@pytest.fixture
def assets(place: FaultyStorage) -> Assets:
    return opened(place)


def opened(place: FaultyStorage, generation: Generation = V2, **caching: int) -> Assets:
    """As another process would: nothing is in memory."""
    return Assets(place, generation, RepositoryConfig(caching=CachingConfig(**caching)))


def snapshot(*paths: str, parent: SnapshotId | None = None) -> Snapshot:
    nodes = [GroupNode(NodeId.random(), path, group_document()) for path in sorted(paths)]
    files = (ManifestFile(ManifestId.random(), 100, 2),)
    return Snapshot(SnapshotId.random(), parent, nodes, 1_700_000_000_000_000, "m", {}, files)


def table(*numbers: int) -> ChunkTable:
    return ChunkTable.from_refs(1, [((n,), InlineRef(b"%d" % n)) for n in numbers])


@pytest.mark.parametrize("generation", [V1, V2], ids=["v1", "v2"])
def test_what_is_written_is_read_again(place: FaultyStorage, generation: Generation) -> None:
    parent = SnapshotId.random()
    made = snapshot("/", "/a", parent=parent)
    log = TransactionLog(made.id, new_groups=(NODE,))
    manifest = ManifestId.random()
    writer = opened(place, generation)
    keys = [writer.save_file(made), writer.save_file(log)]
    info = writer.save_manifest(manifest, {NODE: table(1, 2, 5)})
    assert keys == [snapshot_key(made.id), log_key(made.id)]
    stored = place.head(manifest_key(manifest))
    assert stored is not None
    assert info == ManifestFile(manifest, stored.size_bytes, 3)
    reader = opened(place, generation)
    found = reader.snapshot(made.id)
    assert [node.path for node in found.nodes] == ["/", "/a"]
    assert (found.message, found.manifest_files) == (made.message, made.manifest_files)
    assert reader.fresh_manifest_files(made.id) == made.manifest_files
    if generation is V1:
        assert found.parent_id == reader.fresh_links(made.id)[0].parent_id == parent
    told = reader.log(made.id)
    assert told is not None
    assert (told.id, told.new_groups) == (made.id, (NODE,))
    assert reader.manifest(manifest, info.size_bytes).find(NODE, (5,)) == InlineRef(b"5")
    assert reader.manifest(manifest).find(NODE, (3,)) is None


def test_a_file_is_read_once_unless_it_is_wanted_fresh(
    place: FaultyStorage, assets: Assets
) -> None:
    made, manifest = snapshot("/"), ManifestId.random()
    writer = opened(place)
    writer.save_snapshot(made)
    writer.save_manifest(manifest, {NODE: table(1)})
    place.forget_calls()
    assert assets.fresh_snapshot(made.id).id == made.id
    assert assets.fresh_manifest(manifest).id == manifest
    assert not assets.keeps(made.id)  # maintenance leaves the caches alone
    for _ in range(3):
        assets.snapshot(made.id)
        assets.manifest(manifest)
    assert assets.keeps(made.id)
    assert len(place.calls) == 4
    assets.stored_snapshot(made.id)
    assets.forget()
    assets.snapshot(made.id)
    assert len(place.calls) == 6


def test_what_was_just_written_is_not_read_again(place: FaultyStorage, assets: Assets) -> None:
    made, manifest = snapshot("/"), ManifestId.random()
    assets.save_snapshot(made)
    assets.save_manifest(manifest, {NODE: table(1)})
    place.forget_calls()
    assert assets.snapshot(made.id) is made
    assert assets.manifest(manifest).find(NODE, (1,)) == InlineRef(b"1")
    assert not place.calls


def test_a_manifest_is_written_when_it_is_told_to(place: FaultyStorage, assets: Assets) -> None:
    manifest = ManifestId.random()
    info, put = assets.pack_manifest(manifest, {NODE: table(1, 2)})
    assert place.get(manifest_key(manifest)) is None
    put()
    stored = place.get(manifest_key(manifest))
    assert stored is not None
    assert (info.num_chunk_refs, info.size_bytes) == (2, len(stored))


def test_missing_files_are_named(assets: Assets) -> None:
    missing, manifest = SnapshotId.random(), ManifestId.random()
    for load in (assets.snapshot, assets.fresh_snapshot, assets.fresh_links):
        with pytest.raises(SnapshotNotFoundError, match=str(missing)):
            load(missing)
    for read in (assets.manifest, assets.fresh_manifest, assets.fresh_native_chunks):
        with pytest.raises(StorageError, match=f"manifests/{manifest}") as caught:
            read(manifest)
        assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND
    assert assets.log(missing) is None
    assert not assets.has_snapshot(missing)


def test_a_file_under_the_name_of_another_is_refused(place: FaultyStorage, assets: Assets) -> None:
    made, manifest = snapshot("/"), ManifestId.random()
    opened(place).save_snapshot(made)
    opened(place).save_manifest(manifest, {NODE: table(1)})
    other, elsewhere = SnapshotId.random(), ManifestId.random()
    place.put(snapshot_key(other), place.get(snapshot_key(made.id)) or b"")
    place.put(manifest_key(elsewhere), place.get(manifest_key(manifest)) or b"")
    with pytest.raises(FormatError, match=f"snapshots/{other}"):
        assets.snapshot(other)
    with pytest.raises(FormatError, match=f"manifests/{elsewhere}"):
        assets.manifest(elsewhere)


def test_a_snapshot_is_replaced_only_as_it_was_seen(place: FaultyStorage, assets: Assets) -> None:
    made = snapshot("/")
    assets.save_snapshot(made)
    seen = place.fetch(snapshot_key(made.id))
    assert isinstance(seen, Fetched)
    cut = Snapshot(made.id, None, made.nodes, made.flushed_at, "cut", {}, ())
    assert assets.replace_snapshot(cut, seen.version)
    assert assets.snapshot(made.id).message == "cut"
    assert not assets.replace_snapshot(made, seen.version)
    assert assets.snapshot(made.id).message == "cut"


# --- chunks ---


def test_parts_of_chunks_are_read_from_where_they_are(place: FaultyStorage, assets: Assets) -> None:
    ref = assets.save_chunk(memoryview(b"0123456789"))
    assert (ref.offset, ref.length) == (0, 10)
    assert place.get(chunk_key(ref.chunk_id)) == b"0123456789"
    packed = NativeRef(ref.chunk_id, 4, 5)
    assert assets.chunk(packed, 0, 5) == b"45678"
    assert assets.chunk(packed, 1, 3) == b"56"


def test_a_chunk_that_is_missing_or_too_short_is_named(assets: Assets) -> None:
    ref = assets.save_chunk(b"0123456789")
    with pytest.raises(StorageError, match=f"chunks/{ref.chunk_id}") as caught:
        assets.chunk(NativeRef(ref.chunk_id, 6, 5), 0, 5)
    assert caught.value.kind is ErrorKind.INVALID_OBJECT_SIZE
    assert "expected=11" in str(caught.value)
    gone = ChunkId.random()
    with pytest.raises(StorageError, match=f"chunks/{gone}") as caught:
        assets.chunk(NativeRef(gone, 0, 5), 0, 5)
    assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND


def test_chunks_are_kept_only_where_there_is_a_cache_for_them(place: FaultyStorage) -> None:
    ref = opened(place).save_chunk(b"0123456789")

    def requests(assets: Assets) -> int:
        place.forget_calls()
        for _ in range(3):
            assert assets.chunk(ref, 2, 4) == b"23"
        return len(place.calls)

    assert requests(opened(place)) == 3
    assert requests(opened(place, num_bytes_chunks=100)) == 1
    with config.set(chunk_cache_bytes=0):
        assert requests(opened(place, num_bytes_chunks=100)) == 3
    with config.set(chunk_cache_bytes=100):
        assert requests(opened(place)) == 1


def test_native_chunks_of_a_manifest_are_listed(place: FaultyStorage, assets: Assets) -> None:
    one, other = ChunkId.random(), ChunkId.random()
    ids = np.array([[*one], [*other], [*one]], np.uint8)
    coords = np.arange(3, dtype=np.uint32)[:, None]
    manifest = ManifestId.random()
    assets.save_manifest(manifest, {NODE: ChunkTable.native(coords, ids, coords[:, 0], 1)})
    found = assets.fresh_native_chunks(manifest)
    assert sorted(map(bytes, found)) == sorted([bytes(one), bytes(one), bytes(other)])


# --- limits ---


def test_what_is_too_large_for_the_caches_is_told_once(
    place: FaultyStorage, caplog: pytest.LogCaptureFixture
) -> None:
    made, manifest = snapshot("/", "/a", "/b"), ManifestId.random()
    opened(place).save_snapshot(made)
    opened(place).save_manifest(manifest, {NODE: table(1, 2, 3)})
    small = opened(place, num_snapshot_nodes=2, num_chunk_refs=2)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            small.snapshot(made.id)
            small.manifest(manifest)
    assert not small.keeps(made.id)
    assert caplog.text.count("CachingConfig.num_snapshot_nodes") == 1
    assert caplog.text.count("CachingConfig.num_chunk_refs") == 1


def test_stores_are_told_what_a_file_is() -> None:
    told = file_attributes("manifest", 2)
    assert told.metadata["ic_file_type"] == "manifest"
    assert told.metadata["ic_spec_ver"] == "2"
    assert told.is_unnamed
    assert not file_attributes("repo-info", 2).is_unnamed  # readers look for it by its name
