"""Fixtures of the purge tests."""

from __future__ import annotations

import pytest

from frazil.storage.memory import MemoryStorage


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def spec(request: pytest.FixtureRequest) -> int:
    """Both generations."""
    number: int = request.param
    return number


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()
