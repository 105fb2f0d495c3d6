"""Runs blocking work in a bounded pool of threads, and long work that a page polls for."""

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


@dataclass(eq=False, slots=True)
class _Job:
    """Long work, and the state of the repository that it was begun for."""

    state: Hashable
    future: Future[Any]
    is_delivered: bool = False


class _Crew:
    """The threads of one repository, and the long work that is kept of it."""

    def __init__(self, threads: int) -> None:
        self.pool = ThreadPoolExecutor(threads, "frazil-web")
        self.views = ThreadPoolExecutor(2, "frazil-web-views")
        self.reports = ThreadPoolExecutor(1, "frazil-web-reports")
        self.waiting = 0
        self.jobs: OrderedDict[Hashable, _Job] = OrderedDict()

    def make_room(self) -> None:
        """Forget results that were not asked for lately.

        Raises:
            BusyError: too much is being made.
        """
        done = [key for key, job in self.jobs.items() if job.future.done()]
        for key in done[: max(0, len(self.jobs) - KEPT + 1)]:
            del self.jobs[key]
        if len(self.jobs) >= KEPT:
            raise _busy("too many reports are being made; try again in a moment")

    def close(self) -> None:
        """Take no more work."""
        for pool in (self.pool, self.views, self.reports):
            pool.shutdown(wait=False, cancel_futures=True)


class Workers:
    """Threads that answer requests, and others for what may take longer than a request.

    Each repository has threads of its own (its crew): where a storage hangs, only its own pages
    wait. Reports (checks, shares, garbage) may take minutes and have a thread of their own; what
    a page cannot do without (the graph, a comparison) does not wait for them.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._crews: dict[str, _Crew] = {}
        self._lock = Lock()

    def _crew(self, name: str) -> _Crew:
        """The crew of a repository that there is; the caller has the lock."""
        found = self._crews.get(name)
        if found is None:
            found = self._crews[name] = _Crew(self._limits.threads)
        return found

    async def run(
        self,
        crew: str,
        work: Callable[..., T],
        *args: object,
        seconds: float | None = None,
        is_begun: bool = False,
    ) -> T:
        """Call a function in a thread of a crew, the name of a repository that there is.

        A part of an answer that `is_begun` is never refused, since the client has its head.

        Raises:
            BusyError: too many wait already, or it took too long.
        """
        patience = self._limits.seconds if seconds is None else seconds
        with self._lock:
            found = self._crew(crew)
            if found.waiting >= self._limits.waiting and not is_begun:
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
        crew: str,
        key: Hashable,
        work: Callable[[], T],
        patience: float,
        *,
        state: Hashable = None,
        report: bool = False,
    ) -> T | PendingWork:
        """The result of work that is done once for a key and a state, or that it is not ready yet.

        Work that was begun for an older state is waited for and shown once: where commits come
        faster than reports are made, none would ever be shown otherwise.

        Raises:
            BusyError: too much of the kind waits already.
        """
        with self._lock:
            found = self._crew(crew)
            job = found.jobs.get(key)
            if job is None or (job.state != state and job.is_delivered):
                found.jobs.pop(key, None)
                found.make_room()
                pool = found.reports if report else found.views
                job = found.jobs[key] = _Job(state, pool.submit(work))
            found.jobs.move_to_end(key)
        try:
            result: T = job.future.result(patience)
        except TimeoutError:
            if job.future.done():  # it was the work's own
                self._drop(found, key)
                raise
            return PENDING
        except BaseException:
            self._drop(found, key)  # so that a reload tries again
            raise
        job.is_delivered = True
        return result

    def _drop(self, crew: _Crew, key: Hashable) -> None:
        with self._lock:
            crew.jobs.pop(key, None)

    def close(self) -> None:
        """Take no more work."""
        with contextlib.suppress(RuntimeError):
            for crew in self._crews.values():
                crew.close()


def _busy(text: str) -> BusyError:
    return BusyError(text)
