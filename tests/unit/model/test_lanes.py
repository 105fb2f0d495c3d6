"""The lanes of a history: every commit below its children, no line that ends in the open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from frazil.ids import SnapshotId
from frazil.model.lanes import GraphRow, lay_out
from frazil.model.lineage import MERGE_PARENTS
from frazil.model.values import SnapshotInfo

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def name(number: int) -> str:
    return str(SnapshotId(number.to_bytes(12, "big")))


def commit(number: int, *parents: int) -> SnapshotInfo:
    """A commit, made the later the higher its number."""
    metadata = {MERGE_PARENTS: [name(each) for each in parents]} if len(parents) > 1 else {}
    parent = name(parents[0]) if parents else None
    when = BEGIN + timedelta(hours=number)
    return SnapshotInfo(name(number), parent, when, str(number), dict(metadata))


def ends_of(rows: Sequence[GraphRow]) -> None:
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


def test_a_lane_kept_for_a_tip_is_drawn_once_a_merge_leads_there() -> None:
    # 4 merged the tip of main, 1, which comes two rows later.
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 2), commit(4, 3, 1)]
    rows = lay_out(history, name(1))
    assert [row.lane for row in rows] == [1, 1, 1, 0, 0]
    ends_of(rows)


def test_each_parent_has_the_lane_of_its_line() -> None:
    rows = lay_out([commit(0), commit(1, 0), commit(2, 0), commit(3, 1, 2)], name(3))
    assert [lane for lane, _ in rows[0].tracks] == [0, 1]
    assert all(len(row.tracks) == len(row.parents) for row in rows)
