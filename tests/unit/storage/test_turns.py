"""Writers take turns, and nobody depends on it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil import ConflictDetector, Repository
from frazil.storage.local import LocalStorage
from frazil.storage.turns import Turns
from frazil.transaction.tuning import MANY_CHANGES


def nothing() -> None:
    """What there is to prepare."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    return path


def test_turns_are_taken_one_after_the_other(root: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def take(number: int) -> None:
        with LocalStorage(root).commit_turn(nothing):
            inside.append(number)
            most.append(len(inside))
            LocalStorage(root).put(f"chunks/{number}", b"x")
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(40)))
    assert most == [1] * 40


def test_who_is_next_prepares_while_another_one_has_its_turn(root: Path) -> None:
    prepared, ended = threading.Event(), threading.Event()

    def wait() -> None:
        with Turns(str(root)).take(prepared.set):
            assert ended.is_set()

    with ThreadPoolExecutor(1) as pool:
        with Turns(str(root)).take(pytest.fail):
            waiting = pool.submit(wait)
            assert prepared.wait(10)
            ended.set()
        waiting.result()


def test_who_holds_its_turn_too_long_stops_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.storage.turns.TURN_TIMEOUT_S", 0.01)
    turns = [Turns(str(root)) for _ in range(3)]
    with turns[0].take(nothing), turns[1].take(nothing), turns[2].take(nothing):
        assert LocalStorage(root).is_empty()


def test_where_nothing_can_be_locked_everybody_has_a_turn(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "nowhere")
    with storage.commit_turn(nothing):
        assert not Path(storage.path).exists()


def test_a_failure_to_prepare_ends_the_wait(root: Path) -> None:
    def fail() -> None:
        raise ValueError("conflict")

    with (
        Turns(str(root)).take(nothing),
        pytest.raises(ValueError, match="conflict"),
        Turns(str(root)).take(fail),
    ):
        pytest.fail("it has no turn")
    with Turns(str(root)).take(pytest.fail):
        pass


# --- commits ---


@pytest.fixture
def repository(root: Path) -> Repository:
    made = Repository.create(LocalStorage(root))
    session = made.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    for name in ("a", "b"):
        group.create_array(name, shape=(4 * MANY_CHANGES,), chunks=(1,), dtype="i2")
    session.commit("arrays")
    return made


def test_a_commit_that_waits_is_put_on_top_of_what_others_commit(
    repository: Repository, root: Path
) -> None:
    session, other = repository.writable_session("main"), repository.writable_session("main")
    session.array("a")[:2] = np.array([1, 2])
    other.array("b")[:1] = np.array([3])
    with ThreadPoolExecutor(1) as pool:
        with LocalStorage(root).commit_turn(nothing):
            waiting = pool.submit(session.commit, "ours", rebase_with=ConflictDetector())
            theirs = other.commit("theirs")
            time.sleep(0.05)
            assert not waiting.done()
        made = waiting.result()
    newest, before, *_ = repository.ancestry(branch="main")
    assert (newest.id, before.id) == (made, theirs)
    read = repository.readonly_session("main")
    assert read.array("a")[:2].tolist() == [1, 2]
    assert read.array("b")[:1].tolist() == [3]


def test_a_large_commit_waits_for_nobody(repository: Repository, root: Path) -> None:
    session = repository.writable_session("main")
    session.array("a")[: MANY_CHANGES + 1] = np.arange(1, MANY_CHANGES + 2)
    with LocalStorage(root).commit_turn(nothing), ThreadPoolExecutor(1) as pool:
        made = pool.submit(session.commit, "large", rebase_with=ConflictDetector()).result(4)
    assert repository.lookup_branch("main") == made
