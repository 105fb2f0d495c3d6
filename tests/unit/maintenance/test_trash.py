"""Garbage that is put aside comes back whole, or goes for good, whatever interrupts that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import NotFoundError
from frazil.maintenance.at_work import AT_WORK
from frazil.maintenance.trash import TRASH
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.generations import OLD, SAME_KEYS, Spec, spec_id
from tests.unit.maintenance.samples import expired, keys, later, values

KINDS = ("chunks", "manifests", "snapshots")
"""folders in the order in which files come back: those that others need come first"""


def put_aside(storage: MemoryStorage) -> Repository:
    """A repository whose garbage is in the trash."""
    repo = expired(storage, 2)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    return repo


def kinds_of(calls: list[tuple[str, str]], operations: set[str], start: str) -> list[str]:
    """The folders of the keys of some calls, each once, in their order."""
    found = [key.removeprefix(start) for name, key in calls if name in operations]
    return [*dict.fromkeys(kind for key in found for kind in KINDS if key.startswith(f"{kind}/"))]


@pytest.mark.parametrize("spec", [*OLD, "g2-msgpack", *SAME_KEYS], ids=spec_id)
def test_garbage_can_be_put_aside_and_brought_back(storage: MemoryStorage, spec: Spec) -> None:
    repo = expired(storage, spec)
    before = keys(storage) - keys(storage, "overwritten/")
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    files = {key: storage.get(key) for key in map(context_of(repo).key_in_place, plan.keys())}
    done = repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert done.chunks_deleted == 2
    assert garbage_of(repo) == set()
    [batch] = repo.space.list_trash()
    assert (batch.objects, batch.size_bytes) == (plan.objects, plan.size_bytes)
    above = f"{TRASH}{batch.name}/"
    assert {key.removeprefix(above): storage.get(key) for key in keys(storage, TRASH)} == files
    with pytest.raises(NotFoundError):
        repo.space.restore_trash("nothing")
    assert Repository.open(storage).space.restore_trash(batch.name).objects == plan.objects
    assert keys(storage) - keys(storage, "overwritten/") == before
    assert {key: storage.get(key) for key in files} == files
    assert repo.space.list_trash() == []
    assert values(repo)[:2] == [3, 7]


def test_the_trash_is_emptied_by_age(storage: MemoryStorage, spec: Spec) -> None:
    repo = expired(storage, spec)
    repo.space.collect_planned(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE),
        quarantine=True,
        unsafe_minimum_age=AT_ONCE,
    )
    early = datetime.now(UTC) - timedelta(days=7)
    assert repo.space.empty_trash(early, unsafe_minimum_age=AT_ONCE).objects == 0
    count = repo.space.list_trash()[0].objects
    assert (
        repo.space.empty_trash(later(), dry_run=True, unsafe_minimum_age=AT_ONCE).objects == count
    )
    assert repo.space.empty_trash(later(), unsafe_minimum_age=AT_ONCE).objects == count
    assert keys(storage, TRASH) == set()
    check_repository(repo)


def test_the_trash_is_kept_for_a_day(storage: MemoryStorage) -> None:
    repo = expired(storage, 2)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert repo.space.empty_trash(later()).objects == 0
    assert repo.space.empty_trash(later(), unsafe_minimum_age=AT_ONCE).objects == plan.objects


def test_what_others_need_comes_back_first(storage: MemoryStorage) -> None:
    put_aside(storage)
    line = FaultyStorage(storage)
    Repository.open(line).space.restore_trash()
    assert kinds_of(line.calls, {"put", "put_if"}, "") == [*KINDS]


def test_what_needs_others_is_deleted_first(storage: MemoryStorage) -> None:
    batch = put_aside(storage).space.list_trash()[0].name
    line = FaultyStorage(storage)
    space = Repository.open(line).space
    line.forget_calls()
    space.empty_trash(later(), unsafe_minimum_age=AT_ONCE)
    deleting = {name for name, _ in line.calls if "delete" in name}
    assert kinds_of(line.calls, deleting, f"{TRASH}{batch}/") == [*reversed(KINDS)]


def test_what_was_rewritten_since_is_not_overwritten(storage: MemoryStorage) -> None:
    repo = put_aside(storage)
    above = f"{TRASH}{repo.space.list_trash()[0].name}/"
    key = next(key.removeprefix(above) for key in sorted(keys(storage, f"{above}snapshots/")))
    storage.put(key, b"newer")
    repo.space.restore_trash()
    assert storage.get(key) == b"newer"
    assert keys(storage, TRASH) == set()


def test_a_trial_brings_nothing_back_and_deletes_nothing(storage: MemoryStorage) -> None:
    repo = put_aside(storage)
    before = keys(storage)
    [batch] = repo.space.list_trash()
    assert repo.space.restore_trash(dry_run=True).objects == batch.objects
    assert repo.space.empty_trash(later(), dry_run=True, unsafe_minimum_age=AT_ONCE).objects
    assert keys(storage) == before


def test_notes_of_running_work_are_no_garbage(storage: MemoryStorage) -> None:
    repo = put_aside(storage)
    note = f"{AT_WORK}erasing/somebody"
    storage.put(note, b"")
    assert [batch.name for batch in repo.space.list_trash() if "at-work" in batch.name] == []
    repo.space.empty_trash(later(), unsafe_minimum_age=AT_ONCE)
    assert keys(storage, TRASH) == {note}
