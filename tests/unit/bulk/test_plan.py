"""Plans of selections: chunk by chunk they take what numpy takes, and know what is whole."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.arrays import Array
from frazil.bulk.grid import Grid, GridAxis, regular_grid
from frazil.bulk.plan import ChunkPlan, ListPlan, box_plan, point_plan
from frazil.errors import SelectionError

SHAPE, CHUNKS = (10, 7), (4, 3)
GRID = regular_grid(SHAPE, CHUNKS)
VALUES = np.arange(70).reshape(SHAPE)


def chunk_at(coords: Array, grid: Grid = GRID, values: Array = VALUES) -> Array:
    """A chunk with its full shape; -1 beyond the end of the array."""
    starts = [int(axis.start_of(c[None])[0]) for axis, c in zip(grid, coords, strict=True)]
    sizes = [int(axis.size_of(c[None])[0]) for axis, c in zip(grid, coords, strict=True)]
    part = values[tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))]
    padding = [(0, n - have) for n, have in zip(sizes, part.shape, strict=True)]
    return np.pad(part, padding, constant_values=-1)


def gathered(plan: ChunkPlan, out: Array) -> Array:
    """What a plan takes of all its chunks, each put to its place."""
    for row, coords in enumerate(plan.coords(range(plan.count))):
        chunk = chunk_at(coords)
        assert plan.shape(row) == chunk.shape
        assert all(n <= most for n, most in zip(chunk.shape, plan.largest, strict=True))
        plan.put(row, chunk, out)
    return out


def slices(length: int) -> st.SearchStrategy[slice]:
    return st.slices(length).filter(lambda one: (one.step or 1) > 0)


@given(slices(10), slices(7))
def test_boxes_take_what_numpy_takes(rows: slice, columns: slice) -> None:
    plan = box_plan(GRID, (rows, columns))
    out = np.full(plan.full_shape, -9)
    expected = VALUES[rows, columns]
    assert plan.result_shape == expected.shape
    np.testing.assert_array_equal(gathered(plan, out), expected)


@given(
    st.lists(st.integers(-10, 9), min_size=1, max_size=6),
    st.lists(st.integers(-7, 6), min_size=1, max_size=6),
)
def test_indices_along_several_axes_are_crossed(rows: list[int], columns: list[int]) -> None:
    plan = box_plan(GRID, (rows, columns))
    found = gathered(plan, np.full(plan.full_shape, -9))
    np.testing.assert_array_equal(found, VALUES[np.ix_(rows, columns)])


def test_an_axis_selected_by_a_number_is_not_in_the_result() -> None:
    plan = box_plan(GRID, (-1, slice(2, 5)))
    assert (plan.full_shape, plan.result_shape, plan.count) == ((1, 3), (3,), 2)
    assert gathered(plan, np.zeros((1, 3), int)).tolist() == [VALUES[-1, 2:5].tolist()]


def test_nothing_selected_touches_no_chunk() -> None:
    plan = box_plan(GRID, (slice(3, 3), slice(None)))
    assert (plan.count, plan.result_shape, plan.run_length) == (0, (0, 7), 3)
    assert plan.coords(range(0)).shape == (0, 2)


def test_a_scalar_is_one_chunk_without_coordinates() -> None:
    plan = box_plan((), ...)
    assert (plan.count, plan.result_shape, plan.largest, plan.run_length) == (1, (), (), 1)
    assert plan.coords(range(1)).shape == (1, 0)
    out = np.zeros((), int)
    count, places = plan.run(range(1), out) or (0, out)
    assert count == 1
    assert places.shape == (1,)
    assert np.shares_memory(places, out)


def test_chunks_that_the_end_of_the_array_cuts_are_covered_but_not_whole() -> None:
    plan = box_plan(GRID, (slice(0, 10), slice(1, 7)))
    out = np.zeros(plan.full_shape, int)
    seen = {
        tuple(coords.tolist()): (plan.covers(row), plan.run(range(row, row + 1), out) is not None)
        for row, coords in enumerate(plan.coords(range(plan.count)))
    }
    assert seen == {
        **{(row, 0): (False, False) for row in range(3)},  # its first column is not taken
        (0, 1): (True, True),
        (1, 1): (True, True),
        (2, 1): (True, False),
        **{(row, 2): (True, False) for row in range(3)},
    }


@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_runs_of_whole_chunks_are_views_of_their_places(sizes: tuple[int, ...]) -> None:
    last = GridAxis(12, sizes, (0, 2)[: len(sizes)], (0, 6)[: len(sizes)])
    plan = box_plan((GridAxis(4, (2,)), last), ...)
    out = np.arange(48).reshape(4, 12)
    count, places = plan.run(range(plan.count), out) or (0, out)
    assert count == (4 if len(sizes) == 1 else 2)
    assert places.shape == (count, 2, 3)
    assert np.shares_memory(places, out)
    for number in range(count):
        np.testing.assert_array_equal(places[number], out[:2, 3 * number : 3 * number + 3])
    assert (plan.run(range(1, 2), out) or (0,))[0] == 1  # no more than were asked for


def test_the_places_of_a_box_of_chunks() -> None:
    out = np.arange(24).reshape(4, 6)
    places = box_plan(regular_grid((4, 6), (2, 3)), ...).box(range(4), out)
    assert places is not None
    assert places.shape == (2, 2, 2, 3)
    np.testing.assert_array_equal(places[1, 0], out[2:, :3])
    partial = box_plan(regular_grid((4, 6), (2, 3)), slice(1, 4))
    assert partial.box(range(4), out[1:]) is None
    rest = partial.box(range(2, 4), out[1:])
    assert rest is not None
    np.testing.assert_array_equal(rest[0], np.stack([out[2:, :3], out[2:, 3:]]))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_a_box_is_a_view_of_whole_chunks_and_as_large_as_can_be(
    axes: list[tuple[int, int]], data: st.DataObject
) -> None:
    shape, sizes = zip(*axes, strict=True)
    plan = box_plan(regular_grid(shape, sizes), ...)
    first = data.draw(st.integers(0, plan.count - 1))
    rows = range(first, data.draw(st.integers(first + 1, plan.count)))
    out = np.arange(prod(shape)).reshape(shape)
    run, box = plan.run(rows, out), plan.box(rows, out)
    if run is None or box is None:
        assert run is None
        assert box is None
        return
    count = prod(box.shape[: len(shape)])
    assert run[0] <= count <= len(rows)
    assert box.shape[len(shape) :] == sizes
    assert np.shares_memory(box, out)
    for number, chunk in enumerate(box.reshape(-1, *sizes)):
        np.testing.assert_array_equal(chunk, out[plan.parts(first + number)[1]])
    if all(n % size == 0 for n, size in axes) and rows == range(plan.count):
        assert count == plan.count


@given(st.lists(st.tuples(st.integers(-10, 9), st.integers(-7, 6)), max_size=12))
def test_points_come_in_the_order_of_the_caller(points: list[tuple[int, int]]) -> None:
    rows, columns = (np.array([p[axis] for p in points], int) for axis in (0, 1))
    plan, shape = point_plan(GRID, (rows, columns))
    assert shape == (len(points),)
    found = gathered(plan, np.full(len(points), -9))
    assert found.tolist() == VALUES[rows, columns].tolist()
    coords = [tuple(row) for row in plan.coords(range(plan.count)).tolist()]
    assert coords == sorted({*coords})  # each chunk once


def test_points_by_a_mask_and_by_arrays_that_fit_together() -> None:
    mask = VALUES % 9 == 0
    plan, shape = point_plan(GRID, mask)
    assert shape == (int(mask.sum()),)
    assert gathered(plan, np.zeros(shape, int)).tolist() == VALUES[mask].tolist()
    plan, shape = point_plan(GRID, (np.array([[1], [9]]), np.array([0, 6])))
    assert shape == (2, 2)
    assert gathered(plan, np.zeros(4, int)).tolist() == [7, 13, 63, 69]


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        (np.ones((7, 10), bool), "shape of the array"),
        ((np.array([1]),), "each axis"),
        ((np.array([1]), slice(None)), "each axis"),
        ((np.array([1.0]), np.array([1])), "integers"),
        ((np.array([True]), np.array([1])), "integers"),
        ((np.array([1, 2]), np.array([1, 2, 3])), "do not fit together"),
        ((np.array([10]), np.array([0])), "out of bounds"),
        ((np.array([0]), np.array([-8])), "out of bounds"),
    ],
)
def test_points_that_are_no_points_are_refused(selection: Any, problem: str) -> None:  # noqa: ANN401
    with pytest.raises(SelectionError, match=problem):
        point_plan(GRID, selection)


def listed(*columns: int, whole: tuple[bool, ...] | None = None) -> ListPlan:
    """Chunks of (2, 3) of the first row of a grid, as zarr lists them."""
    return ListPlan(
        np.array([[0, c] for c in columns]),
        (2, 3),
        [np.s_[0:2, 0:3]] * len(columns),
        [np.s_[0:2, 3 * c : 3 * c + 3] for c in columns],
        whole or (True,) * len(columns),
    )


def test_neighbours_in_a_list_are_one_run() -> None:
    out = np.arange(24).reshape(2, 12)
    for plan, expected in (
        (listed(0, 1, 2, 3), 4),
        (listed(0, 1, 3), 2),
        (listed(1, 0), 1),
        (listed(0, 1, 2, whole=(True, True, False)), 2),
    ):
        count, places = plan.run(range(plan.count), out) or (0, out)
        assert count == expected
        assert np.shares_memory(places, out)
        first = int(plan.coords(range(1))[0, 1])
        np.testing.assert_array_equal(places[0], out[:, 3 * first : 3 * first + 3])
    assert listed(0, whole=(False,)).run(range(1), out) is None


def test_selections_by_arrays_are_no_run_because_they_are_copies() -> None:
    plan = ListPlan(np.array([[0, 0]]), (2, 3), [...], [np.ix_([0, 1], [0, 1, 2])], [True])
    assert plan.run(range(1), np.zeros((2, 12))) is None


def test_some_chunks_of_a_list_keep_their_order_and_flags() -> None:
    plan = listed(0, 1, 2, whole=(True, False, True)).take([2, 1])
    assert plan.coords(range(plan.count)).tolist() == [[0, 2], [0, 1]]
    assert [plan.covers(row) for row in range(2)] == [True, False]
    assert plan.parts(0)[1] == np.s_[0:2, 6:9]


def test_axes_that_the_result_lacks_are_squeezed_out() -> None:
    plan = ListPlan(
        np.array([[0, 0]]), (4, 3), [np.ix_([2], [0, 2])], [np.s_[1:3]], [False], drop_axes=(0,)
    )
    out = np.zeros(3, int)
    plan.put(0, chunk_at(np.array([0, 0])), out)
    assert out.tolist() == [0, 14, 16]
    plan.fill(0, 5, out)
    assert out.tolist() == [0, 5, 5]
