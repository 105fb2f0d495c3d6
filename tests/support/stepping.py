"""A storage whose every call is a step: something else may happen just before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Self, TypeVar

from frazil.storage.base import (
    PLAIN,
    Answers,
    Attributes,
    Bytes,
    Deleted,
    Fetched,
    Found,
    Listed,
    LostRace,
    Storage,
    Unchanged,
    Version,
    Written,
)
from frazil.storage.wrapped import WrappedStorage

T = TypeVar("T")
R = TypeVar("R")


class SteppingStorage(WrappedStorage):
    """Another storage that calls `step(operation, key)` before each call.

    Bulk requests are made one by one and in line, so that a number names the same call in every
    run, and all calls of one user come from its own thread. Objects from before a moment look
    older than they are by `age`: old enough for garbage collection.
    """

    def __init__(
        self,
        inner: Storage,
        step: Callable[[str, str], None],
        *,
        moment: Callable[[], datetime],
        age: timedelta,
        answers_inline: bool = True,
    ) -> None:
        super().__init__(inner)
        self.step = step
        self.moment = moment
        self.age = age
        self.answers_inline = answers_inline

    def _around(self, inner: Storage) -> Self:
        return type(self)(
            inner,
            self.step,
            moment=self.moment,
            age=self.age,
            answers_inline=self.answers_inline,
        )

    def _aged(self, item: Listed) -> Listed:
        if item.created_at >= self.moment():
            return item
        return Listed(item.key, item.size_bytes, item.created_at - self.age)

    # --- the calls ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        self.step("get", key)
        return self.inner.get(key, start, end)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        self.step("fetch", key)
        return self.inner.fetch(key, known)

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        self.step("put", key)
        self.inner.put(key, data, attributes)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        self.step("put_if", key)
        return self.inner.put_if(key, data, expected, attributes)

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        self.step("copy_if", source)
        return self.inner.copy_if(source, target, expected)

    def head(self, key: str) -> Listed | None:
        self.step("head", key)
        found = self.inner.head(key)
        return None if found is None else self._aged(found)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        self.step("list", prefix)
        return iter([*map(self._aged, self.inner.list(prefix))])

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """One step a key: others may come between, as they may on a real store."""
        size = 0
        for key in keys:
            self.step("delete", key)
            size += self.inner.delete_many([key]).bytes
        return Deleted(len(keys), size)

    # --- many at once, in line ---

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Answers[R]:
        return [work(item) for item in items]

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        return [self.get(*item) for item in ranges]

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        for key, data in items:
            self.put(key, data, attributes)
