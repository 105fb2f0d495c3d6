"""Maps of chunks: which axes they show, and in which cell a chunk is."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.drawing.cells import cells_of_chunks, map_axes
from frazil.errors import InvalidInputError


@pytest.mark.parametrize(
    ("grid", "y", "x"),
    [((), None, None), ((7,), None, 0), ((9, 2), 1, 0), ((2, 9), 0, 1), ((3, 1, 3), 0, 2)],
)
def test_the_longest_axes_are_shown_the_longer_one_across(
    grid: tuple[int, ...], y: int | None, x: int | None
) -> None:
    axes = map_axes(grid, 64)
    assert (axes.y, axes.x) == (y, x)


def test_many_chunks_share_a_cell() -> None:
    axes = map_axes((5, 100, 7), 10, fixed={0: 3, 1: 9})
    assert (axes.y, axes.x, axes.bin_x, axes.columns, axes.rows) == (2, 1, 10, 10, 7)
    assert axes.fixed == {0: 3}
    assert axes.total == 10
    coords = np.array([[3, 99, 6], [3, 0, 0], [2, 0, 0], [3, 100, 6]])
    cells, shown = cells_of_chunks(coords, axes)
    assert cells.tolist() == [69, 0]
    assert shown.tolist() == [True, True, False, False]


def test_axes_that_are_put_together_count() -> None:
    assert map_axes((5, 100, 7), 10).total == 50


@pytest.mark.parametrize(("y", "x"), [(0, 0), (2, 1), (0, -1)])
def test_axes_that_are_not_there(y: int, x: int) -> None:
    with pytest.raises(InvalidInputError):
        map_axes((3, 3), 64, y, x)
