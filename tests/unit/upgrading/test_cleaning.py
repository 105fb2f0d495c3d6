"""What is left of an old repository is deleted, and nothing that somebody needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import FormatError, SessionStateError
from frazil.repository import Repository
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import clean_upgrade, upgrade_older, upgrade_repository
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    assert_as_before,
    files_at,
    last_message,
    make_small,
    place_of,
    put,
    sample,
    told,
    upgraded,
)


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_virtual_chunks_stay_also_when_nobody_has_their_container(
    spec: str, to: int, tmp_path: Path
) -> None:
    """A configuration can be saved again, chunks that were cleaned up are gone."""
    place = LocalStorage(tmp_path)
    Repository.create(place, spec_version=spec)
    repo = Repository.open(place, frazil.RepositoryConfig(inline_chunk_threshold_bytes=0))
    with repo.transaction("main", message="one") as store:
        zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    upgrade_repository(repo, to=to, mode="virtual")
    repo = Repository.open(place)
    was, config = repo.config, repo.config
    config.clear_virtual_chunk_containers()
    repo.reopen(config).save_config()
    frazil.clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    folders = dict.fromkeys(was.virtual_chunk_containers or {}, LocalFileSystemAccess)
    again = Repository.open(
        place, was, authorize_virtual_chunk_access=frazil.containers_credentials(folders)
    )
    array = zarr.open_array(again.readonly_session("main").store, path="a")
    assert np.asarray(array[:]).tolist() == [7] * 4


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
@pytest.mark.parametrize("to", [1, 2])
def test_cleaned_up_places_still_keep_old_writers_out(spec: str, to: int) -> None:
    place = place_of(spec)
    old = Repository.open(place)
    session = old.writable_session("main")
    put(session.store, "scalar", ..., 1)
    upgrade_older(place, to=to)
    clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    with pytest.raises(frazil.FrazilError):
        session.commit("too late")
    assert last_message(place) == "one"


def test_there_is_nothing_to_clean() -> None:
    place = MemoryStorage()
    Repository.create(place)
    with pytest.raises(SessionStateError, match="no files of an older generation"):
        clean_upgrade(place)
    with pytest.raises(SessionStateError, match="finish the upgrade"):
        clean_upgrade(place_of("g3"), unsafe_minimum_age=AT_ONCE)


@pytest.mark.parametrize("spec", ["g1", "g2", "g3", "3a"])
def test_a_dry_run_counts_what_cleaning_would_delete(spec: str) -> None:
    place = upgraded(spec, 2)
    before = files_at(place)
    plan = clean_upgrade(place, dry_run=True)
    assert files_at(place) == before
    done = clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    after = files_at(place)
    assert after.keys() < before.keys()
    assert (plan.deleted, plan.deleted_bytes) == (done.deleted, done.deleted_bytes)
    assert done.deleted == len(before) - len(after)
    assert (plan.applied, done.applied) == (False, True)
    assert told(Repository.open(place)) == sample(spec)[1]


def test_young_files_are_left_so_that_an_upgrade_can_be_undone() -> None:
    place = upgraded("g2", 2)
    before = files_at(place)
    with pytest.raises(SessionStateError, match="clean up after an upgrade"):
        clean_upgrade(place)
    assert files_at(place) == before
    frazil.undo_upgrade(place)
    assert_as_before(place, sample("g2")[0])


def test_a_manifest_that_cannot_be_read_keeps_old_chunks(tmp_path: Path) -> None:
    """It may refer to them, whatever the configuration says."""
    place = LocalStorage(tmp_path)
    make_small(place, "g2")
    upgrade_older(place, to=2)
    chunks = {item.key for item in place.list("c/")}
    assert chunks
    key = next(iter(place.list("manifests/"))).key
    place.put(key, b"damaged")
    with pytest.raises(FormatError):
        clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    assert {item.key for item in place.list("c/")} == chunks
