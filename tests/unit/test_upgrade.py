"""The doors to upgrades: what they take, what they return, and which handles stay valid."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil.icechunk as icechunk
from frazil.errors import ErrorKind, InvalidInputError, SessionStateError
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import (
    clean_upgrade,
    plan_upgrade,
    undo_upgrade,
    upgrade_older,
    upgrade_repository,
)
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.old_repositories import files_at, make_old, make_small, told


def test_the_public_door_opens_it_anew(tmp_path: Path) -> None:
    repo = make_old(LocalStorage(str(tmp_path)), "g3")
    before = told(repo)
    assert told(upgrade_repository(repo, dry_run=True)) == before
    fresh = upgrade_repository(repo)
    assert fresh.spec_version == 2
    assert told(fresh) == before
    with pytest.raises(RuntimeError):
        repo.list_branches()


def test_a_handle_from_before_an_upgrade_to_version_2_is_invalid() -> None:
    storage = MemoryStorage()
    repo = make_small(storage, 1)
    before = told(repo)
    fresh = upgrade_repository(repo)
    assert (fresh.spec_version, told(fresh)) == (2, before)
    with pytest.raises(RuntimeError):
        repo.list_branches()


def test_a_dry_run_changes_nothing_and_leaves_the_handle_valid() -> None:
    storage = MemoryStorage()
    repo = make_small(storage, 1)
    before = files_at(storage)
    found = upgrade_repository(repo, dry_run=True)
    assert files_at(storage) == before
    assert found.spec_version == repo.spec_version == 1
    assert repo.lookup_branch("main") == found.lookup_branch("main")


def test_the_new_handle_is_of_the_class_of_the_old_one() -> None:
    storage = icechunk.in_memory_storage()
    repo = icechunk.Repository.create(storage, spec_version=1)
    fresh = upgrade_repository(repo)
    assert type(fresh) is icechunk.Repository
    assert fresh.spec_version == 2


@pytest.mark.parametrize(("spec", "to"), [(1, 1), (2, 1), (2, 2)])
def test_there_is_no_way_to_the_version_it_has_or_to_an_older_one(spec: int, to: int) -> None:
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    before = files_at(storage)
    with pytest.raises(SessionStateError, match="already") as caught:
        upgrade_repository(repo, to=to)
    assert caught.value.kind is ErrorKind.INVALID_REPOSITORY_MIGRATION
    assert files_at(storage) == before
    assert repo.list_branches() == {"main"}


@pytest.mark.parametrize("spec", [1, 2, "3i"])
def test_a_version_that_does_not_exist_is_named(spec: Spec) -> None:
    repo = Repository.create(MemoryStorage(), spec_version=spec)
    with pytest.raises(InvalidInputError, match="spec version 1 or 2, not 3"):
        upgrade_repository(repo, to=3)


def test_a_plan_counts_and_writes_nothing() -> None:
    storage = MemoryStorage()
    make_old(storage, "3i")
    before = files_at(storage)
    report = plan_upgrade(storage)
    assert not report.applied
    assert (report.branches, report.tags, report.snapshots) == (2, 2, 4)
    assert files_at(storage) == before
    with pytest.raises(InvalidInputError):
        plan_upgrade(storage, to=3)


@pytest.mark.parametrize("kind", ["storage", "text", "url", "path"])
def test_places_are_storages_paths_and_urls(kind: str, tmp_path: Path) -> None:
    places: dict[str, Storage | str | Path] = {
        "storage": LocalStorage(tmp_path),
        "text": str(tmp_path),
        "url": tmp_path.as_uri(),
        "path": tmp_path,
    }
    place = places[kind]
    make_small(LocalStorage(tmp_path), "3i")
    assert plan_upgrade(place).snapshots == 3
    assert upgrade_older(place).applied
    assert Repository.open(tmp_path).spec_version == 2
    assert undo_upgrade(place, dry_run=True).applied is False
    assert undo_upgrade(place, unsafe_minimum_age=AT_ONCE).applied
    assert upgrade_older(place).applied
    assert clean_upgrade(place, unsafe_minimum_age=AT_ONCE).applied
    with pytest.raises(SessionStateError):
        undo_upgrade(place, unsafe_minimum_age=AT_ONCE)


def test_progress_is_told_to_the_end() -> None:
    storage = MemoryStorage()
    make_old(storage, "g2")
    seen: list[Progress] = []
    report = upgrade_older(storage, mode="copy", progress=seen.append)
    assert report.applied
    assert seen
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert seen[-1].done == seen[-1].total
