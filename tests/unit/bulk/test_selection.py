"""Selections cut along chunks: put together again they are what numpy selects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.bulk.grid import GridAxis
from frazil.bulk.selection import (
    AxisSelection,
    blocks_as_slices,
    cut_item,
    expanded,
)
from frazil.errors import SelectionError


@st.composite
def axes(draw: st.DrawFn) -> GridAxis:
    """Regular axes, and those of two runs of chunks."""
    length = draw(st.integers(0, 60))
    if draw(st.booleans()):
        return GridAxis(length, (draw(st.integers(1, 20)),))
    first, count, rest = draw(st.tuples(st.integers(1, 7), st.integers(1, 4), st.integers(1, 9)))
    return GridAxis(length, (first, rest), (0, count), (0, first * count))


def gathered(axis: GridAxis, cut: AxisSelection) -> list[int]:
    """The elements that a cut takes, chunk by chunk."""
    out = np.full(cut.items, -1)
    starts = axis.start_of(cut.chunks)
    for start, size, inside, place in zip(
        starts.tolist(), cut.sizes.tolist(), cut.in_chunk, cut.in_result, strict=True
    ):
        out[place] = np.arange(start, start + size)[inside]
    return out.tolist()


@given(axes(), st.data())
def test_slices(axis: GridAxis, data: st.DataObject) -> None:
    chosen = data.draw(st.slices(axis.length).filter(lambda one: (one.step or 1) > 0))
    cut = cut_item(axis, chosen)
    assert gathered(axis, cut) == list(range(axis.length))[chosen]
    for number, whole, covers in zip(cut.chunks, cut.is_whole, cut.covers, strict=True):
        elements = np.arange(axis.start_of(number[None])[0], axis.length)
        elements = elements[: int(axis.size_of(number[None])[0])]
        taken = set(elements.tolist()) <= set(range(axis.length)[chosen])
        assert bool(covers) == taken or (taken and (chosen.step or 1) > 1)
        assert not whole or covers


@given(axes().filter(lambda axis: axis.length > 0), st.data())
def test_indices_and_masks(axis: GridAxis, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(-axis.length, axis.length - 1), max_size=20))
    every = np.arange(axis.length)
    assert gathered(axis, cut_item(axis, indices)) == every[np.array(indices, int)].tolist()
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=axis.length, max_size=axis.length)))
    assert gathered(axis, cut_item(axis, mask)) == every[mask].tolist()
    one = data.draw(st.integers(-axis.length, axis.length - 1))
    cut = cut_item(axis, one)
    assert cut.is_dropped
    assert gathered(axis, cut) == [every[one]]


@pytest.mark.parametrize(
    "wrong", [10, -11, [10], [[1]], [1.5], [True], slice(None, None, -1), "a", True]
)
def test_what_selects_nothing_is_refused(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(SelectionError):
        cut_item(GridAxis(10, (3,)), wrong)


def test_missing_axes_are_taken_in_full() -> None:
    every = slice(None)
    assert expanded(1, 3) == (1, every, every)
    assert expanded((..., 1), 3) == (every, every, 1)
    assert expanded((0, ..., 1), 2) == (0, 1)
    for wrong in ((..., ...), (0, 0, 0)):
        with pytest.raises(SelectionError):
            expanded(wrong, 2)


def test_blocks_are_whole_chunks() -> None:
    grid = (GridAxis(10, (3,)), GridAxis(5, (5,)))
    assert blocks_as_slices(grid, -1) == (slice(9, 10), slice(0, 5))
    assert blocks_as_slices(grid, np.s_[1:3]) == (slice(3, 9), slice(0, 5))
    assert blocks_as_slices(grid, np.s_[2:2, 0]) == (slice(0, 0), slice(0, 5))
    for wrong in (4, -5, np.s_[::2], [0]):
        with pytest.raises(SelectionError):
            blocks_as_slices(grid, wrong)
