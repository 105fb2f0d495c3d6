"""What compaction moves, what it leaves, and what becomes free afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr

from frazil.bulk.pack import Packing
from frazil.bulk.write import write_region
from frazil.errors import ConflictError, InvalidInputError, NodeNotFoundError, StorageError
from frazil.maintenance.compaction import Compaction, compact_chunks
from frazil.model.config import RepositoryConfig
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.generations import needs_expiry
from tests.support.runners import Elsewhere
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, later, overwritten

SHAPE, CHUNKS = (40, 40), (4, 4)
CHUNK_BYTES = 4 * 4 * 8
WHOLE = 100 * CHUNK_BYTES


def make(storage: Storage, spec: int, *, packing: Packing | bool = False) -> Repository:
    """A repository with two arrays of a hundred chunks each."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("a", "group/b"):
        options: dict[str, Any] = {"shape": SHAPE, "chunks": CHUNKS, "compressors": None}
        zarr.create_array(session.store, name=name, dtype="f8", **options)
        write_region(session, name, ..., numbers(), packing=packing)
    session.commit("written")
    return repo


def numbers() -> npt.NDArray[np.float64]:
    """Values that are nowhere the fill value."""
    return np.arange(1.0, 1601).reshape(SHAPE)


def values(repo: Repository, name: str) -> npt.NDArray[np.float64]:
    """What an array holds."""
    store = repo.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path=name, mode="r")[:])


def overwrite(repo: Repository, rows: slice, value: float, *, packing: bool = True) -> None:
    """Commit new values for some rows of the first array."""
    session = repo.writable_session("main")
    write_region(session, "a", (rows, slice(None)), value, packing=packing)
    session.commit("overwritten")


def test_small_objects_become_packs_in_one_commit(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    planned = repo.space.compact(dry_run=True)
    assert len(keys(storage, "chunks/")) == 200
    done = repo.space.compact(message="tidy")
    assert done == Compaction(2, 200, 200, 2, 2 * WHOLE, 0, done.snapshot_id)
    assert planned == Compaction(2, 200, 200, 2, 2 * WHOLE, 0, None)
    newest = next(iter(repo.ancestry(branch="main")))
    assert (newest.id, newest.message) == (done.snapshot_id, "tidy")
    for name in ("a", "group/b"):
        assert (values(repo, name) == numbers()).all()
    check_repository(repo)


def test_space_is_free_once_the_past_has_expired(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    repo.space.compact()
    assert len(keys(storage, "chunks/")) == 202
    needs_expiry(repo)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    left = list(storage.list("chunks/"))
    assert [item.size_bytes for item in left] == [WHOLE, WHOLE]
    assert repo.chunk_storage_stats().native_bytes == 2 * WHOLE
    assert (values(repo, "a") == numbers()).all()
    check_repository(repo)


def test_nothing_to_do_is_no_commit(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec, packing=True)
    before = repo.lookup_branch("main")
    assert repo.space.compact() == Compaction()
    repo = make(MemoryStorage(), spec)
    repo.space.compact()
    after = repo.lookup_branch("main")
    assert repo.space.compact() == Compaction()
    assert repo.lookup_branch("main") == after
    assert before != after


def test_only_below_a_path(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    assert repo.space.compact(path="/group").arrays == 1
    assert repo.space.compact(path="/group/b") == Compaction()
    assert repo.space.compact(path="/a").arrays == 1
    with pytest.raises(NodeNotFoundError):
        repo.space.compact(path="/nowhere")


def test_sizes_of_packs_are_kept(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    packing = Packing(max_object=10 * CHUNK_BYTES, max_chunk=1000)
    assert repo.space.compact(path="/a", packing=packing).objects_after == 10
    old = keys(storage, "chunks/")
    assert repo.space.compact(path="/a", packing=Packing(WHOLE, 5 * CHUNK_BYTES)) == Compaction()
    assert keys(storage, "chunks/") == old


def test_large_chunks_stay(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    assert repo.space.compact(packing=Packing(WHOLE, CHUNK_BYTES)) == Compaction()


def test_packs_with_dead_space_are_written_anew(storage: MemoryStorage, spec: int) -> None:
    small = Packing(max_object=50 * CHUNK_BYTES, max_chunk=1000)
    limit = Packing(max_object=50 * CHUNK_BYTES, max_chunk=2 * CHUNK_BYTES)
    repo = make(storage, spec, packing=small)
    overwrite(repo, slice(0, 8), 0.0)  # 20 of the 50 chunks of the first pack are gone
    assert repo.space.compact(packing=limit, min_dead_share=0.5) == Compaction()
    done = repo.space.compact(packing=limit, min_dead_share=0.4)
    assert (done.chunks, done.objects_before, done.objects_after) == (30, 1, 1)
    assert done.dead_bytes == 20 * CHUNK_BYTES
    expected = numbers()
    expected[:8] = 0
    assert (values(repo, "a") == expected).all()
    needs_expiry(repo)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert sum(item.size_bytes for item in storage.list("chunks/")) == (
        repo.chunk_storage_stats().native_bytes
    )
    check_repository(repo)


def test_a_pack_stays_while_a_single_chunk_is_used(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec, packing=True)
    overwrite(repo, slice(0, 36), 0.0)
    session = repo.writable_session("main")
    write_region(session, "a", np.s_[36:, 4:], 0.0)
    session.commit("all but one")
    needs_expiry(repo)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    expected = np.zeros(SHAPE)
    expected[36:, :4] = numbers()[36:, :4]
    assert (values(repo, "a") == expected).all()
    assert repo.chunk_storage_stats().native_bytes == WHOLE + CHUNK_BYTES
    assert sum(item.size_bytes for item in storage.list("chunks/")) == 2 * WHOLE


def test_references_to_one_range_go_on_sharing_it(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    session = repo.writable_session("main")
    node = session.state.array("/a")
    table = session.state.table(node)
    same = np.zeros(len(table), np.intp)
    shared = type(table).native(table.coords, table.chunk_id[same], 0, CHUNK_BYTES)
    session.state.set_table(node, shared)
    write_region(session, "a", np.s_[:4, :4], 7.0, packing=False)
    session.commit("shared")
    done = repo.space.compact(path="/a")
    assert (done.chunks, done.objects_before, done.objects_after) == (100, 2, 1)
    expected = np.tile(numbers()[:4, :4], (10, 10))
    expected[:4, :4] = 7
    assert (values(repo, "a") == expected).all()
    assert repo.chunk_storage_stats().native_bytes == 100 * CHUNK_BYTES * 2 + 3 * CHUNK_BYTES


def test_others_may_write_meanwhile(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    session = repo.writable_session("main")
    compact_chunks(session.state)
    overwrite(repo, slice(0, 4), -1.0, packing=False)
    with pytest.raises(ConflictError):
        session.commit("compacted")
    assert repo.space.compact().snapshot_id is not None
    expected = numbers()
    expected[:4] = -1
    assert (values(repo, "a") == expected).all()


def test_what_others_commit_during_a_compaction_stays(storage: MemoryStorage, spec: int) -> None:
    make(storage, spec)
    other = Repository.open(storage)

    def write() -> None:
        overwrite(other, slice(0, 4), -1.0, packing=False)

    repo = Repository.open(InterruptedStorage(storage, [Moment("put", "manifests/", write)]))
    done = repo.space.compact()
    assert done.chunks == 200
    assert [info.message for info in other.ancestry(branch="main")][:2] == [
        "compact chunks",
        "overwritten",
    ]
    expected = numbers()
    expected[:4] = -1
    assert (values(other, "a") == expected).all()
    check_repository(other)


def test_inline_and_virtual_chunks_are_left_alone(storage: MemoryStorage) -> None:
    repo = Repository.create(storage, config=RepositoryConfig(inline_chunk_threshold_bytes=1000))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=SHAPE, chunks=CHUNKS, dtype="f8")
    write_region(session, "a", np.s_[:8], 1)
    session.store.set_virtual_ref(
        "a/c/5/5", "s3://bucket/key", offset=0, length=CHUNK_BYTES, validate_container=False
    )
    session.commit("no objects")
    assert repo.space.compact() == Compaction()


def test_a_missing_object_is_left_to_a_check(storage: MemoryStorage) -> None:
    repo = make(storage, 2, packing=True)
    storage.delete_many(sorted(keys(storage, "chunks/")))
    assert repo.space.compact() == Compaction()


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_failure_leaves_the_branch_where_it_was(operation: str) -> None:
    storage = FaultyStorage(MemoryStorage())
    repo = make(storage, 2)
    before = repo.lookup_branch("main")
    storage.forget_calls()
    storage.plan = (Fault(Trouble.FAIL, operation, call=10),)
    if operation == "put":
        storage.plan = (Fault(Trouble.FAIL, operation, call=1),)
    with pytest.raises(StorageError, match="planned"):
        repo.space.compact()
    storage.plan = ()
    assert repo.lookup_branch("main") == before
    assert (values(repo, "a") == numbers()).all()
    assert repo.space.compact().chunks == 200


def test_shares_that_make_no_sense(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    for share in (0, 1.5, -1):
        with pytest.raises(InvalidInputError):
            repo.space.compact(min_dead_share=share)


def test_compaction_by_a_runner(tmp_path: Path) -> None:
    repository = overwritten(tmp_path / "repo")
    runner = Elsewhere()
    told: list[Progress] = []
    done = repository.space.compact(metadata={"a": 1}, runner=runner, progress=told.append)
    assert (done.arrays, done.chunks, done.objects_before, done.objects_after) == (2, 16, 16, 2)
    assert runner.items == 2
    assert told == [Progress("packs", done, 2) for done in range(3)]
    tip = next(iter(repository.ancestry(branch="main")))
    counts = {"rewritten-chunks": 16, "rewritten-bytes": done.bytes_rewritten}
    assert {"a": 1, **counts, "where": "elsewhere"}.items() <= tip.metadata.items()
    store = repository.readonly_session("main").store
    for name in ("a", "b"):
        array = zarr.open_array(store, path=name, mode="r")
        np.testing.assert_array_equal(array[...], np.arange(1.0, 65) * 2)
