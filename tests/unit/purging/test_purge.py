"""Erasing from all of history: nothing is left, and everything else reads as before."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from functools import partial

import pytest
import zarr

import frazil
from frazil.bulk.write import write_region
from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
    StorageError,
)
from frazil.fsck import repair
from frazil.model.config import RepositoryConfig
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.upgrade import upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, write_keys
from tests.support.old_repositories import make_small
from tests.support.stepping import InterruptedStorage
from tests.unit.maintenance.samples import keys
from tests.unit.purging.samples import (
    NEEDLE,
    assert_open_is_as_before,
    assert_whole,
    blobs,
    make,
    read,
)


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("inline", [0, 512])
def test_an_array_is_gone_from_every_snapshot(
    storage: MemoryStorage, spec: int, packing: bool, inline: int
) -> None:
    repo = make(storage, spec, packing=packing, inline=inline)
    before = [info.message for info in repo.ancestry(branch="main")]
    old = {info.id for info in repo.ancestry(branch="main")}
    node_id = repo.readonly_session("main").get_node_id("/group/secret")
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.paths == ("/group/secret",)
    assert len(report.snapshots) == 5
    assert (report.bytes_erased == 0) == (inline > 0)
    assert [info.message for info in repo.ancestry(branch="main")] == before
    assert_open_is_as_before(repo)
    for where in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        with pytest.raises(NodeNotFoundError):
            read(repo, "group/secret", **where)
    assert_whole(repo)
    with pytest.raises(NodeNotFoundError):
        repo.space.purge("group/secret", dry_run=True)
    new = {info.id for info in repo.ancestry(branch="main")}
    assert len(new & old) == 1  # that of the empty repository
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
        assert str(node_id) not in key


def test_a_dry_run_changes_nothing(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    before = dict(blobs(storage))
    told = repo.space.purge("group", dry_run=True)
    assert dict(blobs(storage)) == before
    assert (told.applied, told.is_proved) == (False, False)
    done = repo.space.purge("group", confirm="/group", unsafe_minimum_age=AT_ONCE)
    assert done.paths == told.paths == ("/group", "/group/secret")
    assert set(done.snapshots) == set(told.snapshots)
    assert (done.objects_deleted, done.bytes_erased) == (told.objects_deleted, told.bytes_erased)
    assert (told.objects_deleted, told.bytes_erased) == (6, 96)


@pytest.mark.parametrize("confirm", [None, "", "group", "/"])
def test_it_must_be_confirmed(storage: MemoryStorage, spec: int, confirm: str | None) -> None:
    repo = make(storage, spec)
    before = dict(blobs(storage))
    with pytest.raises(InvalidInputError, match="cannot be undone") as caught:
        repo.space.purge("group/secret", confirm=confirm, unsafe_minimum_age=AT_ONCE)
    assert caught.value.kind == ErrorKind.NOT_CONFIRMED
    assert dict(blobs(storage)) == before


@pytest.mark.parametrize(
    "region", [[slice(0, 2, 2)], [slice(-1, None)], [slice(3, 3)], [slice(0, 1)] * 3]
)
def test_regions_that_make_no_sense_are_refused(
    storage: MemoryStorage, region: list[slice]
) -> None:
    repo = make(storage, 2)
    before = dict(blobs(storage))
    with pytest.raises(InvalidInputError):
        repo.space.purge("open", region, confirm="open", unsafe_minimum_age=AT_ONCE)
    assert dict(blobs(storage)) == before


def test_who_works_on_an_old_snapshot_cannot_commit(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    session = Repository.open(storage).writable_session("main")
    write_region(session, "open", 0, 5)
    repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    with pytest.raises(ConflictError):
        session.commit("late")
    with pytest.raises(ConflictError):
        session.commit("late", rebase_with=ConflictDetector())
    with repo.transaction("main", message="after") as store:
        zarr.open_array(store, path="open", mode="r+")[0] = 9
    assert read(repo, "open")[0] == 9
    assert_whole(repo)


@pytest.mark.parametrize("call", range(0, 42, 6))
def test_a_purge_that_dies_can_be_made_again(storage: MemoryStorage, spec: int, call: int) -> None:
    make(storage, spec)
    for operation in ("put", "copy_if", "put_if", "delete_many"):
        faulty = FaultyStorage(storage, [Fault(Trouble.FAIL, operation, call=call + 1)])
        try:
            Repository.open(faulty).space.purge(
                "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
            )
        except StorageError:
            assert_open_is_as_before(Repository.open(storage))
        except NodeNotFoundError:
            break
    repo = Repository.open(storage)
    with contextlib.suppress(NodeNotFoundError):  # if it was done before
        assert repo.space.purge(
            "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
        ).is_proved
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_open_is_as_before(repo)


def test_backups_stay_unless_they_shall_go(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.backups > 0
    assert keys(storage, "overwritten/")
    newest, *older = repo.ops_log()
    assert isinstance(newest.kind, frazil.UpdateType.GCRan)
    assert len(older) > 5
    old = keys(storage, "overwritten/")
    repo.space.purge("open", confirm="open", delete_backups=True, unsafe_minimum_age=AT_ONCE)
    (fresh,) = keys(storage, "overwritten/") - old  # of the repository as it is now
    assert keys(storage, "overwritten/") == {fresh}
    assert frazil.Repository.open(storage).list_branches() == {"main", "dev"}


def test_the_repository_can_be_repaired_afterwards(storage: MemoryStorage) -> None:
    make(storage, 2).space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    storage.put("repo", b"garbage")
    repair(storage, apply=True)
    repo = Repository.open(storage)
    assert_open_is_as_before(repo)
    assert_whole(repo)


@pytest.mark.parametrize("old", ["g1", "g2", "g3"])
def test_what_an_upgrade_left_must_be_cleaned_up_first(storage: MemoryStorage, old: Spec) -> None:
    upgrade_older(make_small(storage, old), to=2)
    repo = Repository.open(storage)
    before = dict(blobs(storage))
    with pytest.raises(SessionStateError, match="upgrade"):
        repo.space.purge("x", confirm="x", unsafe_minimum_age=AT_ONCE)
    assert dict(blobs(storage)) == before
    frazil.clean_upgrade(storage, unsafe_minimum_age=AT_ONCE)
    assert (
        Repository.open(storage).space.purge("x", confirm="x", unsafe_minimum_age=AT_ONCE).is_proved
    )


def test_a_closed_repository_is_left_alone(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    before = dict(blobs(storage))
    assert len(repo.space.purge("group/secret", dry_run=True).snapshots) == 5
    with pytest.raises(ReadOnlyError):
        repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    with pytest.raises(ReadOnlyError), repo.audit.staged("main"):
        pass
    assert dict(blobs(storage)) == before


def test_a_refusal_for_what_somebody_just_wrote_comes_before_history_changes() -> None:
    """A commit to the array while it is purged makes a file that is too young to erase."""
    age = timedelta(seconds=0.2)
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)

    def write(repo: Repository, name: str, values: dict[str, bytes]) -> None:
        session = repo.writable_session("main")
        write_keys(session, values)
        session.commit(name)

    refused = 0
    for call in range(1, 200, 5):
        storage = InterruptedStorage(MemoryStorage())
        repo = Repository.create(storage, config=config)
        write(repo, "first", {"a/zarr.json": array_document(4), "a/c/0": b"secret"})
        time.sleep(age.total_seconds())
        other = Repository.open(storage.inner, config)
        storage.before(call, partial(write, other, "second", {"a/c/1": b"more"}))
        try:
            repo.space.purge("/a", confirm="/a", unsafe_minimum_age=age)
        except SessionStateError:
            assert next(other.ancestry(branch="main")).message == "second"
            found = contents(other.readonly_session("main"))
            assert (found["a/c/0"], found["a/c/1"]) == (b"secret", b"more")
            refused += 1
        except NodeNotFoundError:
            break  # history has gone over, and the other finds nothing to write to
    assert refused
