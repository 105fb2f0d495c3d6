"""The storage contract, and the answers a store gives.

Keys are relative to the repository root and use `/`. Absent objects and lost races are
answers, not exceptions; everything else that goes wrong is a `StorageError`.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.storage.pool import fan_out
from frazil.storage.tuning import FEW_CALLS

T = TypeVar("T")
R = TypeVar("R")

Bytes: TypeAlias = bytes | bytearray | memoryview
Piece: TypeAlias = tuple[str, int, memoryview]
"""Key and offset of bytes to read, and the memory that they fill."""
Found: TypeAlias = list[bytes | None]
Sizes: TypeAlias = list[tuple[str, int]]
Answers: TypeAlias = list[R]


@dataclass(frozen=True, slots=True)
class Version:
    """What a store returned for one state of one object; opaque outside its backend.

    Of two fetches that return equal versions the bytes are the same.
    """

    etag: str | None
    generation: str | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """An object's bytes and the version they belong to."""

    data: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object still has the version the caller knows."""


@dataclass(frozen=True, slots=True)
class Written:
    """A conditional write that took effect."""

    version: Version


@dataclass(frozen=True, slots=True)
class LostRace:
    """A conditional write that did not, because the object was not as expected."""

    key: str
    in_doubt: bool = field(default=False, compare=False)
    """whether it may have taken effect and been replaced since: an earlier reply was lost"""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object seen in a listing; `created_at` is the store's own time of last change."""

    key: str
    size_bytes: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Deleted:
    """Outcome of a bulk delete; a key that was not there counts as deleted."""

    keys: int
    bytes: int = 0
    """0 also where the store does not tell"""
    failed: tuple[tuple[str, str], ...] = ()
    """(key, reason)"""
    in_doubt: bool = False
    """whether what failed may have been deleted, or may still be, when a late request arrives"""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a store may keep beside the bytes; informative only."""

    content_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_chunk: bool = False
    """chunks may go to another storage class than metadata"""
    is_unnamed: bool = False
    """nothing refers to the object before it is durable, so no reader sees it half-written"""


PLAIN: Final = Attributes()
JSON_FILE: Final = Attributes(content_type="application/json")
CLOCK: Final = "frazil/clock/"
"""The key prefix of temporary objects by which the time of a store is read."""


class Storage(ABC, HasRepr):
    """A place that holds the objects of one repository (or of one virtual container)."""

    _shown_name = "Storage"
    answers_inline: bool = False
    """whether calls are so fast that a thread would cost more"""

    @abstractmethod
    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object, or bytes `start:end` of it; None when it does not exist.

        A range that begins inside the object but goes past its end gives what is there; one
        that begins beyond the end is a `StorageError`. A negative `start` without `end` asks
        for a suffix, `end` without `start` for a beginning.
        """

    @abstractmethod
    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Return the object with its version; `Unchanged` when it still has version `known`."""

    @abstractmethod
    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object, whatever was there."""

    @abstractmethod
    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Write only if the object still has version `expected`; None: it must not exist.

        An uncertain outcome (lost reply) is resolved by reading back, so that `LostRace` always
        means that the bytes of another writer are there.
        """

    @abstractmethod
    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy an object if its version is still `expected`."""

    @abstractmethod
    def head(self, key: str) -> Listed | None:
        """Tell size and time of an object, or None."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the objects below a prefix that ends in `/` (or is empty), sorted by key."""

    @abstractmethod
    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects; missing ones are fine."""

    @property
    def connection(self) -> Mapping[str, str | None]:
        """Options by which the caller has said how to reach a store on a network."""
        return {}

    @property
    @abstractmethod
    def can_write(self) -> bool:
        """Whether this storage accepts writes at all."""

    @abstractmethod
    def default_settings(self) -> StorageSettings:
        """The default settings of this backend."""

    @abstractmethod
    def with_settings(self, settings: StorageSettings) -> Storage:
        """The same place, used with other settings."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where this is, without secrets."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Answers[R]:
        """Call `work`, which uses this storage, for every item, in threads if that is faster."""
        if self.answers_inline and len(items) <= FEW_CALLS:
            return [work(item) for item in items]
        return fan_out(work, items)

    def list_between(self, prefix: str, first: str, last: str) -> Iterator[Listed]:
        """The part of `list(prefix)` whose names begin with `first` or later, and before `last`.

        Names are what follows the prefix. Stores that can skip to a key do, so that several
        processes share a long listing.
        """
        start, stop = prefix + first, prefix + last
        return (item for item in self.list(prefix) if start <= item.key < stop)

    def list_objects_metadata(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> Answers[Listed]:
        """The objects in a folder, with their keys relative to it."""
        place = self
        if settings is not None:
            place = self.with_settings(self.default_settings().merge(settings))
        folder = (prefix or "").strip("/")
        above = f"{folder}/" if folder else ""
        return [
            Listed(item.key.removeprefix(above), item.size_bytes, item.created_at)
            for item in place.list(above)
        ]

    def list_objects(
        self, settings: StorageSettings | None = None, prefix: str | None = None
    ) -> Sizes:
        """Keys, relative to a folder, and sizes of the objects in it."""
        found = self.list_objects_metadata(settings, prefix)
        return [(item.key, item.size_bytes) for item in found]

    def _shown_fields(self) -> Iterable[Field]:
        """What kind of storage this is, and where."""
        yield Field("url", Verbatim(self.url))

    def __repr__(self) -> str:
        return f"{self}\n"

    # --- with a default that backends may better ---

    @property
    def percent_encodes_names(self) -> bool:
        """Whether odd characters of ref names are percent-encoded in keys, as all but S3 do."""
        return True

    def with_attribution(self, attribution: Attribution) -> Storage:
        """The same place, with labels in the User-Agent of its requests, if there are requests."""
        return self

    def with_request_limit(self, max_concurrent_requests: int) -> Storage:
        """The same place with another limit on requests in flight, if there are requests."""
        return self

    def require_safe_commits(self) -> None:
        """Check, before a repository is created here, that the store supports conditional writes.

        Raises:
            StorageError: it does not.
        """

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many `get`s at once, in order."""
        return fan_out(lambda item: self.get(*item), ranges)

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Fill memory with parts of objects; quickest when parts of one object come together.

        Raises:
            StorageError: an object is missing or too short.
        """
        found = self.get_many([(key, start, start + len(view)) for key, start, view in pieces])
        for (key, start, view), data in zip(pieces, found, strict=True):
            if data is None:
                raise absent(key)
            if len(data) != len(view):
                raise too_short(key, start + len(view))
            view[:] = data

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many `put`s at once."""
        fan_out(lambda item: self.put(item[0], item[1], attributes), [*items])

    def put_parts(self, key: str, parts: Sequence[Bytes], attributes: Attributes = PLAIN) -> None:
        """Write an object that is these bytes, one after the other, whatever was there."""
        self.put(key, parts[0] if len(parts) == 1 else b"".join(parts), attributes)

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        """Copy an immutable object to another key, overwriting what is there.

        Stores that can copy do it themselves; with `may_link` a second name for a file will do.

        Raises:
            StorageError: there is no such object.
        """
        data = self.get(source)
        if data is None:
            raise absent(source)
        self.put(target, data)

    def delete_once(self, key: str, expected: Version) -> Deleted:
        """Delete an object whose name others may use again as soon as it is gone.

        No request is made while an earlier one may still take effect: it could delete what they
        have made since. The caller must make sure that no other writer replaces the object, which
        has the `expected` version, before it is gone.
        """
        return self.delete_many([key])

    def make_durable(self, keys: Iterable[str]) -> None:
        """Return once these objects would survive a power cut; object stores need nothing."""

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        """Start what `make_durable` does; the returned function waits for its end.

        So the caller can do other work meanwhile.
        """
        self.make_durable(keys)
        return lambda: None

    def put_when(
        self,
        key: str,
        data: Bytes,
        expected: Version | None,
        ready: Callable[[], None],
        attributes: Attributes = PLAIN,
    ) -> Written | LostRace:
        """`put_if` that takes no effect before `ready` has returned, and may prepare meanwhile."""
        ready()
        return self.put_if(key, data, expected, attributes)

    def clock(self) -> datetime:
        """The time by the store's own clock, which decides how old objects are.

        A small object is written for that, and deleted again.
        """
        key = f"{CLOCK}{secrets.token_hex(8)}"
        self.put(key, b"clock")
        try:
            seen = self.head(key)
        finally:
            self.delete_many([key])
        if seen is None:
            raise absent(key)
        return seen.created_at

    def commit_turn(self, prepare: Callable[[], None]) -> AbstractContextManager[None]:
        """A turn to commit, where writers can take turns, so that fewer of them race.

        A writer that has to wait calls `prepare` when it is next. Correctness does not depend on
        turns: a writer that has waited long goes on without one.
        """
        return nullcontext()

    def is_empty(self) -> bool:
        """Whether no object at all is here."""
        return next(iter(self.list("")), None) is None

    @property
    def allows_empty_prefix(self) -> bool:
        """Whether a new repository may be made at the root of this storage."""
        return True


def absent(key: str) -> StorageError:
    """The error for an object that should be there."""
    return StorageError("an object is missing", kind=ErrorKind.OBJECT_NOT_FOUND, key=key)


def too_short(key: str, expected: int) -> StorageError:
    """The error for an object that ends before a reference to it does."""
    return StorageError(
        "an object is shorter than its reference says",
        kind=ErrorKind.INVALID_OBJECT_SIZE,
        key=key,
        expected=expected,
    )


def all_deleted(parts: Iterable[Deleted]) -> Deleted:
    """The outcome of several bulk deletes."""
    done = [*parts]
    return Deleted(
        sum(part.keys for part in done),
        failed=tuple(each for part in done for each in part.failed),
        in_doubt=any(part.in_doubt for part in done),
    )


def require_deleted(done: Deleted) -> None:
    """Make sure that a bulk delete has deleted everything.

    Raises:
        StorageError: an object could not be deleted.
    """
    if done.failed:
        key, reason = done.failed[0]
        raise StorageError(f"{len(done.failed)} objects could not be deleted: {reason}", key=key)
