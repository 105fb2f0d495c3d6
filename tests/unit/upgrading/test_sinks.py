"""What a conversion makes is counted, or written once and never over what is newer."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.formats.generation import BY_SPEC
from frazil.formats.manifest import decode_manifest
from frazil.formats.snapshot import decode_snapshot
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef
from frazil.model.history import Snapshot, TransactionLog
from frazil.storage.assets import log_key, manifest_key, snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.upgrading.sinks import CountingSink, WritingSink

NODE, MANIFEST = NodeId.random(), ManifestId.random()
CHUNK = ChunkId.random()
TABLE = ChunkTable.from_refs(1, [((0,), NativeRef(CHUNK, 0, 8)), ((1,), InlineRef(b"abc"))])


def snapshot(message: str = "one") -> Snapshot:
    id = SnapshotId(bytes(range(12)))
    return Snapshot(id, None, (), 1, message, {}, ())


def test_only_native_chunks_are_needed() -> None:
    sink = CountingSink()
    file = sink.manifest(MANIFEST, NODE, TABLE)
    sink.manifest(ManifestId.random(), NODE, TABLE)
    sink.commit(snapshot(), None)
    assert (file.id, file.num_chunk_refs) == (MANIFEST, 2)
    assert (sink.manifests, sink.references) == (2, 4)
    assert np.array_equal(sink.needs.rows(), [[*CHUNK]])


@pytest.mark.parametrize("spec", [1, 2])
def test_files_are_written_and_told_until_they_are_durable(spec: int) -> None:
    place = MemoryStorage()
    sink = WritingSink(place, BY_SPEC[spec], 3)
    file = sink.manifest(MANIFEST, NODE, TABLE)
    made = snapshot()
    sink.commit(made, TransactionLog(made.id))
    keys = [manifest_key(MANIFEST), log_key(made.id), snapshot_key(made.id)]
    assert sink.keys == keys  # what is referred to comes first
    blob = place.get(keys[0])
    assert blob is not None
    assert file.size_bytes == len(blob)
    tables = dict(decode_manifest(blob, key=keys[0]).tables())
    assert len(tables[NODE]) == 2
    sink.make_durable()
    assert sink.keys == []


def test_a_snapshot_without_log_has_none() -> None:
    place = MemoryStorage()
    sink = WritingSink(place, BY_SPEC[2], 3)
    sink.commit(snapshot(), None)
    assert [item.key for item in place.list("")] == [snapshot_key(snapshot().id)]


def test_an_old_snapshot_is_replaced_and_a_new_one_is_not() -> None:
    """Another process may have finished the upgrade, and an expiry changed the file since."""
    place = MemoryStorage()
    key = snapshot_key(snapshot().id)
    place.put(key, b"a snapshot of old")
    WritingSink(place, BY_SPEC[2], 3).commit(snapshot("one"), None)
    WritingSink(place, BY_SPEC[2], 3).commit(snapshot("two"), None)
    blob = place.get(key)
    assert blob is not None
    assert decode_snapshot(blob, key=key).message == "one"
