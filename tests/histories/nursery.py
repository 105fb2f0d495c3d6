"""Starts the processes of one party, kills and halts them at random, and starts them again.

Run as `python -m tests.histories.nursery SETTINGS` in the environment of the party. What starts
no threads is loaded once, so that each process is a quick fork of this one. It ends by itself
when time is up or when whoever started it has gone.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.histories import operations
from tests.histories.actor import Actor, journal_of
from tests.histories.field import Field

GRACE_S: Final = 20.0
"""For operations that are under way when time is up."""
HALT_S: Final = 1.5
"""The longest time for which a process is halted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a nursery is told."""

    party: str
    module: str
    actors: tuple[int, ...]
    place: Mapping[str, str]
    spec: int | str
    count: int
    """of all processes of the run"""
    folder: str
    """where the journals are"""
    seconds: float
    seed: int
    kill_every_s: float
    """mean time between two kills of one process"""
    halt_every_s: float
    is_upgraded: bool = False

    @property
    def field(self) -> Field:
        """What the processes work on."""
        return Field(dict(self.place), self.spec, self.count, self.is_upgraded)


class Nursery:
    """The processes of a party."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rng = random.Random(f"{settings.seed} {settings.party}")
        self.deadline = time.monotonic() + settings.seconds
        self.parent = os.getppid()
        self.running: dict[int, int] = {}
        """process ids and the numbers of their actors"""
        self.halted: dict[int, float] = {}
        """halted processes, and when they go on"""
        if settings.module.startswith("frazil"):
            importlib.import_module(settings.module)  # the official package starts threads

    def run(self) -> int:
        """Until all have ended; returns the status of this process."""
        for number in self.settings.actors:
            self.start(number)
        while self.running:
            time.sleep(0.02)
            self.reap()
            late = time.monotonic() - self.deadline
            if os.getppid() != self.parent or late > GRACE_S:
                for each in [*self.running]:
                    self.kill(each)
            elif late < 0:
                self.disturb(0.02)
            self.resume(all_of=late >= 0)
        return 0

    def start(self, number: int) -> None:
        """Fork an actor."""
        life = self.rng.getrandbits(32)
        child = os.fork()
        if child == 0:
            os._exit(live(self.settings, number, life, self.deadline))
        self.running[child] = number

    def reap(self) -> None:
        """Note the dead, and start them again while there is time."""
        for child, number in [*self.running.items()]:
            found, status = os.waitpid(child, os.WNOHANG)
            if not found:
                continue
            del self.running[child]
            self.halted.pop(child, None)
            journal_of(Path(self.settings.folder), number, self.settings.party).died()
            if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
                if time.monotonic() < self.deadline:
                    self.start(number)
            elif status:
                raise RuntimeError(f"process {number} ended with {status}")

    def disturb(self, step_s: float) -> None:
        """Kill or halt somebody, once in a while."""
        for child in [*self.running]:
            if child in self.halted:
                continue
            drawn = self.rng.random()
            if drawn < step_s / self.settings.kill_every_s:
                self.kill(child)
            elif drawn > 1 - step_s / self.settings.halt_every_s:
                os.kill(child, signal.SIGSTOP)
                self.halted[child] = time.monotonic() + self.rng.uniform(0.05, HALT_S)

    def resume(self, *, all_of: bool) -> None:
        """Let the halted go on when their time has come."""
        now = time.monotonic()
        for child, until in [*self.halted.items()]:
            if all_of or until < now:
                os.kill(child, signal.SIGCONT)
                del self.halted[child]

    def kill(self, child: int) -> None:
        """End a process at once."""
        os.kill(child, signal.SIGKILL)


def live(settings: Settings, number: int, life: int, deadline: float) -> int:
    """The life of one process."""
    try:
        actor = Actor(
            number,
            settings.party,
            settings.module,
            settings.field,
            journal_of(Path(settings.folder), number, settings.party),
            random.Random(f"{settings.seed} {number} {life}"),
        )
        operations.run_until(actor, deadline)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def settings_from(text: str) -> Settings:
    """What the command line says."""
    facts: dict[str, Any] = json.loads(text)
    return Settings(**{**facts, "actors": tuple(facts["actors"])})


def argument(settings: Settings) -> str:
    """What to give on the command line."""
    return json.dumps(asdict(settings))


if __name__ == "__main__":
    sys.exit(Nursery(settings_from(sys.argv[1])).run())
