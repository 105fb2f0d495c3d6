"""Curves: how often each point is measured."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from bench.execution import QUICK_S, QUICK_TIMES
from bench.growth import FRAZIL, Field
from bench.model import SIZES, Action, Curve, Party, Place, Timed, Unit


@pytest.mark.parametrize(
    ("rounds", "value", "times"),
    [
        (3, QUICK_S / 2, 3 * QUICK_TIMES),
        (3, QUICK_S * 2, 3),
        (1, QUICK_S / 2, 1),
        (1, QUICK_S * 2, 1),
    ],
)
def test_work_of_one_round_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, value: float, times: int
) -> None:
    monkeypatch.setattr("os.sync", lambda: None)
    done = count()

    def measure(_: Party, __: Place, ___: Place) -> Action:
        def work() -> Timed:
            next(done)
            return Timed(value)

        return work

    field = Field(SIZES["small"], 3, tmp_path, count())
    curve = Curve("curve", "work", "snapshots", Unit.SECONDS)
    field.compare(curve, 10, measure, {FRAZIL: field.scratch()}, rounds)
    assert next(done) == times
