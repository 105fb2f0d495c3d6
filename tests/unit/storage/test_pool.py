"""Work in threads: its order, its failures, and work that starts more work."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from frazil.storage.pool import ahead, fan_out, shared, start_in_pool


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
        return sum(ahead(slow_square, range(number), 3)) + start_in_pool(lambda: number).result()

    assert fan_out(outer, range(40)) == [sum(k * k for k in range(n)) + n for n in range(40)]


@pytest.mark.parametrize("width", [1, 2, 5, 40])
def test_shared_work_is_done_once_each(width: int) -> None:
    assert sorted(shared(slow_square, range(20), width)) == [n * n for n in range(20)]


def test_shared_work_that_gives_nothing_is_done_too() -> None:
    done: list[int] = []
    assert [*shared(done.append, range(10), 3)] == [None] * 10
    assert sorted(done) == [*range(10)]


def test_shared_work_ends_early() -> None:
    begun: list[int] = []
    with closing(shared(begun.append, range(10_000), 4)) as results:
        next(results)
    count = len(begun)
    time.sleep(0.05)
    assert len(begun) == count


@pytest.mark.parametrize("width", [1, 3])
def test_a_failure_of_shared_work_is_raised_when_the_rest_has_ended(width: int) -> None:
    running: set[int] = set()

    def work(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        running.add(number)
        time.sleep(0.01)
        running.remove(number)
        return number

    with pytest.raises(ValueError, match="two"):
        list(shared(work, range(100), width))
    assert not running


def test_shared_work_waits_for_a_slow_caller() -> None:
    begun: list[int] = []
    with closing(shared(begun.append, range(100), 4)) as results:
        next(results)
        time.sleep(0.05)
        assert len(begun) <= 8
    assert len(begun) <= 8


def test_a_failure_of_the_items_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(shared(slow_square, items(), 2))


def test_quick_work_is_done_by_the_threads_that_begin() -> None:
    threads: set[int] = set()

    def work(_: int) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)

    assert len([*shared(work, range(40), 8, at_first=2, patience_s=30)]) == 40
    assert len(threads) <= 2


def test_threads_are_added_while_no_result_comes() -> None:
    """None of three ends before all have begun, though one begins alone."""
    meeting = threading.Barrier(3, timeout=30)
    found = shared(lambda _: meeting.wait(), range(3), 3, at_first=1, patience_s=0.005)
    assert sorted(found) == [0, 1, 2]


def test_no_more_threads_are_added_than_may_work() -> None:
    running: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        running.append(number)
        most.append(len(running))
        time.sleep(0.02)
        running.remove(number)

    list(shared(work, range(12), 2, at_first=1, patience_s=0.001))
    assert max(most) == 2


SLOW_CALLERS = """
import threading, time
from contextlib import closing
from frazil.storage.tuning import POOL_THREADS
from frazil.storage.pool import fan_out, shared

def consume():
    with closing(shared(lambda item: item, range(60), 4)) as results:
        for place, _ in enumerate(results):
            if place == 0:
                time.sleep(0.3)  # the helpers go as far ahead as they may
            fan_out(abs, [1, 2])

callers = [threading.Thread(target=consume) for _ in range(2 * POOL_THREADS // 4)]
for caller in callers:
    caller.start()
"""


def test_slow_callers_of_shared_work_do_not_keep_the_pool_from_each_other() -> None:
    """Each waits for the pool itself between results, when helpers of all are far enough ahead."""
    subprocess.run([sys.executable, "-c", SLOW_CALLERS], check=True, timeout=30)


NESTED = """
from frazil.storage.tuning import POOL_THREADS
from frazil.storage.pool import fan_out
assert fan_out(lambda n: fan_out(str, [n, n]), range(2 * POOL_THREADS))[3] == ["3", "3"]
"""


def test_work_in_a_full_pool_may_be_spread_further() -> None:
    """Who waited there for the pool would wait for ever."""
    subprocess.run([sys.executable, "-c", NESTED], check=True, timeout=30)
