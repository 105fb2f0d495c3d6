"""Somebody else at work while a repository is copied: the copy is whole, or there is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from frazil import ConflictError, Repository, RepositoryConfig, Storage
from frazil.fsck import Level, fsck
from frazil.maintenance.at_work import TrashWork, at_work
from frazil.storage.memory import MemoryStorage
from frazil.transfer.cloning import clone
from frazil.upgrade import upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import SteppingStorage

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
SPECS: tuple[Spec, ...] = (1, 2, "g1", "g2", "g3")


def commit(repo: Repository, branch: str, value: bytes) -> str:
    session = repo.writable_session(branch)
    write_keys(session, {"a/c/0": value})
    return session.commit(value.decode())


def place(spec: Spec) -> MemoryStorage:
    """A repository with a branch beside main."""
    storage = MemoryStorage()
    Repository.create(storage, spec_version=spec)
    repo = Repository.open(storage, CONFIG)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
    repo.create_branch("dev", session.commit("begun"))
    commit(repo, "main", b"one")
    commit(repo, "dev", b"dev")
    return storage


def read(storage: Storage, branch: str = "main") -> dict[str, bytes]:
    return contents(Repository.open(storage).readonly_session(branch))


def is_sound(storage: Storage) -> bool:
    return all(each.level == Level.NOTE for each in fsck(Repository.open(storage)).findings)


def collect(storage: Storage) -> None:
    repo, later = Repository.open(storage), datetime.now(UTC) + timedelta(hours=1)
    repo.delete_branch("dev")
    repo.garbage_collect(later, unsafe_minimum_age=AT_ONCE)


def meeting(source: Storage, act: Callable[[Storage], object], *, listed: bool) -> Repository:
    """A handle during whose clone somebody acts: before all files are listed, or right after."""
    was_listed, is_done = False, False

    def step(operation: str, key: str) -> None:
        nonlocal was_listed, is_done
        is_listing = (operation, key) == ("list", "")
        if not is_done and (was_listed if listed else is_listing):
            is_done = True
            act(source)
        was_listed = was_listed or is_listing

    storage = SteppingStorage(source)
    repo = Repository.open(storage)
    storage.step = step
    return repo


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "g1"])  # it keeps snapshots
def test_a_branch_collected_before_files_are_listed_leaves_no_broken_clone(spec: Spec) -> None:
    source, target = place(spec), MemoryStorage()
    with pytest.raises(ConflictError, match="clone again"):
        clone(meeting(source, collect, listed=False), target)
    assert "dev" not in Repository.open(source).list_branches()
    assert not Repository.exists(target)


@pytest.mark.parametrize("spec", [1, 2, "g1"])
def test_history_that_expires_before_files_are_listed_leaves_no_broken_clone(spec: Spec) -> None:
    source, target = place(spec), MemoryStorage()
    for value in (b"two", b"three"):
        commit(Repository.open(source), "main", value)

    def forget(storage: Storage) -> None:
        repo, later = Repository.open(storage), datetime.now(UTC) + timedelta(hours=1)
        assert repo.expire_snapshots(later)
        repo.garbage_collect(later, unsafe_minimum_age=AT_ONCE)

    with suppress(ConflictError):
        clone(meeting(source, forget, listed=False), target)
        assert is_sound(target)
        assert read(target)["a/c/0"] == b"three"
    assert spec == 1 or not Repository.exists(target)


@pytest.mark.parametrize("spec", SPECS)
def test_a_commit_made_while_files_are_copied_is_not_in_the_clone_by_half(spec: Spec) -> None:
    source, target = place(spec), MemoryStorage()
    clone(
        meeting(source, lambda at: commit(Repository.open(at), "main", b"new"), listed=True), target
    )
    assert read(source)["a/c/0"] == b"new"
    assert read(target)["a/c/0"] == b"one"
    assert read(target, "dev")["a/c/0"] == b"dev"
    assert is_sound(target)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_a_repository_that_is_upgraded_meanwhile_leaves_no_broken_clone(
    spec: Spec, listed: bool
) -> None:
    source, target = place(spec), MemoryStorage()

    def upgrade(at: Storage) -> None:
        upgrade_older(at, to=2)

    with pytest.raises(ConflictError, match="upgraded while it was copied"):
        clone(meeting(source, upgrade, listed=listed), target)
    assert Repository.open(source).spec_version == 2
    assert not Repository.exists(target)


def test_nobody_who_is_at_work_on_the_source_holds_up_the_clone() -> None:
    source, target = place(2), MemoryStorage()
    with at_work(source, TrashWork.MOVING):
        clone(Repository.open(source), target)
    Repository.open(target).space.purge("/a", confirm="/a", unsafe_minimum_age=AT_ONCE)
    assert "a/zarr.json" not in read(target)


@pytest.mark.parametrize("spec", SPECS)
def test_who_is_killed_leaves_a_whole_clone_or_none(spec: Spec) -> None:
    class KilledError(BaseException):
        """The process ends."""

    source = place(spec)
    repo = Repository.open(source)
    repo.create_tag("a", repo.lookup_branch("dev"))
    repo.create_tag("z", repo.lookup_branch("main"))
    outcomes = set()
    for last in count(1):
        target, calls = MemoryStorage(), 0

        def step(_operation: str, _key: str, last: int = last) -> None:
            nonlocal calls
            calls += 1
            if calls > last:
                raise KilledError

        with suppress(KilledError):
            clone(repo, SteppingStorage(target, step))
        is_there = Repository.exists(target)
        outcomes.add(is_there)
        if is_there:
            made = Repository.open(target)
            assert made.list_branches() == repo.list_branches(), last
            assert made.list_tags() == repo.list_tags(), last
            assert read(target) == read(source)
            assert read(target, "dev") == read(source, "dev")
        if calls <= last:
            break
    assert outcomes == {True, False}
