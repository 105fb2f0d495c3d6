"""An upgrade that is killed at any use of the disk is finished, or undone, by the next run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from frazil import Repository, undo_upgrade, upgrade_older
from frazil.fsck import fsck
from frazil.storage.local import LocalStorage
from frazil.transaction.opened import context_of
from tests.races.test_commit_kills import ends_by_kill
from tests.support.ages import AT_ONCE
from tests.support.killing import upgrade_and_die
from tests.support.old_repositories import make_small, told

MOST_STEPS = 2000


def check_kills(tmp_path: Path, spec: str, to: int, stride: int) -> None:
    """Kill upgrades at many steps, each of its own copy of a repository."""
    base = LocalStorage(str(tmp_path / "base"), durability="none")
    make_small(base, spec)
    before = told(Repository.open(base))
    for step in range(1, MOST_STEPS, stride):
        place = LocalStorage(str(tmp_path / str(step)), durability="none")
        shutil.copytree(base.path, place.path)
        is_killed = ends_by_kill(upgrade_and_die, place, to, step)
        if context_of(Repository.open(place)).generation.dialect is not None:
            assert told(Repository.open(place)) == before
            if (step // stride) % 2:
                undo_upgrade(place, unsafe_minimum_age=AT_ONCE)
            upgrade_older(place, to=to)
        assert told(Repository.open(place)) == before
        assert fsck(place).is_clean
        shutil.rmtree(place.path)
        if not is_killed:
            assert step > 20
            return
    pytest.fail("upgrading never ends")


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "to", "stride"), [("g1", 2, 31), ("g2", 1, 11), ("g3", 2, 13)])
def test_an_upgrade_killed_on_the_way(tmp_path: Path, spec: str, to: int, stride: int) -> None:
    check_kills(tmp_path, spec, to, stride)


@pytest.mark.soak
@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("spec", ["g1", "g2", "3a", "g3", "3i"])
def test_an_upgrade_killed_at_any_step(tmp_path: Path, spec: str, to: int) -> None:
    check_kills(tmp_path, spec, to, 1)
