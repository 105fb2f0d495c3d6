"""Repositories of both specs to merge in."""

from __future__ import annotations

import pytest

from tests.support.branches import Branches
from tests.support.nodes import array_document, group_document


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


def started(repo: Branches) -> Branches:
    """Put the first commit into a repository, and branch from it."""
    repo.commit(
        "main",
        {
            "zarr.json": group_document(title="t", old=1),
            "a/zarr.json": array_document(6, attributes={"units": "K", "old": 1}),
            "a/c/0": b"a0",
            "a/c/1": b"a1",
            "g/zarr.json": group_document(),
            "g/b/zarr.json": array_document(4, 4),
            "g/b/c/0/0": b"b00",
        },
        "start",
    )
    repo.branch("dev")
    return repo
