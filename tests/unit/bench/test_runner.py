"""Rounds: all take their turns, and quick work is done several times in each."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from bench import page_cache
from bench.execution import QUICK_S, QUICK_TIMES, typical
from bench.model import SIZES, Action, Case, Contestant, Figures, Make, Party, Place, Timed, Unit
from bench.runner import Runner

ROUNDS = 3


def run(case: Case, folder: Path) -> dict[str, Figures]:
    runner = Runner(SIZES["small"], ROUNDS, folder)
    return {each.name: each for each in runner.run(case)}


def contest(ways: dict[str, Make], unit: Unit = Unit.SECONDS) -> Case:
    contestants = tuple(Contestant(name, Party.FRAZIL, make) for name, make in ways.items())
    return Case("case", "work", "theme", contestants, unit=unit)


@pytest.fixture(autouse=True)
def nothing_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(page_cache, "NBYTES", 0)


@pytest.mark.parametrize(
    ("unit", "value", "times"),
    [
        (Unit.SECONDS, QUICK_S / 2, QUICK_TIMES),
        (Unit.SECONDS, QUICK_S * 2, 1),
        (Unit.BYTES, QUICK_S / 2, 1),
    ],
    ids=["quick", "slow", "bytes"],
)
def test_only_quick_work_is_done_again(
    tmp_path: Path, unit: Unit, value: float, times: int
) -> None:
    done = count()

    def work() -> Timed:
        next(done)
        return Timed(value)

    found = run(contest({"a": lambda *_: work}, unit), tmp_path)
    assert next(done) == 1 + ROUNDS * times  # the first warms up
    assert found["a"].values == [value] * ROUNDS


def test_a_hiccup_of_quick_work_does_not_count(tmp_path: Path) -> None:
    values = iter([0.1, *[0.1, 9.0, 0.2] * ROUNDS])

    def make(_: Place, __: Place) -> Action:
        return lambda: Timed(next(values))

    assert run(contest({"a": make}), tmp_path)["a"].values == [0.2] * ROUNDS


def test_one_that_fails_is_left_out_and_others_go_on(tmp_path: Path) -> None:
    left = iter([0.1, 0.1])

    def failing(_: Place, __: Place) -> Action:
        return lambda: Timed(next(left))

    def steady(_: Place, __: Place) -> Action:
        return lambda: Timed(0.1)

    found = run(contest({"failing": failing, "steady": steady}), tmp_path)
    assert "StopIteration" in found["failing"].failure
    assert found["steady"].values == [0.1] * ROUNDS


@pytest.mark.parametrize(
    ("values", "left", "median"),
    [
        ([0.1, 9.0, 0.2, 0.3], [0.3], 0.2),
        ([QUICK_S, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1], QUICK_S),
    ],
    ids=["quick", "slow"],
)
def test_quick_work_alone_is_done_again_at_once(
    values: list[float], left: list[float], median: float
) -> None:
    assert typical(lambda: values.pop(0)) == median
    assert values == left
