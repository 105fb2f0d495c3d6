"""A storage that fails, stalls or loses its reply where a test tells it to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self, TypeVar

from frazil.errors import ErrorKind, StorageError
from frazil.storage.base import PLAIN, Attributes, Bytes, Found, Storage
from frazil.storage.wrapped import WrappedStorage

T = TypeVar("T")
ANY = "*"


class Trouble(Enum):
    """What may go wrong with a request."""

    FAIL = auto()
    """nothing happens, an error is raised"""
    LOSE_REPLY = auto()
    """the request takes effect, an error is raised all the same"""
    DELAY = auto()
    """the request takes effect later"""
    INTERRUPT = auto()
    """nothing happens, the user presses Ctrl-C"""
    LATE_INTERRUPT = auto()
    """the request takes effect, and the user presses Ctrl-C"""


@dataclass(frozen=True, slots=True)
class Fault:
    """Trouble with the n-th call (from 1) of an operation, or of all operations together."""

    trouble: Trouble
    operation: str = ANY
    call: int = 1
    times: int = 1
    delay_s: float = 0.02

    def hits(self, operation: str, counted: Counter[str]) -> bool:
        """Tell whether this call is one of those meant."""
        if self.operation not in (ANY, operation):
            return False
        return self.call <= counted[self.operation] < self.call + self.times


class FaultyStorage(WrappedStorage):
    """Another storage with planned faults; `calls` tells what was asked of it, in order.

    Bulk requests are made one by one, so that a number names the same call in every run.
    """

    def __init__(self, inner: Storage, plan: Iterable[Fault] = ()) -> None:
        super().__init__(inner)
        self.plan = tuple(plan)
        self.calls: list[tuple[str, str]] = []
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def forget_calls(self) -> None:
        """Count calls from here on."""
        with self._lock:
            self.calls.clear()
            self._counted.clear()

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append((operation, key))
            self._counted.update((operation, ANY))
            faults = [fault for fault in self.plan if fault.hits(operation, self._counted)]
        troubles = {fault.trouble for fault in faults}
        time.sleep(sum(fault.delay_s for fault in faults if fault.trouble is Trouble.DELAY))
        if Trouble.FAIL in troubles:
            raise self._error("planned failure", operation, key)
        if Trouble.INTERRUPT in troubles:
            raise KeyboardInterrupt
        done = work()
        if Trouble.LATE_INTERRUPT in troubles:
            raise KeyboardInterrupt
        if Trouble.LOSE_REPLY in troubles:
            raise self._error("planned loss of the reply", operation, key)
        return done

    @staticmethod
    def _error(message: str, operation: str, key: str) -> StorageError:
        return StorageError(message, kind=ErrorKind.OBJECT_STORE, operation=operation, key=key)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        return [self.get(*item) for item in ranges]

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        for key, data in items:
            self.put(key, data, attributes)

    commit_turn = Storage.commit_turn

    def _around(self, inner: Storage) -> Self:
        """Itself: the numbers of calls must go on."""
        self.inner = inner
        return self
