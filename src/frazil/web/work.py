"""Engine work beside the event loop: a bounded pool, and long work that pages come back for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

from frazil.errors import StorageError
from frazil.web.settings import RequestLimits

T = TypeVar("T")

KEPT: Final = 32
"""Results of long work that are kept."""


class BusyError(StorageError):
    """The server has more to do than it takes on, or an answer took too long."""


class PendingWork:
    """What a page gets while long work goes on."""


PENDING: Final = PendingWork()


@dataclass(slots=True)
class _Crew:
    """The threads of one repository."""

    pool: ThreadPoolExecutor
    waiting: int = 0


@dataclass(eq=False, slots=True)
class _Job:
    """Long work, and the state of the repository that it was begun for."""

    state: Hashable
    future: Future[Any]
    is_delivered: bool = False


class Workers:
    """Threads that answer requests, and others for what may take longer than a request.

    Each repository has threads of its own: where a storage hangs, only its own pages wait. Reports
    (checks, shares, garbage) may take minutes and have a separate thread, so that the graph and
    comparisons do not wait for them.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._crews: dict[str, _Crew] = {}
        self._views = ThreadPoolExecutor(2, "frazil-web-views")
        self._reports = ThreadPoolExecutor(1, "frazil-web-reports")
        self._lock = Lock()
        self._jobs: OrderedDict[Hashable, _Job] = OrderedDict()

    async def run(
        self,
        crew: str,
        work: Callable[..., T],
        *args: object,
        seconds: float | None = None,
    ) -> T:
        """Call a function in a thread of a crew, the name of a repository that there is.

        Raises:
            BusyError: too many wait already, or it took too long.
        """
        patience = self._limits.seconds if seconds is None else seconds
        with self._lock:
            found = self._crews.get(crew)
            if found is None:
                pool = ThreadPoolExecutor(self._limits.threads, "frazil-web")
                found = self._crews[crew] = _Crew(pool)
            if found.waiting >= self._limits.waiting:
                raise _busy("the server is busy; try again in a moment")
            found.waiting += 1
        future = found.pool.submit(work, *args)
        future.add_done_callback(lambda _: self._finished(found))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), patience)
        except TimeoutError:
            raise _busy(f"no answer within {patience:g} s") from None

    def _finished(self, crew: _Crew) -> None:
        with self._lock:
            crew.waiting -= 1

    def long(
        self,
        key: Hashable,
        work: Callable[[], T],
        patience: float,
        *,
        state: Hashable = None,
        report: bool = False,
    ) -> T | PendingWork:
        """The result of work that is done once for a key and a state, or that it is not ready yet.

        Work that was begun for an older state is waited for and shown once: where commits come
        faster than reports are made, nobody would see any otherwise.

        Raises:
            BusyError: too much of the kind waits already.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is None or (job.state != state and job.is_delivered):
                self._jobs.pop(key, None)
                self._forget()
                pool = self._reports if report else self._views
                job = self._jobs[key] = _Job(state, pool.submit(work))
            self._jobs.move_to_end(key)
        try:
            result: T = job.future.result(patience)
        except TimeoutError:
            if job.future.done():  # it was the work's own
                self._drop(key)
                raise
            return PENDING
        except BaseException:
            self._drop(key)  # so that a reload tries again
            raise
        job.is_delivered = True
        return result

    def _drop(self, key: Hashable) -> None:
        with self._lock:
            self._jobs.pop(key, None)

    def _forget(self) -> None:
        done = [key for key, job in self._jobs.items() if job.future.done()]
        for key in done[: max(0, len(self._jobs) - KEPT + 1)]:
            del self._jobs[key]
        if len(self._jobs) >= KEPT:
            raise _busy("too many reports are being made; try again in a moment")

    def close(self) -> None:
        """Take no more work."""
        with contextlib.suppress(RuntimeError):
            crews = [crew.pool for crew in self._crews.values()]
            for pool in (*crews, self._views, self._reports):
                pool.shutdown(wait=False, cancel_futures=True)


def _busy(text: str) -> BusyError:
    return BusyError(text)
