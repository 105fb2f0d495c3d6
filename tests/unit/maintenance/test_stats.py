"""How many bytes of chunks there are."""

from __future__ import annotations

import pytest

from frazil.ids import ChunkId
from frazil.model.chunks import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates
from frazil.model.values import ChunkStorageStats
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.unit.maintenance.samples import commit_refs, later, make, put

PACK, OTHER = ChunkId(bytes(range(12))), ChunkId(bytes(12))


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
