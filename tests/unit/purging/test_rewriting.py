"""Snapshots, manifests and chunks are written anew without what is erased."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.bulk.write import write_region
from frazil.commit.base import Publication, now_micros
from frazil.errors import SessionStateError
from frazil.ids import ManifestId, SnapshotId
from frazil.model.chunks import NativeRef
from frazil.model.config import RepositoryConfig
from frazil.model.history import Snapshot, SnapshotEntry, TransactionLog
from frazil.model.nodes import ArrayNode, ManifestRef
from frazil.purging.finding import PurgeMatches, find, mentions
from frazil.purging.records import CellRanges, PurgeTarget
from frazil.purging.rewriting import Rewriter
from frazil.repository import Repository
from frazil.storage.assets import chunk_key
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.unit.maintenance.samples import keys
from tests.unit.purging.samples import (
    NEEDLE,
    SECRET,
    assert_open_is_as_before,
    assert_whole,
    blobs,
    make,
    read,
)


def test_metadata_that_names_old_snapshots_names_the_new_ones(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    repo.space.purge("/group/secret", confirm="/group/secret", unsafe_minimum_age=AT_ONCE)
    newest = next(iter(repo.ancestry(branch="dev")))
    assert newest.metadata["from"] == repo.lookup_tag("v1") == newest.parent_id


@pytest.mark.parametrize("inline", [0, 512])
@pytest.mark.parametrize("packing", [False, True])
def test_a_region_is_blank_in_every_snapshot(
    storage: MemoryStorage, spec: int, inline: int, packing: bool
) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4, 6), chunks=(2, 3), dtype="<i8")
    start = np.arange(1, 25).reshape(4, 6)
    start[1, 2:4] = SECRET
    write_region(session, "a", ..., start, packing=packing)
    first = session.commit("first")
    session = repo.writable_session("main")
    write_region(session, "a", (0, slice(None)), 50, packing=packing)
    second = session.commit("second")
    report = repo.space.purge(
        "/a", (slice(1, 2), slice(2, None)), confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert report.is_proved
    assert report.chunks_blanked > 0
    for old, base in ((first, start), (second, np.where(np.arange(4)[:, None] == 0, 50, start))):
        expected = base.copy()
        expected[1, 2:] = 0
        new = report.snapshots[old]
        assert new is not None
        assert read(repo, "a", snapshot_id=new).tolist() == expected.tolist()
    assert_whole(repo)
    again = repo.space.purge(
        "/a", (slice(1, 2), slice(2, None)), confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert again.is_proved


def share_a_manifest(repo: Repository) -> None:
    """Commit the same arrays with all their references in one manifest."""
    context = context_of(repo)
    base = context.refs.branch_tip("main")
    old = context.assets.snapshot(base)
    state = repo.readonly_session("main").state
    arrays = {node.id: node for node in old.nodes if isinstance(node, ArrayNode)}
    tables = {one: state.table(node) for one, node in arrays.items()}
    file = context.assets.save_manifest(ManifestId.random(), tables)
    nodes = tuple(
        replace(node, manifests=(ManifestRef(file.id, tables[node.id].extents),))
        if isinstance(node, ArrayNode)
        else node
        for node in old.nodes
    )
    parent = base if context.generation.stores_parent else None
    new = Snapshot(SnapshotId.random(), parent, nodes, now_micros(), "one manifest", {}, (file,))
    log = TransactionLog(new.id)
    context.assets.save_snapshot(new)
    context.assets.save_log(log)
    context.refs.publish(Publication("main", base, new.entry(base)))


def test_what_was_merged_stays_merged(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    repo.create_branch("other", next(info.id for info in repo.ancestry(branch="main")))
    for name in ("passing", "merged"):
        session = repo.writable_session("other")
        zarr.create_array(session.store, name=name, shape=(2,), dtype="<i8")
        session.commit(f"made {name}")
    for branch, name in (("other", "passing"), ("main", "open")):
        session = repo.writable_session(branch)
        del zarr.open_group(session.store, mode="r+")[name]
        session.commit(f"deleted {name}")
    repo.versions.merge("other", "main")
    session = repo.writable_session("main")
    del zarr.open_group(session.store, mode="r+")["merged"]
    session.commit("deleted what was merged")
    assert repo.space.purge("passing", confirm="passing", unsafe_minimum_age=AT_ONCE).is_proved
    assert repo.versions.merge("other", "main").status == "up-to-date"
    assert "merged" not in zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert_whole(repo)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_manifest_of_several_arrays_keeps_the_others(
    storage: MemoryStorage, spec: int, deletes: bool
) -> None:
    repo = make(storage, spec, inline=512)
    share_a_manifest(repo)
    if deletes:  # the manifest then still holds what no snapshot reads
        session = repo.writable_session("main")
        del zarr.open_group(session.store, mode="r+")["group/secret"]
        session.commit("deleted")
    for region in ([slice(0, 8)], None):
        assert repo.space.purge(
            "group/secret", region, confirm="group/secret", unsafe_minimum_age=AT_ONCE
        ).is_proved
        for key, data in blobs(storage):
            assert NEEDLE not in data, key
        assert_open_is_as_before(repo)
        assert_whole(repo)


def test_virtual_chunks_lose_their_references_and_keep_their_sources(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(np.array([1, SECRET, 3, 4], "<i8").tobytes())
    prefix = f"file://{tmp_path}/"
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    access = {prefix: frazil.LocalFileSystemAccess}
    repo = Repository.create(MemoryStorage(), config, authorize_virtual_chunk_access=access)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(4,), chunks=(2,), dtype="<i8", compressors=None
    )
    for chunk in (0, 1):
        place = f"{prefix}source"
        session.store.set_virtual_ref(f"v/c/{chunk}", place, offset=16 * chunk, length=16)
    session.commit("virtual")
    report = repo.space.purge("v", [slice(1, 2)], confirm="v", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.virtual_sources == (f"{prefix}source",)
    assert read(repo, "v").tolist() == [1, 0, 3, 4]
    session = repo.readonly_session("main")
    assert session.chunk_type("/v", [0]) != frazil.ChunkType.virtual
    assert session.chunk_type("/v", [1]) == frazil.ChunkType.virtual
    assert repo.space.purge("v", confirm="v", unsafe_minimum_age=AT_ONCE).is_proved
    assert NEEDLE in source.read_bytes()
    check_repository(repo)


# --- single rules ---


def rewriter_of(
    storage: MemoryStorage, spec: int, region: CellRanges | None = None
) -> tuple[Repository, PurgeMatches, Rewriter]:
    repo = make(storage, spec)
    found = find(context_of(repo), PurgeTarget("/group/secret", region))
    return repo, found, Rewriter.of(context_of(repo), found)


def test_snapshots_are_called_by_their_new_ids_wherever_metadata_names_them(
    storage: MemoryStorage,
) -> None:
    _, _, rewriter = rewriter_of(storage, 2)
    old, new, other = (SnapshotId.random() for _ in range(3))
    rewriter.ids[old] = new
    given = {"a": str(old), "b": [str(other), {"c": [str(old), 1, None]}], str(old): "x"}
    assert rewriter.relinked(given) == {
        "a": str(new),
        "b": [str(other), {"c": [str(new), 1, None]}],
        str(old): "x",
    }
    assert rewriter.renamed(old) == new
    assert rewriter.renamed(other) == other
    assert rewriter.renamed(None) is None


def test_history_records_new_ids_parents_and_logs(storage: MemoryStorage) -> None:
    _, _, rewriter = rewriter_of(storage, 2)
    old, new, parent, log = (SnapshotId.random() for _ in range(4))
    rewriter.ids |= {old: new, parent: old, log: parent}
    entry = SnapshotEntry(old, parent, 7, "why", {"of": str(parent)}, (log,))
    assert rewriter.entry(entry) == SnapshotEntry(new, old, 7, "why", {"of": str(old)}, (parent,))
    kept = SnapshotEntry(SnapshotId.random(), parent, 7, "why", {"of": str(parent)})
    assert rewriter.entry(kept) == replace(kept, parent_id=old)  # its file is as it was


def test_new_files_hold_nothing_of_it_and_the_rest(storage: MemoryStorage, spec: int) -> None:
    repo, found, rewriter = rewriter_of(storage, spec)
    before = keys(storage)
    rewriter.write(found)
    assert keys(storage) == before | rewriter.written.keys()
    assert rewriter.ids.keys() == found.affected
    assets, gone = context_of(repo).assets, found.target.nodes
    for old, new in rewriter.ids.items():
        was, made = assets.snapshot(old), assets.snapshot(new)
        assert [node.path for node in made.nodes] == ["/", "/group", "/open"]
        assert (made.message, made.flushed_at) == (was.message, was.flushed_at)
        log = assets.log(new)
        assert log is not None
        assert not mentions(log, gone)
    rewriter.write(found)  # what is written already is not written again
    assert keys(storage) == before | rewriter.written.keys()


def test_a_chunk_that_lies_in_the_region_as_a_whole_is_dropped_unread(
    storage: MemoryStorage, spec: int
) -> None:
    repo, found, rewriter = rewriter_of(storage, spec, ((0, 3),))
    for session in (repo.readonly_session("main"), repo.readonly_session(tag="v1")):
        state = session.state
        ref = state.chunk_ref(state.array("/group/secret"), (0,))
        assert isinstance(ref, NativeRef)
        storage.delete_many([chunk_key(ref.chunk_id)])
    before = keys(storage, "chunks/")
    rewriter.write(found)
    new = rewriter.ids[SnapshotId.parse(repo.lookup_branch("main"))]
    state = WorkingState(context_of(repo), new)
    table = state.table(state.array("/group/secret"))
    assert table.coords[:, 0].tolist() == [1, 2, 3]
    # Half of one chunk is left; two commits have written it, and each version is made once.
    assert len(keys(storage, "chunks/") - before) == 2
    assert len(rewriter.blanker.stored) == 2


def test_an_erasure_that_took_too_long_looks_for_its_files(storage: MemoryStorage) -> None:
    _, found, rewriter = rewriter_of(storage, 2)
    rewriter.write(found)
    lost = next(key for key in rewriter.written if key.startswith("snapshots/"))
    storage.delete_many([lost])
    rewriter.require_written()  # nothing so young is collected
    rewriter.began -= timedelta(days=30).total_seconds()
    with pytest.raises(SessionStateError, match="erase again"):
        rewriter.require_written()
