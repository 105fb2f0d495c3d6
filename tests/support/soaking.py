"""Time and seeds for tests marked `soak`, and notes of what they did; `make soak` gives them.

A test that can go on for ever takes the fixture `soak` and runs its cases with it:

    def test_that_nothing_is_lost(soak: Soak) -> None:
        soak.run(soak.seeds(), lambda seed: try_once(int(seed)))

A case is a text: a seed, or the name of an item of a list. The cases go on after a failure, so
that one run tells them all, and `FRAZIL_SOAK_CASE=<case>` runs that one again.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SECONDS: Final = "FRAZIL_SOAK_SECONDS"
"""how long all tests of this process may take; what they share is what is left"""
UNTIL: Final = "FRAZIL_SOAK_UNTIL"
"""when they end at the latest, as the machine's clock has it: to start takes time as well"""
SEED: Final = "FRAZIL_SOAK_SEED"
CASE: Final = "FRAZIL_SOAK_CASE"
GOAL: Final = "FRAZIL_SOAK_GOAL"
"""inputs after which a test ends before its time; 0 if there is no such number"""
REPORT: Final = "FRAZIL_SOAK_REPORT"
"""a file to which one line of JSON is written for each test"""
WITHOUT_SOAK_S: Final = 60.0
"""What a test takes that is run by hand."""
BEGUN: Final = "begun"
"""the outcome in the note of a test that has just begun"""
ENOUGH_FAILURES: Final = 20
WHY_LENGTH: Final = 400
EXAMPLES: Final = 2
"""So few for one seed of a state machine, that the time is looked at often."""


@dataclass(slots=True)
class Soak:
    """What one test may use, and what it did with it."""

    seconds: float
    seed: int
    only: str | None = None
    cases: int = 0
    goal: int = 0
    inputs: int = 0
    """what was tried in the cases, where one tries many; the test counts it"""
    failures: list[tuple[str, str]] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until the time of this test is over."""
        return self.begun + self.seconds - time.monotonic()

    def seeds(self) -> Iterator[str]:
        """Seeds without end, other ones in each run of `make soak`."""
        number = self.seed
        while True:
            yield str(number)
            number += 1

    def run(self, cases: Iterable[str], check: Callable[[str], object]) -> None:
        """Check cases until there are none, or no time for one more is left; at least one is.

        Raises:
            pytest.fail.Exception: some have failed; the message has the first ones' reasons.
        """
        self.begun = time.monotonic()
        traces: list[str] = []
        for case in cases if self.only is None else [self.only]:
            self.cases += 1
            try:
                check(case)
            except Exception as error:
                self.failures.append((case, f"{type(error).__name__}: {error}"[:WHY_LENGTH]))
                traces.append(f"--- {case}\n{traceback.format_exc()}")
            one = (time.monotonic() - self.begun) / self.cases
            is_done = 0 < self.goal <= self.inputs
            if is_done or self.left < one or len(traces) >= ENOUGH_FAILURES:
                break
        if traces:
            told = "\n".join(traces[:3])
            pytest.fail(f"{len(traces)} of {self.cases} cases failed\n{told}", pytrace=False)


class SoakPlugin:
    """Shares the time of the process among its tests and writes the notes."""

    def __init__(self) -> None:
        self.end: float | None = None
        self.left = 0
        self.running: dict[str, Soak] = {}
        self.took: dict[str, float] = {}
        """how long the slowest test of a function took"""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        seconds, until = os.environ.get(SECONDS), os.environ.get(UNTIL)
        ends = [] if seconds is None else [time.monotonic() + float(seconds)]
        ends += [] if until is None else [time.monotonic() + float(until) - time.time()]
        self.end = min(ends, default=None)
        self.left = sum("soak" in getattr(item, "fixturenames", ()) for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.end is None:
            return
        left = self.end - time.monotonic()
        # Tests of one function, with other parameters, take about as long as each other.
        if left < self.took.get(_function(item.nodeid), 0.0):
            pytest.skip("no time is left")
        self._note({"test": item.nodeid, "outcome": BEGUN})

    @pytest.fixture
    def soak(self, request: pytest.FixtureRequest) -> Soak:
        """Time and seeds of one test."""
        seconds = WITHOUT_SOAK_S
        if self.end is not None:
            seconds = max(0.0, self.end - time.monotonic()) / max(1, self.left)
        self.left -= 1
        seed = int(os.environ.get(SEED, "0"))
        goal = int(os.environ.get(GOAL, "0"))
        self.running[request.node.nodeid] = Soak(seconds, seed, os.environ.get(CASE), goal=goal)
        return self.running[request.node.nodeid]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _function(report.nodeid)
        if report.nodeid not in self.running:  # others take what time they get
            self.took[name] = max(self.took.get(name, 0.0), report.duration)
        if report.when != "call" and report.passed:
            return
        soak = self.running.pop(report.nodeid, None)
        failures = soak.failures if soak else []
        if report.failed and not failures:
            failures = [("", str(report.longrepr).strip().splitlines()[-1][:WHY_LENGTH])]
        note = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "cases": soak.cases if soak else 1,
            "inputs": soak.inputs if soak else 0,
            "failures": failures,
        }
        self._note(note)

    @staticmethod
    def _note(note: dict[str, object]) -> None:
        place = os.environ.get(REPORT)
        if place:
            with Path(place).open("a", encoding="utf-8") as out:
                out.write(json.dumps(note) + "\n")


def _function(test: str) -> str:
    return test.partition("[")[0]


def run_seeded(machine: type[RuleBasedStateMachine], number: int, *, steps: int) -> None:
    """Run a state machine for some examples that follow from a seed, and are forgotten then.

    A failure is made small, which takes minutes, only when it is run again alone.
    """
    phases = [*Phase] if os.environ.get(CASE) else [Phase.generate]
    # A class of its own: the seed becomes an attribute of it.
    seeded = seed(number)(type(machine.__name__, (machine,), {}))
    run_state_machine_as_test(
        seeded,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=phases,
        ),
    )
