"""Storage in the memory of this process, for tests and for scratch repositories.

Two `MemoryStorage()` never share anything. `MemoryStorage("name")` is the same place wherever
this process uses the name (`memory://name`), as long as the process lives.
A handle pickles, but opens only in the process it came from: elsewhere the objects are not
there, and an empty repository in their stead would be a silent loss.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import StorageConcurrencySettings, StorageRetriesSettings, StorageSettings
from frazil.model.display import Field, Verbatim
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
    absent,
    too_short,
)
from frazil.storage.keys import byte_span, check_key, check_prefix, check_range


class _Place:
    """The objects of one memory storage: key to (bytes, version number, time)."""

    def __init__(self) -> None:
        self.token: Final = uuid.uuid4().hex
        self.lock: Final = threading.Lock()
        self.objects: Final[dict[str, tuple[bytes, int, datetime]]] = {}
        self.last_version = 0

    def write(self, key: str, data: bytes) -> Version:
        """Store bytes under a version that never was; the caller holds the lock."""
        self.last_version += 1
        self.objects[key] = (data, self.last_version, datetime.now(UTC))
        return Version(str(self.last_version))

    def has(self, key: str, expected: Version | None) -> bool:
        """Tell whether the object is as expected; the caller holds the lock."""
        found = self.objects.get(key)
        if expected is None or found is None:
            return found is None and expected is None
        return str(found[1]) == expected.etag


# The process is the place here, so the process keeps it: named places for good, others for
# as long as a handle lives, so that a pickled handle finds its way back.
_NAMED: Final[dict[str, _Place]] = {}
_LIVE: Final[WeakValueDictionary[str, _Place]] = WeakValueDictionary()
_REGISTRY_LOCK: Final = threading.Lock()


class MemoryStorage(Storage):
    """Objects in a dictionary; safe to use from many threads."""

    answers_inline = True

    def __init__(self, name: str | None = None, *, settings: StorageSettings | None = None) -> None:
        with _REGISTRY_LOCK:
            place = _NAMED.setdefault(name, _Place()) if name else _Place()
            _LIVE[place.token] = place
        self._name: Final = name
        self._place = place
        self._settings = settings

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        check_key(key)
        check_range(start, end)
        found = self._place.objects.get(key)
        if found is None:
            return None
        first, last = byte_span(len(found[0]), start, end)
        return found[0][first:last]

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        check_key(key)
        found = self._place.objects.get(key)
        if found is None:
            return None
        version = Version(str(found[1]))
        return Unchanged() if version == known else Fetched(found[0], version)

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        check_key(key)
        kept = bytes(data)
        with self._place.lock:
            self._place.write(key, kept)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        check_key(key)
        kept = bytes(data)
        with self._place.lock:
            if not self._place.has(key, expected):
                return LostRace(key)
            return Written(self._place.write(key, kept))

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        check_key(source)
        check_key(target)
        with self._place.lock:
            if not self._place.has(source, expected):
                return LostRace(source)
            return Written(self._place.write(target, self._place.objects[source][0]))

    def head(self, key: str) -> Listed | None:
        check_key(key)
        found = self._place.objects.get(key)
        return None if found is None else Listed(key, len(found[0]), found[2])

    def clock(self) -> datetime:
        """The clock of this process, which also tells when objects were written."""
        return datetime.now(UTC)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the objects that were below a prefix at the time of the call."""
        check_prefix(prefix)
        with self._place.lock:
            found = sorted(
                item for item in self._place.objects.items() if item[0].startswith(prefix)
            )
        return (Listed(key, len(data), time) for key, (data, _, time) in found)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        for key in keys:
            check_key(key)
        with self._place.lock:
            gone = [self._place.objects.pop(key, None) for key in keys]
        return Deleted(len(keys), sum(len(found[0]) for found in gone if found))

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many `get`s, in line: there is nothing to wait for."""
        return [self.get(*item) for item in ranges]

    def read_into(self, pieces: Sequence[Piece]) -> None:
        objects = self._place.objects
        for key, start, view in pieces:
            found = objects.get(key)
            if found is None:
                raise absent(key)
            if len(found[0]) < start + len(view):
                raise too_short(key, start + len(view))
            view[:] = memoryview(found[0])[start : start + len(view)]

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        for key, data in items:
            self.put(key, data, attributes)

    @property
    def can_write(self) -> bool:
        return True

    def default_settings(self) -> StorageSettings:
        """The settings the official package uses in memory."""
        return StorageSettings(
            concurrency=StorageConcurrencySettings(5, 1), retries=StorageRetriesSettings(1, 0, 0)
        )

    def with_settings(self, settings: StorageSettings) -> MemoryStorage:
        return _reopen(os.getpid(), self._place.token, self._name, settings)

    @property
    def url(self) -> str:
        return f"memory://{self._name or ''}"

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("type", Verbatim("in-memory"))
        if self._name:
            yield Field("name", Verbatim(self._name))

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (os.getpid(), self._place.token, self._name, self._settings)


def _reopen(
    process: int, token: str, name: str | None, settings: StorageSettings | None
) -> MemoryStorage:
    # A forked process has a copy under the same token, which no longer follows the original.
    place = _LIVE.get(token) if process == os.getpid() else None
    if place is None:
        raise StorageError(
            "memory storage cannot move to another process; use a local directory or an object "
            "store instead",
            kind=ErrorKind.STORAGE_CONFIG,
            url=f"memory://{name or ''}",
        )
    storage = MemoryStorage.__new__(MemoryStorage)
    storage.__dict__.update(_name=name, _place=place, _settings=settings)
    return storage
