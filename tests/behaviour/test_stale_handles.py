"""A handle from before an upgrade changes and deletes nothing any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frazil.errors import ErrorKind, FrazilError
from frazil.maintenance.expire import expire_with_files
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_repository
from tests.support.ages import AT_ONCE
from tests.support.generations import Spec, generation_of
from tests.unit.maintenance.samples import COLLECTIONS, keys, later, make, put, values

FIRST = "1CECHNKREP0F1RSTCMT0"
CHANGES: dict[str, Callable[[Repository], object]] = {
    **COLLECTIONS,
    "empty the trash": lambda repo: repo.space.empty_trash(later(), unsafe_minimum_age=AT_ONCE),
    "restore the trash": lambda repo: repo.space.restore_trash(),
    "expire": lambda repo: repo.expire_snapshots(later(), delete_expired_branches=True),
    "expire with files": lambda repo: expire_with_files(
        context_of(repo), later(), unsafe_minimum_age=AT_ONCE
    ),
    "purge": lambda repo: repo.space.purge("line", confirm="line", unsafe_minimum_age=AT_ONCE),
    "commit": lambda repo: put(repo, 1, 8),
    "create a branch": lambda repo: repo.create_branch("new", FIRST),
    "reset a branch": lambda repo: repo.reset_branch("dev", FIRST),
    "delete a branch": lambda repo: repo.delete_branch("dev"),
    "create a tag": lambda repo: repo.create_tag("new", FIRST),
    "delete a tag": lambda repo: repo.delete_tag("v1"),
}
WAYS = [(1, 2, True), (1, 2, False), ("g3", 2, True), ("g3", 1, True), ("g1", 2, True)]


def contents(storage: Storage) -> dict[str, bytes | None]:
    return {key: storage.get(key) for key in keys(storage)}


@pytest.mark.parametrize(
    ("spec", "to", "deletes"),
    WAYS,
    ids=[f"{spec} to {to}{'' if deletes else ', old files kept'}" for spec, to, deletes in WAYS],
)
def test_a_handle_from_before_an_upgrade_does_no_harm(spec: Spec, to: int, deletes: bool) -> None:
    storage = MemoryStorage()
    repo = make(storage, spec)
    put(repo, 0, 5)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 2, 6, "dev")
    repo.create_tag("v1", repo.lookup_branch("main"))
    old = Repository.open(storage)
    old.lookup_branch("main")
    upgrade_repository(Repository.open(storage), to=to, delete_unused_v1_files=deletes)
    put(Repository.open(storage), 1, 7)
    before = contents(storage)
    for name, change in CHANGES.items():
        if "purge" in name and spec != 1:
            continue
        if "expire" in name and not generation_of(spec).expires_snapshots:
            continue
        with pytest.raises(FrazilError) as raised:
            change(old)
        allowed = {ErrorKind.REPO_INFO_UPDATED}
        if spec != 1:
            # Files under other names, and ids that are not kept, are just not there.
            allowed |= {ErrorKind.REF_NOT_FOUND, ErrorKind.SNAPSHOT_NOT_FOUND}
        assert raised.value.kind in allowed, name
        assert contents(storage) == before, name
    assert values(Repository.open(storage))[:2] == [5, 7]


@pytest.mark.parametrize("ask", ["list_branches", "list_tags"])
def test_a_handle_from_before_an_upgrade_does_not_call_the_repository_empty(ask: str) -> None:
    storage = MemoryStorage()
    repo = make(storage, 1)
    repo.create_tag("v1", repo.lookup_branch("main"))
    upgrade_repository(Repository.open(storage), delete_unused_v1_files=False)
    with pytest.raises(FrazilError, match="open it again"):
        getattr(repo, ask)()
