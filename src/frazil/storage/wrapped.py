"""Storages around another one: what a wrapper does not change, the inner storage answers."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Final, NoReturn, Self, TypeVar

from frazil.errors import ErrorKind, InvalidInputError, ReadOnlyError
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field
from frazil.storage.base import (
    PLAIN,
    Attributes,
    Bytes,
    Deleted,
    Fetched,
    Found,
    Listed,
    LostRace,
    Piece,
    Storage,
    Unchanged,
    Version,
    Written,
)

T = TypeVar("T")


class WrappedStorage(Storage):
    """Another storage, used in some other way; what it is and may do stays the same.

    Single requests go through `_ask`. Bulk requests are made of single ones, as in `Storage`,
    so that none passes a wrapper by; `BulkReads` and `BulkWrites` hand them on as they are.
    """

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.answers_inline = inner.answers_inline

    @abstractmethod
    def _around(self, inner: Storage) -> Self:
        """The same wrapper around another storage."""

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        """Let the inner storage do its work."""
        return work()

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        return self._ask("get", key, lambda: self.inner.get(key, start, end))

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        return self._ask("fetch", key, lambda: self.inner.fetch(key, known))

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        self._ask("put", key, lambda: self.inner.put(key, data, attributes))

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        return self._ask("put_if", key, lambda: self.inner.put_if(key, data, expected, attributes))

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        return self._ask("copy_if", source, lambda: self.inner.copy_if(source, target, expected))

    def head(self, key: str) -> Listed | None:
        return self._ask("head", key, lambda: self.inner.head(key))

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return self._ask("list", prefix, lambda: self.inner.list(prefix))

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        return self._ask("delete_many", ",".join(keys), lambda: self.inner.delete_many(keys))

    def make_durable(self, keys: Iterable[str]) -> None:
        named = [*keys]
        self._ask("make_durable", ",".join(named), lambda: self.inner.make_durable(named))

    def clock(self) -> datetime:
        return self._ask("clock", "", lambda: self.inner.clock())

    @property
    def can_write(self) -> bool:
        return self.inner.can_write

    @property
    def allows_empty_prefix(self) -> bool:
        return self.inner.allows_empty_prefix

    @property
    def percent_encodes_names(self) -> bool:
        return self.inner.percent_encodes_names

    @property
    def url(self) -> str:
        return self.inner.url

    def require_safe_commits(self) -> None:
        self.inner.require_safe_commits()

    def default_settings(self) -> StorageSettings:
        return self.inner.default_settings()

    def with_settings(self, settings: StorageSettings) -> Self:
        return self._around(self.inner.with_settings(settings))

    def with_attribution(self, attribution: Attribution) -> Self:
        return self._around(self.inner.with_attribution(attribution))

    def with_request_limit(self, max_concurrent_requests: int) -> Self:
        return self._around(self.inner.with_request_limit(max_concurrent_requests))

    def turn(self) -> AbstractContextManager[None]:
        return self.inner.turn()

    def shown_fields(self) -> Iterable[Field]:
        return self.inner.shown_fields()


class BulkReads(WrappedStorage):
    """A wrapper whose inner storage is asked for many things at once."""

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        return self.inner.get_many(ranges)

    def read_into(self, pieces: Sequence[Piece]) -> None:
        self.inner.read_into(pieces)

    def list_between(self, prefix: str, first: str, last: str) -> Iterator[Listed]:
        return self.inner.list_between(prefix, first, last)

    def is_empty(self) -> bool:
        return self.inner.is_empty()


class BulkWrites(WrappedStorage):
    """A wrapper whose inner storage is given many things at once."""

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        self.inner.put_many(items, attributes)

    def put_parts(self, key: str, parts: Sequence[Bytes], attributes: Attributes = PLAIN) -> None:
        self.inner.put_parts(key, parts, attributes)

    def put_when(
        self,
        key: str,
        data: Bytes,
        expected: Version | None,
        ready: Callable[[], None],
        attributes: Attributes = PLAIN,
    ) -> Written | LostRace:
        return self.inner.put_when(key, data, expected, ready, attributes)

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        self.inner.duplicate(source, target, may_link=may_link)

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        return self.inner.start_durable(keys)


_WRITES: Final = frozenset({"put", "put_if", "copy_if", "delete_many"})


class ReadOnlyStorage(BulkReads):
    """Another storage, of which nothing is changed, whatever its credentials would allow."""

    can_write = False

    def _around(self, inner: Storage) -> Self:
        return type(self)(inner)

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if operation in _WRITES:
            self._refuse(key)
        return work()

    def _refuse(self, key: str) -> NoReturn:
        raise ReadOnlyError(
            "nothing is changed at this place, it is only read",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=self.url,
            key=key,
        )

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        self._refuse(target)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        return super().delete_many(keys[:1]) if keys else Deleted(0)

    def require_safe_commits(self) -> None:
        """Refuse: there are none."""
        self._refuse("")

    def clock(self) -> datetime:
        """Refuse: the clock of a store is read by writing."""
        self._refuse("")

    def turn(self) -> AbstractContextManager[None]:
        """Nobody waits, since nobody writes."""
        return nullcontext()


class LatencyStorage(WrappedStorage):
    """Another storage, with a pause before each request, as a distant object store would make."""

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        if write_latency_ms < 0 or read_latency_ms < 0:
            raise InvalidInputError("latency cannot be negative")
        super().__init__(inner)
        self.answers_inline = False
        self.write_latency_ms = write_latency_ms
        self.read_latency_ms = read_latency_ms

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if operation in _WRITES:
            time.sleep(self.write_latency_ms / 1000)
        elif operation not in ("make_durable", "clock"):
            time.sleep(self.read_latency_ms / 1000)
        return work()

    def _around(self, inner: Storage) -> Self:
        return type(self)(
            inner, write_latency_ms=self.write_latency_ms, read_latency_ms=self.read_latency_ms
        )

    def shown_fields(self) -> Iterable[Field]:
        yield from super().shown_fields()
        yield Field("write_latency_ms", self.write_latency_ms)
        yield Field("read_latency_ms", self.read_latency_ms)
