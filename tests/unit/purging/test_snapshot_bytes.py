"""Paths and node ids in the bytes of snapshot files."""

from __future__ import annotations

import zarr

from frazil.ids import NodeId, SnapshotId
from frazil.purging.snapshot_bytes import holds_ids, holds_path
from frazil.repository import Repository
from frazil.storage.assets import snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of


def test_paths_and_ids_are_found_wherever_they_are() -> None:
    storage = MemoryStorage()
    repo = Repository.create(storage)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, path="people")
    group.create_array("ages", shape=(4,), dtype="i4")
    zarr.create_group(session.store, path="places")
    snapshot = context_of(repo).assets.snapshot(SnapshotId.parse(session.commit("all")))
    key = snapshot_key(snapshot.id)
    blob = storage.get(key)
    assert blob is not None
    for path in ("/people", "/people/ages", "/places"):
        assert holds_path(blob, path, key=key), path
    for path in ("/", "/peo", "/ages", "/people/ag", "/people/ages/more"):
        assert not holds_path(blob, path, key=key), path
    for node in snapshot.nodes:
        assert holds_ids(blob, [NodeId(bytes(8)), node.id], key=key)
    assert not holds_ids(blob, [NodeId(b"unknown!")], key=key)
