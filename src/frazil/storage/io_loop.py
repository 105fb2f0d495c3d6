"""One event loop in a thread of its own, for many requests at once to an object store.

The core stays synchronous: callers hand over coroutines and wait. Measured against the thread
pool this allows hundreds of requests in flight without as many threads.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="frazil-io", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_loop.cache_clear)


def run_all(work: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T], limit: int) -> list[R]:
    """Await `work` on every item, at most `limit` at a time; the first failure is raised."""
    return asyncio.run_coroutine_threadsafe(_gather(work, items, limit), _loop()).result()


async def _gather(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T], limit: int
) -> list[R]:
    gate = asyncio.Semaphore(limit)

    async def one(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
