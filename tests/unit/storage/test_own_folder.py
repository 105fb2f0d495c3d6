"""A folder for files that we believe: made for us alone, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.storage.disk_cache import DiskCache


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
