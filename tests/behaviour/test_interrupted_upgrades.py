"""Upgrades, undoing and cleaning that die on the way, and what the next run makes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest

import frazil
from frazil.errors import ConflictError, ErrorKind, SessionStateError, StorageError
from frazil.formats.repo_info import REPO_KEY
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import clean_upgrade, undo_upgrade, upgrade_older
from frazil.upgrading.claims import CLAIM_KEY
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    assert_as_before,
    files_at,
    last_message,
    place_of,
    put,
    sample,
    told,
    upgraded,
)
from tests.support.stepping import InterruptedStorage, Moment

T = TypeVar("T")
STRIDE = 5
"""Work dies at one write in so many, before or after it by turns; `make soak` has all."""
CASES = [(spec, to, STRIDE) for spec, to in (("g1", 1), ("g2", 2), ("3a", 2), ("g3", 1), ("3i", 2))]
CASES += [
    pytest.param(spec, to, 1, marks=pytest.mark.soak)  # type: ignore[misc]
    for spec in ("g1", "g2", "3a", "3e", "g3", "3i")
    for to in (1, 2)
]
WRITES = frozenset({"put", "put_if", "copy_if", "delete_many"})


class Dying(FaultyStorage):
    """A storage whose user is killed at its n-th write, before or after it takes effect."""

    def __init__(self, inner: Storage, step: int, *, after: bool = False) -> None:
        super().__init__(inner)
        self.step = step
        self.after = after
        self.writes = 0

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if operation in WRITES:
            self.writes += 1
            if self.writes == self.step and self.after:
                work()
        if self.step and self.writes >= self.step:
            raise StorageError("killed", kind=ErrorKind.OBJECT_STORE, key=key)
        return work()


def deaths(
    make: Callable[[], Storage], work: Callable[[Storage], object], stride: int
) -> list[Storage]:
    """Places where some work died at its first and last writes, and at one in so many."""
    counting = Dying(make(), 0)
    work(counting)
    assert counting.writes > 1
    found = []
    for step in sorted(
        {*range(1, counting.writes + 1, stride), counting.writes - 1, counting.writes}
    ):
        place = make()
        with pytest.raises(StorageError):
            work(Dying(place, step, after=step % 2 == 0))
        found.append(place)
    return found


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_an_upgrade_killed_at_any_write_is_finished_by_the_next(
    spec: str, to: int, stride: int
) -> None:
    _, before = sample(spec)
    whole = upgraded(spec, to)
    for place in deaths(
        lambda: place_of(spec), lambda storage: upgrade_older(storage, to=to), stride
    ):
        found = Repository.open(place)
        if context_of(found).generation.dialect is not None:
            assert tips(found) == before["branches"]
            upgrade_older(found, to=to)
        assert files_at(place).keys() - {CLAIM_KEY} == files_at(whole).keys()
        new = Repository.open(place)
        assert new.spec_version == to
        assert tips(new) == before["branches"]
        assert new.inspect_snapshot(tips(new)["main"]) == Repository.open(whole).inspect_snapshot(
            tips(new)["main"]
        )
    assert told(new) == before


def tips(repo: Repository) -> dict[str, str]:
    """Where branches are."""
    return {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_an_upgrade_killed_at_any_write_can_be_undone(spec: str, to: int, stride: int) -> None:
    files, before = sample(spec)
    for place in deaths(
        lambda: place_of(spec), lambda storage: upgrade_older(storage, to=to), stride
    ):
        undo_upgrade(place, unsafe_minimum_age=AT_ONCE)
        assert_as_before(place, files)
    assert told(Repository.open(place)) == before


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_undoing_killed_at_any_write_is_finished_by_the_next(
    spec: str, to: int, stride: int
) -> None:
    files, _ = sample(spec)

    for place in deaths(lambda: upgraded(spec, to), undo_upgrade, stride):
        undo_upgrade(place, unsafe_minimum_age=AT_ONCE)
        assert_as_before(place, files)
    repo = Repository.open(place)
    with repo.transaction("main", message="goes on") as store:
        put(store, "scalar", ..., 1)
    upgrade_older(place, to=to)
    assert last_message(place) == "goes on"


@pytest.mark.parametrize(
    ("spec", "to"), [("g1", 1), ("g2", 2), ("3a", 2), ("g3", 1), ("3i", 2), ("g1", 2), ("g3", 2)]
)
def test_cleaning_killed_at_any_write_is_finished_by_the_next(spec: str, to: int) -> None:
    _, before = sample(spec)

    whole = upgraded(spec, to)
    plan = clean_upgrade(whole, dry_run=True)
    done = clean_upgrade(whole, unsafe_minimum_age=AT_ONCE)
    assert (plan.deleted, plan.applied, done.applied) == (done.deleted, False, True)
    place = upgraded(spec, to)
    with pytest.raises(StorageError):
        clean_upgrade(Dying(place, 1, after=True), unsafe_minimum_age=AT_ONCE)
    with_rest = files_at(place)
    assert told(Repository.open(place)) == before
    if with_rest.keys() != files_at(whole).keys():
        clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    assert files_at(place).keys() == files_at(whole).keys()
    with pytest.raises(SessionStateError):
        undo_upgrade(place, force=True)
    assert told(Repository.open(place)) == before


def commit(place: Storage) -> None:
    session = Repository.open(place).writable_session("main")
    put(session.store, "scalar", ..., 1)
    session.commit("meanwhile")


def make_a_branch(place: Storage) -> None:
    repo = Repository.open(place)
    repo.create_branch("aside", repo.lookup_branch("main"))


def forget_a_tag(place: Storage) -> None:
    repo = Repository.open(place)
    repo.delete_tag(min(repo.list_tags()))


ACTS = (commit, make_a_branch, forget_a_tag)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize(("spec", "to"), [("g3", 2), ("g2", 1), ("3a", 1)])
def test_what_is_acknowledged_while_an_upgrade_is_undone_is_not_lost(
    spec: str, to: int, act: Callable[[Storage], None]
) -> None:
    """Whoever changes the new repository is refused, or undoing it is."""
    before = sample(spec)[1]
    # One call in so many, others for each act: together they come by nearly all.
    for call in count(1 + ACTS.index(act), 4):
        place = upgraded(spec, to)
        done: list[dict[str, Any]] = []

        def compete(place: Storage = place, done: list[dict[str, Any]] = done) -> None:
            with suppress(frazil.FrazilError):
                if Repository.open(place).spec_version == to:  # it is not undone yet
                    act(place)
                    done.append(told(Repository.open(place)))

        slow = InterruptedStorage(place)
        slow.before(call, compete)
        with suppress(SessionStateError):
            undo_upgrade(slow)
        if not slow.is_over:
            break
        after = Repository.open(place)
        assert told(after) == (done[0] if done else before), call
        after.create_branch("open-again", after.lookup_branch("main"))
    assert call > 10


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
def test_an_upgrade_to_another_version_cannot_take_over(spec: str) -> None:
    place = place_of(spec)

    def die() -> None:
        raise StorageError("killed", kind=ErrorKind.OBJECT_STORE)

    with pytest.raises(StorageError):
        upgrade_older(InterruptedStorage(place, [Moment("put_if", REPO_KEY, die)]), to=2)
    old = Repository.open(place)
    with pytest.raises(SessionStateError, match="spec-v2"):
        upgrade_older(old, to=1)
    with pytest.raises(ConflictError, match="finish the upgrade"):
        old.writable_session("main")
    assert told(old) == sample(spec)[1]
    upgrade_older(old, to=2)
    assert Repository.open(place).spec_version == 2


@pytest.mark.parametrize("to", [1, 2])
def test_an_upgrade_does_not_begin_while_one_is_undone(to: int) -> None:
    """It would make files of the same names as those that are deleted."""
    files, before = sample("g2")
    for call in count(1):
        place = upgraded("g2", to)
        slow = InterruptedStorage(place, [])
        slow.moments.append(Moment("delete_many", "", partial(upgrade_again, place, to), call))
        undo_upgrade(slow)
        if not slow.is_over:
            break
        assert_as_before(place, files)
    assert told(Repository.open(place)) == before
    assert call > 3


@pytest.mark.parametrize(("spec", "to"), [("g2", 2), ("g3", 1)])
def test_cleaning_up_does_not_delete_what_undoing_needs(spec: str, to: int) -> None:
    before = sample(spec)[1]
    for call in count(1, 3):
        place = upgraded(spec, to)
        slow = InterruptedStorage(place)
        slow.before(call, partial(tidy, undo_upgrade, place))
        tidy(partial(clean_upgrade, unsafe_minimum_age=AT_ONCE), slow)
        if not slow.is_over:
            break
        assert told(Repository.open(place)) == before, call
    assert call > 10


def tidy(how: Callable[[Storage], object], place: Storage) -> None:
    with suppress(SessionStateError, ConflictError):
        how(place)


def upgrade_again(place: Storage, to: int) -> None:
    with suppress(SessionStateError, ConflictError):
        upgrade_older(place, to=to)
        raise AssertionError("the files of this upgrade are being deleted")
