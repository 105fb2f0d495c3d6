"""A cache that drops what was used least recently, once its values weigh too much."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Least-recently-used cache limited by the summed weight of its values; thread-safe."""

    def __init__(self, limit: int, weight: Callable[[V], int], warning: str = "") -> None:
        self._limit = limit
        self._weight = weight
        self._warning = warning
        self._total = 0
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, key: K) -> V | None:
        """The cached value, or None."""
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key]

    def put(self, key: K, value: V) -> None:
        """Remember a value; the oldest are dropped, and one over the limit is not kept."""
        size = self._weight(value)
        weight = max(1, size)
        if weight > self._limit:
            if self._warning and size > self._limit:
                log.warning(self._warning, size, self._limit)
                self._warning = ""
            return
        with self._lock:
            replaced = self._items.pop(key, None)
            if replaced is not None:
                self._total -= max(1, self._weight(replaced))
            self._items[key] = value
            self._total += weight
            while self._total > self._limit:
                _, dropped = self._items.popitem(last=False)
                self._total -= max(1, self._weight(dropped))

    def drop(self, key: K) -> None:
        """Forget a value, if it is there."""
        with self._lock:
            dropped = self._items.pop(key, None)
            if dropped is not None:
                self._total -= max(1, self._weight(dropped))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._total = 0

    def renew(self) -> None:
        """Make the cache usable in a forked process.

        Another thread may have been changing it at the moment of the fork: the lock is made anew
        and the sum is taken again.
        """
        self._lock = threading.Lock()
        self._total = sum(max(1, self._weight(value)) for value in self._items.values())


_caches: weakref.WeakSet[Lru[Any, Any]] = weakref.WeakSet()


def _renew_caches() -> None:
    for each in _caches:
        each.renew()


os.register_at_fork(after_in_child=_renew_caches)
