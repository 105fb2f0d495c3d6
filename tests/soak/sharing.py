"""How time is told, shared among suites, and reported; rules without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.soak.suites import Suite

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_TIME: Final = re.compile(r"(\d+)([smh])")
GRACE_S: Final = 120.0
"""A suite that is so much over its time is ended: a test of it hangs, or heeds no time."""
SHOWN: Final = 5
"""Of so many failures of a suite the reasons are told, of the rest only how to see them again."""
LATE: Final = 0.1
"""By this part of the whole time may a case that is under way be late."""
GOALS_S: Final = 1800.0
"""In so much time, or more, suites with a goal are to reach it; in less, a part of it."""


def seconds_of(text: str) -> int:
    """`90s`, `30m`, `2h` or `1h30m` in seconds.

    Raises:
        ValueError: it is no time.
    """
    parts = _TIME.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no time such as 90s, 30m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def as_time(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def share(
    suite: Suite,
    waiting: Iterable[Suite],
    *,
    left_s: float,
    workers: int,
    busy_s: float,
) -> float:
    """How long a suite may run that begins now: its share, or longer if it needs more.

    Args:
        suite: the one that begins.
        waiting: those that have not begun.
        left_s: until the end of all.
        workers: how many suites run at once.
        busy_s: what the suites that run now may still take, together.
    """
    free = max(0.0, left_s * workers - busy_s)
    shares = suite.share + sum(one.share for one in waiting)
    return min(left_s, max(suite.least_s, free * suite.share / shares))


def goal(suite: Suite, whole_s: float) -> int:
    """How many inputs a suite is to try when all suites together have so much time."""
    return int(suite.goal * min(1.0, whole_s / GOALS_S))


def patience(seconds: float, *, left_s: float, whole_s: float) -> float:
    """After how long a suite is ended by force.

    Args:
        seconds: what it was given.
        left_s: until the end of all.
        whole_s: what all suites together were given.
    """
    return min(seconds + GRACE_S, left_s + LATE * whole_s)


@dataclass(frozen=True, slots=True)
class Failure:
    """One case that failed, and how to see it again."""

    test: str
    case: str
    why: str
    seed: int = 0
    """of the suite"""

    def replay(self) -> str:
        """The command that runs this case alone."""
        case = f"FRAZIL_SOAK_CASE='{self.case}' " if self.case else ""
        return (
            f"FRAZIL_SOAK_SEED={self.seed} {case}.venv/bin/python -m pytest -m soak"
            f" --hypothesis-seed={self.seed} '{self.test}'"
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a suite."""

    suite: str
    seconds: float
    tests: int
    skipped: int
    cases: int
    failures: tuple[Failure, ...]
    trouble: str = ""
    """why the suite itself did not end well"""
    note: str = ""
    """what did not run, though nothing is wrong"""
    inputs: int = 0
    """what was tried in all cases together, where that is counted"""
    goal: int = 0
    """inputs that were to be tried"""

    @property
    def is_good(self) -> bool:
        """Whether it ran, and nothing failed."""
        return not self.failures and not self.trouble

    @property
    def notes(self) -> str:
        """What else is to be told, in brackets."""
        inputs = f"{self.inputs:,} inputs" if self.inputs or self.goal else ""
        if self.inputs < self.goal:
            inputs = f"{self.inputs:,} of {self.goal:,} inputs"
        told = ", ".join(part for part in (inputs, self.note) if part)
        return f" ({told})" if told else ""


def table(results: Sequence[Result]) -> str:
    """What ran, how many cases, and what failed."""
    lines = [f"{'suite':<16}{'tests':>7}{'skipped':>9}{'cases':>10}{'time':>8}  outcome"]
    for one in results:
        outcome = one.trouble or (f"{len(one.failures)} failed" if one.failures else "good")
        outcome += one.notes
        lines.append(
            f"{one.suite:<16}{one.tests:>7,}{one.skipped:>9,}{one.cases:>10,}"
            f"{as_time(one.seconds):>8}  {outcome}"
        )
    for one in results:
        for number, failure in enumerate(one.failures):
            if number < SHOWN:
                lines += ["", f"{one.suite}: {failure.case or failure.test}", f"  {failure.why}"]
            lines.append(f"  {failure.replay()}")
    return "\n".join(lines)
