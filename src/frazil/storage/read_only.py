"""Another storage, of which nothing is changed, whatever its credentials would allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import NoReturn, Self

from frazil.errors import ErrorKind, ReadOnlyError
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
from frazil.storage.wrapped import WrappedStorage


class ReadOnlyStorage(WrappedStorage):
    """Another storage, to be read."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.answers_inline = inner.answers_inline

    def _around(self, inner: Storage) -> Self:
        return type(self)(inner)

    @property
    def can_write(self) -> bool:
        """No."""
        return False

    def _refuse(self, key: str) -> NoReturn:
        raise ReadOnlyError(
            "nothing is changed at this place, it is only read",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=self.url,
            key=key,
        )

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Ask the inner storage."""
        return self.inner.get(key, start, end)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Ask the inner storage."""
        return self.inner.fetch(key, known)

    def head(self, key: str) -> Listed | None:
        """Ask the inner storage."""
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Ask the inner storage."""
        return self.inner.list(prefix)

    def list_between(self, prefix: str, first: str, last: str) -> Iterator[Listed]:
        """Ask the inner storage."""
        return self.inner.list_between(prefix, first, last)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Ask the inner storage."""
        return self.inner.get_many(ranges)

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Ask the inner storage."""
        self.inner.read_into(pieces)

    def is_empty(self) -> bool:
        """Ask the inner storage."""
        return self.inner.is_empty()

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Refuse."""
        self._refuse(key)

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Refuse."""
        for key, _ in items:
            self._refuse(key)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Refuse."""
        self._refuse(key)

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Refuse."""
        self._refuse(target)

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        """Refuse."""
        self._refuse(target)

    def require_safe_commits(self) -> None:
        """Refuse: there are none."""
        self._refuse("")

    def clock(self) -> datetime:
        """Refuse: the clock of a store is read by writing."""
        self._refuse("")

    def turn(self) -> AbstractContextManager[None]:
        """Nobody waits, since nobody writes."""
        return nullcontext()

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Refuse."""
        for key in keys:
            self._refuse(key)
        return Deleted(0)
