"""Coroutine twins of blocking methods: `name_async` beside `name`, in the class that has it.

    def lookup(self, name: str) -> str: ...
    lookup_async = async_twin(lookup)

A twin runs its method in a thread, so that the event loop stays free, and type checkers see the
parameters and the result of the method. The twin of a method that returns an iterator is a plain
method that returns an async iterator.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from frazil.errors import FrazilError

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_BATCH = 64
"""Items of the first batch that a thread fetches: small, so that the first answer comes soon."""
_LARGEST_BATCH = 4096
"""Batches double up to this size, so that switching threads costs little per item."""


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work in a thread, so that the event loop stays free."""
    import asyncio  # programs that never await anything start sooner without it

    return await asyncio.to_thread(work, *args, **kwargs)


def async_twin(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A coroutine function that does the same in a thread; for a static method its function."""
    latest = _latest(method)

    @functools.wraps(latest)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(latest, *args, **kwargs)

    return _named(twin, latest)


def async_items(method: Callable[P, Iterator[T]]) -> Callable[P, AsyncItems[T]]:
    """A method that gives the same items as an async iterator."""
    latest = _latest(method)

    @functools.wraps(latest)
    def twin(*args: P.args, **kwargs: P.kwargs) -> AsyncItems[T]:
        return AsyncItems(lambda: latest(*args, **kwargs))

    return _named(twin, latest)


class MadeAsync(Protocol[P]):
    """How type checkers see the twin of a constructor: it makes what its class is."""

    def __get__(self, owner: object, cls: type[T]) -> Callable[P, Coroutine[Any, Any, T]]: ...


def async_maker(constructor: Callable[Concatenate[Any, P], object]) -> MadeAsync[P]:
    """The twin of a class method that makes an object of the class."""
    # For mypy: a class method has it.
    plain: Callable[Concatenate[Any, P], object] = constructor.__func__  # type: ignore[attr-defined]
    return cast("MadeAsync[P]", classmethod(async_twin(plain)))


class AsyncItems(AsyncIterator[T], Iterator[T], Generic[T]):
    """Items of a blocking iterator; by `async for` they are fetched in a thread, some at a time."""

    def __init__(self, start: Callable[[], Iterable[T]]) -> None:
        self._start = start
        self._items: Iterator[T] | None = None
        self._ready: list[T] = []
        self._error: FrazilError | None = None
        self._done = False
        self._batch = _FIRST_BATCH  # grows, so that long lists need few waits

    def __iter__(self) -> Iterator[T]:
        return self._source()

    def __next__(self) -> T:
        return next(self._source())

    def _source(self) -> Iterator[T]:
        if self._items is None:
            self._items = iter(self._start())
        return self._items

    async def __anext__(self) -> T:
        if not self._ready and not self._done:
            await in_thread(self._fill)
        if not self._ready:
            error, self._error = self._error, None
            raise error or StopAsyncIteration
        return self._ready.pop()

    async def aclose(self) -> None:
        """End the iteration early and let go of its source."""
        self._done = True
        self._ready.clear()
        close = getattr(self._items, "close", None)
        if close is not None:
            await in_thread(close)

    def _fill(self) -> None:
        batch: list[T] = []
        try:
            batch.extend(islice(self._source(), self._batch))  # keeps what comes before an error
            self._done = len(batch) < self._batch
        except FrazilError as error:
            self._error, self._done = error, True  # raised after the items before it
        self._ready = batch[::-1]
        self._batch = min(2 * self._batch, _LARGEST_BATCH)


def _latest(method: Callable[P, T]) -> Callable[P, T]:
    """The method by its name, so that the twin of one that a subclass overrides runs that."""
    if isinstance(method, staticmethod):
        return cast("Callable[P, T]", method.__func__)

    @functools.wraps(method)
    def latest(owner: object, *args: object, **kwargs: object) -> T:
        return cast("T", getattr(owner, method.__name__)(*args, **kwargs))

    return cast("Callable[P, T]", latest)


def _named(twin: Callable[P, T], function: Callable[P, object]) -> Callable[P, T]:
    twin.__name__ = f"{function.__name__}_async"
    twin.__qualname__ = f"{function.__qualname__}_async"
    return twin
