"""Local storage where the system refuses something, or has touched files of its own accord."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Fetched, LostRace, Written
from frazil.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    made = LocalStorage(tmp_path / "repository")
    made.put("chunks/a", b"one")
    return made


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, path: str, number: int) -> None:
    """Let a system call fail for one path."""
    real = getattr(os, name)

    def call(at: str, *more: Any, **how: Any) -> Any:  # noqa: ANN401 - what the system call takes
        if at == path:
            raise OSError(number, os.strerror(number), at)
        return real(at, *more, **how)

    monkeypatch.setattr(os, name, call)


def test_a_folder_that_nothing_can_be_deleted_from_is_told(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = LocalStorage(storage.path, durability="none")  # others fail when they sync
    refuse(monkeypatch, "open", f"{storage.path}/chunks", errno.EACCES)
    [(key, reason)] = quick.delete_many(["chunks/a"]).failed
    assert key == "chunks/a"
    assert "cannot write here" in reason
    assert storage.get("chunks/a") == b"one"


def test_a_folder_that_a_failing_disk_does_not_show_is_told(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = LocalStorage(storage.path)
    refuse(monkeypatch, "lstat", f"{storage.path}/chunks", errno.EIO)
    with pytest.raises(StorageError, match=f"path={storage.path}/chunks"):
        again.get("chunks/a")


def test_an_object_with_another_time_and_the_same_bytes_can_be_replaced(
    storage: LocalStorage,
) -> None:
    """As after a backup was put back: the version that was read before is still there."""
    storage.put("repo", b"old")
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    os.utime(f"{storage.path}/repo", ns=(0, 0))
    assert isinstance(storage.put_if("repo", b"new", found.version), Written)
    assert storage.get("repo") == b"new"


def test_a_version_is_that_of_the_bytes_whatever_becomes_of_the_memory_they_came_from(
    storage: LocalStorage,
) -> None:
    memory = bytearray(b"one")
    written = storage.put_if("repo", memory, None)
    assert isinstance(written, Written)
    memory[:] = b"two"
    storage.put("repo", b"two")
    assert storage.put_if("repo", b"three", written.version) == LostRace("repo")
