"""Sessions of a repository: which snapshot they read, and what they may change."""

from __future__ import annotations

import pytest
import zarr

from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.generations import ALL, IDS
from tests.support.nodes import array_document, group_document, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


def start(repository: Repository) -> str:
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "g/a/zarr.json": array_document(6),
            **{f"g/a/c/{i}": bytes([65 + i]) for i in range(6)},
        },
    )
    return session.commit("start")


def test_transaction_commits_on_success_only(repository: Repository) -> None:
    first = start(repository)

    def fail() -> None:
        with repository.transaction("main", message="no") as store:
            zarr.open_group(store, mode="a").attrs["x"] = 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert repository.lookup_branch("main") == first
    with repository.transaction("main", message="yes", metadata={"n": 1}) as store:
        zarr.open_group(store, mode="a").attrs["x"] = 1
    assert next(repository.ancestry(branch="main")).message == "yes"
