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
from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SECONDS: Final = "FRAZIL_SOAK_SECONDS"
"""how long all tests of this process may take; what they share is what is left"""
SEED: Final = "FRAZIL_SOAK_SEED"
CASE: Final = "FRAZIL_SOAK_CASE"
REPORT: Final = "FRAZIL_SOAK_REPORT"
"""a file to which one line of JSON is written for each test"""
WITHOUT_SOAK_S: Final = 60.0
"""What a test takes that is run by hand."""
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
    failures: list[tuple[str, str]] = field(default_factory=list)

    def seeds(self) -> Iterator[str]:
        """Seeds without end, other ones in each run of `make soak`."""
        number = self.seed
        while True:
            yield str(number)
            number += 1

    def run(self, cases: Iterable[str], check: Callable[[str], object]) -> None:
        """Check cases until there are none, or no time is left; at least one is.

        Raises:
            pytest.fail.Exception: some have failed; the message has the first ones' reasons.
        """
        end = time.monotonic() + self.seconds
        traces: list[str] = []
        for case in cases if self.only is None else [self.only]:
            self.cases += 1
            try:
                check(case)
            except Exception as error:
                self.failures.append((case, f"{type(error).__name__}: {error}"[:WHY_LENGTH]))
                traces.append(f"--- {case}\n{traceback.format_exc()}")
            if time.monotonic() > end or len(traces) >= ENOUGH_FAILURES:
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

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        given = os.environ.get(SECONDS)
        self.end = None if given is None else time.monotonic() + float(given)
        self.left = sum("soak" in getattr(item, "fixturenames", ()) for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # Those that share the time begin all the same: they make at least one case each.
        if self.end is None or "soak" in getattr(item, "fixturenames", ()):
            return
        if time.monotonic() > self.end:
            pytest.skip("no time is left")

    @pytest.fixture
    def soak(self, request: pytest.FixtureRequest) -> Soak:
        """Time and seeds of one test."""
        seconds = WITHOUT_SOAK_S
        if self.end is not None:
            seconds = max(0.0, self.end - time.monotonic()) / max(1, self.left)
        self.left -= 1
        seed = int(os.environ.get(SEED, "0"))
        self.running[request.node.nodeid] = Soak(seconds, seed, os.environ.get(CASE))
        return self.running[request.node.nodeid]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = os.environ.get(REPORT)
        if not place or (report.when != "call" and report.passed):
            return
        soak = self.running.pop(report.nodeid, None)
        failures = soak.failures if soak else []
        if report.failed and not failures:
            failures = [("", str(report.longrepr).strip().splitlines()[-1][:WHY_LENGTH])]
        note = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "cases": soak.cases if soak else 1,
            "failures": failures,
        }
        with Path(place).open("a", encoding="utf-8") as out:
            out.write(json.dumps(note) + "\n")


def run_seeded(machine: type[RuleBasedStateMachine], number: int, *, steps: int) -> None:
    """Run a state machine for some examples that follow from a seed, and are forgotten then."""
    # A class of its own: the seed becomes an attribute of it.
    seeded = seed(number)(type(machine.__name__, (machine,), {}))
    run_state_machine_as_test(
        seeded,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=steps, deadline=None, database=None
        ),
    )
