"""Manifests that others wrote: a session reads them, adds to them, commits and forks them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError
from frazil.ids import ManifestId
from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode, ManifestRef
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from frazil.transaction.changeset import ReadyManifests

COUNT = 6


def with_manifests(session: Session) -> ArrayNode:
    """An array of bytes whose chunks lie in two manifests that are written already."""
    zarr.create_array(
        session.store, name="v", shape=(COUNT,), chunks=(1,), dtype="u1", compressors=None
    )
    state = session.state
    node = state.array("/v")
    data = state.context.assets.save_chunk(bytes(range(10, 10 + COUNT)))
    ids = np.tile(np.frombuffer(data.chunk_id, np.uint8), (COUNT, 1))
    coords = np.arange(COUNT, dtype=np.uint32)[:, None]
    refs, files = [], []
    for part in (slice(0, 2), slice(2, COUNT)):
        table = ChunkTable.native(coords[part], ids[part], coords[part, 0], 1)
        made = ManifestId.random()
        files.append(state.context.assets.save_manifest(made, {node.id: table}))
        refs.append(ManifestRef(made, table.extents))
    state.set_manifests(node, ReadyManifests(tuple(refs), tuple(files), coords))
    return node


def values(session: Session) -> list[int]:
    found = zarr.open_array(session.store, path="v", mode="r")[...]
    return [int(each) for each in np.asarray(found)]


def test_chunks_are_seen_before_and_after_the_commit(tmp_path: Path) -> None:
    repo = Repository.create(LocalStorage(tmp_path))
    session = repo.writable_session("main")
    with_manifests(session)
    assert session.has_uncommitted_changes
    assert values(session) == [10, 11, 12, 13, 14, 15]
    before = session.snapshot_id
    tip = session.commit("taken as they are")
    assert values(repo.readonly_session("main")) == [10, 11, 12, 13, 14, 15]
    assert len(repo.list_manifest_files(tip)) == 2
    changed = repo.diff(from_snapshot_id=before, to_snapshot_id=tip).updated_chunks
    assert changed["/v"] == [[n] for n in range(COUNT)]


def test_later_writes_win(tmp_path: Path) -> None:
    repo = Repository.create(LocalStorage(tmp_path))
    session = repo.writable_session("main")
    with_manifests(session)
    zarr.open_array(session.store, path="v", mode="r+")[3] = 99
    assert values(session) == [10, 11, 12, 99, 14, 15]
    session.commit("one more")
    assert values(repo.readonly_session("main")) == [10, 11, 12, 99, 14, 15]


def test_forks_and_rebases_keep_them(tmp_path: Path) -> None:
    repo = Repository.create(LocalStorage(tmp_path))
    with repo.transaction("main", message="root") as store:
        zarr.create_group(store)
    session = repo.writable_session("main")
    with_manifests(session)
    fork = session.fork()
    assert values(fork) == [10, 11, 12, 13, 14, 15]
    zarr.open_array(fork.store, path="v", mode="r+")[0] = 7
    session.merge(fork)
    other = repo.writable_session("main")
    zarr.create_group(other.store, path="elsewhere")
    other.commit("meanwhile")
    session.commit("after it", rebase_with=ConflictDetector())
    assert values(repo.readonly_session("main")) == [7, 11, 12, 13, 14, 15]


def test_only_new_empty_arrays_take_them(tmp_path: Path) -> None:
    repo = Repository.create(LocalStorage(tmp_path))
    session = repo.writable_session("main")
    node = with_manifests(session)
    nothing = ReadyManifests((), (), np.zeros((0, 1), np.uint32))
    with pytest.raises(InvalidInputError, match="not a new array"):
        session.state.set_manifests(node, nothing)
    session.commit("there")
    later = repo.writable_session("main")
    with pytest.raises(InvalidInputError, match="not a new array"):
        later.state.set_manifests(later.state.array("/v"), nothing)


def test_a_deleted_array_takes_them_along(tmp_path: Path) -> None:
    repo = Repository.create(LocalStorage(tmp_path))
    session = repo.writable_session("main")
    with_manifests(session)
    session.state.delete_node("/v")
    tip = session.commit("gone", allow_empty=True)
    assert repo.list_manifest_files(tip) == []
