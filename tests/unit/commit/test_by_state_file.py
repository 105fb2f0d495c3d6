"""Branches that are entries of one state file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import AlreadyExistsError, ConflictError, ErrorKind, FormatError, StorageError
from frazil.model.config import RepositoryConfig, StorageSettings
from frazil.model.history import JSON
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.nodes import array_document, contents, group_document, write_keys

CLAIMS = RepositoryConfig(storage=StorageSettings(unsafe_use_conditional_update=False))


def commit(repository: Repository, number: int) -> str:
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document(n=number)})
    return session.commit(f"commit {number}", rebase_with=ConflictDetector())


def state(storage: MemoryStorage) -> dict[str, JSON]:
    found: dict[str, JSON] = json.loads(storage.get("state.json") or b"")
    return found


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def test_each_change_is_one_generation(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    assert state(storage)["generation"] == 0
    first = commit(repository, 1)
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    repository.delete_branch("dev")
    found = state(storage)
    assert found["generation"] == 4
    assert [item["properties"]["message"] for item in found["snapshots"]] == [
        "Repository initialized",
        "commit 1",
    ]
    assert found["refs"]["v1"]["type"] == "tag"
    times = [item["timestamp-ms"] for item in found["snapshots"]]
    assert times == sorted(set(times))


def test_what_others_wrote_into_the_state_stays(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    storage.put("state.json", json.dumps({**state(storage), "owner": {"name": "me"}}).encode())
    commit(repository, 1)
    assert state(storage)["owner"] == {"name": "me"}


def test_branches_and_tags_share_their_names(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    first = commit(repository, 1)
    repository.create_tag("x", first)
    with pytest.raises(AlreadyExistsError):
        repository.create_branch("x", first)
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("main", first)


def test_without_conditional_updates_states_are_claimed(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, CLAIMS, spec_version="g1")
    assert state(storage)["commit-mode"] == "claims"
    for number in range(3):
        commit(repository, number)
    assert [item.key for item in storage.list("t/")] == [
        "t/ZZZZZZZW.json",
        "t/ZZZZZZZX.json",
        "t/ZZZZZZZY.json",
    ]
    # The state file is but a copy: an old one misleads nobody.
    old = {**state(storage), "generation": 1}
    newest = Repository.open(storage).lookup_branch("main")
    storage.put("state.json", storage.get("t/ZZZZZZZY.json") or b"")
    assert old["generation"] == 1
    other = Repository.open(storage)
    assert other.lookup_branch("main") == newest
    rival = Repository.open(storage, CLAIMS).writable_session("main")
    write_keys(rival, {"g/zarr.json": group_document()})
    commit(repository, 4)
    with pytest.raises(ConflictError):
        rival.commit("behind")
    rival.commit("rebased", rebase_with=ConflictDetector())
    assert [one.message for one in other.ancestry(branch="main")][:2] == ["rebased", "commit 4"]
    check_repository(other)


def test_a_state_that_is_swapped_is_never_overwritten(storage: MemoryStorage) -> None:
    Repository.create(storage, spec_version="g1")
    careless = Repository.open(storage, CLAIMS)
    with pytest.raises(StorageError, match="unsafe_use_conditional_update"):
        commit(careless, 1)


def test_a_state_file_from_the_past_is_an_error(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    past = storage.get("state.json") or b""
    commit(repository, 1)
    repository.list_branches()
    storage.put("state.json", past)
    with pytest.raises(FormatError, match="older than the one read before"):
        repository.list_branches()


def test_a_repository_that_moved_on_is_not_written(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    commit(repository, 1)
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document(n=2)})
    moved = {**state(storage), "moved-to": "spec-v2", "generation": 2}
    storage.put("state.json", json.dumps(moved).encode())
    with pytest.raises(ConflictError, match="upgraded") as caught:
        session.commit("too late")
    assert caught.value.kind == ErrorKind.REPO_INFO_UPDATED
    again = Repository.open(storage)
    assert contents(again.readonly_session("main"))
    with pytest.raises(ConflictError, match="upgraded"):
        again.writable_session("main")


def test_files_may_be_elsewhere_than_the_state(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    commit(repository, 1)
    below = MemoryStorage()
    for item in storage.list(""):
        place = item.key if item.key == "state.json" else f"data/{item.key}"
        below.put(place, storage.get(item.key) or b"")
    below.put("state.json", json.dumps({**state(storage), "store_root": "./data"}).encode())
    moved = Repository.open(below)
    expected = contents(repository.readonly_session("main"))
    assert contents(moved.readonly_session("main")) == expected
    commit(moved, 2)
    assert {item.key.split("/")[0] for item in below.list("")} == {"data", "state.json"}


def test_large_attributes_have_a_file_and_unchanged_ones_keep_it(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g1")
    session = repository.writable_session("main")
    large = {"history": "x" * 5000}
    write_keys(session, {"zarr.json": group_document(**large), "a/zarr.json": array_document(2)})
    session.commit("large")
    files = [item.key for item in storage.list("a/")]
    assert len(files) == 1
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"a/c/0": b"x"})
    session.commit("a chunk")
    assert [item.key for item in storage.list("a/")] == files
    found = contents(Repository.open(storage).readonly_session("main"))
    assert json.loads(found["zarr.json"])["attributes"] == large
    soon = datetime.now(UTC) + timedelta(days=1)
    assert repository.garbage_collect(soon, unsafe_minimum_age=AT_ONCE).attributes_deleted == 0
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    session.commit("small")
    repository.expire_snapshots(soon)
    plan = repository.space.plan_garbage(soon, unsafe_minimum_age=AT_ONCE)
    put_aside = repository.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert put_aside.attributes_deleted == 1
    assert not [*storage.list("a/")]
    assert Repository.open(storage).space.restore_trash().objects == plan.objects + 1
    assert [item.key for item in storage.list("a/")] == files
    assert repository.garbage_collect(soon, unsafe_minimum_age=AT_ONCE).attributes_deleted == 1
    assert not garbage_of(repository)
    check_repository(repository)
