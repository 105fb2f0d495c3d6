"""One function over many items in this process: order, errors, and how far it is."""

from __future__ import annotations

import threading
import time

import pytest

from frazil.progress import Progress
from frazil.run import AHEAD, LocalRunner, by_size, run_with_progress


@pytest.mark.parametrize("threads", [1, 4])
def test_answers_come_in_the_order_of_the_items(threads: int) -> None:
    def slow_at_first(item: int) -> int:
        time.sleep(0.05 if item == 0 else 0)
        return item * item

    assert [*LocalRunner(threads).run(slow_at_first, range(20))] == [(n, n * n) for n in range(20)]
    assert [*LocalRunner(threads).run(slow_at_first, [])] == []


def test_items_are_worked_on_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=30)
    assert len([*LocalRunner(3).run(lambda _: meeting.wait(), range(3))]) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_the_run(threads: int) -> None:
    begun = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    answers = []
    with pytest.raises(ValueError, match="three"):
        answers += [number for number, _ in LocalRunner(threads).run(work, range(1000))]
    assert max(begun) <= 3 + AHEAD * threads


def test_what_nobody_takes_is_not_begun() -> None:
    begun = []
    answers = LocalRunner(2).run(lambda item: begun.append(item), range(1000))
    next(answers)
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert len(begun) <= 2 * AHEAD


def test_progress_counts_what_items_stand_for() -> None:
    told: list[Progress] = []
    found = run_with_progress(
        LocalRunner(1), len, ["aa", "b"], told.append, "letters", counts=[2, 1]
    )
    assert dict(found) == {0: 2, 1: 1}
    assert told == [Progress("letters", done, 3) for done in (0, 2, 3)]


def test_neighbours_are_put_together_by_size() -> None:
    assert [*by_size([5, 5, 20, 1, 1, 1], 10)] == [
        range(2),
        range(2, 3),
        range(3, 6),
    ]
    assert [*by_size([1] * 5, 10, most=2)] == [range(2), range(2, 4), range(4, 5)]
    assert [*by_size([], 10)] == []
