"""Locks of files: one holder at a time, also across processes and forks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from frazil.errors import StorageError
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
