"""Fixtures of the maintenance tests."""

from __future__ import annotations

import pytest

from frazil.storage.memory import MemoryStorage
from tests.support.generations import SAME_KEYS, Spec, spec_id


@pytest.fixture(params=SAME_KEYS, ids=spec_id)
def spec(request: pytest.FixtureRequest) -> Spec:
    """Generations whose objects have the same keys; some modules have all instead."""
    found: Spec = request.param
    return found


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()
