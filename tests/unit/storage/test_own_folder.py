"""A folder for files that we believe: made for us alone, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.storage.disk_cache import DiskCache
from frazil.storage.own_folder import own_folder


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot keep a disk cache"):
        DiskCache(tmp_path / "file", 1 << 20)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"frazil-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="it is a link"):
        DiskCache(tmp_path / "cache", 1 << 20)


def test_a_folder_is_made_for_our_user_alone_with_all_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = own_folder("a/b/c", "keep notes")
    assert path == str(tmp_path / "a/b/c")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700
    (Path(path) / "kept").touch()
    assert own_folder(path, "keep notes") == path  # it may be there already
    assert (Path(path) / "kept").exists()


@pytest.mark.parametrize(("mode", "is_ours"), [(0o755, True), (0o775, False), (0o707, False)])
def test_others_may_look_into_it_but_not_write(tmp_path: Path, mode: int, is_ours: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    if is_ours:
        assert own_folder(folder, "keep notes") == str(folder)
        return
    with pytest.raises(StorageError, match="cannot keep notes here: it is not ours") as caught:
        own_folder(folder, "keep notes")
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG
    assert str(folder) in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(StorageError, match="not ours alone"):
        own_folder(folder, "keep notes")
