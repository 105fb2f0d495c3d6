"""Undoing an upgrade brings the old repository back, or refuses and changes nothing."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import ReadOnlyError, SessionStateError
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.upgrade import undo_upgrade, upgrade_older
from frazil.upgrading.claims import CLAIM_KEY
from frazil.upgrading.leftovers import new_at
from frazil.upgrading.undoing import close
from tests.support.old_repositories import (
    assert_as_before,
    files_at,
    last_message,
    place_of,
    put,
    sample,
    told,
    upgraded,
)


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
def test_undoing_does_not_lose_commits_unasked(spec: str) -> None:
    place = place_of(spec)
    upgrade_older(place)
    with Repository.open(place).transaction("main", message="new") as store:
        put(store, "scalar", ..., 1)
    with pytest.raises(SessionStateError, match="changed since"):
        undo_upgrade(place)
    assert last_message(place) == "new"
    assert undo_upgrade(place, force=True, dry_run=True).restored == (0 if spec != "g3" else 6)
    undo_upgrade(place, force=True)
    assert told(Repository.open(place)) == sample(spec)[1]


@pytest.mark.parametrize("spec", ["g1", "g2", "g3", "3a"])
def test_who_upgrades_twice_can_still_go_back(spec: str) -> None:
    files, _ = sample(spec)
    place = place_of(spec)
    repo = frazil.upgrade_repository(Repository.open(place))
    with pytest.raises(SessionStateError, match="has version 2 already"):
        frazil.upgrade_repository(repo)
    undo_upgrade(place)
    assert_as_before(place, files)


def test_there_is_nothing_to_undo() -> None:
    place = MemoryStorage()
    repo = Repository.create(place)
    with pytest.raises(SessionStateError, match="no files of an older generation"):
        undo_upgrade(place)
    repo.create_branch("dev", repo.lookup_branch("main"))
    assert CLAIM_KEY not in files_at(place)


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("spec", ["g1", "g2", "g3", "3a"])
def test_a_dry_run_counts_what_undoing_would_do(spec: str, to: int) -> None:
    place = upgraded(spec, to)
    before = files_at(place)
    plan = undo_upgrade(place, dry_run=True)
    assert files_at(place) == before
    assert not plan.applied
    done = undo_upgrade(place)
    assert done.applied
    assert done.generation == plan.generation == spec.replace("3a", "g3")
    assert done.restored == plan.restored
    assert done.deleted >= plan.deleted > 0  # to close the new repository makes files, too
    assert_as_before(place, sample(spec)[0])


@pytest.mark.parametrize("to", [1, 2])
def test_undoing_that_is_refused_leaves_the_repository_open(to: int) -> None:
    place = upgraded("g2", to)
    with Repository.open(place).transaction("main", message="new") as store:
        put(store, "scalar", ..., 1)
    with pytest.raises(SessionStateError, match="changed since"):
        undo_upgrade(place)
    assert CLAIM_KEY not in files_at(place)
    with Repository.open(place).transaction("main", message="goes on") as store:
        put(store, "scalar", ..., 2)
    assert last_message(place) == "goes on"


@pytest.mark.parametrize("to", [1, 2])
def test_a_closed_repository_takes_no_commit_until_it_is_opened_again(to: int) -> None:
    place = upgraded("g2", to)
    new = new_at(place)
    assert new is not None
    session = Repository.open(place).writable_session("main")
    put(session.store, "scalar", ..., 1)
    reopen = close(new)
    with pytest.raises(frazil.FrazilError):
        session.commit("too late")
    reopen()
    assert last_message(place) == "one"
    with Repository.open(place).transaction("main", message="goes on") as store:
        put(store, "scalar", ..., 2)
    assert last_message(place) == "goes on"


def test_a_read_only_place_is_not_undone() -> None:
    place = ReadOnlyStorage(upgraded("g2", 2))
    assert undo_upgrade(place, dry_run=True).deleted > 0
    with pytest.raises(ReadOnlyError, match="cannot undo an upgrade"):
        undo_upgrade(place)
