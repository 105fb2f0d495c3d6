"""Large files go to the disk while others are being written."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.storage import durable
from frazil.storage.base import Attributes
from frazil.storage.durable import EarlySync
from frazil.storage.local import LocalStorage
from frazil.storage.tuning import LARGE_OBJECT
from tests.support.forking import Forked

CHUNK = Attributes(is_chunk=True, is_unnamed=True)


def test_a_file_is_synced_once_and_remembered() -> None:
    done: list[str] = []
    early = EarlySync(done.append)
    early.begin("a")
    for _ in range(2):
        found = early.find("a")
        assert found is not None
        found.result()
    assert done == ["a"]
    assert early.find("b") is None
    early.forget("a")
    assert early.find("a") is None


def test_too_many_at_once_are_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "EARLY_SYNCS", 2)
    go = threading.Event()

    def sync(path: str) -> None:
        go.wait(10)

    early = EarlySync(sync)
    for name in "abc":
        early.begin(name)
    assert [early.find(name) is not None for name in "abc"] == [True, True, False]
    go.set()


def test_what_went_well_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "EARLY_KEPT", 3)

    def sync(path: str) -> None:
        if path == "0":
            raise OSError(errno.EIO, "")

    early = EarlySync(sync)
    for number in range(20):
        early.begin(str(number))
        if found := early.find(str(number)):
            found.exception()
    known = [number for number in range(20) if early.find(str(number)) is not None]
    assert known[0] == 0
    assert len(known) <= 4


def test_a_failure_stops_every_later_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    real, has_failed = os.fsync, threading.Event()

    def fail_once(descriptor: int) -> None:
        if not has_failed.is_set():
            has_failed.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    storage.put("chunks/small", b"x", CHUNK)
    monkeypatch.setattr(os, "fsync", fail_once)
    storage.put("chunks/large", bytes(LARGE_OBJECT), CHUNK)
    assert has_failed.wait(10)
    for _ in range(2):
        with pytest.raises(StorageError):
            storage.make_durable(["chunks/large"])
    storage.make_durable(["chunks/small"])
    storage.delete_many(["chunks/large"])
    storage.put("chunks/large", bytes(LARGE_OBJECT), CHUNK)
    storage.make_durable(["chunks/large"])


def test_a_child_does_not_wait_for_threads_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    parent, go = os.getpid(), threading.Event()
    real = os.fsync

    def hang(descriptor: int) -> None:
        if os.getpid() == parent:
            go.wait(30)
        real(descriptor)

    storage.put("chunks/first", b"x", CHUNK)
    monkeypatch.setattr(os, "fsync", hang)
    storage.put("chunks/large", bytes(LARGE_OBJECT), CHUNK)
    child = Forked(storage.make_durable, ["chunks/large"])
    assert child.wait() == 0
    go.set()
    storage.make_durable(["chunks/large"])
