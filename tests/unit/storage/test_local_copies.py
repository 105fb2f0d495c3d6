"""Local storage: second names and copies of objects, also when somebody replaces them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Fetched, LostRace, Version, Written
from frazil.storage.local import LocalStorage
from frazil.storage.tuning import DELETED_TOGETHER, LARGE_OBJECT

LINK = os.link


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    made = LocalStorage(tmp_path / "repository")
    made.put("a", b"one")
    return made


def version_of(storage: LocalStorage, key: str) -> Version:
    found = storage.fetch(key)
    assert isinstance(found, Fetched)
    return found.version


def file_of(storage: LocalStorage, key: str) -> int:
    return Path(storage.path, key).stat().st_ino


def without_links(monkeypatch: pytest.MonkeyPatch, number: int = errno.EPERM) -> None:
    """A file system on which a file has one name."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)


def test_a_copy_of_what_is_replaced_meanwhile_is_not_kept(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = version_of(storage, "a")

    def late(source: str, target: str, **how: bool) -> None:
        storage.put("a", b"two")
        LINK(source, target, **how)

    monkeypatch.setattr(os, "link", late)
    assert isinstance(storage.copy_if("a", "kept/a", known), LostRace)
    assert storage.get("kept/a") is None


def test_without_second_names_the_bytes_are_copied(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch)
    known = version_of(storage, "a")
    assert isinstance(storage.copy_if("a", "kept/a", known), Written)
    assert storage.get("kept/a") == b"one"
    storage.put("a", b"two")
    assert isinstance(storage.copy_if("a", "kept/b", known), LostRace)
    assert storage.get("kept/b") is None


def test_what_is_replaced_while_its_bytes_are_copied_is_not_kept(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = version_of(storage, "a")

    def replaced(*_: object, **__: object) -> None:
        storage.put("a", b"two")
        raise OSError(errno.EPERM, "no second names")

    monkeypatch.setattr(os, "link", replaced)
    assert isinstance(storage.copy_if("a", "kept/a", known), LostRace)
    assert storage.get("kept/a") is None


def test_a_disk_that_fails_is_not_taken_for_one_without_second_names(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch, errno.EIO)
    with pytest.raises(StorageError):
        storage.copy_if("a", "kept/a", version_of(storage, "a"))
    with pytest.raises(StorageError):
        storage.duplicate("a", "kept/a")
    assert storage.get("kept/a") is None


def test_a_duplicate_is_a_second_name_unless_that_is_not_wanted(storage: LocalStorage) -> None:
    for _ in range(2):
        storage.duplicate("a", "linked")
        assert file_of(storage, "linked") == file_of(storage, "a")
    storage.duplicate("a", "copied", may_link=False)
    assert file_of(storage, "copied") != file_of(storage, "a")
    assert storage.get("linked") == storage.get("copied") == b"one"
    storage.put("a", b"two")
    storage.duplicate("a", "linked")
    assert storage.get("linked") == b"two"


def test_many_deletions_in_a_folder_that_is_a_link_are_refused(
    storage: LocalStorage, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    keys = [f"chunks/{number}" for number in range(DELETED_TOGETHER + 1)]
    for key in keys:
        (away / key.removeprefix("chunks/")).write_bytes(b"x")
    Path(storage.path, "chunks").symlink_to(away)
    with pytest.raises(StorageError, match="symbolic links"):
        storage.delete_many(keys)
    assert len([*away.iterdir()]) == len(keys)


def test_large_objects_come_in_the_order_that_they_were_asked_for(storage: LocalStorage) -> None:
    values = {f"k{number}": bytes([number]) * (LARGE_OBJECT + number % 2) for number in range(4)}
    for key, value in values.items():
        storage.put(key, value)
    asked: list[tuple[str, int | None, int | None]] = [("a", None, None), ("none", 0, 1)]
    asked += [(key, None, None) for key in values]
    assert storage.get_many(asked) == [b"one", None, *values.values()]
