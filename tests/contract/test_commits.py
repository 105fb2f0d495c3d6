"""Every commit protocol keeps the contract, in memory; those of the two specs on disk too."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing import CommitContract


class TestCommitsInMemory(CommitContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestCommitsOnDisk(CommitContract):
    @pytest.fixture(params=["v1", "v2"])
    def spec(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "repository")
