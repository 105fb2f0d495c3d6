"""An expiry that keeps the last snapshots of each branch, also of one that is just being made."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from frazil import FrazilError, Repository
from frazil.storage.memory import MemoryStorage
from tests.races.test_deleting import copy_of
from tests.support.generations import Spec
from tests.support.nodes import group_document, write_keys
from tests.support.stepping import InterruptedStorage

KEPT = 3


def prepared(spec: Spec) -> tuple[MemoryStorage, str]:
    """A repository with six commits, and the third of them."""
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    ids = []
    for number in range(6):
        session = repo.writable_session("main")
        write_keys(session, {f"g{number}/zarr.json": group_document()})
        ids.append(session.commit(str(number)))
    return storage, ids[2]


def messages(storage: MemoryStorage, branch: str) -> list[str]:
    return [one.message for one in Repository.open(storage).ancestry(branch=branch)]


@pytest.mark.parametrize("spec", [1, 2, "g1"])
def test_a_branch_that_is_made_meanwhile_keeps_as_many_as_others(spec: Spec) -> None:
    template, third = prepared(spec)
    later = datetime.now(UTC) + timedelta(hours=1)
    made = 0
    for call in count(1):
        storage = copy_of(template)
        done: list[bool] = []

        def come(storage: MemoryStorage = storage, done: list[bool] = done) -> None:
            with suppress(FrazilError):
                Repository.open(storage).create_branch("old", third)
                done.append(True)

        slow = InterruptedStorage(storage)
        repo = Repository.open(slow)
        slow.before(call, come)
        repo.space.expire(later, retain_last=KEPT)
        if not slow.is_over:
            break
        assert messages(storage, "main")[:KEPT] == ["5", "4", "3"]
        if done:
            made += 1
            assert messages(storage, "old")[:KEPT] == ["2", "1", "0"], call
    assert made > 2


@pytest.mark.parametrize("spec", [1, 2, "g1"])
def test_an_expiry_tells_the_time_that_it_went_by(spec: Spec) -> None:
    storage, _ = prepared(spec)
    repo = Repository.open(storage)
    oldest = [*repo.ancestry(branch="main")][KEPT - 1]
    later = datetime.now(UTC) + timedelta(hours=1)
    for dry_run in (True, False):
        told = repo.space.expire(later, retain_last=KEPT, dry_run=dry_run)
        assert told.older_than == oldest.written_at
    assert repo.space.expire(later, dry_run=True).older_than == later
