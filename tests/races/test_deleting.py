"""Somebody else at every storage call of a collection: what they were told is done stays done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count

import pytest
import zarr

from frazil import Repository, SnapshotNotFoundError, Storage
from frazil.maintenance.expire import expire_with_files
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec
from tests.support.stepping import InterruptedStorage
from tests.unit.maintenance.samples import later, make, put, values

Ids = dict[str, str]
Done = dict[str, list[int]]
MODES: dict[str, Callable[[Repository], object]] = {
    "full": lambda repo: repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE),
    "incremental": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE),
        unsafe_minimum_age=AT_ONCE,
    ),
    "quarantine": lambda repo: repo.space.collect_planned(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE),
        quarantine=True,
        unsafe_minimum_age=AT_ONCE,
    ),
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
def test_what_is_acknowledged_during_a_deletion_is_there(
    spec: Spec, mode: str, act: Callable[[Repository, Ids], Done]
) -> None:
    if mode in ("purge", "expire") and spec == "g3":
        pytest.skip(f"repositories of this generation must be upgraded before: {mode}")
    template, ids = prepared(spec)
    # One call in so many, others for each act: together they come by nearly all.
    for call in count(1 + 2 * ACTS.index(act), 12 if mode == "full" else 20):
        storage = copy_of(template)
        told = raced(storage, call, MODES[mode], lambda repo: act(repo, ids))
        if told is None:
            break
        after = Repository.open(storage)
        for name, expected in told.items():
            assert values(after, name)[:4] == expected, (call, name)
        assert [*after.ancestry(branch="main")]
    assert call > 20


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
