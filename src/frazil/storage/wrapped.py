"""A storage around another one: what a wrapper does not change, the inner storage answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Self

from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field
from frazil.storage.base import Storage


class WrappedStorage(Storage):
    """Another storage, used in some other way; what it is and may do stays the same."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    @abstractmethod
    def _around(self, inner: Storage) -> Self:
        """The same wrapper around another storage."""

    @property
    def can_write(self) -> bool:
        """What the inner storage says."""
        return self.inner.can_write

    @property
    def allows_empty_prefix(self) -> bool:
        """What the inner storage says."""
        return self.inner.allows_empty_prefix

    @property
    def percent_encodes_names(self) -> bool:
        """What the inner storage says."""
        return self.inner.percent_encodes_names

    @property
    def url(self) -> str:
        """Where the inner storage is."""
        return self.inner.url

    def require_safe_commits(self) -> None:
        """What the inner storage says."""
        self.inner.require_safe_commits()

    def default_settings(self) -> StorageSettings:
        """What the inner storage says."""
        return self.inner.default_settings()

    def with_settings(self, settings: StorageSettings) -> Self:
        """The same wrapper, its inner storage used with other settings."""
        return self._around(self.inner.with_settings(settings))

    def with_attribution(self, attribution: Attribution) -> Self:
        """The same wrapper, with labels on the requests of its inner storage."""
        return self._around(self.inner.with_attribution(attribution))

    def with_request_limit(self, max_concurrent_requests: int) -> Self:
        """The same wrapper, with another limit on requests in flight."""
        return self._around(self.inner.with_request_limit(max_concurrent_requests))

    def make_durable(self, keys: Iterable[str]) -> None:
        """What the inner storage does."""
        self.inner.make_durable(keys)

    def clock(self) -> datetime:
        """What the inner storage says."""
        return self.inner.clock()

    def turn(self) -> AbstractContextManager[None]:
        """What the inner storage does."""
        return self.inner.turn()

    def shown_fields(self) -> Iterable[Field]:
        """The inner storage."""
        return self.inner.shown_fields()
