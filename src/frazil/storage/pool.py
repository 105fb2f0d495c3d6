"""One thread pool for requests and other work: many items in order, or a bounded number ahead."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from frazil.storage.tuning import POOL_THREADS, SLOW_BATCH_S

T = TypeVar("T")
R = TypeVar("R")

_in_pool: Final = threading.local()


@cache
def thread_pool() -> ThreadPoolExecutor:
    """The one thread pool; made on first use, and anew in a forked process."""

    def mark() -> None:
        _in_pool.yes = True

    return ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="frazil", initializer=mark)


os.register_at_fork(after_in_child=thread_pool.cache_clear)


def fan_out(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do `work` on every item, side by side; the first failure is raised.

    Inside a pool thread the work is done in line: waiting there for the pool could deadlock.
    """
    if len(items) < 2 or getattr(_in_pool, "yes", False):
        return [work(item) for item in items]
    return list(thread_pool().map(work, items))


@contextmanager
def inline() -> Iterator[None]:
    """Let this thread do in line what it would hand to the pool.

    For a thread that holds a lock which threads of the pool may be waiting for.
    """
    before, _in_pool.yes = getattr(_in_pool, "yes", False), True
    try:
        yield
    finally:
        _in_pool.yes = before


def ahead(work: Callable[[T], R], items: Iterable[T], width: int) -> Generator[R]:
    """Yield `work` of every item, in order; at most `width` are done or being done ahead.

    When it ends early, what has begun is waited for: it may use memory of the caller.
    """
    if width < 2 or getattr(_in_pool, "yes", False):
        yield from map(work, items)
        return
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(thread_pool().submit(work, item))
            if len(begun) >= width:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
        wait(begun)


def shared(
    work: Callable[[T], R],
    items: Iterable[T],
    width: int,
    *,
    at_first: int | None = None,
    patience_s: float = SLOW_BATCH_S,
) -> Generator[R]:
    """Yield `work` of every item, in any order; `width` threads take the next item each.

    Fewer may begin: one more starts each time that no result has come for a while. Threads end
    when the caller is `width` results behind, and start again when it has caught up. When it ends
    early, what has begun is waited for: it may use memory of the caller.
    """
    if width < 2 or getattr(_in_pool, "yes", False):
        yield from map(work, items)
        return
    rest, taking, stopped = iter(items), threading.Lock(), threading.Event()
    results: SimpleQueue[tuple[R] | BaseException | None] = SimpleQueue()

    def take_items() -> None:
        # A thread of the pool must not wait for the caller, which may be waiting for the pool.
        while results.qsize() < width and not stopped.is_set():
            with taking:
                try:
                    item = next(rest)
                except StopIteration:
                    stopped.set()
                    return
            results.put((work(item),))

    def run() -> None:
        try:
            take_items()
            results.put(None)
        except BaseException as error:
            results.put(error)

    busy, wanted = 0, min(width, at_first or width)
    try:
        while True:
            while busy < wanted and results.qsize() < width and not stopped.is_set():
                thread_pool().submit(run)
                busy += 1
            if not busy:
                return
            try:
                result = results.get(timeout=patience_s if wanted < width else None)
            except Empty:
                wanted += 1
                continue
            busy -= not isinstance(result, tuple)
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                yield result[0]
    finally:
        stopped.set()
        while busy:
            busy -= not isinstance(results.get(), tuple)


def start_in_pool(work: Callable[[], R]) -> Future[R]:
    """Start work in the pool; inside a pool thread it is done at once, as in `fan_out`."""
    if not getattr(_in_pool, "yes", False):
        return thread_pool().submit(work)
    done: Future[R] = Future()
    done.set_result(work())
    return done
