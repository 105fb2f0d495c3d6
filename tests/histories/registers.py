"""Is there an order of operations on one ref that explains every answer?

A ref, or a field of the repository's metadata, is one value that operations read and replace.
Each operation takes effect at one moment between its beginning and its end, or, if its outcome
is unknown, at any moment until it can no longer do so, or never. The search is that of Wing and
Gong, done one event at a time: it keeps every state the value may have, with the operations
that have taken effect but not ended yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.histories.records import Operation

ABSENT: Final = "absent"
GONE: Final = "deleted for good"
PRESENT: Final = "present"

State: TypeAlias = str
Config: TypeAlias = tuple[State, frozenset[int]]
"""a value, and who of those that still run has taken effect"""


@dataclass(frozen=True, slots=True)
class Step:
    """What an operation asks of a value, and what it makes of it."""

    operation: Operation
    fits: Callable[[State], bool]
    after: State | None = None
    """None for a read"""


@dataclass(frozen=True, slots=True)
class Unexplained:
    """The first operation that no order explains, and what the value could have been."""

    step: Step
    states: tuple[State, ...]


def is_at(*states: State) -> Callable[[State], bool]:
    """A step that needs one of some values."""
    wanted = frozenset(states)
    return wanted.__contains__


def is_there(state: State) -> bool:
    """Whether a ref exists."""
    return state not in (ABSENT, GONE)


def first_unexplained(steps: Iterable[Step], initial: State) -> Unexplained | None:
    """Look for an order of all steps; None says that there is one."""
    return _Search([*steps], initial).run()


class _Search:
    def __init__(self, steps: list[Step], initial: State) -> None:
        self.steps = steps
        self.configs: set[Config] = {(initial, frozenset())}
        self.reads: set[int] = set()
        self.moves: set[int] = set()

    def run(self) -> Unexplained | None:
        """Follow all events in the order of time."""
        begins = [(step.operation.began, 0, i) for i, step in enumerate(self.steps)]
        ends = [
            (step.operation.ended or 0.0, 1, i)
            for i, step in enumerate(self.steps)
            if step.operation.outcome in ("ok", "refused")
        ]
        never = [
            (step.operation.latest, 2, i)
            for i, step in enumerate(self.steps)
            if step.operation.latest is not None
        ]
        for _, event, number in sorted([*begins, *ends, *never]):
            if event == 0:
                self.begin(number)
            elif event == 2:
                self.give_up(number)
            elif problem := self.end(number):
                return problem
        return None

    def begin(self, number: int) -> None:
        """From now on a step may take effect; a read does so as soon as it fits."""
        if self.steps[number].after is None:
            self.reads.add(number)
            self.configs = {self.settled(config) for config in self.configs}
        else:
            self.moves.add(number)

    def give_up(self, number: int) -> None:
        """From now on a step of unknown outcome has taken effect or never will."""
        done_now = {each for config in self.configs for each in self.reached(config, number)}
        self.reads.discard(number)
        self.moves.discard(number)
        self.configs = {(state, done - {number}) for state, done in self.configs | done_now}

    def end(self, number: int) -> Unexplained | None:
        """Keep what is possible now that a step has taken effect for certain."""
        kept = {
            (state, done - {number})
            for config in self.configs
            for state, done in self.reached(config, number)
        }
        self.reads.discard(number)
        self.moves.discard(number)
        if not kept:
            states = tuple(sorted({state for state, _ in self.configs}))
            return Unexplained(self.steps[number], states)
        self.configs = kept
        return None

    def reached(self, config: Config, number: int) -> set[Config]:
        """Every configuration in which a step has taken effect, by as many others as needed."""
        found: set[Config] = set()
        seen = {config}
        todo = [config]
        while todo:
            state, done = current = todo.pop()
            if number in done:
                found.add(current)
                continue
            for other in self.moves - done:
                step = self.steps[other]
                if step.after is not None and step.fits(state):
                    new = self.settled((step.after, done | {other}))
                    if new not in seen:
                        seen.add(new)
                        todo.append(new)
        return found

    def settled(self, config: Config) -> Config:
        """The same after all reads that fit: to read at once never hurts."""
        state, done = config
        fitting = {read for read in self.reads - done if self.steps[read].fits(state)}
        return state, done | fitting
