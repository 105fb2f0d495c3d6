"""Memory is filled from regular files only."""

from __future__ import annotations

import contextlib
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
