"""The storages that regions are read from and written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage


@pytest.fixture(params=["memory", "local", "distant"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Storages that are used in line and through threads."""
    match request.param:
        case "memory":
            return MemoryStorage()
        case "local":
            return LocalStorage(tmp_path)
        case _:
            return LatencyStorage(MemoryStorage())
