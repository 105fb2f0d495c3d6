"""Writes of what is there already: references stay, and nothing is committed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import zarr

import frazil
from frazil.bulk.write import write_region
from frazil.errors import SessionStateError
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage


@pytest.fixture(params=[0, 512], ids=["native", "inline"])
def repo(request: pytest.FixtureRequest) -> Repository:
    config = RepositoryConfig(inline_chunk_threshold_bytes=request.param)
    made = Repository.create(MemoryStorage(), config=config)
    session = made.writable_session("main")
    for name, shards in (("a", None), ("s", (4, 4))):
        zarr.create_array(
            session.store, name=name, shape=(8, 8), chunks=(2, 2), dtype="i4", shards=shards
        )
        zarr.open_array(session.store, path=name, mode="r+")[:4] = np.arange(1, 33).reshape(4, 8)
    session.commit("make")
    return made


def objects(repo: Repository) -> int:
    return sum(1 for _ in repo.storage.list("chunks/"))


def values(session: Session, name: str = "a") -> list[list[int]]:
    found: list[list[int]] = np.asarray(session.array(name)[:]).tolist()
    return found


def skipping(repo: Repository) -> Session:
    session = repo.writable_session("main")
    session.skip_identical = True
    return session


def test_it_is_off_by_default(repo: Repository) -> None:
    session = repo.writable_session("main")
    session.array("a")[:] = values(session)
    assert session.has_uncommitted_changes
    assert session.commit("again") == repo.lookup_branch("main")


@pytest.mark.parametrize("name", ["a", "s"])
@pytest.mark.parametrize("how", ["bulk", "zarr", "plain"])
def test_the_same_values_are_no_change(repo: Repository, name: str, how: str) -> None:
    session, before = skipping(repo), objects(repo)
    same = values(session, name)
    if how == "bulk":
        session.array(name)[:] = same
    else:
        with frazil.config.set(fast_zarr=how == "zarr"):
            zarr.open_array(session.store, path=name, mode="r+")[:] = np.array(same, "i4")
    assert not session.has_uncommitted_changes
    assert objects(repo) == before
    with pytest.raises(SessionStateError, match="no changes"):
        session.commit("nothing")


@pytest.mark.parametrize("how", ["bulk", "zarr", "plain"])
def test_only_chunks_that_differ_are_written(repo: Repository, how: str) -> None:
    session = skipping(repo)
    new = np.array(values(session), "i4")
    new[0, 0] = 99
    new[6, 6] = 5
    if how == "bulk":
        write_region(session, "a", ..., new, packing=False)
    else:
        with frazil.config.set(fast_zarr=how == "zarr"):
            zarr.open_array(session.store, path="a", mode="r+")[:] = new
    assert session.status().updated_chunks == {"/a": [[0, 0], [3, 3]]}
    session.commit("two")
    assert values(repo.readonly_session("main")) == new.tolist()


def test_chunks_that_become_empty_are_dropped_and_empty_ones_stay(repo: Repository) -> None:
    session = skipping(repo)
    session.array("a")[2:] = 0
    assert session.status().updated_chunks == {"/a": [[1, n] for n in range(4)]}
    session.commit("less")
    assert values(repo.readonly_session("main"))[2:] == [[0] * 8] * 6


@pytest.mark.parametrize("value", [1, 0])
def test_a_single_chunk(repo: Repository, value: int) -> None:
    session = skipping(repo)
    place = (slice(0, 2), slice(0, 2)) if value else (slice(6, 8), slice(6, 8))
    session.array("a")[place] = np.asarray(session.array("a")[place])
    assert not session.has_uncommitted_changes
    session.array("a")[place] = 7
    assert session.has_uncommitted_changes


def test_an_argument_and_the_configuration_ask_for_it(repo: Repository) -> None:
    session = repo.writable_session("main")
    write_region(session, "a", ..., values(session), skip_identical=True)
    assert not session.has_uncommitted_changes
    with frazil.config.set(skip_identical_chunks=True):
        session.array("a")[:] = values(session)
        assert not session.has_uncommitted_changes
        session.skip_identical = False
        session.array("a")[:] = values(session)
    assert session.has_uncommitted_changes


def test_forks_do_as_their_session(repo: Repository) -> None:
    session = skipping(repo)
    fork = pickle.loads(pickle.dumps(session.fork()))
    assert fork.skip_identical is True
    fork.array("a")[:] = values(fork)
    assert not fork.has_uncommitted_changes


def test_a_chunk_whose_object_is_gone_is_written(repo: Repository) -> None:
    session = skipping(repo)
    data = values(session)
    lost = [item.key for item in repo.storage.list("chunks/")]
    repo.storage.delete_many(lost)
    again = skipping(Repository.open(repo.storage))
    again.array("a")[:] = data
    assert again.has_uncommitted_changes == bool(lost)
