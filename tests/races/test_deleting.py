"""Somebody else at every storage call of a collection: what they were told is done stays done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import zarr

from frazil import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    RefNotFoundError,
    Repository,
    SnapshotNotFoundError,
    Storage,
)
from frazil.maintenance.expire import expire_with_files
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import COLLECTIONS, later, make, put, values

Ids = dict[str, str]
Done = dict[str, list[int]]
MODES: dict[str, Callable[[Repository], object]] = {
    **COLLECTIONS,
    "expire": lambda repo: expire_with_files(
        context_of(repo), datetime.now(UTC), unsafe_minimum_age=AT_ONCE
    ),
    "purge": lambda repo: repo.space.purge("other", confirm="other", unsafe_minimum_age=AT_ONCE),
}


def prepared(spec: Spec) -> tuple[MemoryStorage, Ids]:
    """A repository with a deleted branch of two commits and a history on main."""
    storage = MemoryStorage()
    repo = make(storage, spec)
    ids = {"first": put(repo, 0, 1)}
    with repo.transaction("main", message="another array") as store:
        zarr.create_array(store, name="other", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    repo.create_branch("gone", repo.lookup_branch("main"))
    ids["lost"] = put(repo, 1, 50, "gone")
    ids["lost too"] = put(repo, 2, 60, "gone")
    repo.delete_branch("gone")
    ids["old"] = put(repo, 3, 2)
    ids["tip"] = put(repo, 3, 3)
    return storage, ids


def copy_of(storage: Storage) -> MemoryStorage:
    """The same objects in another place."""
    copy = MemoryStorage()
    for item in storage.list():
        copy.put(item.key, storage.get(item.key) or b"")
    return copy


def branch(repo: Repository, ids: Ids) -> Done:
    repo.create_branch("back", ids["lost too"])
    return {"back": [1, 50, 60, 0]}


def tag(repo: Repository, ids: Ids) -> Done:
    repo.create_tag("back", ids["lost too"])
    repo.create_branch("of-tag", repo.lookup_tag("back"))
    return {"of-tag": [1, 50, 60, 0]}


def reset(repo: Repository, ids: Ids) -> Done:
    repo.reset_branch("main", ids["lost"])
    return {"main": [1, 50, 0, 0]}


def commit(repo: Repository, _: Ids) -> Done:
    put(repo, 2, 9)
    return {"main": [1, 0, 9, 3]}


def older(repo: Repository, ids: Ids) -> Done:
    repo.create_branch("older", ids["old"])
    return {"older": [1, 0, 0, 2]}


def work(repo: Repository, ids: Ids) -> Done:
    repo.create_branch("work", ids["lost too"])
    put(repo, 3, 8, "work")
    return {"work": [1, 50, 60, 8]}


ACTS = (branch, tag, reset, commit, older, work)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spec", [1, 2, "g3"])
@pytest.mark.parametrize("stride", [36, pytest.param(5, marks=pytest.mark.soak)])
def test_what_is_acknowledged_during_a_deletion_is_there(
    spec: Spec, mode: str, act: Callable[[Repository, Ids], Done], stride: int
) -> None:
    if mode in ("purge", "expire") and spec == "g3":
        pytest.skip(f"repositories of this generation must be upgraded before: {mode}")
    template, ids = prepared(spec)
    # One call in so many, others for each act: together they come by a good part of all.
    for call in count(1 + 5 * ACTS.index(act), min(stride, 20) if mode == "full" else stride):
        storage = copy_of(template)
        told = raced(storage, call, MODES[mode], lambda repo: act(repo, ids))
        if told is None:
            break
        after = Repository.open(storage)
        for name, expected in told.items():
            assert values(after, name)[:4] == expected, (call, name)
        assert [*after.ancestry(branch="main")]
    assert call > 20


@pytest.mark.parametrize("spec", [1, 2, "g1", "g2", "g3"])
def test_who_takes_the_name_of_a_branch_that_is_being_deleted_keeps_it(spec: Spec) -> None:
    """One deletion deletes one branch: who was told that the name is free has it for good."""
    template = MemoryStorage()
    repo = make(template, spec)
    repo.create_branch("dev", put(repo, 0, 1))
    for call in count(1):
        storage = copy_of(template)

        def compete(other: Repository) -> Done:
            with suppress(ConflictError, AlreadyExistsError):
                other.create_branch("dev", other.lookup_branch("main"))
                put(other, 1, 2, "dev")
                return {"dev": [1, 2, 0, 0]}
            return {}

        told = raced(storage, call, lambda repo: repo.delete_branch("dev"), compete)
        if told is None:
            break
        after = Repository.open(storage)
        assert after.list_branches() == {"main", *told}, call
        assert all(values(after, name)[:4] == expected for name, expected in told.items())
    assert call > 2


@pytest.mark.parametrize("spec", [1, 2])
def test_an_expiry_tells_of_the_branches_that_it_has_deleted(spec: Spec) -> None:
    template = MemoryStorage()
    repo = make(template, spec)
    repo.create_branch("dev", put(repo, 0, 1))
    put(repo, 0, 2)
    for call in count(1):
        storage = copy_of(template)
        told: list[tuple[str, ...]] = []

        def expire(repo: Repository, told: list[tuple[str, ...]] = told) -> None:
            now = datetime.now(UTC)
            told.append(repo.space.expire(now, delete_branches=True).branches)

        def compete(other: Repository) -> Done:
            with suppress(RefNotFoundError):
                put(other, 1, 2, "dev")
            return {}

        if raced(storage, call, expire, compete) is None:
            break
        there = Repository.open(storage).list_branches()
        assert {*told[0]} == {"dev"} - there, call
    assert call > 3


def test_what_a_killed_deletion_left_of_a_branch_is_free_after_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = MemoryStorage()
    repo = make(storage, 1)
    tip = put(repo, 0, 1)
    repo.create_branch("dev", tip)
    cut = InterruptedStorage(storage, [Moment("delete_many", "refs/branch.dev", die)])
    with pytest.raises(KeyboardInterrupt):
        Repository.open(cut).delete_branch("dev")
    assert repo.list_branches() == {"main"}
    with pytest.raises(ConflictError, match="is being deleted") as caught:
        repo.create_branch("dev", tip)
    assert caught.value.kind is ErrorKind.BRANCH_UPDATE_CONFLICT
    tomorrow = datetime.now(UTC) + timedelta(days=1, minutes=1)
    monkeypatch.setattr(MemoryStorage, "clock", lambda _: tomorrow)
    repo.create_branch("dev", tip)
    assert repo.lookup_branch("dev") == tip


def die() -> None:
    raise KeyboardInterrupt


def raced(
    storage: Storage,
    call: int,
    deletion: Callable[[Repository], object],
    act: Callable[[Repository], Done],
) -> Done | None:
    """Let somebody act before the n-th call of a deletion; None when it has not so many."""
    told: list[Done] = []

    def compete() -> None:
        told.append({})
        with suppress(SnapshotNotFoundError):  # it came too late, and was told so
            told[0] = act(Repository.open(storage))

    interrupted = InterruptedStorage(storage)
    repo = Repository.open(interrupted)
    interrupted.before(call, compete)
    deletion(repo)
    return told[0] if told else None


@pytest.mark.parametrize("spec", [1, 2])
def test_what_was_put_back_and_has_changed_since_is_not_put_back_again(spec: Spec) -> None:
    """Two restore the trash; an expiry in between rewrites a snapshot in version 1."""
    template, ids = prepared(spec)
    MODES["quarantine"](Repository.open(template))
    for call in count(1):
        storage = copy_of(template)

        def come(storage: Storage = storage) -> None:
            repo = Repository.open(storage)
            repo.space.restore_trash()
            with suppress(SnapshotNotFoundError):  # version 2 does not list it any more
                repo.create_branch("back", ids["lost too"])
            repo.expire_snapshots(datetime.now(UTC))
            with suppress(ConflictError):  # version 1 does not collect while somebody restores
                repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)

        slow = InterruptedStorage(storage)
        repo = Repository.open(slow)
        slow.before(call, come)
        repo.space.restore_trash()
        if not slow.is_over:
            break
        after = Repository.open(storage)
        for name in after.list_branches():
            assert len([*after.ancestry(branch=name)]) >= 1, call
    assert call > 20
