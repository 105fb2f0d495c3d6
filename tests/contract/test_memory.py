"""Memory storage keeps the contract, also behind a delay."""

from __future__ import annotations

import pytest

from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage
from frazil.testing.storage import StorageContract


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestLatencyStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return LatencyStorage(MemoryStorage(), write_latency_ms=0.1, read_latency_ms=0.1)
