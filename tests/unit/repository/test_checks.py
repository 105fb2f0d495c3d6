"""Checks of changes: what they may answer, and what their report tells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.repository.checks import Check, as_checks, run_checks
from frazil.session import Session


@pytest.fixture
def session() -> Session:
    return frazil.Repository.create(frazil.in_memory_storage()).readonly_session("main")


def fails(_: object) -> None:
    raise AssertionError("it broke")


def fails_silently(_: object) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda _: None, ""),
        (lambda _: True, ""),
        (lambda _: "", ""),
        (lambda _: False, "it is not so"),
        (lambda _: 0, "it is not so"),
        (lambda _: "three rows are negative", "three rows are negative"),
        (fails, "it broke"),
        (fails_silently, "an assertion does not hold"),
    ],
)
def test_an_answer_passes_or_says_what_is_wrong(
    session: Session, run: Callable[[object], object], message: str
) -> None:
    (result,) = run_checks(session, as_checks([run])).results
    assert (result.passed, result.message) == (not message, message)


def test_all_checks_run_also_after_one_has_failed(session: Session) -> None:
    report = run_checks(session, as_checks([fails, Check(lambda _: True, "second")]))
    assert not report.passed
    assert [each.name for each in report.results] == ["fails", "second"]
    assert [each.name for each in report.failed] == ["fails"]
    told = report.as_metadata()
    assert told["audited_snapshot"] == session.snapshot_id
    assert [each["passed"] for each in told["checks"]] == [False, True]


def test_other_errors_are_the_callers(session: Session) -> None:
    with pytest.raises(ZeroDivisionError):
        run_checks(session, as_checks([lambda _: 1 / 0]))


def test_text_is_no_check() -> None:
    with pytest.raises(InvalidInputError, match=r"frazil\.spark\.staged"):
        as_checks(["SELECT 1"])  # type: ignore[list-item]
