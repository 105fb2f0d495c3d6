"""The entry point of the new repository, and old refs beside it."""

from __future__ import annotations

import pytest

import frazil
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    files_at,
    make_old,
    told,
    with_colons,
)

SPECS = (1, 2)


@pytest.mark.parametrize("to", SPECS)
def test_refs_of_the_first_releases(to: int) -> None:
    """Their names had colons, which readers of spec 1 do not know."""
    place = MemoryStorage()
    with_colons(place)
    before = told(Repository.open(place))
    files = files_at(place)
    upgrade_older(Repository.open(place), to=to)
    new = Repository.open(place)
    assert told(new) == before
    with pytest.raises(frazil.FrazilError):
        new.create_tag("gone", new.lookup_branch("main"))
    frazil.undo_upgrade(place)
    assert files_at(place) == files
    upgrade_older(Repository.open(place), to=to)
    frazil.clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    assert told(Repository.open(place)) == before


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_deleted_branches_stay_deleted(spec: str, to: int) -> None:
    place = MemoryStorage()
    repo = make_old(place, spec)
    repo.delete_branch("dev")
    before = told(repo)
    upgrade_older(place, to=to)
    new = Repository.open(place)
    assert new.list_branches() == {"main"}
    # Official readers of spec 1 list whatever has a file in the folder of refs.
    assert to == 2 or not [*place.list("refs/branch.dev/")]
    frazil.undo_upgrade(place)
    old = Repository.open(place)
    assert told(old) == before
    old.create_branch("dev", old.lookup_branch("main"))
    assert old.list_branches() == {"main", "dev"}
