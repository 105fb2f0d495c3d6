"""What is left of an old repository is deleted, and nothing that somebody needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.repository import Repository
from frazil.storage.credentials import LocalFileSystemAccess
from frazil.storage.local import LocalStorage
from frazil.upgrade import clean_upgrade, upgrade_older, upgrade_repository
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    last_message,
    place_of,
    put,
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
