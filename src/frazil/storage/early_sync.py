"""Large files on their way to the disk before anybody has to wait for them.

Written and synced one after the other, 64 files of 4 MiB took 0.27 s; synced in threads while
the next are being written 0.14 s, which is what writing alone takes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from frazil.storage.base import pool

AT_ONCE: Final = 16
"""Threads that may wait for the disk so; files beyond that are synced when it must be."""
MOST: Final = 4096
"""Files that are remembered."""


class EarlySync:
    """What was begun for which file; usable from many threads, and empty in a forked process."""

    def __init__(self, sync: Callable[[str], None]) -> None:
        self._sync: Final = sync
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._free = threading.Semaphore(AT_ONCE)
        self._begun: dict[str, Future[None]] = {}

    def begin(self, path: str) -> None:
        """Sync a file in the background, if not too many are on their way."""
        if self._process != os.getpid():
            self._renew()  # the threads of our parent are not ours
        if not self._free.acquire(blocking=False):
            return
        try:
            self._begun[path] = pool().submit(self._work, path)
        except RuntimeError:  # the interpreter is about to end
            self._free.release()
        if len(self._begun) > MOST:
            self._forget_done()

    def find(self, path: str) -> Future[None] | None:
        """What was begun for a file: its result is that of the sync. None for nothing.

        It is found again, for the system tells of a failure only once.
        """
        return self._begun.get(path) if self._process == os.getpid() else None

    def forget(self, path: str) -> None:
        """Know no more of a file, since it is written anew."""
        self._begun.pop(path, None)

    def _work(self, path: str) -> None:
        try:
            self._sync(path)
        finally:
            self._free.release()

    def _forget_done(self) -> None:
        for path, begun in list(self._begun.items()):
            if begun.done() and begun.exception() is None:
                self._begun.pop(path, None)
