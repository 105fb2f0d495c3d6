"""A branch of numbered files is deleted, made again and committed to while others still write."""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import count

import pytest

from frazil import FrazilError, Repository, Storage
from frazil.storage.memory import MemoryStorage
from tests.support.checks import check_repository
from tests.support.generations import Spec
from tests.support.nodes import group_document, write_keys
from tests.support.stepping import InterruptedStorage

OLDER = 3
"""Commits of the branch that is deleted."""


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
    for call in count(1):
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

        slow = InterruptedStorage(storage)
        mine = Repository.open(slow)
        session = mine.writable_session("dev")
        write_keys(session, {"late/zarr.json": group_document()})
        slow.before(call, compete)
        with contextlib.suppress(FrazilError):
            session.commit("late")
        if not slow.is_over:
            assert call > 4
            break
        history = told(storage)
        # A commit that landed did so before the branch was deleted, and went with it.
        assert history == [*reversed(acknowledged), "first", "Repository initialized"]
        check_repository(Repository.open(storage))


def meanwhile(repository: Repository) -> None:
    commit(repository, "meanwhile")


@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_a_commit_is_not_swallowed_by_a_deletion_that_does_not_know_it(spec: Spec) -> None:
    """Whoever deletes a branch deletes all of it: no half of it stays or comes back."""
    for call in count(1):
        storage = made(spec)
        slow = InterruptedStorage(storage)
        deleting = Repository.open(slow)
        other = Repository.open(storage)
        slow.before(call, partial(meanwhile, other))
        deleting.delete_branch("dev")
        if not slow.is_over:
            break
        assert Repository.open(storage).list_branches() == {"main"}
        Repository.open(storage).create_branch("dev", other.lookup_branch("main"))
        assert told(storage) == ["first", "Repository initialized"]
    assert call > 3
