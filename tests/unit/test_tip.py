"""A tip: plan and commit at one snapshot, whatever others do in between."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import ConflictError, ReadOnlyError, RebaseFailedError, RefNotFoundError
from frazil.model.history import RepoAvailability
from frazil.model.values import ConflictDetector, RepoStatus
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest) -> Repository:
    """A repository with one array of four cells."""
    made = Repository.create(MemoryStorage(), spec_version=request.param)
    with made.transaction("main", message="one") as store:
        array = zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")
        array[:] = np.arange(4)
    return made


def set_cells(repository: Repository, value: int) -> str:
    """Somebody else's commit."""
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="a")[:] = value
    return session.commit("theirs")


def test_both_sessions_of_a_tip_see_what_was_there_when_it_was_taken(
    repository: Repository,
) -> None:
    tip = repository.tip("main")
    set_cells(repository, 7)
    for session in (tip.readonly_session(), tip.writable_session()):
        assert session.snapshot_id == tip.snapshot_id
        values = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:])
        assert values.tolist() == [0, 1, 2, 3]
    assert tip.readonly_session().read_only


def test_a_commit_upon_a_tip_that_moved_is_refused(repository: Repository) -> None:
    tip = repository.tip("main")
    theirs = set_cells(repository, 7)
    session = tip.writable_session()
    zarr.open_array(session.store, path="a")[:] = 1
    with pytest.raises(ConflictError):
        session.commit("ours")
    with pytest.raises(RebaseFailedError):
        session.commit("ours", rebase_with=ConflictDetector())
    assert repository.lookup_branch("main") == theirs


def test_a_plan_made_elsewhere_names_its_snapshot(repository: Repository) -> None:
    told = repository.tip("main")
    set_cells(repository, 7)
    tip = repository.tip("main", snapshot_id=told.snapshot_id)
    assert tip == told
    assert tip.writable_session().snapshot_id == told.snapshot_id


def test_a_tip_of_a_branch_that_does_not_exist(repository: Repository) -> None:
    with pytest.raises(RefNotFoundError):
        repository.tip("dev")


def test_a_tip_reads_but_does_not_write_a_repository_that_is_read_only() -> None:
    repository = Repository.create(MemoryStorage())
    repository.set_status(RepoStatus(RepoAvailability.read_only))
    tip = repository.tip("main")
    assert tip.readonly_session().read_only
    with pytest.raises(ReadOnlyError):
        tip.writable_session()


def test_a_tip_goes_to_other_processes(tmp_path: Path) -> None:
    tip = Repository.create(tmp_path / "r").tip("main")
    copy = pickle.loads(pickle.dumps(tip))
    assert copy == tip
    assert copy.writable_session().snapshot_id == tip.snapshot_id
