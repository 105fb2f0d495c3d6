"""Forks that come back from workers are merged, however they are nested."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

from frazil.distributed import extract_session, in_session, merge_sessions
from frazil.repository import Repository
from frazil.session import ForkSession, Session
from frazil.storage.memory import MemoryStorage


@pytest.fixture
def session() -> Session:
    repository = Repository.create(MemoryStorage())
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="rain", shape=(8,), chunks=(2,), dtype="i4")
    session.commit("an empty array")
    return repository.writable_session("main")


def write(fork: ForkSession, chunk: int) -> ForkSession:
    array = zarr.open_array(fork.store, path="rain", mode="r+")
    array[2 * chunk : 2 * chunk + 2] = chunk + 1
    return fork


def values(session: Session) -> list[int]:
    array: Any = zarr.open_array(session.store, path="rain", mode="r")
    found: list[int] = array[:].tolist()
    return found


def test_an_array_tells_its_session(session: Session) -> None:
    array = zarr.open_array(session.store, path="rain", mode="r")
    assert extract_session(array) is session
    assert extract_session(array, axis=(0,), keepdims=True) is session


def test_an_array_of_another_store_has_no_session() -> None:
    array = zarr.create_array(MemoryStore(), shape=(2,), dtype="i4")
    with pytest.raises(TypeError, match="MemoryStore"):
        extract_session(array)


def test_an_array_moves_to_another_session_with_its_settings(session: Session) -> None:
    array = zarr.open_array(session.store, path="rain", mode="r+").with_config(
        {"write_empty_chunks": True}
    )
    fork = session.fork()
    moved = in_session(array, fork)
    moved[:] = 0
    assert extract_session(moved) is fork
    touched = fork.status().updated_chunks["/rain"]
    assert [tuple(coords) for coords in touched] == [(0,), (1,), (2,), (3,)]
    assert not session.has_uncommitted_changes


def test_nested_forks_are_merged_into_the_first(session: Session) -> None:
    forks = [write(session.fork(), chunk) for chunk in range(4)]
    merged = merge_sessions(forks[0], [forks[1], [forks[2]]], (forks[3],))
    assert merged is forks[0]
    assert values(merged) == [1, 1, 2, 2, 3, 3, 4, 4]
    session.merge(merged)
    assert values(session) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_same_fork_may_come_back_many_times(session: Session) -> None:
    fork = write(session.fork(), 1)
    assert merge_sessions(fork, fork, [fork]) is fork
    assert values(fork) == [0, 0, 2, 2, 0, 0, 0, 0]


def test_forks_may_travel_before_they_are_merged(session: Session) -> None:
    def work(sent: bytes, chunk: int) -> bytes:
        return pickle.dumps(write(pickle.loads(sent), chunk))

    sent = pickle.dumps(session.fork())
    with ThreadPoolExecutor(2) as workers:
        returned = workers.map(work, [sent] * 4, range(4))
        session.merge(merge_sessions(*map(pickle.loads, returned)))
    session.commit("by four workers")
    assert values(session) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_only_forks_are_merged(session: Session) -> None:
    with pytest.raises(TypeError, match=r"only accepts ForkSession objects.*'Session'"):
        merge_sessions(session.fork(), session)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'ndarray'"):
        merge_sessions(np.zeros(1))
    with pytest.raises(TypeError, match="at least one"):
        merge_sessions([])
