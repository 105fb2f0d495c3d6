"""Walks over manifests: what they reach, and how much of it is in memory at one time."""

from __future__ import annotations

import pytest

from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.maintenance.tuning import DECODED_REF_BYTES
from frazil.maintenance.walk import (
    WalkLimits,
    chunks_by,
    manifests_of,
    native_chunks,
    over_manifests,
    portions_by_size,
    reachable_manifests,
)
from frazil.model.chunks import InlineRef, NativeRef, VirtualRef
from frazil.model.history import ManifestFile
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.generations import Spec
from tests.support.runners import Elsewhere
from tests.unit.maintenance.samples import commit_refs, make, put

LIMITS = WalkLimits()


def portions(limits: WalkLimits, *files: tuple[int, int]) -> list[list[int]]:
    """The sizes of manifests of some bytes and references, by what is read at one time."""
    made = [ManifestFile(ManifestId.random(), size, count) for size, count in files]
    return [[file.size_bytes for file in group] for group in portions_by_size(made, limits)]


def test_portions_are_as_large_as_compressed_bytes_allow() -> None:
    limits = WalkLimits(max_compressed_manifest_mem_bytes=10)
    assert portions(limits, (4, 0), (6, 0), (1, 0), (5, 0), (5, 0)) == [[4, 6], [1, 5], [5]]
    assert portions(limits) == []


def test_a_manifest_larger_than_any_portion_is_read_alone() -> None:
    limits = WalkLimits(max_compressed_manifest_mem_bytes=10)
    assert portions(limits, (50, 0)) == [[50]]
    assert portions(limits, (1, 0), (50, 0), (1, 0)) == [[1], [50], [1]]


def test_decoded_references_fill_a_portion_too() -> None:
    limits = WalkLimits(max_decoded_manifest_mem_bytes=3 * DECODED_REF_BYTES)
    assert portions(limits, (1, 2), (2, 1), (3, 1), (4, 3)) == [[1, 2], [3], [4]]


def test_no_more_files_are_asked_for_at_once_than_allowed() -> None:
    limits = WalkLimits(max_concurrent_manifest_fetches=2)
    assert portions(limits, *((size, 0) for size in range(5))) == [[0, 1], [2, 3], [4]]


def test_answers_come_in_the_order_of_the_manifests() -> None:
    files = [ManifestFile(ManifestId.random(), 1, 1) for _ in range(5)]
    limits = WalkLimits(max_concurrent_manifest_fetches=2)
    assert [*over_manifests(files, limits, lambda one: one)] == [file.id for file in files]


def test_manifests_that_snapshots_share_are_there_once(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    first = SnapshotId.parse(put(repo, 1, 1))
    session = repo.writable_session("main")
    second = SnapshotId.parse(session.commit("the same", allow_empty=True))
    assets = context_of(repo).assets
    one = manifests_of(assets, [first], LIMITS)
    assert len(one) == 1
    for limits in (LIMITS, WalkLimits(max_snapshots_in_memory=1)):
        assert manifests_of(assets, [first, second, first], limits) == one
    assert manifests_of(assets, [], LIMITS) == {}


def test_branches_and_tags_reach_manifests_and_nothing_else_does(
    storage: MemoryStorage, spec: Spec
) -> None:
    repo = make(storage, spec)
    empty = repo.lookup_branch("main")
    kept, lost = put(repo, 0, 1), put(repo, 0, 2)
    repo.reset_branch("main", empty)
    assert reachable_manifests(context_of(repo), LIMITS) == {}
    repo.create_tag("kept", kept)
    found = reachable_manifests(context_of(repo), LIMITS)
    assert [str(one) for one in found] == [file.id for file in repo.list_manifest_files(kept)]
    repo.create_branch("lost", lost)
    assert len(reachable_manifests(context_of(repo), LIMITS)) == 2


PACK, OTHER = ChunkId(b"p" * 12), ChunkId(b"q" * 12)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_only_native_chunks_need_objects_and_packs_are_named_once(
    storage: MemoryStorage, spec: Spec, is_elsewhere: bool
) -> None:
    repo = make(storage, spec)
    commit_refs(repo, {(n,): NativeRef(PACK, n, 1) for n in range(3)})
    commit_refs(
        repo,
        {
            (0,): NativeRef(PACK, 0, 1),
            (1,): NativeRef(OTHER, 0, 1),
            (2,): InlineRef(b"abc"),
            (3,): VirtualRef("s3://bucket/a", 0, 1),
        },
    )
    context = context_of(repo)
    files = reachable_manifests(context, LIMITS).values()
    runner = Elsewhere()
    find = chunks_by(runner if is_elsewhere else None, context)
    found = find(context.assets, files, LIMITS)
    assert sorted(bytes(row) for row in found.rows()) == [PACK, OTHER]
    assert runner.items == (len(files) if is_elsewhere else 0)
    assert len(find(context.assets, (), LIMITS)) == 0


def test_a_walk_trusts_no_copy_that_was_read_before(storage: MemoryStorage) -> None:
    watched = FaultyStorage(storage)
    repo = make(watched, 2)
    put(repo, 0, 1)
    context = context_of(repo)
    files = [*reachable_manifests(context, LIMITS).values()]
    watched.forget_calls()
    for _ in range(2):
        assert len(native_chunks(context.assets, files, LIMITS)) == 1
    read = [key for operation, key in watched.calls if operation == "get"]
    assert read == [f"manifests/{files[0].id}"] * 2
