"""A storage that answers late, to see what a distant object store would do to a program."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from frazil.errors import InvalidInputError
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
from frazil.storage.wrapped import WrappedStorage


class LatencyStorage(WrappedStorage):
    """Another storage, with a pause before each request."""

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        if write_latency_ms < 0 or read_latency_ms < 0:
            raise InvalidInputError("latency cannot be negative")
        super().__init__(inner)
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

    def _around(self, inner: Storage) -> Self:
        return type(self)(
            inner, write_latency_ms=self.write_latency_ms, read_latency_ms=self.read_latency_ms
        )

    def shown_fields(self) -> Iterable[Field]:
        """The inner storage and the pauses."""
        yield from super().shown_fields()
        yield Field("write_latency_ms", self.write_latency_ms)
        yield Field("read_latency_ms", self.read_latency_ms)
