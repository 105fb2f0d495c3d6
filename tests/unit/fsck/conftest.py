"""Fixtures of the tests of checks and repairs."""

from __future__ import annotations

import pytest

from tests.unit.fsck.samples import Sick, copy, healthy


@pytest.fixture
def sick(spec: int) -> Sick:
    """A repository to damage."""
    return Sick(copy(healthy(spec)), spec)


@pytest.fixture(params=[1, 2])
def spec(request: pytest.FixtureRequest) -> int:
    """Both versions."""
    return int(request.param)
