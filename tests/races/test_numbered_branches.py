"""A branch of numbered files is deleted, made again and committed to while others still write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from frazil.errors import FrazilError
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.checks import check_repository
from tests.support.faulty import FaultyStorage
from tests.support.generations import Spec
from tests.support.nodes import group_document, write_keys

T = TypeVar("T")

OLDER = 3
"""Commits of the branch that is deleted."""


class Interrupted(FaultyStorage):
    """Before its n-th call, somebody else does something."""

    def __init__(self, inner: Storage, call: int, act: Callable[[], None]) -> None:
        super().__init__(inner)
        self.call = call
        self.act: Callable[[], None] | None = act

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if len(self.calls) >= self.call and self.act is not None:
            act, self.act = self.act, None
            act()
        return super()._ask(operation, key, work)

    @property
    def has_happened(self) -> bool:
        return self.act is None


def commit(repository: Repository, name: str) -> str:
    session = repository.writable_session("dev")
    write_keys(session, {f"{name}/zarr.json": group_document()})
    return session.commit(name)


def made(spec: Spec) -> MemoryStorage:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    session.commit("first")
    repository.create_branch("dev", repository.lookup_branch("main"))
    for number in range(OLDER):
        commit(repository, f"old-{number}")
    return storage


def told(storage: Storage) -> list[str]:
    return [info.message for info in Repository.open(storage).ancestry(branch="dev")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "again"),
    [
        *(("g3", n) for n in (0, 1, OLDER, OLDER + 1, OLDER + 4)),
        ("g2", 1),
        ("g2", OLDER),
        ("3i", 1),
    ],
)
def test_a_branch_made_again_is_not_buried_by_who_wrote_to_the_one_before(
    spec: Spec, again: int
) -> None:
    """At whichever request of the old writer it happens, and however far the new branch got."""
    call = 0
    while True:
        storage = made(spec)
        acknowledged: list[str] = []

        def compete(
            storage: MemoryStorage = storage, acknowledged: list[str] = acknowledged
        ) -> None:
            other = Repository.open(storage)
            other.delete_branch("dev")
            other.create_branch("dev", other.lookup_branch("main"))
            for number in range(again):
                commit(other, f"new-{number}")
                acknowledged.append(f"new-{number}")

        slow = Interrupted(storage, 10**9, compete)
        mine = Repository.open(slow)
        session = mine.writable_session("dev")
        write_keys(session, {"late/zarr.json": group_document()})
        slow.forget_calls()
        slow.call = call
        with contextlib.suppress(FrazilError):
            session.commit("late")
        if not slow.has_happened:
            assert call > 3
            break
        history = told(storage)
        # A commit that landed did so before the branch was deleted, and went with it.
        assert history == [*reversed(acknowledged), "first", "Repository initialized"]
        check_repository(Repository.open(storage))
        call += 1


def meanwhile(repository: Repository) -> None:
    commit(repository, "meanwhile")


@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_a_commit_is_not_swallowed_by_a_deletion_that_does_not_know_it(spec: Spec) -> None:
    """Whoever deletes a branch deletes all of it: no half of it stays or comes back."""
    call = 0
    while True:
        storage = made(spec)
        slow = Interrupted(storage, 10**9, lambda: None)
        deleting = Repository.open(slow)
        slow.forget_calls()
        slow.call = call
        other = Repository.open(storage)
        slow.act = partial(meanwhile, other)
        deleting.delete_branch("dev")
        if not slow.has_happened:
            break
        assert Repository.open(storage).list_branches() == {"main"}
        Repository.open(storage).create_branch("dev", other.lookup_branch("main"))
        assert told(storage) == ["first", "Repository initialized"]
        call += 1
    assert call > 2
