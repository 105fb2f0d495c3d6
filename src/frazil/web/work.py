"""Engine work beside the event loop: a bounded pool, and long work that pages come back for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

from frazil.errors import StorageError
from frazil.web.settings import Limits

P = ParamSpec("P")
T = TypeVar("T")

KEPT: Final = 32
"""Results of long work that are kept."""


class BusyError(StorageError):
    """The server has more to do than it takes on, or an answer took too long."""


class Pending:
    """What a page gets while long work goes on."""


PENDING: Final = Pending()


class Workers:
    """Threads that answer requests, and others for what may take longer than a request.

    Reports (checks, shares, garbage) may take minutes and have a thread of their own; what a page
    cannot do without (the graph, a comparison) does not wait for them.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, "frazil-web")
        self._views = ThreadPoolExecutor(2, "frazil-web-views")
        self._reports = ThreadPoolExecutor(1, "frazil-web-reports")
        self._waiting = 0
        self._lock = Lock()
        self._jobs: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread.

        Raises:
            BusyError: too many wait already, or it took too long.
        """
        if self._waiting >= self._limits.waiting:
            raise _busy("the server is busy; try again in a moment")
        self._waiting += 1
        future = self._pool.submit(work, *args, **kwargs)
        future.add_done_callback(self._finished)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.seconds)
        except TimeoutError:
            raise _busy(f"no answer within {self._limits.seconds:g} s") from None

    def _finished(self, _: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1

    def long(
        self, key: Hashable, work: Callable[[], T], patience: float, *, report: bool = False
    ) -> T | Pending:
        """The result of work that is done once for a key, or that it is not ready yet.

        Raises:
            BusyError: too much of the kind waits already.
        """
        with self._lock:
            future = self._jobs.get(key)
            if future is None:
                self._forget()
                pool = self._reports if report else self._views
                future = self._jobs[key] = pool.submit(work)
            self._jobs.move_to_end(key)
        try:
            result: T = future.result(patience)
        except TimeoutError:
            return PENDING
        except BaseException:
            with self._lock:
                self._jobs.pop(key, None)  # so that a reload tries again
            raise
        return result

    def _forget(self) -> None:
        done = [key for key, future in self._jobs.items() if future.done()]
        for key in done[: max(0, len(self._jobs) - KEPT + 1)]:
            del self._jobs[key]
        if len(self._jobs) >= KEPT:
            raise _busy("too many reports are being made; try again in a moment")

    def close(self) -> None:
        """Take no more work."""
        with contextlib.suppress(RuntimeError):
            for pool in (self._pool, self._views, self._reports):
                pool.shutdown(wait=False, cancel_futures=True)


def _busy(text: str) -> BusyError:
    return BusyError(text)
