"""The pure rules behind the pictures: axes of a map, strides of a view."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.drawing.cells import cells_of_chunks, map_axes
from frazil.errors import InvalidInputError
from frazil.web.chunk_maps import written_map
from frazil.web.settings import RequestLimits
from frazil.web.slices import SliceRequest, plan_view


@pytest.mark.parametrize(
    ("grid", "axes"),
    [((), (None, None)), ((5,), (None, 0)), ((4, 4), (0, 1)), ((12, 2, 3), (2, 0))],
)
def test_maps_show_the_axes_with_most_chunks(
    grid: tuple[int, ...], axes: tuple[int | None, int | None]
) -> None:
    found = map_axes(grid, 100)
    assert (found.y, found.x) == axes


def test_large_grids_are_binned() -> None:
    found = map_axes((1000, 300), 100, 0, 1)
    assert (found.rows, found.columns, found.bin_y, found.bin_x) == (100, 100, 10, 3)
    cells, shown = cells_of_chunks(np.array([[999, 299], [0, 0]]), found)
    assert cells.tolist() == [9999, 0]
    assert shown.all()


def test_the_newest_writer_of_a_cell_counts() -> None:
    axes = map_axes((3,), 10)
    chunks = np.array([[0], [1]])
    assert written_map([np.array([[1]]), chunks], chunks, axes) == [1, 0, -1]


def test_maps_refuse_axes_that_are_not_there() -> None:
    for y, x in ((0, 5), (1, 1)):
        with pytest.raises(InvalidInputError):
            map_axes((4, 4), 10, y, x)


def wish(most: int, shown: tuple[int, ...] = (1, 2), **windows: tuple[int, int]) -> SliceRequest:
    return SliceRequest(
        shown, {0: 3}, {int(key[1:]): value for key, value in windows.items()}, most
    )


def test_views_fit_the_screen() -> None:
    view = plan_view((10, 720, 1440), (1, 720, 1440), 4, wish(300), RequestLimits())
    assert [span.step for span in view.spans] == [1, 3, 5]
    assert [span.count for span in view.spans] == [1, 240, 288]


def test_views_read_no_more_than_they_may() -> None:
    shape, chunks = (1, 40_000, 40_000), (1, 1000, 1000)
    view = plan_view(shape, chunks, 4, wish(4096), RequestLimits(decoded_bytes=100_000_000))
    # Strides beyond the side of a chunk leave chunks out.
    touched = [min(span.count, 40) for span in view.spans[1:]]
    assert touched[0] * touched[1] * 4_000_000 <= 100_000_000
    assert view.cells >= 16


def test_windows_are_cut_to_the_array() -> None:
    view = plan_view((5, 6, 7), (5, 6, 7), 8, wish(100, a1=(4, 99), a2=(9, 12)), RequestLimits())
    assert view.spans[1].indices == range(4, 6)
    assert view.cells == 0


def test_a_chunk_beyond_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="one chunk"):
        plan_view((1, 10, 10), (1, 10, 10), 8, wish(10), RequestLimits(decoded_bytes=100))
