"""Work in threads: its order, its failures, and work that starts more work."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from frazil.storage.base import ahead, begin, fan_out


def slow_square(number: int) -> int:
    """Later numbers are quicker."""
    time.sleep(0.01 / (number + 1))
    return number * number


@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_results_come_in_order(width: int) -> None:
    assert [*ahead(slow_square, range(20), width)] == [n * n for n in range(20)]


def test_no_more_is_begun_than_allowed() -> None:
    begun: list[int] = []
    with closing(ahead(begun.append, range(100), 4)) as results:
        next(results)
        time.sleep(0.02)
        assert len(begun) <= 4
    assert len(begun) <= 4


def test_a_failure_is_raised_once_what_has_begun_is_over() -> None:
    running = threading.Semaphore(0)

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("one")
        time.sleep(0.05)
        running.release()
        return number

    with pytest.raises(ValueError, match="one"):
        list(ahead(work, range(3), 3))
    assert running.acquire(blocking=False)
    assert running.acquire(blocking=False)


def test_work_in_the_pool_may_start_work() -> None:
    def outer(number: int) -> int:
        return sum(ahead(slow_square, range(number), 3)) + begin(lambda: number).result()

    assert fan_out(outer, range(40)) == [sum(k * k for k in range(n)) + n for n in range(40)]
