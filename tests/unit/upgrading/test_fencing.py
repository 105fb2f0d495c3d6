"""Two upgrades of one repository that mean different things: one is made, the other refused."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import ConflictError, SessionStateError
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import undo_upgrade, upgrade_older
from frazil.upgrading.claims import CLAIM_KEY, ClaimRecord, Work
from tests.support.checks import check_repository
from tests.support.old_repositories import files_at, make_small, told
from tests.support.stepping import InterruptedStorage, Moment

OLD = ["g1", "g2", "g3", "3i"]
FIRST: dict[str, Any] = {"to": 1}
OTHERS: list[dict[str, Any]] = [{"to": 2}, {"to": 1, "mode": "copy"}]


def sample(spec: str) -> tuple[MemoryStorage, dict[str, Any]]:
    """A repository, and what it holds."""
    place = MemoryStorage()
    make_small(place, spec)
    return place, told(Repository.open(place))


def assert_upgraded(place: Storage, to: int, before: dict[str, Any]) -> None:
    """The repository is what one of the two has made of it, whole."""
    repo = Repository.open(place)
    assert repo.spec_version == to
    assert told(repo) == before
    check_repository(repo)
    assert CLAIM_KEY not in files_at(place)


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("spec", OLD)
def test_whoever_comes_later_is_told_of_the_other(spec: str, other: dict[str, Any]) -> None:
    place, before = sample(spec)

    def come() -> None:
        with pytest.raises(SessionStateError, match=r"another upgrade .*spec-v1.* finish or undo"):
            upgrade_older(place, **other)

    meddled = InterruptedStorage(place, [Moment("put", "manifests/", come)])
    upgrade_older(meddled, **FIRST)
    assert meddled.is_over
    assert_upgraded(place, 1, before)


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("spec", OLD)
def test_whoever_has_planned_before_the_other_was_done_writes_nothing(
    spec: str, other: dict[str, Any]
) -> None:
    place, before = sample(spec)
    done: dict[str, bytes | None] = {}

    def come() -> None:
        upgrade_older(place, **other)
        done.update(files_at(place))

    meddled = InterruptedStorage(place, [Moment("put_if", CLAIM_KEY, come)])
    with pytest.raises(ConflictError, match="open it again"):
        upgrade_older(meddled, **FIRST)
    assert files_at(place) == done
    assert_upgraded(place, other["to"], before)


def test_whoever_finds_that_the_other_has_just_ended_is_told_so() -> None:
    place, before = sample("g1")
    record = ClaimRecord(Work.UPGRADE, "spec-v1", "link", holders=0, is_ended=True).encode()
    ended = InterruptedStorage(
        place, [Moment("put_if", CLAIM_KEY, lambda: place.put(CLAIM_KEY, record))]
    )
    with pytest.raises(ConflictError, match="open it again"):
        upgrade_older(ended, **FIRST)
    place.delete_many([CLAIM_KEY])
    upgrade_older(place, **FIRST)
    assert_upgraded(place, 1, before)


def test_an_upgrade_that_died_is_undone_before_another_is_begun() -> None:
    place, before = sample("g1")

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upgrade_older(InterruptedStorage(place, [Moment("put_if", "snapshots/", die)]), **FIRST)
    with pytest.raises(SessionStateError, match="finish or undo it first"):
        upgrade_older(place, to=2)
    undo_upgrade(place)
    upgrade_older(place, to=2)
    assert_upgraded(place, 2, before)
