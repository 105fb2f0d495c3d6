"""Checks of changes before they are published: what they get, what they answer, and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError
from frazil.session import Session

CheckFunction: TypeAlias = Callable[[Any], object]
"""The function of a check: takes a read-only session or a dataset, returns the verdict."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be true of what was written.

    `run` gets a read-only session or, with `takes="dataset"`, an xarray dataset of `group`.
    It passes when it returns None or something true. It fails when it returns something false,
    or a text, which says what is wrong, or when it raises an `AssertionError`.
    """

    run: CheckFunction
    name: str = ""
    takes: Literal["session", "dataset"] = "session"
    group: str | None = None

    @property
    def title(self) -> str:
        """The name of the check in reports."""
        return self.name or str(getattr(self.run, "__name__", "check"))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    passed: bool
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport(ReportView):
    """The results of all checks of one snapshot."""

    snapshot_id: str
    """the snapshot that was looked at"""
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Checks that failed."""
        return tuple(each for each in self.results if not each.passed)

    def as_metadata(self) -> dict[str, Any]:
        """The report as commit metadata holds it."""
        return {
            "passed": self.passed,
            "audited_snapshot": self.snapshot_id,
            "checks": [
                {
                    "name": each.name,
                    "passed": each.passed,
                    "message": each.message,
                    "seconds": round(each.seconds, 3),
                }
                for each in self.results
            ],
        }


def as_checks(given: Iterable[Check | CheckFunction]) -> tuple[Check, ...]:
    """Checks, some of which are given as plain functions.

    Raises:
        InvalidInputError: one is neither.
    """
    found = []
    for each in given:
        if not isinstance(each, Check) and not callable(each):
            raise InvalidInputError(
                f"a check must be a function or a Check, not {type(each).__name__}; texts of SQL "
                "are for frazil.spark.staged",
                kind=ErrorKind.INVALID_OPTION,
            )
        found.append(each if isinstance(each, Check) else Check(each))
    return tuple(found)


def run_checks(session: Session, checks: Iterable[Check]) -> AuditReport:
    """Run all checks on a snapshot, also after one has failed."""
    return AuditReport(session.snapshot_id, tuple(_run(session, each) for each in checks))


def _run(session: Session, check: Check) -> CheckResult:
    began = time.monotonic()
    try:
        detail = _verdict(check.run(_subject(session, check)))
    except AssertionError as error:
        detail = str(error) or "an assertion does not hold"
    return CheckResult(check.title, not detail, detail, time.monotonic() - began)


def _subject(session: Session, check: Check) -> object:
    if check.takes == "session":
        return session
    import xarray

    return xarray.open_zarr(session.store, group=check.group, consolidated=False, chunks=None)


def _verdict(answer: object) -> str:
    """What is wrong; empty if nothing is."""
    if answer is None:
        return ""
    if isinstance(answer, str):
        return answer
    return "" if bool(answer) else "it is not so"
