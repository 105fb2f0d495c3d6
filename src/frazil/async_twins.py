"""Coroutine twins of blocking methods: `name_async` beside `name`, made in one place.

A twin runs its method in a thread, so that the event loop stays free. The twin of a method
that returns an iterator is a plain method that returns an async iterator.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Generic, ParamSpec, TypeVar, cast

from frazil.errors import FrazilError

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_FIRST_BATCH = 64
_LARGEST_BATCH = 4096
_END = object()


def with_async_twins(*names: str, iterators: Iterable[str] = ()) -> Callable[[C], C]:
    """Add `<name>_async` for each named method of the decorated class.

    Args:
        names: methods, class methods and static methods that block.
        iterators: methods that return an iterator.
    """

    def decorate(cls: C) -> C:
        for name in names:
            _attach(cls, name, coroutine_twin)
        for name in iterators:
            _attach(cls, name, iterator_twin)
        return cls

    return decorate


def coroutine_twin(function: Callable[P, T]) -> Callable[P, object]:
    """A coroutine function that does the same in a thread."""

    @functools.wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return _named(twin, function)


def iterator_twin(function: Callable[P, Iterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """A function that gives the same items as an async iterator."""

    @functools.wraps(function)
    def twin(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return AsyncItems(lambda: function(*args, **kwargs))

    return _named(twin, function)


class AsyncItems(AsyncIterator[T], Iterator[T], Generic[T]):
    """Items of a blocking iterator; by `async for` they are fetched in a thread, some at a time."""

    def __init__(self, start: Callable[[], Iterable[T]]) -> None:
        self._start = start
        self._items: Iterator[T] | None = None
        self._ready: list[T] = []
        self._error: FrazilError | None = None
        self._done = False
        self._batch = _FIRST_BATCH  # few at first, who wants more gets them with fewer waits

    def __iter__(self) -> Iterator[T]:
        return self._source()

    def __next__(self) -> T:
        return next(self._source())

    def _source(self) -> Iterator[T]:
        if self._items is None:
            self._items = iter(self._start())
        return self._items

    def __aiter__(self) -> AsyncItems[T]:
        return self

    async def __anext__(self) -> T:
        if not self._ready and not self._done:
            await asyncio.to_thread(self._fill)
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
            await asyncio.to_thread(close)

    def _fill(self) -> None:
        batch: list[T] = []
        try:
            items = self._source()
            while len(batch) < self._batch:
                item = next(items, cast("T", _END))
                if item is _END:
                    self._done = True
                    break
                batch.append(item)
        except FrazilError as error:
            self._error, self._done = error, True  # raised after the items before it
        self._ready = batch[::-1]
        self._batch = min(2 * self._batch, _LARGEST_BATCH)


def _attach(
    cls: type, name: str, make: Callable[[Callable[..., T]], Callable[..., object]]
) -> None:
    found = inspect.getattr_static(cls, name)
    if isinstance(found, staticmethod):
        setattr(cls, f"{name}_async", staticmethod(make(found.__func__)))
        return
    function = found.__func__ if isinstance(found, classmethod) else found

    # by name, so that the twin of a method that a subclass overrides runs the override
    @functools.wraps(function)
    def latest(owner: object, *args: object, **kwargs: object) -> T:
        return cast("T", getattr(owner, name)(*args, **kwargs))

    twin = make(latest)
    setattr(cls, f"{name}_async", classmethod(twin) if isinstance(found, classmethod) else twin)


def _named(twin: Callable[P, T], function: Callable[P, object]) -> Callable[P, T]:
    twin.__name__ = f"{function.__name__}_async"
    twin.__qualname__ = f"{function.__qualname__}_async"
    return twin
