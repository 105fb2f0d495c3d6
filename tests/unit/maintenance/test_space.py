"""Where the bytes are."""

from __future__ import annotations

import pytest

from frazil.ids import ChunkId, SnapshotId
from frazil.maintenance.space import Usage, array_usage, objects_by_kind, snapshot_usage
from frazil.model.chunks import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates
from frazil.model.values import ChunkStorageStats
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.unit.maintenance.samples import commit_refs, later, make, put


def test_arrays_are_measured_by_their_references(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    put(repo, 1, 1)
    state = repo.readonly_session("main").state
    used = array_usage(state, state.array("/line"))
    sizes = [item.size_bytes for item in storage.list("chunks/")]
    assert used == Usage(chunks=2, native_bytes=sum(sizes))
    assert used.stored_bytes == sum(sizes)


def test_each_snapshot_tells_what_it_added(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    put(repo, 1, 1)
    put(repo, 0, 2)
    refs = context_of(repo).refs
    lineage = list(refs.ancestry(SnapshotId.parse(repo.lookup_branch("main"))))[::-1]
    found = list(snapshot_usage(context_of(repo).assets, lineage))
    one = next(storage.list("chunks/")).size_bytes
    assert [each.new_native_bytes for each in found] == [0, 0, one, one, one]
    assert [each.usage.chunks for each in found] == [0, 0, 1, 2, 2]
    assert found[-1].usage.native_bytes == 2 * one


def test_objects_are_counted_by_kind(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    kinds = objects_by_kind(storage)
    assert kinds["chunks"].objects == 1
    assert kinds["snapshots"].objects == 3
    assert sum(kind.size_bytes for kind in kinds.values()) == sum(
        item.size_bytes for item in storage.list("")
    )


# --- how many bytes of chunks there are ---


PACK = ChunkId(bytes(range(12)))
OTHER = ChunkId(bytes(12))


def test_an_empty_repository_has_nothing(storage: MemoryStorage, spec: int) -> None:
    assert make(storage, spec).chunk_storage_stats() == ChunkStorageStats(0, 0, 0)


def test_native_bytes_are_those_of_the_objects(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    for index in range(5):
        put(repo, index % 2, index + 1)
    stored = sum(item.size_bytes for item in storage.list("chunks/"))
    assert repo.chunk_storage_stats() == ChunkStorageStats(stored, 0, 0)


def test_ranges_of_a_packed_object_all_count_and_each_once(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    commit_refs(repo, {(n,): NativeRef(PACK, 10 * n, 10) for n in range(4)})
    commit_refs(
        repo,
        {
            (0,): NativeRef(PACK, 0, 10),
            (1,): NativeRef(PACK, 0, 7),
            (2,): NativeRef(OTHER, 0, 10),
        },
    )
    assert repo.chunk_storage_stats().native_bytes == 40 + 7 + 10


def test_virtual_ranges_count_once_and_inline_bytes_always(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    refs: dict[Coordinates, ChunkRef] = {
        (0,): VirtualRef("s3://bucket/a", 0, 100),
        (1,): VirtualRef("s3://bucket/a", 100, 50),
        (2,): VirtualRef("s3://bucket/b", 0, 100),
        (3,): InlineRef(b"abc"),
    }
    commit_refs(repo, refs)
    commit_refs(repo, {**refs, (4,): VirtualRef("s3://bucket/a", 100, 50, "etag")})
    found = repo.chunk_storage_stats()
    assert found == ChunkStorageStats(0, 250, 6)
    assert (found.non_virtual_bytes(), found.total_bytes()) == (6, 256)


def test_only_what_refs_reach_counts(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    empty = repo.lookup_branch("main")
    put(repo, 0, 1)
    full = repo.chunk_storage_stats().native_bytes
    assert full > 0
    repo.create_tag("kept", put(repo, 1, 2))
    repo.reset_branch("main", empty)
    assert repo.chunk_storage_stats().native_bytes == 2 * full
    repo.delete_tag("kept")
    assert repo.chunk_storage_stats().native_bytes == 0
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.chunk_storage_stats().native_bytes == 0


@pytest.mark.parametrize("limit", ["max_snapshots_in_memory", "max_concurrent_manifest_fetches"])
def test_small_limits_change_nothing(storage: MemoryStorage, spec: int, limit: str) -> None:
    repo = make(storage, spec)
    for index in range(4):
        put(repo, index, index + 1)
    assert repo.chunk_storage_stats(**{limit: 1}) == repo.chunk_storage_stats()
