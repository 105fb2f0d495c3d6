"""Many at once: fifty readers get right answers, more than the server takes on are told so."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import psutil
import pytest

from frazil.web.settings import RequestLimits
from frazil.web.work import KEPT, PENDING, BusyError, Workers
from tests.web.samples import temperature
from tests.web.test_pages import values

READERS = 50
MINUTE = 60.0


def read_all(site: str, client: httpx.Client, day: int) -> None:
    """Ask for values and pages; all of them must be right."""
    _, cells = values(f"{site}/r/ocean/api/values", v="v1", path="/sst", i0=day)
    np.testing.assert_array_equal(cells, temperature(day))
    for page in ("history", "tree?v=v1", "api/graph", "array?path=/sst"):
        assert client.get(f"{site}/r/ocean/{page}").status_code == 200


@pytest.mark.slow
def test_fifty_readers_get_what_they_ask_for(site: str) -> None:
    def read(reader: int) -> None:
        with httpx.Client(timeout=60) as client:
            read_all(site, client, reader % 14)

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, range(READERS)))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_fifty_readers_for_a_minute_in_bounded_memory(site: str) -> None:
    process, turns = psutil.Process(), [0] * READERS

    def read(reader: int) -> None:
        with httpx.Client(timeout=120) as client:
            while time.monotonic() < until:
                read_all(site, client, (reader + turns[reader]) % 14)
                turns[reader] += 1

    with ThreadPoolExecutor(READERS) as pool:
        until = time.monotonic() + MINUTE / 4
        list(pool.map(read, range(READERS)))
        warm = process.memory_info().rss
        until = time.monotonic() + MINUTE
        list(pool.map(read, range(READERS)))
    assert min(turns) > 1
    # All sessions, chunks and threads are there after the first quarter: nothing grows with time.
    assert process.memory_info().rss < warm * 1.25 + (64 << 20)


def test_too_many_waiting_requests_are_refused() -> None:
    workers, gate = Workers(RequestLimits(threads=1, waiting=2)), threading.Event()

    async def ask() -> list[object]:
        first = [asyncio.create_task(workers.run("one", gate.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="busy"):
            await workers.run("one", gate.wait, 10)
        gate.set()
        return list(await asyncio.gather(*first))

    assert asyncio.run(ask()) == [True, True]
    workers.close()


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    workers, gate = Workers(RequestLimits(seconds=0.05)), threading.Event()

    async def ask() -> None:
        with pytest.raises(BusyError, match="no answer"):
            await workers.run("one", gate.wait, 10)

    asyncio.run(ask())
    gate.set()
    workers.close()


def test_long_work_is_done_once_and_failures_are_tried_again() -> None:
    workers, calls = Workers(RequestLimits()), []

    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the first time")
        return 7

    with pytest.raises(ValueError, match="the first time"):
        workers.long("one", "key", work, 5)
    assert workers.long("one", "key", work, 5) == 7
    assert workers.long("one", "key", work, 5) == 7
    assert len(calls) == 2
    gate = threading.Event()
    assert workers.long("one", "slow", lambda: gate.wait(10), 0.01) is PENDING
    gate.set()
    assert workers.long("one", "slow", lambda: gate.wait(10), 5) is True
    workers.close()


def test_long_work_of_one_repository_stops_no_other() -> None:
    workers, gate = Workers(RequestLimits()), threading.Event()
    for number in range(KEPT):
        report = number % 2 == 0
        found = workers.long("stuck", number, lambda: gate.wait(60), 0, report=report)
        assert found is PENDING
    with pytest.raises(BusyError, match="too many"):
        workers.long("stuck", "one more", lambda: 1, 0)
    assert workers.long("other", "graph", lambda: 7, 10) == 7
    assert workers.long("other", "fsck", lambda: 8, 10, report=True) == 8
    gate.set()
    workers.close()


def test_a_report_for_an_older_state_is_shown_once() -> None:
    workers, gate = Workers(RequestLimits()), threading.Event()

    def made(number: int) -> int:
        gate.wait(10)
        return number

    assert workers.long("one", "report", lambda: made(1), 0.01, state=1) is PENDING
    gate.set()
    assert workers.long("one", "report", lambda: made(2), 5, state=2) == 1
    assert workers.long("one", "report", lambda: made(2), 5, state=2) == 2
    workers.close()
