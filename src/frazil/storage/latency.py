"""A storage that answers late, to see what a distant object store would do to a program."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from frazil.errors import InvalidInputError
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
    Storage,
    Unchanged,
    Version,
    Written,
    fan_out,
)


class LatencyStorage(Storage):
    """Another storage, with a pause before each request."""

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        if write_latency_ms < 0 or read_latency_ms < 0:
            raise InvalidInputError("latency cannot be negative")
        self.inner = inner
        self.write_latency_ms = write_latency_ms
        self.read_latency_ms = read_latency_ms

    def _before_read(self) -> None:
        time.sleep(self.read_latency_ms / 1000)

    def _before_write(self) -> None:
        time.sleep(self.write_latency_ms / 1000)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it, late."""
        self._before_read()
        return self.inner.get(key, start, end)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Return the object with its version, late."""
        self._before_read()
        return self.inner.fetch(key, known)

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object, late."""
        self._before_write()
        self.inner.put(key, data, attributes)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write conditionally, late."""
        self._before_write()
        return self.inner.put_if(key, data, expected, attributes)

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy conditionally, late."""
        self._before_write()
        return self.inner.copy_if(source, target, expected)

    def head(self, key: str) -> Listed | None:
        """Tell size and time of an object, late."""
        self._before_read()
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """List after one pause."""
        self._before_read()
        return self.inner.list(prefix)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete after one pause, like a bulk request."""
        self._before_write()
        return self.inner.delete_many(keys)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many late `get`s side by side, as over a network."""
        return fan_out(lambda item: self.get(*item), ranges)

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many late `put`s side by side, as over a network."""
        fan_out(lambda item: self.put(item[0], item[1], attributes), [*items])

    def make_durable(self, keys: Iterable[str]) -> None:
        """What the inner storage does; an object store would need nothing."""
        self.inner.make_durable(keys)

    @property
    def can_write(self) -> bool:
        """What the inner storage says."""
        return self.inner.can_write

    def default_settings(self) -> StorageSettings:
        """What the inner storage says."""
        return self.inner.default_settings()

    def with_settings(self, settings: StorageSettings) -> LatencyStorage:
        """The same place and pauses, used with other settings."""
        return self._around(self.inner.with_settings(settings))

    @property
    def allows_empty_prefix(self) -> bool:
        """What the inner storage says."""
        return self.inner.allows_empty_prefix

    @property
    def url(self) -> str:
        """Where the inner storage is."""
        return self.inner.url

    @property
    def percent_encodes_names(self) -> bool:
        """What the inner storage says."""
        return self.inner.percent_encodes_names

    def with_attribution(self, attribution: Attribution) -> LatencyStorage:
        """The same place and pauses, with labels on requests."""
        return self._around(self.inner.with_attribution(attribution))

    def with_request_limit(self, max_concurrent_requests: int) -> LatencyStorage:
        """The same place and pauses, with another limit on requests in flight."""
        return self._around(self.inner.with_request_limit(max_concurrent_requests))

    def require_safe_commits(self) -> None:
        """What the inner storage says."""
        self.inner.require_safe_commits()

    def _around(self, inner: Storage) -> LatencyStorage:
        return LatencyStorage(
            inner, write_latency_ms=self.write_latency_ms, read_latency_ms=self.read_latency_ms
        )

    def shown_fields(self) -> Iterable[Field]:
        """The inner storage and the pauses."""
        yield from self.inner.shown_fields()
        yield Field("write_latency_ms", self.write_latency_ms)
        yield Field("read_latency_ms", self.read_latency_ms)
