"""Many at once: fifty readers get right answers, more than the server takes on are told so."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from frazil.web.settings import Limits
from frazil.web.work import PENDING, BusyError, Workers
from tests.web.samples import temperature
from tests.web.test_pages import values

READERS = 50


@pytest.mark.slow
def test_fifty_readers_get_what_they_ask_for(site: str) -> None:
    def read(reader: int) -> None:
        with httpx.Client(timeout=60) as client:
            for turn in range(4):
                day = (reader + turn) % 14
                _, cells = values(f"{site}/r/ocean/api/values", v="v1", path="/sst", i0=day)
                np.testing.assert_array_equal(cells, temperature(day))
                for page in ("history", "tree?v=v1", "api/graph", "array?path=/sst"):
                    assert client.get(f"{site}/r/ocean/{page}").status_code == 200

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, range(READERS)))


def test_too_many_waiting_requests_are_refused() -> None:
    workers, gate = Workers(Limits(threads=1, waiting=2)), threading.Event()

    async def ask() -> list[object]:
        first = [asyncio.create_task(workers.run(gate.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="busy"):
            await workers.run(gate.wait, 10)
        gate.set()
        return list(await asyncio.gather(*first))

    assert asyncio.run(ask()) == [True, True]
    workers.close()


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    workers, gate = Workers(Limits(seconds=0.05)), threading.Event()

    async def ask() -> None:
        with pytest.raises(BusyError, match="no answer"):
            await workers.run(gate.wait, 10)

    asyncio.run(ask())
    gate.set()
    workers.close()


def test_long_work_is_done_once_and_failures_are_tried_again() -> None:
    workers, calls = Workers(Limits()), []

    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the first time")
        return 7

    with pytest.raises(ValueError, match="the first time"):
        workers.long("key", work, 5)
    assert workers.long("key", work, 5) == 7
    assert workers.long("key", work, 5) == 7
    assert len(calls) == 2
    gate = threading.Event()
    assert workers.long("slow", lambda: gate.wait(10), 0.01) is PENDING
    gate.set()
    assert workers.long("slow", lambda: gate.wait(10), 5) is True
    workers.close()
