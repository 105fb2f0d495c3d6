"""Kill -9 at each step on local disk leaves the old or the new state, garbage, and no lock."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil import Repository
from frazil.storage.local import Durability, LocalStorage
from tests.support.actions import CASES, HISTORY, LATER, Prepare, base_of, state_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.forkserver import start
from tests.support.killing import act_and_die, create_and_die
from tests.support.nodes import group_document, write_keys

MOST_STEPS = 1000


class Scene:
    """Copies of one repository, each the place of one crime."""

    def __init__(
        self, folder: Path, prepare: Prepare, spec: int, durability: Durability = "none"
    ) -> None:
        self._folder = folder
        self._prepare = prepare
        self._durability: Durability = durability
        base_of(LocalStorage(folder / "base", durability="none"), spec)
        storage = self._ready("good")
        act = prepare(Repository.open(storage))
        self.before = state_of(storage)
        act()
        self.after = state_of(storage)

    def _ready(self, name: str) -> LocalStorage:
        shutil.copytree(self._folder / "base", self._folder / name)
        return LocalStorage(self._folder / name, durability=self._durability)

    def crimes(self, stride: int) -> Iterator[tuple[LocalStorage, bool]]:
        """The storage after a kill at each step in turn, or at some; at last after none."""
        for step in range(1, MOST_STEPS, stride):
            storage = self._ready(str(step))
            is_killed = ends_by_kill(act_and_die, storage, self._prepare, step)
            yield LocalStorage(storage.path, durability="none"), is_killed
            shutil.rmtree(storage.path)
            if not is_killed:
                assert step > 3
                return
        pytest.fail("the action never ends")


def ends_by_kill(work: Callable[..., None], *arguments: object) -> bool:
    """Run a process; whether it was killed rather than done."""
    process = start(work, *arguments)
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def commit_next(storage: LocalStorage) -> None:
    """Somebody else goes on; to wait for a lock of the dead would end in an error."""
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"next/zarr.json": group_document()})
    session.commit("next")
    assert check_repository(Repository.open(storage)).messages()[-1] == "next"


def staging_files(storage: LocalStorage) -> list[str]:
    """Files half written; the lock, which stays, is none."""
    names = (path.name for path in Path(storage.path).rglob("*#*"))
    return [name for name in names if not name.startswith(".")]


def clean_up(storage: LocalStorage) -> None:
    """Collect what the dead have left, which is nothing but garbage."""
    state = state_of(storage)
    repository = Repository.open(storage)
    repository.garbage_collect(datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE)
    storage.remove_staging(datetime.now(UTC) + LATER)
    assert garbage_of(repository) == set()
    assert staging_files(storage) == []
    now = state_of(storage)
    assert now["contents"] == state["contents"]
    assert now["branches"] == state["branches"]


def check_crimes(scene: Scene, stride: int = 1) -> None:
    """Old or new, whole, usable, and clean after a collection."""
    seen = []
    for storage, is_killed in scene.crimes(stride):
        state = state_of(storage)
        assert state in (scene.before, scene.after)
        assert is_killed or state == scene.after
        check_repository(Repository.open(storage))
        commit_next(storage)
        clean_up(storage)
        seen.append(state == scene.after)
    assert scene.before == scene.after or {*seen} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize(("prepare", "spec"), CASES)
def test_an_action_killed_at_some_steps_has_happened_or_not(
    tmp_path: Path, prepare: Prepare, spec: int
) -> None:
    check_crimes(Scene(tmp_path, prepare, spec), stride=4)


@pytest.mark.soak
@pytest.mark.parametrize(("prepare", "spec"), CASES)
def test_an_action_killed_at_any_step_has_happened_or_not(
    tmp_path: Path, prepare: Prepare, spec: int
) -> None:
    check_crimes(Scene(tmp_path, prepare, spec))


@pytest.mark.soak
@pytest.mark.parametrize(("prepare", "spec"), CASES)
def test_a_durable_action_killed_at_any_step_has_happened_or_not(
    tmp_path: Path, prepare: Prepare, spec: int
) -> None:
    check_crimes(Scene(tmp_path, prepare, spec, durability="commit"))


@pytest.mark.slow
@pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])
def test_a_creator_killed_at_any_step_has_made_a_repository_or_none(
    tmp_path: Path, spec: int
) -> None:
    for step in range(1, MOST_STEPS):
        storage = LocalStorage(tmp_path / str(step), durability="none")
        is_killed = ends_by_kill(create_and_die, storage, spec, step)
        if not Repository.exists(storage):
            Repository.create(storage, spec_version=spec, check_clean_root=False)
        assert check_repository(Repository.open(storage)).messages() == HISTORY[:1]
        commit_next(storage)
        clean_up(storage)
        if not is_killed:
            assert step > 3
            return
    pytest.fail("creating never ends")
