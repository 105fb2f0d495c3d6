"""Storages around another one: what a wrapper does not change, the inner storage answers.

`CachedStorage` keeps immutable objects on a disk near by once they were read.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cache
from typing import Final, NoReturn, Self, TypeVar

from frazil.config import current
from frazil.errors import ErrorKind, InvalidInputError, ReadOnlyError
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
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
from frazil.storage.disk_cache import DiskCache
from frazil.storage.pool import fan_out
from frazil.storage.tuning import CACHE_READERS

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

    def commit_turn(self, prepare: Callable[[], None]) -> AbstractContextManager[None]:
        return self.inner.commit_turn(prepare)

    def _shown_fields(self) -> Iterable[Field]:
        return self.inner._shown_fields()


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

    def delete_once(self, key: str, expected: Version) -> Deleted:
        return self.inner.delete_once(key, expected)

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
            "this storage is read-only",
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

    def commit_turn(self, prepare: Callable[[], None]) -> AbstractContextManager[None]:
        """No lock is needed, since nothing is written."""
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

    def _shown_fields(self) -> Iterable[Field]:
        yield from super()._shown_fields()
        yield Field("write_latency_ms", self.write_latency_ms)
        yield Field("read_latency_ms", self.read_latency_ms)


IMMUTABLE: Final = (SNAPSHOTS, LOGS, MANIFESTS, CHUNKS)
"""Prefixes of objects that are written once under a random name."""
SNAPSHOTS_CHANGE: Final = (LOGS, MANIFESTS, CHUNKS)
"""The same where snapshots get new bytes when history is cut."""
_EVERYWHERE: Final = str(INITIAL_SNAPSHOT_ID)
"""The one name that all repositories share, also one made anew in the same place."""


class CachedStorage(BulkReads, BulkWrites):
    """Another storage, and copies of what was read from it."""

    def __init__(
        self, inner: Storage, cache: DiskCache, prefixes: tuple[str, ...] = IMMUTABLE
    ) -> None:
        super().__init__(inner)
        self.cache: Final = cache
        self._prefixes: Final = prefixes
        self._identity: Final = f"{inner.url}\n{inner}\n"

    # --- what is kept ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it; the same part is asked for only once."""
        if not self._is_kept(key) or (start is not None and (start < 0 or end is None)):
            return self.inner.get(key, start, end)
        source = self._source(key, start or 0, end)
        found = self.cache.get(source)
        if found is None:
            found = self.inner.get(key, start, end)
            if found is not None:
                self.cache.put(source, found)
        return found

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        return self.each(lambda item: self.get(*item), ranges)

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Fill memory with parts of objects; the storage is asked for what is not here."""
        missing = [piece for found in fan_out(self._missing, _shares(pieces)) for piece in found]
        if missing:
            self.inner.read_into(missing)
            fan_out(self._keep, _shares(missing))

    def _missing(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        return [
            piece
            for piece in pieces
            if not (self._is_kept(piece[0]) and self.cache.read_into(self._at(piece), piece[2]))
        ]

    def _keep(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if self._is_kept(piece[0]):
                self.cache.put(self._at(piece), piece[2])

    def _is_kept(self, key: str) -> bool:
        return key.startswith(self._prefixes) and not key.endswith(_EVERYWHERE)

    def _source(self, key: str, start: int, end: int | None) -> str:
        return f"{self._identity}{key}\n{start}-{'' if end is None else end}"

    def _at(self, piece: Piece) -> str:
        key, start, view = piece
        return self._source(key, start, start + len(view))

    def _around(self, inner: Storage) -> Self:
        return type(self)(inner, self.cache, self._prefixes)


def _shares(pieces: Sequence[Piece]) -> Sequence[Sequence[Piece]]:
    """Runs of neighbours for a few threads: a file each would be less work than a hand-over."""
    size = -(-len(pieces) // CACHE_READERS) or 1
    return [pieces[first : first + size] for first in range(0, len(pieces), size)]


def with_disk_cache(storage: Storage, *, prefixes: tuple[str, ...] = IMMUTABLE) -> Storage:
    """The storage with the disk cache that this process is set to use, if it is worth it.

    Objects below `prefixes` are kept: they must never get other bytes.
    """
    settings = current()
    if settings.disk_cache_path is None or not settings.disk_cache_bytes or storage.answers_inline:
        return storage
    folder = _disk_cache(settings.disk_cache_path, settings.disk_cache_bytes)
    return CachedStorage(storage, folder, prefixes)


@cache
def _disk_cache(path: str, limit_bytes: int) -> DiskCache:
    return DiskCache(path, limit_bytes)
