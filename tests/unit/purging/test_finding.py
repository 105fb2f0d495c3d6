"""Everything that holds what shall go is found, wherever it is."""

from __future__ import annotations

import pytest
import zarr

from frazil.errors import NodeNotFoundError
from frazil.flatbuf.tuning import KEPT_NODES
from frazil.formats.envelope import FileKind, unseal
from frazil.fsck import repair
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.unit.maintenance.samples import keys, later, written_at
from tests.unit.purging.samples import NEEDLE, assert_open_is_as_before, assert_whole, blobs, make


def test_arrays_that_were_deleted_or_moved_are_found(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    session = repo.rearrange_session("main")
    session.move("/group/secret", "/hidden")
    session.commit("move")
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+").__delitem__("hidden")
    session.commit("delete")
    report = repo.space.purge("/hidden", confirm="/hidden", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.paths == ("/group/secret", "/hidden")
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_open_is_as_before(repo)
    assert_whole(repo)


def test_expired_snapshots_and_what_was_put_aside_are_searched(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    gone = {"delete_expired_tags": True, "delete_expired_branches": True}
    repo.expire_snapshots(written_at(repo, last), **gone)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert any(NEEDLE in data for key, data in blobs(storage) if key.startswith("trash/"))
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_snapshots_outside_of_history_go_with_it(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    repo.expire_snapshots(written_at(repo, last), delete_expired_tags=True)
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.loose_snapshots > 0
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_damaged_snapshots_that_repair_kept_go_too(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    key = f"snapshots/{repo.lookup_branch('main')}"
    storage.put(key, b"damaged")
    repair(storage, apply=True)
    (kept,) = (key for key in keys(storage, "overwritten/") if "damaged" in key)
    repo = Repository.open(storage)
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.space.purge(
        "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    assert kept not in keys(storage, "overwritten/")


TELLING = "whose name this is"


def make_large(spec: int) -> tuple[Repository, MemoryStorage]:
    """A snapshot with a telling attribute, and two without it whose files reuse its bytes."""
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    session = repo.writable_session("main")
    for number in range(KEPT_NODES + 10):
        zarr.create_group(session.store, path=f"g{number}")
    options = {"shape": (2,), "chunks": (2,), "dtype": "<i8"}
    zarr.create_array(session.store, name="s/x", attributes={"of": TELLING}, **options)  # type: ignore[arg-type]
    session.commit("made")
    for path in ("s/x", "g1"):
        session = repo.writable_session("main")
        del zarr.open_group(session.store, mode="r+")[path]
        session.commit(f"deleted {path}")
    assert len(telling(storage)) == 3
    return repo, storage


def telling(storage: Storage) -> list[str]:
    """Keys of snapshot files that have the attribute in them, listed or not."""
    found = ((key, blob) for key, blob in blobs(storage) if "snapshots/" in key)
    return [k for k, b in found if TELLING.encode() in unseal(b, FileKind.SNAPSHOT, key=k).body]


@pytest.mark.parametrize("path", ["s/x", "s"])
def test_bytes_that_a_later_snapshot_took_over_go_too(spec: int, path: str) -> None:
    repo, storage = make_large(spec)
    assert repo.space.purge(path, confirm=path, unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)
    with pytest.raises(NodeNotFoundError):
        repo.space.purge(path, dry_run=True)


def test_bytes_of_a_node_that_only_expired_snapshots_had_go_too() -> None:
    repo, storage = make_large(2)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert len(telling(storage)) == 1
    before = dict(blobs(storage))
    assert len(repo.space.purge("s/x", dry_run=True).snapshots) == 1
    assert dict(blobs(storage)) == before
    assert repo.space.purge("s/x", confirm="s/x", unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)
