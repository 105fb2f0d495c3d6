"""Local storage keeps the contract, with and without syncing."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.testing.storage import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "repository")


class TestUnsyncedLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path, durability="none", follow_symlinks=True)
