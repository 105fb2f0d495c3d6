"""Undoing an upgrade brings the old repository back, or refuses and changes nothing."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import SessionStateError
from frazil.repository import Repository
from frazil.upgrade import undo_upgrade, upgrade_older
from tests.support.old_repositories import (
    assert_as_before,
    last_message,
    place_of,
    put,
    sample,
    told,
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
