"""Which repositories are closed by an upgrade, and what those are told who meet one."""

from __future__ import annotations

import pytest

from frazil.commit.closing import (
    BEING_UNDONE,
    UNDER_WAY,
    is_being_undone,
    is_under_way,
    require_own_status,
    taken_over,
    upgraded_meanwhile,
)
from frazil.commit.repo_object import Edit, RepoObject
from frazil.errors import ErrorKind, ReadOnlyError
from frazil.formats.repo_info import REPO_KEY
from frazil.model.config import RepositoryConfig
from frazil.model.history import RepoAvailability, RepoInfo, StoredStatus, UpdateType
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage

ONLINE, READ_ONLY = RepoAvailability.online, RepoAvailability.read_only


@pytest.fixture
def storage() -> MemoryStorage:
    made = MemoryStorage()
    Repository.create(made)
    return made


def closed(storage: MemoryStorage, reason: str | None, kind: RepoAvailability) -> RepoInfo:
    """The repo object with a status."""
    status = StoredStatus(kind, 0, reason)
    edit = Edit(UpdateType.RepoStatusChanged(status), {"status": status})
    found = RepoObject(storage, RepositoryConfig())
    found.edit(lambda info: edit, any_status=True)
    return found.info()


@pytest.mark.parametrize(
    ("reason", "kind", "under_way", "undone"),
    [
        (UNDER_WAY, READ_ONLY, True, False),
        # Another release may say how to finish it in other words.
        (UNDER_WAY.partition(";")[0], READ_ONLY, True, False),
        (BEING_UNDONE, READ_ONLY, False, True),
        (UNDER_WAY, ONLINE, False, False),
        (BEING_UNDONE, ONLINE, False, False),
        ("moving house", READ_ONLY, False, False),
        (None, READ_ONLY, False, False),
    ],
)
def test_only_a_closed_repository_with_the_reason_is_becoming_another(
    storage: MemoryStorage,
    reason: str | None,
    kind: RepoAvailability,
    under_way: bool,
    undone: bool,
) -> None:
    info = closed(storage, reason, kind)
    assert (is_under_way(info), is_being_undone(info)) == (under_way, undone)
    if under_way or undone:
        with pytest.raises(ReadOnlyError, match="the status cannot be changed"):
            require_own_status(info)
    else:
        require_own_status(info)


def test_who_meets_an_upgrade_is_told_whether_it_is_finished(storage: MemoryStorage) -> None:
    finished = upgraded_meanwhile(storage)
    assert "was upgraded to a newer spec version" in str(finished)
    closed(storage, UNDER_WAY, READ_ONLY)
    begun = upgraded_meanwhile(storage)
    assert "is under way" in str(begun)
    assert finished.kind == begun.kind == ErrorKind.REPO_INFO_UPDATED


def test_a_ref_that_was_taken_over_tells_also_if_nothing_came_of_it(storage: MemoryStorage) -> None:
    key = "refs/branch.main/ref.json"
    assert "was upgraded" in str(taken_over(storage, key))
    storage.delete_many([REPO_KEY])
    lost = taken_over(storage, key)
    assert "its repo object is missing" in str(lost)
    assert key in str(lost)
