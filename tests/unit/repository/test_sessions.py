"""Sessions of a repository: which snapshot they read, and what they may change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import zarr

from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    ReadOnlyError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.model.values import SessionMode
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import ReadOnlyStorage
from tests.support.generations import ALL, IDS
from tests.support.nodes import contents, group_document, start, write_keys


@pytest.fixture(params=ALL, ids=IDS)
def repository(request: pytest.FixtureRequest) -> Repository:
    return Repository.create(MemoryStorage(), spec_version=request.param)


@pytest.fixture
def newest() -> Repository:
    return Repository.create(MemoryStorage())


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


def test_a_version_is_named_in_one_way_only(newest: Repository) -> None:
    first = start(newest)
    newest.create_tag("v1", first)
    ways: list[dict[str, Any]] = [{"branch": "main"}, {"tag": "v1"}, {"snapshot_id": first}]
    for how in ways:
        assert newest.readonly_session(**how).snapshot_id == first
    for wrong in ({}, ways[0] | ways[1], ways[1] | ways[2]):
        with pytest.raises(ValueError, match="exactly one"):
            newest.readonly_session(**wrong)
    with pytest.raises(ValueError, match="only allowed together with a branch"):
        newest.readonly_session(tag="v1", as_of=datetime.now(UTC))


@pytest.mark.parametrize("mode", ["readonly_session", "writable_session", "tip"])
def test_a_branch_that_is_not_there_is_named(repository: Repository, mode: str) -> None:
    with pytest.raises(RefNotFoundError, match="'none'"):
        getattr(repository, mode)("none")


def test_nodes_are_moved_only_in_a_session_for_that(newest: Repository) -> None:
    start(newest)
    moving = newest.rearrange_session("main")
    assert moving.mode is SessionMode.rearrange
    with pytest.raises(SessionStateError, match="made to move nodes"):
        write_keys(moving, {"zarr.json": group_document(x=1)})
    moving.move("/g/a", "/b")
    moving.commit("moved")
    assert "b/zarr.json" in contents(newest.readonly_session("main"))


def test_a_place_that_can_only_be_read_makes_no_writable_session() -> None:
    storage = MemoryStorage()
    start(Repository.create(storage))
    repository = Repository.open(ReadOnlyStorage(storage))
    assert contents(repository.readonly_session("main"))
    for make in (repository.writable_session, repository.rearrange_session):
        with pytest.raises(ReadOnlyError):
            make("main")


def test_a_plan_and_its_writes_begin_at_one_snapshot(repository: Repository) -> None:
    first = start(repository)
    tip = repository.tip("main")
    other = repository.writable_session("main")
    write_keys(other, {"zarr.json": group_document(x=1)})
    other.commit("meanwhile")
    assert tip.readonly_session().snapshot_id == first
    late = tip.writable_session()
    write_keys(late, {"zarr.json": group_document(x=2)})
    with pytest.raises(ConflictError):
        late.commit("planned before")
    assert repository.tip("main", snapshot_id=first).snapshot_id == first


def test_manifests_are_written_anew_in_a_commit_or_in_place_of_one(newest: Repository) -> None:
    first = start(newest)
    second = newest.rewrite_manifests("anew", branch="main")
    messages = [info.message for info in newest.ancestry(branch="main")]
    assert messages[:2] == ["anew", "start"]
    newest.rewrite_manifests("again", branch="main", commit_method="amend")
    messages = [info.message for info in newest.ancestry(branch="main")]
    assert messages[:2] == ["again", "start"]
    old, new = (newest.list_manifest_files(each) for each in (first, second))
    assert {file.id for file in old}.isdisjoint(file.id for file in new)
    with pytest.raises(InvalidInputError, match="'squash'") as caught:
        newest.rewrite_manifests("no", branch="main", commit_method="squash")  # type: ignore[arg-type]
    assert caught.value.kind is ErrorKind.INVALID_COMMIT_CONFIGURATION
