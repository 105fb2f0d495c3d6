"""Work for processes that kill themselves on the way, at a step that a test chooses."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.transaction.opened import context_of
from frazil.upgrading.upgrade import upgrade
from tests.support.actions import Prepare

STEPS = frozenset(
    {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.utime", "fcntl.flock"}
)
"""What Python tells before it asks the system: every change of a directory, every lock."""


def die_at(step: int, root: Path) -> None:
    """Arrange that this process is killed just before its n-th use of the file system."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in STEPS or not is_ours(event, arguments, str(root)):
            return
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def is_ours(event: str, arguments: tuple[object, ...], root: str) -> bool:
    """Whether a step is one in the repository."""
    return event == "fcntl.flock" or str(arguments[0]).startswith(root)


def act_and_die(storage: LocalStorage, prepare: Prepare, step: int) -> None:
    """Do something, and be killed on the way."""
    act = prepare(Repository.open(storage))
    die_at(step, Path(storage.path))
    act()


def create_and_die(storage: LocalStorage, spec: int, step: int) -> None:
    """Create a repository, and be killed on the way."""
    die_at(step, Path(storage.path))
    Repository.create(storage, spec_version=spec)


def upgrade_and_die(storage: LocalStorage, to: int, step: int) -> None:
    """Upgrade an old repository, and be killed on the way."""
    context = context_of(Repository.open(storage))
    die_at(step, Path(storage.path))
    upgrade(context, to=to)
