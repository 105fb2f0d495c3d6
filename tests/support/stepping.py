"""Storages whose every call is a step: somebody else may act just before it.

`SteppingStorage` is the one idea. On an `InterruptedStorage` others act at chosen moments, and a
`CrowdedStorage` is what one of many actors uses, whose steps a schedule puts in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from frazil.storage.base import Answers, Deleted, Listed, Storage
from frazil.testing.faulty import ANY, FaultyStorage

T = TypeVar("T")
R = TypeVar("R")
Step: TypeAlias = Callable[[str, str], None]
"""What happens before a call of an operation on a key."""


class SteppingStorage(FaultyStorage):
    """Another storage that calls `step(operation, key)` before each call."""

    def __init__(self, inner: Storage, step: Step = lambda _operation, _key: None) -> None:
        super().__init__(inner)
        self.step = step

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        self.step(operation, key)
        return super()._ask(operation, key, work)


@dataclass(frozen=True, slots=True)
class Moment:
    """The n-th call (from 1) of an operation on keys with a prefix, and what happens before it."""

    operation: str
    prefix: str
    action: Callable[[], object]
    call: int = 1

    def is_of(self, operation: str, key: str) -> bool:
        """Whether a call counts."""
        return self.operation in (ANY, operation) and key.startswith(self.prefix)


class InterruptedStorage(SteppingStorage):
    """A storage on which something else happens at chosen moments, once at each."""

    def __init__(self, inner: Storage, moments: Sequence[Moment] = ()) -> None:
        super().__init__(inner, self._interrupt)
        self.moments = [*moments]
        self._looking = threading.Lock()

    def before(self, call: int, action: Callable[[], object]) -> None:
        """Let something happen before the n-th call of any kind from now on."""
        self.forget_calls()
        self.moments.append(Moment(ANY, "", action, call))

    @property
    def is_over(self) -> bool:
        """Whether all the moments have come."""
        return not self.moments

    def _interrupt(self, operation: str, key: str) -> None:
        with self._looking:
            meant = [each for each in self.moments if each.is_of(operation, key)]
            due = [each for each in meant if each.call == 1]
            self.moments = [
                replace(each, call=each.call - 1) if each in meant else each
                for each in self.moments
                if each not in due
            ]
        for each in due:
            each.action()


class CrowdedStorage(SteppingStorage):
    """A storage as one of several actors uses it, each with steps of its own.

    Whatever is many requests is many steps, made in line, so that a number names the same step in
    every run and all of them come from the actor's own thread. What changes nothing for others, the
    time and waiting for a disk, is no step.
    Objects from before a moment look older than they are by `age`: old enough to be collected.
    """

    def __init__(
        self,
        inner: Storage,
        step: Step,
        *,
        moment: Callable[[], datetime],
        age: timedelta,
        answers_inline: bool = True,
    ) -> None:
        super().__init__(inner, step)
        self.moment = moment
        self.age = age
        self.answers_inline = answers_inline

    def _aged(self, item: Listed) -> Listed:
        if item.created_at >= self.moment():
            return item
        return Listed(item.key, item.size_bytes, item.created_at - self.age)

    def head(self, key: str) -> Listed | None:
        found = super().head(key)
        return None if found is None else self._aged(found)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return iter([*map(self._aged, super().list(prefix))])

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """One step a key: others may come between, as they may on a real store."""
        size = 0
        for key in keys:
            size += self._ask("delete", key, lambda key=key: self.inner.delete_many([key])).bytes  # type: ignore[misc]
        return Deleted(len(keys), size)

    def clock(self) -> datetime:
        return self.inner.clock()

    def make_durable(self, keys: Iterable[str]) -> None:
        self.inner.make_durable(keys)

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Answers[R]:
        return [work(item) for item in items]
