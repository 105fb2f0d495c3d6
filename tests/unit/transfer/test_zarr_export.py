"""A Zarr store that is written over holds what was exported last, and nothing from before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import StorageError
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble


@pytest.fixture
def repository() -> frazil.Repository:
    """An array of which one version has all chunks, and the next one only the first."""
    made = frazil.Repository.create(MemoryStorage())
    session = made.writable_session("main")
    zarr.create_array(session.store, name="g/a", shape=(6,), chunks=(2,), dtype="i4")[:] = 7
    made.create_tag("full", session.commit("full"))
    session = made.writable_session("main")
    zarr.open_array(session.store, path="g/a")[2:] = 0
    session.commit("cut")
    return made


@pytest.mark.parametrize("group", [None, "g", "g/a"])
def test_no_chunk_of_an_older_export_is_read_as_one_of_the_next(
    repository: frazil.Repository, tmp_path: Path, group: str | None
) -> None:
    place = tmp_path / "out.zarr"
    frazil.export(repository.readonly_session(tag="full"), place, group=group)
    (place / "mine.txt").write_text("mine")
    cut = repository.readonly_session("main")
    frazil.export(cut, place, group=group, overwrite=True)
    path = {None: "g/a", "g": "a", "g/a": ""}[group]
    found = np.asarray(zarr.open_array(place, path=path, mode="r")[:])
    assert found.tolist() == [7, 7, 0, 0, 0, 0]
    assert (place / "mine.txt").read_text() == "mine"


def test_an_export_over_another_can_be_opened_when_it_is_complete(
    repository: frazil.Repository,
) -> None:
    """Not with the old metadata, which may say that the new chunks are something else."""
    place = MemoryStorage()
    frazil.export(repository.readonly_session(tag="full"), place)
    faulty = FaultyStorage(place, [Fault(Trouble.FAIL, "put", 1)])
    with pytest.raises(StorageError):
        frazil.export(repository.readonly_session("main"), faulty, overwrite=True)
    assert place.get("zarr.json") is None
    assert place.get("g/a/zarr.json") is None
