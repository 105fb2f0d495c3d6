"""The pure rules behind the pictures: lanes of a graph, axes of a map, strides of a view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.merging.lineage import MERGE_PARENTS
from frazil.model.values import SnapshotInfo
from frazil.web.chunk_maps import map_axes, place, written_map
from frazil.web.history import Row, lay_out
from frazil.web.settings import Limits
from frazil.web.slices import Wish, plan_view

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def name(number: int) -> str:
    return str(SnapshotId(number.to_bytes(12, "big")))


def commit(number: int, *parents: int) -> SnapshotInfo:
    """A commit, made the later the higher its number."""
    metadata = {MERGE_PARENTS: [name(each) for each in parents]} if len(parents) > 1 else {}
    parent = name(parents[0]) if parents else None
    when = BEGIN + timedelta(hours=number)
    return SnapshotInfo(name(number), parent, when, str(number), dict(metadata))


def ends_of(rows: Sequence[Row]) -> None:
    """Whether every line that enters a row ends at its dot or goes on below."""
    lanes: dict[int, set[str]] = {}
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        assert all(begin >= 0 and end >= 0 for begin, end, _ in row.lines)
        if after is None:
            assert row.lines == ()
            break
        into = {end for _, end, _ in row.lines}
        onward = {begin for begin, _, _ in after.lines}
        assert into - {after.lane} <= onward, f"a line ends in the open above {after.snapshot.id}"
    assert lanes == {}


def test_a_line_of_commits_is_one_lane() -> None:
    rows = lay_out([commit(0), commit(1, 0), commit(2, 1)])
    assert [row.snapshot.message for row in rows] == ["2", "1", "0"]
    assert {row.lane for row in rows} == {0}
    assert [row.lines for row in rows] == [((0, 0, 1),), ((0, 0, 1),), ()]


def test_a_merge_has_two_lines_below_it() -> None:
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 1, 2)]
    rows = lay_out(history, name(3))
    assert [row.snapshot.message for row in rows] == ["3", "2", "1", "0"]
    assert rows[0].parents == (name(1), name(2))
    assert {(begin, end) for begin, end, _ in rows[0].lines} == {(0, 0), (0, 1)}
    assert [row.lane for row in rows] == [0, 1, 0, 0]
    ends_of(rows)


def test_main_keeps_the_first_lane_though_others_are_newer() -> None:
    rows = lay_out([commit(0), commit(1, 0), commit(2, 0)], name(1))
    assert {row.snapshot.message: row.lane for row in rows} == {"2": 1, "1": 0, "0": 0}
    ends_of(rows)


def test_parents_that_are_gone_draw_no_line() -> None:
    (row,) = lay_out([commit(5, 4)])
    assert row.lines == ()


def test_a_circle_of_damaged_parents_ends() -> None:
    assert lay_out([commit(1, 2), commit(2, 1)]) == []


def test_random_histories_have_no_loose_ends() -> None:
    rng = np.random.default_rng(7)
    history = [commit(0)]
    for number in range(1, 400):
        count = 2 if rng.random() < 0.25 and number > 2 else 1
        chosen = rng.choice(np.arange(max(0, number - 12), number), count, replace=False)
        history.append(commit(number, *(int(each) for each in chosen)))
    rows = lay_out(history)
    assert len(rows) == 400
    ends_of(rows)
    seen: set[str] = set()
    for row in rows:
        assert not seen & set(row.parents), "a parent stands above its child"
        seen.add(row.snapshot.id)


def test_ten_thousand_commits_are_laid_out_at_once() -> None:
    history = [commit(0)] + [
        commit(n, n - 1, n - 3) if n % 7 == 0 else commit(n, n - 1) for n in range(1, 10_000)
    ]
    begin = time.perf_counter()
    assert len(lay_out(history)) == 10_000
    assert time.perf_counter() - begin < 20  # a tenth of a second on a quiet machine


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
    cells, shown = place(np.array([[999, 299], [0, 0]]), found)
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


def wish(most: int, shown: tuple[int, ...] = (1, 2), **windows: tuple[int, int]) -> Wish:
    return Wish(shown, {0: 3}, {int(key[1:]): value for key, value in windows.items()}, most)


def test_views_fit_the_screen() -> None:
    view = plan_view((10, 720, 1440), (1, 720, 1440), 4, wish(300), Limits())
    assert [span.step for span in view.spans] == [1, 3, 5]
    assert [span.count for span in view.spans] == [1, 240, 288]


def test_views_read_no_more_than_they_may() -> None:
    shape, chunks = (1, 40_000, 40_000), (1, 1000, 1000)
    view = plan_view(shape, chunks, 4, wish(4096), Limits(decoded_bytes=100_000_000))
    # Strides beyond the side of a chunk leave chunks out.
    touched = [min(span.count, 40) for span in view.spans[1:]]
    assert touched[0] * touched[1] * 4_000_000 <= 100_000_000
    assert view.cells >= 16


def test_windows_are_cut_to_the_array() -> None:
    view = plan_view((5, 6, 7), (5, 6, 7), 8, wish(100, a1=(4, 99), a2=(9, 12)), Limits())
    assert view.spans[1].indices == range(4, 6)
    assert view.cells == 0


def test_a_chunk_beyond_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="one chunk"):
        plan_view((1, 10, 10), (1, 10, 10), 8, wish(10), Limits(decoded_bytes=100))
