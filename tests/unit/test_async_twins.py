"""Coroutine twins: same results and errors, without blocking the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator

import pytest

from frazil.async_twins import async_items, async_maker, async_twin
from frazil.errors import NotFoundError


class Sample:
    """Blocking methods of every sort."""

    factor = 2

    def double(self, value: int, *, plus: int = 0) -> tuple[int, bool]:
        """Double it."""
        return value * self.factor + plus, threading.current_thread() is threading.main_thread()

    @classmethod
    def make(cls, factor: int) -> Sample:
        """Make one."""
        made = cls()
        made.factor = factor
        return made

    @staticmethod
    def plain(value: int) -> int:
        """Give it back."""
        return value

    def fail(self) -> None:
        """Fail."""
        raise NotFoundError("nothing here")

    def count(self, stop: int) -> Iterator[int]:
        """Count."""
        yield from range(stop)

    def broken(self, stop: int) -> Iterator[int]:
        """Count, then fail."""
        yield from range(stop)
        raise NotFoundError("no more")

    double_async = async_twin(double)
    make_async = async_maker(make)
    plain_async = staticmethod(async_twin(plain))
    fail_async = async_twin(fail)
    count_async = async_items(count)
    broken_async = async_items(broken)


class Child(Sample):
    """Overrides a method but not its twin."""

    def double(self, value: int, *, plus: int = 0) -> tuple[int, bool]:
        """Triple it instead."""
        return value * 3 + plus, False


def test_twins_do_the_same_in_another_thread() -> None:
    sample = Sample()
    assert asyncio.run(sample.double_async(4, plus=1)) == (9, False)
    made = asyncio.run(Sample.make_async(5))
    assert made.factor == 5
    assert asyncio.run(Sample.plain_async(7)) == 7


def test_twins_of_subclasses_run_the_override() -> None:
    assert asyncio.run(Child().double_async(4)) == (12, False)
    assert type(asyncio.run(Child.make_async(1))) is Child


def test_twins_keep_signature_and_documentation() -> None:
    twin = Sample.double_async
    assert inspect.iscoroutinefunction(twin)
    assert inspect.signature(twin) == inspect.signature(Sample.double)
    assert twin.__name__ == "double_async"
    assert twin.__doc__ == "Double it."


def test_twins_raise_what_the_method_raises() -> None:
    with pytest.raises(NotFoundError, match="nothing here"):
        asyncio.run(Sample().fail_async())


def test_iterators_become_async_iterators() -> None:
    async def collect(stop: int) -> list[int]:
        return [item async for item in Sample().count_async(stop)]

    assert asyncio.run(collect(0)) == []
    assert asyncio.run(collect(1000)) == list(range(1000))


def test_items_before_a_failure_are_delivered() -> None:
    seen: list[int] = []

    async def collect() -> None:
        async for item in Sample().broken_async(3):
            seen.append(item)  # noqa: PERF401  (what came before the failure must be kept)

    with pytest.raises(NotFoundError, match="no more"):
        asyncio.run(collect())
    assert seen == [0, 1, 2]


def test_iteration_can_end_early() -> None:
    async def first() -> tuple[int, list[int]]:
        items = Sample().count_async(10)
        head = await anext(items)
        await items.aclose()
        return head, [item async for item in items]

    assert asyncio.run(first()) == (0, [])
