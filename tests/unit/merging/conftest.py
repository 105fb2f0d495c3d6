"""Repositories of both specs to merge in."""

from __future__ import annotations

import pytest

from tests.support.branches import Branches, started


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def spec(request: pytest.FixtureRequest) -> int:
    """The spec of the repository."""
    return int(request.param)


@pytest.fixture
def repo(spec: int) -> Branches:
    """Main and dev, both with a group, two arrays and two chunks."""
    return started(Branches(spec))


@pytest.fixture
def v2_repo() -> Branches:
    """The same for what only spec 2 can do."""
    return started(Branches(2))
