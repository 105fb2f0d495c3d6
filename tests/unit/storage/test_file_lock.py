"""Locks of files: one holder at a time, also across processes and forks."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.storage import file_lock
from frazil.storage.file_lock import LOCK_NAME, RootLock
from tests.support.forking import Forked


def test_a_stopped_holder_makes_others_give_up(tmp_path: Path) -> None:
    first = RootLock(str(tmp_path), timeout_s=30)
    second = RootLock(str(tmp_path), timeout_s=0.05)
    with (
        first.hold(),
        pytest.raises(StorageError, match="another process holds the lock"),
        second.hold(),
    ):
        pass
    with second.hold():
        pass


def test_a_process_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = RootLock(str(tmp_path), timeout_s=0.2)
    with lock.hold():
        child = Forked(time.sleep, 60)
    with lock.hold():  # it would give up after a moment
        assert child.is_running()  # and holds nothing
    child.kill()


def test_a_deleted_lock_file_does_not_let_two_in(tmp_path: Path) -> None:
    lock = RootLock(str(tmp_path), timeout_s=1)
    with lock.hold():
        (tmp_path / LOCK_NAME).unlink()
        with lock.hold():  # a new file, which the old holder cannot know
            assert (tmp_path / LOCK_NAME).exists()


def test_who_may_write_in_the_directory_may_lock_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    before = os.umask(0o077)
    try:
        with RootLock(str(tmp_path), timeout_s=1).hold():
            pass
    finally:
        os.umask(before)
    assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o664


# --- waiting in the kernel ---


def waits(lock: RootLock, begun: threading.Event) -> float:
    """Hold a lock once it is free; tell when that was."""
    begun.set()
    with lock.hold():
        return time.monotonic()


def test_who_waits_in_the_queue_is_woken_and_does_not_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "_FIRST_PAUSE_S", 60)
    monkeypatch.setattr(file_lock, "QUEUE_S", 20)
    first, second = (RootLock(str(tmp_path), timeout_s=30, queues=True) for _ in range(2))
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with first.hold():
            waiting = pool.submit(waits, second, begun)
            assert begun.wait(10)
            time.sleep(0.05)
            assert not waiting.done()
            end = time.monotonic()
        assert 0 <= waiting.result(15) - end < 15


def test_who_waited_long_in_the_queue_tries_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "QUEUE_S", 0.01)
    first, second = (RootLock(str(tmp_path), timeout_s=30, queues=True) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        with first.hold():
            waiting = pool.submit(waits, second, threading.Event())
            time.sleep(0.1)
            assert not waiting.done()
        waiting.result(20)


def test_who_has_given_up_in_the_queue_does_not_keep_the_lock(tmp_path: Path) -> None:
    first = RootLock(str(tmp_path), timeout_s=30)
    second = RootLock(str(tmp_path), timeout_s=0.05, queues=True)
    with first.hold():
        for _ in range(3):
            with pytest.raises(StorageError, match="another process holds"), second.hold():
                pytest.fail("it is not free")
    with first.hold(), pytest.raises(StorageError), second.hold(at_once=True):
        pytest.fail("it is not free")
    left = [each for each in threading.enumerate() if each.name == "frazil-lock"]
    for thread in left:
        thread.join(10)
        assert not thread.is_alive()
    with second.hold(at_once=True):
        pass


def test_an_interrupt_ends_the_wait_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            first_turn.close()
            assert super().wait(10)  # it has the lock just now
            raise KeyboardInterrupt

    first, second = (RootLock(str(tmp_path), timeout_s=5, queues=True) for _ in range(2))
    with ExitStack() as first_turn:
        first_turn.enter_context(first.hold())
        with monkeypatch.context() as patched:
            patched.setattr(file_lock.threading, "Event", Interrupted)
            queued = file_lock._QueuedWait(second._open())
        with pytest.raises(KeyboardInterrupt):
            queued.result(5)
    with first.hold(at_once=True):
        pass
