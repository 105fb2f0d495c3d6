"""Branches that are rows of numbered files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.repository import Repository
from frazil.storage.base import Listed
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.generations import Spec
from tests.support.nodes import contents, group_document, write_keys

ZERO = "0" * 20
SPECS = ["g2", "g3"]


def commit(repository: Repository, number: int, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    write_keys(session, {"zarr.json": group_document(n=number)})
    return session.commit(f"commit {number}")


def keys(storage: MemoryStorage, prefix: str) -> list[str]:
    return [item.key for item in storage.list(prefix)]


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def test_every_commit_and_reset_takes_the_next_number(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g3")
    first = commit(repository, 1)
    commit(repository, 2)
    repository.reset_branch("main", first)
    names = ["ZZZZZZZW", "ZZZZZZZX", "ZZZZZZZY", "ZZZZZZZZ"]
    assert keys(storage, "refs/") == [f"refs/branch.main/{name}.json" for name in names]
    assert storage.get("refs/branch.main/ZZZZZZZW.json") == b'{"snapshot":"%s"}' % first.encode()
    assert Repository.open(storage).lookup_branch("main") == first


def test_refs_of_the_seed_have_times_and_properties(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g2")
    repository.create_tag("v1", commit(repository, 1))
    assert keys(storage, "r/") == ["r/main/ZZZZZZZY.json", "r/main/ZZZZZZZZ.json", "r/v1.json"]
    ref = json.loads(storage.get("r/v1.json") or b"")
    assert sorted(ref) == ["properties", "snapshot", "timestamp"]
    assert len(ref["snapshot"]) == 16
    with pytest.raises(InvalidInputError):
        repository.create_branch("v1.json", repository.lookup_branch("main"))


@pytest.mark.parametrize("spec", SPECS)
def test_a_branch_made_again_goes_on_counting(storage: MemoryStorage, spec: Spec) -> None:
    repository = Repository.create(storage, spec_version=spec)
    first = commit(repository, 1)
    repository.create_branch("dev", first)
    stale = repository.writable_session("dev")
    write_keys(stale, {"zarr.json": group_document(n=0)})
    for number in range(3):
        commit(repository, number, "dev")
    repository.delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        repository.lookup_branch("dev")
    repository.create_branch("dev", first)
    with pytest.raises(ConflictError):
        repository.create_branch("dev", first)
    stale.commit("late, but the branch is where it was")
    other = Repository.open(storage)
    assert other.lookup_branch("dev") == repository.lookup_branch("dev")
    assert next(iter(other.ancestry(branch="dev"))).message.startswith("late")
    refs = context_of(repository).refs
    assert isinstance(refs, NumberedRefs)
    # Made, three commits, deleted, made again, one commit: no number was used twice.
    assert [step.number for step in refs.steps("dev")] == [6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("spec", SPECS)
def test_a_deleted_branch_is_gone_for_everybody(storage: MemoryStorage, spec: Spec) -> None:
    repository = Repository.create(storage, spec_version=spec)
    first = commit(repository, 1)
    repository.create_branch("dev", first)
    lost = commit(repository, 2, "dev")
    repository.delete_branch("dev")
    for handle in (repository, Repository.open(storage)):
        assert handle.list_branches() == {"main"}
        for use in (handle.lookup_branch, handle.delete_branch, handle.writable_session):
            with pytest.raises(RefNotFoundError):
                use("dev")
    report = repository.garbage_collect(
        datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=timedelta(0)
    )
    assert report.snapshots_deleted == 1
    with pytest.raises(SnapshotNotFoundError):
        Repository.open(storage).readonly_session(snapshot_id=lost)


@pytest.mark.parametrize("spec", SPECS)
def test_names_of_refs_do_not_mix(storage: MemoryStorage, spec: Spec) -> None:
    repository = Repository.create(storage, spec_version=spec)
    first, second = commit(repository, 1), commit(repository, 2)
    repository.create_branch("main2", first)
    repository.create_tag("main", first)
    assert repository.lookup_branch("main") == second
    assert repository.lookup_tag("main") == repository.lookup_branch("main2") == first
    assert repository.list_branches() == {"main", "main2"}
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("main", second)


def fence(repository: Repository) -> str:
    """Do to the main branch what an upgrade does first."""
    refs = context_of(repository).refs
    assert isinstance(refs, NumberedRefs)
    tip = refs.tip("main")
    assert tip is not None
    key = refs.layout.branch_key("main", tip.number + 1)
    nobody: str | list[int] = ZERO if context_of(repository).generation.name == "g3" else [0] * 16
    body: dict[str, object] = {"snapshot": nobody, "moved_to": "spec-v2", "properties": {}}
    repository.storage.put(key, json.dumps(body).encode())
    return key


@pytest.mark.parametrize("spec", SPECS)
def test_a_fenced_branch_can_be_read_and_not_written(storage: MemoryStorage, spec: Spec) -> None:
    repository = Repository.create(storage, spec_version=spec)
    tip = commit(repository, 1)
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document(n=2)})
    fence(repository)
    with pytest.raises(ConflictError, match="upgraded") as caught:
        session.commit("too late")
    assert caught.value.kind == ErrorKind.REPO_INFO_UPDATED
    for handle in (repository, Repository.open(storage)):
        assert handle.lookup_branch("main") == tip
        assert contents(handle.readonly_session("main"))
        changes: list[Callable[[], object]] = [
            partial(handle.writable_session, "main"),
            partial(handle.create_branch, "dev", tip),
            partial(handle.create_tag, "v1", tip),
            partial(handle.reset_branch, "main", tip),
        ]
        for change in changes:
            with pytest.raises(ConflictError, match="upgraded"):
                change()


class Unlistable(MemoryStorage):
    """A web server, say: files can be asked for by name only."""

    def list(self, prefix: str = "") -> Iterator[Listed]:
        raise StorageError("no listing here", kind=ErrorKind.IO, prefix=prefix)


@pytest.mark.parametrize("count", [0, 1, 2, 6, 7, 8])
def test_the_newest_file_is_found_without_a_listing(count: int, storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g3")
    tips = [repository.lookup_branch("main")] + [commit(repository, n) for n in range(count)]
    silent = Unlistable()
    for item in storage.list(""):
        silent.put(item.key, storage.get(item.key) or b"")
    assert Repository.open(silent).lookup_branch("main") == tips[-1]


def test_tags_of_g2_stay(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="g2")
    repository.create_tag("v1", commit(repository, 1))
    with pytest.raises(FormatError, match="cannot delete tags"):
        repository.delete_tag("v1")
    assert repository.list_tags() == {"v1"}


def test_older_spellings_of_refs_are_followed(storage: MemoryStorage) -> None:
    repository = Repository.create(storage, spec_version="3a")
    tips = [repository.lookup_branch("main"), commit(repository, 1)]
    repository.create_tag("v1", tips[1])
    old = MemoryStorage()
    for item in storage.list("snapshots/"):
        old.put(item.key, storage.get(item.key) or b"")
    for name, tip in zip(("ZZZZZZZZZZZZY", "ZZZZZZZZZZZZW"), tips, strict=True):
        old.put(f"refs/branch:main/{name}.json", json.dumps({"snapshot": tip}).encode())
    old.put("refs/tag:v1/ref.json", json.dumps({"snapshot": tips[1]}).encode())
    found = Repository.open(old)
    assert (found.lookup_branch("main"), found.lookup_tag("v1")) == (tips[1], tips[1])
    commit(found, 2)
    assert "refs/branch:main/ZZZZZZZZZZZZT.json" in keys(old, "refs/")
    assert next(iter(found.ancestry(branch="main"))).message == "commit 2"
