"""Somebody else at every storage call of an upgrade to version 2, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeVar

import pytest

from frazil import (
    ConflictError,
    FrazilError,
    ReadOnlyError,
    RepoAvailability,
    Repository,
    RepoStatus,
    Storage,
    VirtualChunkContainer,
    local_filesystem_store,
)
from frazil.commit.closing import UNDER_WAY
from frazil.commit.config_file import CONFIG_KEY
from frazil.formats.repo_info import REPO_KEY
from frazil.fsck import fsck
from frazil.maintenance.upgrade import upgrade_v1_to_v2
from frazil.storage.base import Fetched, LostRace
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import ANY, FaultyStorage
from frazil.transaction.opened import context_of
from tests.races.test_deleting import copy_of
from tests.support.ages import AT_ONCE
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, later, make, messages, put, values

T = TypeVar("T")
Act = Callable[[Repository], dict[str, list[int]]]
"""Does something and tells what branches hold then."""


class At(FaultyStorage):
    """A storage on which somebody else acts after the n-th call."""

    def __init__(self, inner: Storage, call: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.left = call
        self.act = act

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        done = super()._ask(operation, key, work)
        self.left -= 1
        if self.left == 0:
            self.act()
        return done


def prepared() -> MemoryStorage:
    """A repository of version 1 with a branch, a tag and garbage."""
    storage = MemoryStorage()
    repo = make(storage, 1)
    first = put(repo, 0, 1)
    repo.create_branch("dev", first)
    put(repo, 1, 2, "dev")
    repo.create_tag("v1", first)
    repo.create_branch("gone", first)
    put(repo, 5, 5, "gone")
    repo.delete_branch("gone")
    put(repo, 0, 3)
    return storage


def commit(repo: Repository) -> dict[str, list[int]]:
    put(repo, 2, 7)
    return {"main": [3, 0, 7, 0]}


def commit_on_dev(repo: Repository) -> dict[str, list[int]]:
    put(repo, 2, 8, "dev")
    return {"dev": [1, 2, 8, 0]}


def new_branch(repo: Repository) -> dict[str, list[int]]:
    repo.create_branch("new", repo.lookup_branch("dev"))
    put(repo, 3, 9, "new")
    return {"new": [1, 2, 0, 9]}


def reset(repo: Repository) -> dict[str, list[int]]:
    repo.reset_branch("main", repo.lookup_branch("dev"))
    return {"main": [1, 2, 0, 0]}


def collect(repo: Repository) -> dict[str, list[int]]:
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    return {"main": [3, 0, 0, 0], "dev": [1, 2, 0, 0]}


def upgrade(repo: Repository) -> dict[str, list[int]]:
    upgrade_v1_to_v2(context_of(repo), dry_run=False)
    return {"main": [3, 0, 0, 0], "dev": [1, 2, 0, 0]}


ACTS: tuple[Act, ...] = (commit, commit_on_dev, new_branch, reset, collect, upgrade)


STRIDES = [7, pytest.param(1, marks=pytest.mark.soak)]
"""Somebody else comes after one call in so many, at other ones for each act."""


def attempted(act: Act, repo: Repository) -> dict[str, list[int]]:
    """What an act says it has done; nothing when it was refused."""
    try:
        return act(repo)
    except FrazilError:
        return {}


def is_half_way(repo: Repository) -> bool:
    """Whether somebody has begun an upgrade."""
    if repo.spec_version < 2:
        return False
    return repo.get_status().limited_availability_reason == UNDER_WAY


def finish(storage: Storage) -> Repository:
    """Run an upgrade again that may have been interrupted."""
    repo = Repository.open(storage)
    if repo.spec_version == 1 or is_half_way(repo) or keys(storage, "refs/"):
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
    return Repository.open(storage)


def assert_kept(storage: Storage, told: dict[str, list[int]], where: object) -> None:
    repo = Repository.open(storage)
    assert repo.spec_version == 2
    assert repo.list_tags() == {"v1"}
    for name, expected in told.items():
        assert values(repo, name)[:4] == expected, (where, name)
    assert {"main", "dev"} <= repo.list_branches()
    assert messages(repo)[-1] == "Repository initialized"
    put(repo, 7, 70)
    assert not [found for found in fsck(repo).findings if found.level.name == "ERROR"], where


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("is_open", [True, False], ids=["open before", "opens then"])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_what_others_are_told_during_an_upgrade_is_true(
    act: Act, is_open: bool, stride: int
) -> None:
    """A client that was open before knows version 1; one that opens then meets either."""
    template = prepared()
    for call in count(1 + ACTS.index(act) % stride, stride):
        storage = copy_of(template)
        before = Repository.open(storage)
        told: list[dict[str, list[int]]] = []
        at = At(
            storage,
            0,
            lambda told=told, before=before, storage=storage: told.append(  # type: ignore[misc]
                attempted(act, before if is_open else Repository.open(storage))
            ),
        )
        repo = Repository.open(at)
        at.left = call
        try:
            upgrade_v1_to_v2(context_of(repo), dry_run=False)
        except FrazilError:
            assert act is upgrade or act is collect or act is reset, call
        if not told:
            break
        finish(storage)
        assert_kept(storage, told[0], call)
    assert call > 15


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("act", ACTS[:-1], ids=lambda act: act.__name__)
def test_what_is_told_when_an_upgrade_comes_in_between_is_true(act: Act, stride: int) -> None:
    """The upgrade comes at every storage call of somebody who knows version 1."""
    template = prepared()
    for call in count(1 + ACTS.index(act) % stride, stride):
        storage = copy_of(template)
        done: list[object] = []
        at = At(
            storage,
            0,
            lambda done=done, storage=storage: done.append(  # type: ignore[misc]
                upgrade(Repository.open(storage))
            ),
        )
        repo = Repository.open(at)
        at.left = call
        told = attempted(act, repo)
        if not done:
            break
        finish(storage)
        assert_kept(storage, told, call)
    assert call > 3


MAIN_KEY = "refs/branch.main/ref.json"


@pytest.mark.parametrize("looks_first", [True, False], ids=["reads the branch then", "before"])
def test_clients_that_know_nothing_of_version_2_lose_no_commit(looks_first: bool) -> None:
    """The official package 1.1.21 replaces the file of a branch, and looks at nothing else."""
    template = prepared()
    ahead = copy_of(template)
    commit(Repository.open(ahead))
    before = keys(template)
    outcomes = set()
    for call in count(1):
        storage = copy_of(template)
        known = storage.fetch(MAIN_KEY)
        assert isinstance(known, Fetched)
        done: list[bool] = []

        def commit_blindly(
            storage: Storage = storage, known: Fetched = known, done: list[bool] = done
        ) -> None:
            now = storage.fetch(MAIN_KEY) if looks_first else known
            is_same = isinstance(now, Fetched) and now.data == known.data
            for key in keys(ahead) - before:
                storage.put(key, ahead.get(key) or b"")
            ref = ahead.get(MAIN_KEY) or b""
            version = now.version if isinstance(now, Fetched) else None
            # A file that is gone, or says something else, is no branch to commit to.
            done.append(
                is_same and not isinstance(storage.put_if(MAIN_KEY, ref, version), LostRace)
            )

        at = At(storage, 0, commit_blindly)
        repo = Repository.open(at)
        at.left = call
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
        if not done:
            break
        outcomes.add(done[0])
        assert_kept(storage, {"main": [3, 0, 7, 0] if done[0] else [3, 0, 0, 0]}, call)
    assert outcomes == {True, False}


class Dead(Exception):
    """The process is no more."""


def test_an_upgrade_that_was_killed_anywhere_is_finished_by_the_next() -> None:
    template = prepared()
    for call in count(1):
        storage = copy_of(template)

        def die() -> None:
            raise Dead

        at = At(storage, 0, die)
        repo = Repository.open(at)
        at.left = call
        try:
            upgrade_v1_to_v2(context_of(repo), dry_run=False)
            break
        except Dead:
            pass
        # A client of version 1 goes on if nothing has happened yet, and is refused otherwise.
        told = attempted(commit, Repository.open(storage))
        finish(storage)
        assert_kept(storage, told or {"main": [3, 0, 0, 0]}, call)
        assert not keys(storage, "refs/")
    assert call > 15


def test_a_new_client_reads_but_does_not_write_before_the_upgrade_is_done() -> None:
    template = prepared()
    seen: list[str] = []
    for call in count(1):
        storage = copy_of(template)

        def look(storage: Storage = storage) -> None:
            repo = Repository.open(storage)
            if is_half_way(repo):
                seen.append(repo.get_status().availability.name)
                assert values(repo)[0] == 3
                with pytest.raises(ReadOnlyError, match="under way"):
                    repo.writable_session("main")

        at = At(storage, 0, look)
        repo = Repository.open(at)
        at.left = call
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
        if at.left > 0:
            break
    assert set(seen) == {"read_only"}
    assert len(seen) > 5


ASKING: tuple[Callable[[Repository], object], ...] = (
    lambda repo: repo.lookup_branch("main"),
    lambda repo: repo.lookup_tag("v1"),
    lambda repo: repo.list_branches(),
    lambda repo: repo.list_tags(),
    lambda repo: put(repo, 2, 7),
    lambda repo: repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE),
)


def killed_at(storage: Storage, call: int) -> bool:
    """Upgrade a repository until a storage call; tell whether it came to that."""

    def die() -> None:
        raise Dead

    at = At(storage, 0, die)
    repo = Repository.open(at)
    at.left = call
    try:
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
    except Dead:
        return True
    return False


def test_who_meets_a_killed_upgrade_is_told_how_to_finish_it() -> None:
    template = prepared()
    told: list[str] = []
    for call in count(1):
        storage = copy_of(template)
        before = Repository.open(storage)
        if not killed_at(storage, call):
            break
        now = Repository.open(storage)
        is_begun = is_half_way(now)
        for repo in (before, now):
            for ask in ASKING[:-2] if not is_begun else ASKING:
                try:
                    ask(repo)
                except FrazilError as error:
                    told.append(str(error))
                    wanted = "frazil upgrade" if is_begun else "open it again"
                    assert wanted in told[-1], (call, told[-1])
    assert len(told) > 20


def test_a_branch_that_an_upgrade_took_over_is_not_missing_when_its_repo_object_is() -> None:
    template = prepared()
    tried = 0
    for call in count(1):
        storage = copy_of(template)
        if not killed_at(storage, call):
            break
        is_begun = is_half_way(Repository.open(storage))
        if not is_begun or b"upgraded" not in (storage.get("refs/branch.main/ref.json") or b""):
            continue
        storage.delete_many(["repo"])
        before = keys(storage)
        for ask in (ASKING[0], *ASKING[2:3], *ASKING[4:]):
            with pytest.raises(ConflictError, match="frazil upgrade"):
                ask(Repository.open(storage))
        assert keys(storage) == before
        finish(storage)
        assert_kept(storage, {"main": [3, 0, 0, 0], "dev": [1, 2, 0, 0]}, call)
        tried += 1
    assert tried > 5


def save_container(repo: Repository, name: str) -> None:
    container = VirtualChunkContainer(f"file:///{name}/", local_filesystem_store("/"))
    config = repo.config
    config.set_virtual_chunk_container(container)
    repo.reopen(config).save_config()


def test_settings_that_are_saved_as_soon_as_the_upgrade_is_done_stay() -> None:
    """Those that an old client stored at the last moment, without success, do not replace them."""
    storage = prepared()
    beside = copy_of(storage)
    save_container(Repository.open(beside), "old")
    on_its_way = beside.get(CONFIG_KEY)
    assert on_its_way is not None

    def save_as_old_client() -> None:
        storage.put(CONFIG_KEY, on_its_way)

    def save_as_new_client() -> None:
        if not is_half_way(Repository.open(storage)):
            save_container(Repository.open(storage), "new")

    def upgrade_done() -> None:
        slow.moments.append(Moment(ANY, CONFIG_KEY, save_as_new_client))

    slow = InterruptedStorage(storage)
    context = context_of(Repository.open(slow))
    # The second write of the repo object is the one that opens it.
    slow.moments += [
        Moment("put_if", REPO_KEY, save_as_old_client, call=2),
        Moment("put_if", REPO_KEY, upgrade_done, call=2),
    ]
    upgrade_v1_to_v2(context, dry_run=False)
    config = Repository.fetch_config(storage)
    assert config is not None
    assert "file:///new/" in (config.virtual_chunk_containers or {})


def test_nobody_opens_a_repository_whose_upgrade_is_under_way() -> None:
    """A commit would be missed by the upgrade, which takes over what old refs say at its end."""
    template = prepared()
    refused = 0
    for call in count(1):
        storage = copy_of(template)
        if not killed_at(storage, call):
            break
        repo = Repository.open(storage)
        if is_half_way(repo):
            with pytest.raises(ReadOnlyError, match="frazil upgrade URL --apply"):
                repo.set_status(RepoStatus(RepoAvailability.online))
            refused += 1
    assert refused > 5
