"""One actor at work, and another one that does all of its own at a chosen storage call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from frazil.storage.pool import start_in_pool
from tests.races.actors import COMPETITORS, OPERATIONS, Actor
from tests.races.judging import Scene, judge
from tests.races.worlds import SPECS, Place, known_ids


@dataclass(frozen=True, slots=True)
class Case:
    """An operation, its competitor, and before which storage call that one comes (from 1)."""

    kind: str
    operation: str
    competitor: str
    call: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.operation}/{self.competitor}/{self.call}"

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case of a name."""
        kind, operation, competitor, call = text.split("/")
        return cls(kind, operation, competitor, int(call))

    @property
    def scene(self) -> Scene:
        """Who meets where."""
        return Scene(self.kind, (self.operation, self.competitor))


@cache
def pairs(kind: str) -> tuple[tuple[str, str], ...]:
    """Operations with their competitors in a kind of world."""
    return tuple(
        (operation.name, competitor)
        for operation in OPERATIONS.values()
        for competitor in dict.fromkeys((*chain(*COMPETITORS.values()), operation.name))
        if kind in operation.kinds and kind in OPERATIONS[competitor].kinds
    )


@cache
def alone(kind: str, operation: str) -> tuple[str, ...]:
    """The storage calls that an operation makes when nobody else is there."""

    def act() -> tuple[str, ...]:
        calls: list[str] = []
        _, (actor,) = Scene(kind, (operation,)).begin()
        actor.step = lambda call, _key: calls.append(call)
        actor.perform()
        assert actor.refusal is None, f"{operation} alone: {actor.refusal!r}"
        return tuple(calls)

    with known_ids(f"{kind} {operation}"):
        return start_in_pool(act).result()


def calls_of(kind: str, operation: str) -> int:
    """How many storage calls an operation makes."""
    return len(alone(kind, operation))


def telling_call(kind: str, operation: str) -> int:
    """The number of the call after which nothing can be taken back: others come just before.

    That is the last write under a condition, which publishes; where there is none, the first
    deletion, or the last call.
    """
    calls = [*alone(kind, operation)]
    if "put_if" in calls:
        return len(calls) - calls[::-1].index("put_if")
    return calls.index("delete") + 1 if "delete" in calls else len(calls)


def cases(kind: str) -> Iterator[Case]:
    """A competitor at every storage call of every operation."""
    for operation, competitor in pairs(kind):
        for call in range(1, calls_of(kind, operation) + 1):
            yield Case(kind, operation, competitor, call)


def every_case() -> Iterator[Case]:
    """Those of all kinds of worlds."""
    for kind in SPECS:
        yield from cases(kind)


def check(case: Case) -> list[str]:
    """What goes wrong, if anything."""
    # Inside the pool everything is done in line, so that calls have the same numbers each time.
    return start_in_pool(lambda: _check(case)).result()


def _check(case: Case) -> list[str]:
    with known_ids(str(case)):
        place, actors, order, at = _meet(case)
    bad = judge(case.scene, place, actors, order)
    outcome = ", ".join(map(str, actors))
    return [f"at {at} ({outcome}): {each}" for each in bad]


def _meet(case: Case) -> tuple[Place, list[Actor], tuple[int, ...], str]:
    """Let both act; tell also in which order their steps ended, and at which call they met."""
    place, actors = case.scene.begin()
    actor, competitor = actors
    calls = 0
    order: list[int] = []
    at = ""

    def step(operation: str, key: str) -> None:
        nonlocal calls, at
        calls += 1
        if calls == case.call:
            at = f"{operation} {key}"
            competitor.perform(lambda: order.append(1))

    actor.step = step
    actor.perform(lambda: order.append(0))
    if calls < case.call:
        competitor.perform(lambda: order.append(1))
    return place, actors, tuple(order), at
