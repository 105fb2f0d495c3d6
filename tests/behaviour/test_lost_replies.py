"""A write whose reply was lost, and that others have replaced since, is not called refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import StorageError
from frazil.model.config import RepositoryConfig, RepoUpdateRetryConfig, StorageRetriesSettings
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Version, Written
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.support.nodes import group_document, write_keys


class Doubtful(FaultyStorage):
    """Loses the reply to the next write of a ref, and others write before it is asked about."""

    name = "refs/"
    then: Callable[[], object] | None = None

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        done = super().put_if(key, data, expected, attributes)
        if self.then is None or not key.startswith(self.name):
            return done
        others, self.then = self.then, None
        others()
        return LostRace(key, in_doubt=True)


class Scene:
    """A repository of version 1, seen through a bad line and through a good one."""

    def __init__(self) -> None:
        place = MemoryStorage()
        self.first = Repository.create(place, spec_version=1).lookup_branch("main")
        self.line = Doubtful(place)
        self.ours = Repository.open(self.line)
        self.theirs = Repository.open(place)
        self.second = commit(self.theirs, "main", "second")

    def messages(self, branch: str) -> list[str]:
        """Of the history as others see it, newest first, without the first one."""
        return [info.message for info in self.theirs.ancestry(branch=branch)][:-1]


def commit(repository: Repository, branch: str, name: str) -> str:
    """A commit that makes a group."""
    session = repository.writable_session(branch)
    write_keys(session, {f"{name}/zarr.json": group_document()})
    return session.commit(name, rebase_with=ConflictDetector())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_new_branch_that_others_committed_to(scene: Scene) -> None:
    scene.line.then = lambda: commit(scene.theirs, "b", "theirs")
    with pytest.raises(StorageError, match="outcome is unknown"):
        scene.ours.create_branch("b", scene.second)
    assert scene.messages("b") == ["theirs", "second"]


def test_a_reset_that_others_committed_upon(scene: Scene) -> None:
    scene.line.then = lambda: commit(scene.theirs, "main", "theirs")
    with pytest.raises(StorageError, match="outcome is unknown"):
        scene.ours.reset_branch("main", scene.first)
    assert scene.messages("main") == ["theirs"]


def test_a_deleted_branch_that_others_made_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.theirs.create_branch("b", scene.first)
    # The name of a branch that is being deleted is free after a day only.
    later = datetime.now(UTC) + timedelta(days=2)
    monkeypatch.setattr(MemoryStorage, "clock", lambda _: later)
    scene.line.then = lambda: scene.theirs.create_branch("b", scene.second)
    with pytest.raises(StorageError, match="outcome is unknown"):
        scene.ours.delete_branch("b")
    assert scene.messages("b") == ["second"]


def test_a_commit_that_others_built_upon_is_known_as_ours(scene: Scene) -> None:
    scene.line.then = lambda: commit(scene.theirs, "main", "theirs")
    commit(scene.ours, "main", "ours")
    assert scene.messages("main") == ["theirs", "ours", "second"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_commit_is_not_forgotten_when_the_history_cannot_be_read(
    scene: Scene, *, is_gone: bool
) -> None:
    """It has landed, its reply was lost, others have built upon it, and reading fails then."""
    hidden: dict[str, bytes] = {}

    def others() -> None:
        theirs = commit(scene.theirs, "main", "theirs")
        place, key = scene.line.inner, f"snapshots/{theirs}"
        if is_gone:
            hidden[key] = place.get(key) or b""
            place.delete_many([key])
        else:
            scene.line.forget_calls()
            scene.line.plan = (Fault(Trouble.FAIL, "get", times=10),)

    scene.line.then = others
    session = scene.ours.writable_session("main")
    write_keys(session, {"ours/zarr.json": group_document()})
    with pytest.raises(StorageError):
        session.commit("ours")
    scene.line.plan = ()
    for key, data in hidden.items():
        scene.line.inner.put(key, data)
    assert session.commit("ours") == session.snapshot_id
    assert scene.messages("main") == ["theirs", "ours", "second"]


def test_the_last_attempt_that_others_committed_upon_is_not_called_lost() -> None:
    """Of version 2, where one object has all: who is told of a lost race would commit again."""
    place = MemoryStorage()
    Repository.create(place)
    line, theirs = Doubtful(place), Repository.open(place)
    line.name = "repo"
    once = RepoUpdateRetryConfig(default=StorageRetriesSettings(max_tries=1))
    ours = Repository.open(line, RepositoryConfig(repo_update_retries=once))
    line.then = lambda: commit(theirs, "main", "theirs")
    commit(ours, "main", "ours")
    assert [info.message for info in theirs.ancestry(branch="main")][:-1] == ["theirs", "ours"]
    line.then = lambda: commit(theirs, "main", "more")
    ours.create_branch("b", ours.lookup_branch("main"))
    assert "b" in theirs.list_branches()
