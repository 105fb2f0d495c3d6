"""What a store refuses to delete is told, and never counted as deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from frazil.errors import ConflictError, RefNotFoundError, StorageError
from frazil.repository import Repository
from frazil.storage.base import Deleted
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.unit.maintenance.samples import keys, later, make, put, values


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()


class Keeping(FaultyStorage):
    """A storage that deletes nothing below a prefix, as one without the permission to."""

    kept = ""

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        kept = [key for key in keys if key.startswith(self.kept)]
        done = super().delete_many([key for key in keys if key not in kept])
        return replace(done, failed=tuple((key, "permission denied") for key in kept))


def test_a_branch_that_cannot_be_deleted_is_as_it_was(storage: MemoryStorage) -> None:
    repo = make(storage, 1)
    put(repo, 0, 1)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 0, 2, "dev")
    with pytest.raises(StorageError, match="permission denied"):
        Repository.open(Keeping(storage)).delete_branch("dev")
    assert values(Repository.open(storage), "dev")[0] == 2
    put(Repository.open(storage), 0, 3, "dev")
    Repository.open(storage).delete_branch("dev")
    assert Repository.open(storage).list_branches() == {"main"}


class Late(FaultyStorage):
    """A storage that does what it was asked to when nobody waits for its answer any more."""

    late: Sequence[str] = ()

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        self.late = [*keys]
        return Deleted(0, failed=tuple((key, "timed out") for key in keys), in_doubt=True)


def test_a_deletion_that_comes_late_deletes_nothing_newer(storage: MemoryStorage) -> None:
    repo = make(storage, 1)
    put(repo, 0, 1)
    repo.create_branch("dev", repo.lookup_branch("main"))
    late = Late(storage)
    with pytest.raises(StorageError, match="timed out"):
        Repository.open(late).delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        put(Repository.open(storage), 0, 2, "dev")
    with pytest.raises(ConflictError):
        Repository.open(storage).create_branch("dev", repo.lookup_branch("main"))
    storage.delete_many(late.late)
    assert Repository.open(storage).list_branches() == {"main"}


@pytest.mark.parametrize("kept", ["", "repo", "snapshots/"])
def test_a_repository_that_cannot_be_deleted_is_told(storage: MemoryStorage, kept: str) -> None:
    make(storage, 2)
    before = keys(storage)
    keeping = Keeping(storage)
    keeping.kept = kept
    with pytest.raises(StorageError, match="permission denied"):
        Repository.delete(keeping, confirm=keeping.url)
    # What opens it goes first: as long as that stays, nothing else goes.
    is_whole = kept != "snapshots/"
    assert Repository.exists(storage) == is_whole
    assert (keys(storage) == before) == is_whole


@pytest.mark.parametrize("spec", [1, 2, "g1", "g3"])
def test_a_collection_counts_what_is_gone(storage: MemoryStorage, spec: int | str) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    repo.create_branch("gone", put(repo, 0, 2))
    put(repo, 0, 3, "gone")
    repo.delete_branch("gone")
    if context_of(repo).generation.expires_snapshots:
        repo.expire_snapshots(later())
    before = keys(storage, "chunks/")
    done = Repository.open(Keeping(storage)).garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert (done.chunks_deleted, done.bytes_deleted, done.snapshots_deleted) == (0, 0, 0)
    assert done.objects_failed_to_delete > 0
    assert done.delete_errors[0] == "permission denied"
    assert keys(storage, "chunks/") == before
    assert values(Repository.open(storage))[0] == 2


class KeepingSome(FaultyStorage):
    """A storage that does not let one object go, and deletes the others."""

    kept: str | None = None

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        if self.kept is None:
            self.kept = next((key for key in keys if key.startswith("chunks/")), None)
        done = self.inner.delete_many([key for key in keys if key != self.kept])
        refused = tuple((key, "locked") for key in keys if key == self.kept)
        return Deleted(done.keys, done.bytes, refused)


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("spec", [1, 2])
def test_a_collection_names_the_files_that_are_gone_and_no_others(
    storage: MemoryStorage, spec: int, quarantine: bool
) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    repo.create_branch("gone", put(repo, 0, 2))
    for value in (3, 4):
        put(repo, 0, value, "gone")
    repo.delete_branch("gone")
    before = keys(storage)
    keeping = KeepingSome(storage)
    told = Repository.open(keeping).space.collect_garbage(
        later(), unsafe_minimum_age=AT_ONCE, quarantine=quarantine
    )
    assert keeping.kept is not None
    assert keeping.kept in keys(storage)
    gone = {f"{storage.url.rstrip('/')}/{key}" for key in before - keys(storage)}
    of_repository = {file for file in gone if "/refs/" not in file and "/overwritten/" not in file}
    assert {*told.files} == of_repository
    assert any("/chunks/" in file for file in told.files)
    assert told.summary.objects_failed_to_delete == 1


def test_the_trash_tells_what_stays(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    put(repo, 0, 1)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 0, 2, "dev")
    repo.delete_branch("dev")
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    keeping = Repository.open(Keeping(storage))
    with pytest.raises(StorageError, match="permission denied"):
        keeping.space.restore_trash()
    with pytest.raises(StorageError, match="permission denied"):
        keeping.space.empty_trash(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.space.list_trash()
