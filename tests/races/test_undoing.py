"""Upgrades that are undone, finished or begun again by others while they are still alive.

Whoever was slow goes on as if nothing had happened. What was acknowledged meanwhile must stay,
and the repository must be whole, be it the old or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any, Final

import pytest

from frazil import FrazilError, RepoAvailability, Repository, RepoStatus
from frazil.errors import ConflictError, SessionStateError
from frazil.fsck import fsck
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import clean_upgrade, undo_upgrade, upgrade_older
from frazil.upgrading.claims import (
    CLAIM_KEY,
    ClaimRecord,
    Work,
    claimed,
    decode_claim,
    take,
    too_late,
)
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import files_at, make_small, put, told
from tests.support.stepping import InterruptedStorage, Moment

Act = Callable[[Storage], object]
STRIDE: Final = 17
"""Others come before one call in so many, at other ones in each test; `make soak` has more."""
READS: Final = frozenset({"get", "fetch", "head", "list"})
CASES: Final = [
    ("g1", 2, STRIDE),
    ("g3", 1, STRIDE),
    *(
        pytest.param(spec, to, 3, marks=pytest.mark.soak)
        for spec, to in [("g1", 2), ("g2", 1), ("g2", 2), ("3a", 1), ("g3", 1), ("g3", 2)]
    ),
]


@cache
def sample(spec: str, to: int | None = None, *, has_branch: bool = False) -> dict[str, bytes]:
    """The files of an old repository, upgraded or with one more branch if wanted."""
    if to is not None:
        place = place_of(spec)
        upgrade_older(place, to=to)
    elif has_branch:
        place = place_of(spec)
        branch_off(place)
    else:
        place = MemoryStorage()
        make_small(place, spec)
    return {key: data or b"" for key, data in files_at(place).items()}


def place_of(spec: str, to: int | None = None, *, has_branch: bool = False) -> MemoryStorage:
    """A repository of its own."""
    place = MemoryStorage()
    for key, data in sample(spec, to, has_branch=has_branch).items():
        place.put(key, data)
    return place


def commit(place: Storage) -> None:
    """Change main, and another branch."""
    repo = Repository.open(place)
    with repo.transaction("main", message="meanwhile") as store:
        put(store, "scalar", ..., 1)
    if "aside" in repo.list_branches():
        with repo.transaction("aside", message="meanwhile") as store:
            put(store, "scalar", ..., 2)


def branch_off(place: Storage) -> None:
    repo = Repository.open(place)
    repo.create_branch("aside", repo.lookup_branch("main"))


def interrupted(
    make: Callable[[], Storage],
    slow: Act,
    others: tuple[Act, ...],
    first: int,
    stride: int,
    only: frozenset[str] | None = None,
) -> Iterator[tuple[Storage, dict[str, Any], str]]:
    """Places where others came before a call of somebody slow, and what must be there.

    All kinds of calls count, or `only` some. If one of them is refused, all is as it was: the last
    of them is the one that changes values.
    """
    before = told(Repository.open(make()))
    calls: Iterable[int] = count(1 + first % stride, stride)
    if only is not None:
        alone = InterruptedStorage(make())
        slow(alone)
        meant = [n for n, (kind, _) in enumerate(alone.calls, 1) if kind in only]
        calls = meant[first % stride :: stride]
    for call in calls:
        place = make()
        seen: list[dict[str, Any]] = []

        def come(place: Storage = place, seen: list[dict[str, Any]] = seen) -> None:
            with suppress(FrazilError):
                for act in others:
                    act(place)
                seen.append(told(Repository.open(place)))

        storage = InterruptedStorage(place)
        storage.before(call, come)
        with suppress(FrazilError):
            slow(storage)
        if not storage.is_over:
            assert call > 10
            return
        yield place, seen[0] if seen else before, f"call {call}"


def assert_kept(place: Storage, wanted: dict[str, Any], when: str) -> None:
    """All is there that others have seen, sound, and the next one can go on."""
    repo = Repository.open(place)
    assert told(repo) == wanted, when
    assert fsck(place).is_sound, when


def upgrading(to: int) -> Act:
    return partial(upgrade_older, to=to)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_an_upgrade_that_is_still_alive_is_not_undone(spec: str, to: int, stride: int) -> None:
    others = (undo_upgrade, commit)
    for place, seen, when in interrupted(lambda: place_of(spec), upgrading(to), others, 0, stride):
        assert_kept(place, seen, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_of_two_who_undo_an_upgrade_one_is_refused(spec: str, to: int, stride: int) -> None:
    others = (undo_upgrade, commit)
    for place, seen, when in interrupted(
        lambda: place_of(spec, to), undo_upgrade, others, 2, stride
    ):
        assert_kept(place, seen, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_who_helped_with_an_upgrade_and_was_slow_overwrites_nothing(
    spec: str, to: int, stride: int
) -> None:
    old, others = partial(place_of, spec, has_branch=True), (upgrading(to), commit)
    for place, seen, when in interrupted(old, upgrading(to), others, 4, stride):
        assert_kept(place, seen, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_who_helped_with_an_upgrade_that_was_undone_changes_nothing(
    spec: str, to: int, stride: int
) -> None:
    others = (upgrading(to), undo_upgrade, commit)
    for place, seen, when in interrupted(lambda: place_of(spec), upgrading(to), others, 6, stride):
        assert_kept(place, seen, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_who_helped_with_an_upgrade_and_was_slow_leaves_what_undoing_needs(
    spec: str, to: int, stride: int
) -> None:
    old, others = partial(place_of, spec), (upgrading(to),)
    before = told(Repository.open(old()))
    for place, _, when in interrupted(old, upgrading(to), others, 10, stride):
        undo_upgrade(place)
        assert_kept(place, before, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_who_undoes_an_upgrade_and_was_taken_for_dead_stops(
    spec: str, to: int, stride: int
) -> None:
    """Before the next change, that is: so others come when something is read."""
    undo = partial(undo_upgrade, unsafe_minimum_age=AT_ONCE)
    upgraded, others = partial(place_of, spec, to), (undo, upgrading(to), commit)
    for place, seen, when in interrupted(upgraded, undo, others, 12, stride, only=READS):
        assert_kept(place, seen, when)


@pytest.mark.parametrize(("spec", "to", "stride"), CASES)
def test_nothing_is_undone_while_somebody_cleans_up(spec: str, to: int, stride: int) -> None:
    """Nor by the end of an upgrade that has a helper."""
    clean = partial(clean_upgrade, unsafe_minimum_age=AT_ONCE)
    for place, seen, when in interrupted(
        lambda: place_of(spec), upgrading(to), (upgrading(to), clean), 8, stride
    ):
        with suppress(SessionStateError):
            undo_upgrade(place)
        assert_kept(place, seen, when)


@pytest.mark.parametrize("spec", ["g1", "g3"])
def test_nobody_opens_a_repository_whose_upgrade_is_being_undone(spec: str) -> None:
    """What would be committed then goes with it."""

    def open_and_commit(place: Storage) -> None:
        repo = Repository.open(place)
        repo.set_status(RepoStatus(RepoAvailability.online))
        commit(place)

    for place, seen, when in interrupted(
        lambda: place_of(spec, 2), undo_upgrade, (open_and_commit,), 1, 5
    ):
        assert_kept(place, seen, when)


def test_who_was_killed_may_still_be_at_work() -> None:
    """Only the age of the claim tells, or the word of a user; who fails says so."""
    place = place_of("g2")

    def die() -> None:
        raise KeyboardInterrupt

    dying = InterruptedStorage(place, [Moment("put_if", "snapshots/", die)])
    with pytest.raises(KeyboardInterrupt):
        upgrade_older(dying, to=2)
    failed = place.get(CLAIM_KEY)
    assert failed is not None
    assert decode_claim(failed).holders == 0
    killed = replace(decode_claim(failed), holders=1)
    place.put(CLAIM_KEY, killed.encode())
    with pytest.raises(SessionStateError, match="was killed less than a day ago"):
        undo_upgrade(place)
    upgrade_older(place, to=2)  # one who means the same helps
    with pytest.raises(SessionStateError, match="was killed less than a day ago"):
        undo_upgrade(place)
    undo_upgrade(place, unsafe_minimum_age=AT_ONCE)
    assert place.get(CLAIM_KEY) is None
    assert told(Repository.open(place)) == told(Repository.open(place_of("g2")))


def test_a_claim_of_another_version_is_left_alone() -> None:
    place = place_of("g2")
    place.put(CLAIM_KEY, b'{"to": "spec-v2"}')
    for act in (upgrade_older, undo_upgrade):
        with pytest.raises(SessionStateError, match="cannot be understood"):
            act(place)
    assert place.get(CLAIM_KEY) == b'{"to": "spec-v2"}'


def test_who_comes_too_late_counts_once_among_the_holders() -> None:
    """Else an upgrade that is still alive could be undone."""
    place = place_of("g2")
    wanted = ClaimRecord(Work.UPGRADE, "spec-v2", "link")
    alive = take(place, wanted)
    late = take(place, wanted)
    with pytest.raises(ConflictError), claimed(late):
        raise too_late(late)
    assert decode_claim(place.get(CLAIM_KEY) or b"").holders == 1
    alive.hold()
    with pytest.raises(SessionStateError, match="at work here"):
        undo_upgrade(place)
    alive.release()
    assert place.get(CLAIM_KEY) is None
