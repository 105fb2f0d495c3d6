"""The entry point of the new repository, and old refs beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import SessionStateError
from frazil.formats.config_codec import config_from_map
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.upgrade import RefSet
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from frazil.upgrading.claims import CLAIM_KEY, ClaimRecord, Work, take
from frazil.upgrading.leftovers import (
    delete_all,
    is_upgraded,
    left_at,
    new_at,
    new_config,
    renamed,
    seen_in,
)
from frazil.upgrading.source import ChunkMode, source_of
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    files_at,
    make_old,
    make_small,
    place_of,
    told,
    upgraded,
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


# --- what is there ---


def test_an_upgraded_place_is_told_from_others() -> None:
    for place in (MemoryStorage(), place_of("g1"), place_of("g3")):
        assert not is_upgraded(place)
        assert new_at(place) is None
    new = new_at(upgraded("g2", 1))
    assert new is not None
    assert new.generation.spec == 1


def test_where_nothing_old_is_left_that_is_told() -> None:
    place = MemoryStorage()
    Repository.create(place)
    with pytest.raises(SessionStateError, match="no files of an older generation"):
        left_at(place, new_at(place))


@pytest.mark.parametrize("to", SPECS)
@pytest.mark.parametrize("spec", ["g1", "g2", "g3", "3a"])
def test_the_old_repository_tells_what_the_new_one_holds(spec: str, to: int) -> None:
    place = upgraded(spec, to)
    new = new_at(place)
    assert new is not None
    expected = left_at(place, new).require_readable()
    assert seen_in(new) == expected
    assert set(expected.branches) == {"main", "dev"}
    repository = Repository.open(place)
    repository.create_branch("more", repository.lookup_branch("main"))
    again = new_at(place)
    assert again is not None
    assert seen_in(again) != expected


def test_an_old_history_that_is_incomplete_was_cleaned_up() -> None:
    place = upgraded("g2", 2)
    left = left_at(place, new_at(place))
    place.delete_many([next(iter(place.list("s/"))).key])
    with pytest.raises(SessionStateError, match="have been cleaned up"):
        left.require_readable()


# --- what is written ---


def test_only_the_first_snapshot_of_main_gets_another_id() -> None:
    root, tip = SnapshotId(bytes(12)), SnapshotId(b"\x01" * 12)
    refs = RefSet({"main": tip, "first": root}, {"start": root}, {"gone": root, "lost": None})
    found = renamed(refs, root)
    assert found.branches == {"main": tip, "first": INITIAL_SNAPSHOT_ID}
    assert found.tags == {"start": INITIAL_SNAPSHOT_ID}
    assert found.deleted_tags == {"gone": INITIAL_SNAPSHOT_ID, "lost": None}
    assert renamed(refs, None) == refs


def test_the_configuration_tells_of_old_chunks_only_if_they_stay(tmp_path: Path) -> None:
    place = LocalStorage(str(tmp_path))
    source = source_of(context_of(make_small(place, "g2")))
    assert new_config(source, ChunkMode.LINK) == source.refs.stored_config()
    made = new_config(source, ChunkMode.VIRTUAL)
    assert made is not None
    (container,) = (config_from_map(made).virtual_chunk_containers or {}).values()
    assert (container.name, container.url_prefix) == ("legacy-chunks", f"{place.url}/c/")


def test_nothing_is_deleted_once_the_claim_is_not_ours() -> None:
    place = MemoryStorage()
    for key in ("a", "b"):
        place.put(key, b"data")
    claim = take(place, ClaimRecord(Work.CLEAN), None)
    delete_all(place, ["a"], claim)
    assert place.get("a") is None
    place.put(CLAIM_KEY, ClaimRecord(Work.UNDO).encode())
    with pytest.raises(SessionStateError, match="another process"):
        delete_all(place, ["b"], claim)
    assert place.get("b") == b"data"
