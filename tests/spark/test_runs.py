"""Runs of places are the sets that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.reading import runs
from frazil.spark.reading.runs import Runs
from frazil.spark.reading.stored import numbers_of

LENGTH = 30
places = st.sets(st.integers(0, LENGTH - 1))
pairs = st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)))


def made(numbers: set[int]) -> Runs:
    return Runs.at(np.array(sorted(numbers), np.int64))


def told(found: Runs) -> set[int]:
    """The places; runs must be in order, not empty, and apart."""
    assert (found.starts < found.stops).all()
    assert (found.starts[1:] > found.stops[:-1]).all()
    numbers = found.numbers().tolist()
    assert numbers == sorted({*numbers})
    return {*numbers}


@settings(max_examples=300)
@given(places, places, st.integers(0, LENGTH + 2), st.integers(1, 9))
def test_runs_are_sets(one: set[int], other: set[int], count: int, size: int) -> None:
    first, second = made(one), made(other)
    assert told(first) == one
    assert bool(first) == bool(one)
    assert first.count == len(one)
    assert told(first & second) == one & other
    assert told(Runs.any_of([first, second])) == one | other
    assert told(first.outside(LENGTH)) == {*range(LENGTH)} - one
    assert told(first.first(count)) == {*sorted(one)[:count]}
    assert told(first.blocks(size)) == {number // size for number in one}
    mask = first.mask(LENGTH)
    assert {*np.flatnonzero(mask).tolist()} == one
    assert told(Runs.where(mask)) == one
    assert told(Runs.where(mask[3:], 3)) == one - {0, 1, 2}
    asked = np.arange(LENGTH + 2)
    assert first.before(asked).tolist() == [sum(n < at for n in one) for at in asked]
    assert {*numbers_of(first.places()).tolist()} == one
    pieces = [{*numbers_of(piece).tolist()} for piece in first.pieces(size)]
    assert one <= set().union(*pieces)
    assert all(len(piece & one) <= size for piece in pieces)
    assert sum(len(piece & one) for piece in pieces) == len(one)


@given(pairs)
def test_runs_may_come_in_any_order_and_overlap(given: list[tuple[int, int]]) -> None:
    assert told(Runs.of(given)) == {n for start, stop in given for n in range(start, stop)}


def test_steps_are_runs_of_one() -> None:
    assert told(Runs.every(range(2, 20, 5))) == {2, 7, 12, 17}
    assert told(Runs.every(range(2, 6))) == {2, 3, 4, 5}


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Runs.one(0, 1 << 50)
    with pytest.raises(InvalidInputError, match="choose fewer"):
        far.numbers()
    with pytest.raises(InvalidInputError, match="choose fewer"):
        far.mask(1 << 50)
    with pytest.raises(InvalidInputError, match="choose fewer"):
        Runs.every(range(0, 1 << 50, 2))
    monkeypatch.setattr(runs, "MOST_RUNS", 3)
    with pytest.raises(InvalidInputError, match="choose fewer"):
        Runs.of((n, n + 1) for n in range(0, 8, 2))
