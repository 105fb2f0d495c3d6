"""What is synced before a commit: every file as it is now, and the file system of the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.storage import folder_sync
from frazil.storage.folder_sync import FolderSync
from frazil.storage.tuning import SYNC_ALL_FROM


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of files, folders and file systems, in the order in which they were synced."""
    found: list[str] = []
    monkeypatch.setattr(folder_sync, "sync", found.append)
    monkeypatch.setattr(folder_sync, "sync_file_system", found.append)
    monkeypatch.setattr(folder_sync, "can_sync_file_system", lambda: True)
    return found


def test_a_file_that_is_written_again_is_synced_again(tmp_path: Path, synced: list[str]) -> None:
    files, path = FolderSync(str(tmp_path)), f"{tmp_path}/chunk"
    files.begin(path)
    files.start([path])()
    assert synced.count(path) == 1
    files.forget(path)
    files.start([path])()
    assert synced.count(path) == 2


def test_many_files_are_synced_with_the_file_system_they_are_on(
    tmp_path: Path, synced: list[str]
) -> None:
    paths = [f"{tmp_path}/{number}" for number in range(SYNC_ALL_FROM)]
    FolderSync(str(tmp_path)).start(paths)()
    assert synced == [str(tmp_path)]
    synced.clear()
    FolderSync("").start(paths)()
    assert synced == ["/"]


def test_of_fewer_files_each_is_synced(tmp_path: Path, synced: list[str]) -> None:
    paths = [f"{tmp_path}/{number}" for number in range(SYNC_ALL_FROM - 1)]
    FolderSync(str(tmp_path)).start(paths)()
    assert {*paths, str(tmp_path), str(tmp_path.parent)} == {*synced}
