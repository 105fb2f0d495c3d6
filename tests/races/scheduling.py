"""Several actors, each in its thread, of which one runs at a time; a schedule says which.

They change over at storage calls only, and a schedule follows from its seed, so that a run can
be had again exactly. Two kinds of schedules: a random walk, and one by priorities that change a
few times, which meets with good odds what takes few but far apart changes ("A Randomized
Scheduler with Probabilistic Guarantees of Finding Bugs", Burckhardt and others, 2010).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import pytest

from frazil.storage.pool import start_in_pool
from tests.races.actors import OPERATIONS, Actor
from tests.races.judging import Scene, judge
from tests.races.worlds import Place, known_ids

PATIENCE_S: Final = 100.0
"""An actor that waits so long waits for another one that holds a lock and may not run."""
CHANGES: Final = 3
EXPECTED_STEPS: Final = 120
SOME_KINDS: Final = ("v1", "v1", "v2", "v2", "v2-remote", "g1", "g2", "g3")
"""Spec 1 and 2 more often than those before them."""


class StuckError(BaseException):
    """An actor waits for another one in some other way than for its turn; no refusal."""


class Policy(Protocol):
    """Says who goes on."""

    def choose(self, current: int | None, ready: Sequence[int]) -> int:
        """One of those that can go on; `current` is who ran last."""


@dataclass(slots=True)
class Walk:
    """Anybody may be next; the smaller `change`, the longer one goes on."""

    numbers: random.Random
    change: float

    def choose(self, current: int | None, ready: Sequence[int]) -> int:
        if current in ready and self.numbers.random() > self.change:
            assert current is not None
            return current
        return self.numbers.choice(ready)


@dataclass(slots=True)
class Priorities:
    """The first of a list goes on; a few times it is put to the end."""

    numbers: random.Random
    actors: int
    _order: list[int] = field(init=False)
    _changes: set[int] = field(init=False)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._order = self.numbers.sample(range(self.actors), self.actors)
        self._changes = set(self.numbers.sample(range(EXPECTED_STEPS), CHANGES))

    def choose(self, current: int | None, ready: Sequence[int]) -> int:
        self._steps += 1
        if self._steps in self._changes and current is not None:
            self._order.remove(current)
            self._order.append(current)
        return next(one for one in self._order if one in ready)


class Turns:
    """Lets one of several threads run; each waits until it is its turn."""

    def __init__(self, count: int, policy: Policy) -> None:
        self._policy = policy
        self._ready = [*range(count)]
        self._gates = [threading.Semaphore(0) for _ in range(count)]

    def start(self) -> None:
        """Let the first one run."""
        self._gates[self._next(None)].release()

    def wait(self, position: int) -> None:
        """Wait for the first turn, or for the next one."""
        if not self._gates[position].acquire(timeout=PATIENCE_S):
            raise StuckError(f"actor {position} waits in vain")

    def step(self, position: int) -> None:
        """Somebody else may go on instead."""
        chosen = self._next(position)
        if chosen != position:
            self._gates[chosen].release()
            self.wait(position)

    def end(self, position: int) -> None:
        """Let another one run, for good."""
        self._ready.remove(position)
        if self._ready:
            self._gates[self._next(position)].release()

    def _next(self, current: int | None) -> int:
        return self._policy.choose(current, self._ready)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Who meets, and who runs when: all of it follows from a seed."""

    seed: int
    scene: Scene
    policy: str

    @classmethod
    def of(cls, seed: int, kinds: Sequence[str] = SOME_KINDS) -> Schedule:
        """The schedule of a seed."""
        numbers = random.Random(seed)
        kind = numbers.choice(kinds)
        names = [one.name for one in OPERATIONS.values() if kind in one.kinds]
        chosen = numbers.choices(names, k=numbers.choice((2, 2, 3)))
        return cls(seed, Scene(kind, tuple(chosen)), numbers.choice(("walk", "priorities")))

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.scene} by {self.policy}"

    def turns(self) -> Turns:
        """Turns in the order that the seed gives."""
        numbers = random.Random(f"turns {self.seed}")
        count = len(self.scene.operations)
        if self.policy == "walk":
            return Turns(count, Walk(numbers, numbers.choice((0.05, 0.2, 0.6))))
        return Turns(count, Priorities(numbers, count))


def check(schedule: Schedule) -> list[str]:
    """What goes wrong, if anything."""
    with known_ids(f"schedule {schedule.seed}"):
        place, actors, order, _ = play(schedule)
    bad = start_in_pool(lambda: judge(schedule.scene, place, actors, order)).result()
    outcome = ", ".join(map(str, actors))
    return [f"{schedule} ({outcome}): {each}" for each in bad]


@contextmanager
def without_locks_of_properties() -> Iterator[None]:
    """Cached properties that do not wait for each other.

    Until Python 3.11 a cached property of one object waits while that of another one is being
    computed. Computing some of them takes storage calls, where an actor may have to wait.
    """

    def get(
        self: cached_property[Any], instance: object | None, owner: type | None = None
    ) -> object:
        if instance is None:
            return self
        assert self.attrname is not None
        known = vars(instance)
        if self.attrname not in known:
            known[self.attrname] = self.func(instance)
        return known[self.attrname]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_property, "__get__", get)
        yield


def play(schedule: Schedule) -> tuple[Place, list[Actor], tuple[int, ...], list[str]]:
    """Let all act; tell also in which order their steps ended, and every call."""
    place, actors = start_in_pool(schedule.scene.begin).result()
    turns = schedule.turns()
    order: list[int] = []
    trace: list[str] = []

    def act(position: int, actor: Actor) -> None:
        def step(operation: str, key: str) -> None:
            turns.step(position)
            trace.append(f"{position} {operation} {key}")

        turns.wait(position)
        actor.step = step
        try:
            actor.perform(lambda: order.append(position))
        finally:
            turns.end(position)

    # Inside the pool everything is done in line: all calls of an actor come from its thread.
    threads = [start_in_pool(lambda p=p, a=a: act(p, a)) for p, a in enumerate(actors)]  # type: ignore[misc]
    with without_locks_of_properties():
        turns.start()
        wait(threads)
    for thread in threads:
        thread.result()
    return place, actors, tuple(order), trace
