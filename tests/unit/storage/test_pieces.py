"""Memory is filled from regular files only."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.storage.local import LocalStorage

NAME = "0123456789ABCDEFGHJK"
KEY = f"chunks/{NAME}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the chunks."""
    made = tmp_path / "chunks"
    made.mkdir()
    return made


def read(folder: Path, key: str = KEY, *, follow: bool = False) -> bytes:
    """The first three bytes of an object."""
    memory = bytearray(3)
    LocalStorage(folder.parent, follow_symlinks=follow).read_into([(key, 0, memoryview(memory))])
    return bytes(memory)


def test_links_are_not_followed(folder: Path) -> None:
    outside = folder.parent / "secret"
    outside.write_bytes(b"secret")
    (folder / NAME).symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic links"):
        read(folder)
    assert read(folder, follow=True) == b"sec"


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    (real / NAME).write_bytes(b"secret")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "chunks").symlink_to(real)
    with pytest.raises(StorageError, match="symbolic links"):
        read(tmp_path / "repo" / "chunks")


def test_what_is_no_file_is_no_object(folder: Path) -> None:
    (folder / NAME).mkdir()
    with pytest.raises(StorageError) as caught:
        read(folder)
    assert caught.value.kind == ErrorKind.OBJECT_NOT_FOUND
    os.mkfifo(folder / "pipe")
    with pytest.raises(StorageError, match="chunks/pipe"):
        read(folder, "chunks/pipe")


def is_open(file: Path) -> bool:
    """Whether this process has a descriptor of the file; those of other tests come and go."""
    links = []
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(number.readlink()))
    return str(file) in links


def test_neighbours_are_read_together_and_descriptors_closed(folder: Path) -> None:
    data = bytes(range(256)) * 16
    (folder / NAME).write_bytes(data)
    storage = LocalStorage(folder.parent)
    memory = bytearray(len(data) + 2)
    view = memoryview(memory)
    storage.read_into([(KEY, at, view[at : at + 2]) for at in range(0, len(data), 2)])
    assert memory[:-2] == data
    with pytest.raises(StorageError):
        storage.read_into([(KEY, at, view[at : at + 2]) for at in (4092, 4094, 4096)])
    assert not is_open(folder / NAME)


def names(count: int) -> list[str]:
    """Names of objects."""
    return [f"{number:020d}" for number in range(count)]


@pytest.mark.parametrize("extra", [None, "chunks/a longer name", f"other/{NAME}"])
def test_parts_of_many_files_are_read(folder: Path, extra: str | None) -> None:
    keys = [f"chunks/{name}" for name in names(9)] + ([extra] if extra else [])
    for number, key in enumerate(keys):
        path = folder.parent / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number]) * 5 + b"abc")
    memory = bytearray(4 * len(keys))
    pieces = [
        (key, 3, memoryview(memory)[4 * number : 4 * number + 4]) for number, key in enumerate(keys)
    ]
    LocalStorage(folder.parent).read_into(pieces[::-1])
    assert memory == b"".join(bytes([number]) * 2 + b"ab" for number in range(len(keys)))


def test_neighbours_in_a_file_are_read_as_one(folder: Path) -> None:
    (folder / NAME).write_bytes(b"0123456789")
    memory = bytearray(9)
    ranges = ((2, 0, 3), (5, 6, 9), (0, 3, 5))
    pieces = [(KEY, start, memoryview(memory)[a:b]) for start, a, b in ranges]
    LocalStorage(folder.parent).read_into(pieces)
    assert memory == b"23401" + bytes(1) + b"567"


@pytest.mark.parametrize("defect", ["missing", "short", "folder"])
def test_the_file_that_is_damaged_is_named(folder: Path, defect: str) -> None:
    keys = [f"chunks/{name}" for name in names(5)]
    for key in keys:
        (folder.parent / key).write_bytes(b"abc")
    bad = folder.parent / keys[3]
    if defect == "short":
        bad.write_bytes(b"ab")
    else:
        bad.unlink()
    if defect == "folder":
        bad.mkdir()
    opened = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(StorageError) as caught:
        LocalStorage(folder.parent).read_into([(key, 0, memoryview(bytearray(3))) for key in keys])
    assert caught.value.facts["key"] == keys[3]
    assert len([*Path("/proc/self/fd").iterdir()]) == opened


def test_nothing_is_opened_to_read_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    storage = LocalStorage(folder.parent)
    monkeypatch.setattr("os.open", lambda *each, **_: opened.append(each))
    storage.read_into([])
    assert not opened


@pytest.mark.parametrize("count", [1, 2], ids=["each", "ranges"])
def test_a_file_that_fails_to_close_is_not_closed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    (folder / NAME).write_bytes(b"abcdef")
    closed, close = list[int](), os.close

    def failing(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)
        if len(closed) == 1:
            raise OSError(errno.EIO, "cannot close")

    monkeypatch.setattr("os.close", failing)
    pieces = [(KEY, 3 * at, memoryview(bytearray(2))) for at in range(count)]
    with pytest.raises((StorageError, OSError)):
        LocalStorage(folder.parent).read_into(pieces)
    assert len(closed) == len(set(closed)) == 2  # the file and its folder
