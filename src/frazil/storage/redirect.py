"""Storage behind a redirect: a web address that says where the repository is."""

from __future__ import annotations

import copy
import http.client
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from operator import methodcaller
from typing import Final, Self
from urllib.parse import urljoin, urlsplit

from frazil.errors import ErrorKind, StorageError
from frazil.masking import bare_url
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field, Literal
from frazil.storage.base import Storage
from frazil.storage.faults import ask_location
from frazil.storage.places import user_agent
from frazil.storage.wrapped import BulkReads, BulkWrites

SCHEMES: Final = frozenset(
    ["s3", "gs", "gcs", "r2", "tigris", "http+icechunk", "http+ic", "https+icechunk", "https+ic"]
)
"""Where following ends."""
MAX_REDIRECTS: Final = 10
TIMEOUT_S: Final = 30
_REDIRECTS: Final = (301, 302, 303, 307, 308)


def follow(url: str) -> str:
    """Follow redirects until one leads to a storage scheme, and return that URL."""
    for _ in range(MAX_REDIRECTS + 1):
        if urlsplit(url).scheme in SCHEMES:
            return url
        url = urljoin(url, _location(url))
    raise _bad("too many redirects", url)


def _location(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _bad("a redirect leads to an unknown kind of storage", url)
    try:
        status, location = ask_location(url, {"User-Agent": user_agent()}, TIMEOUT_S)
    except (OSError, http.client.HTTPException) as error:
        raise _bad(f"cannot follow the redirect: {error}", url) from None
    if status not in _REDIRECTS or not location:
        raise _bad("expected a redirect to a storage URL, such as s3://bucket/prefix", url)
    return location


def _bad(message: str, url: str) -> StorageError:
    return StorageError(message, kind=ErrorKind.BAD_REDIRECT, url=bare_url(url))


class RedirectStorage(BulkReads, BulkWrites):
    """Storage that asks a web address where it is, once, when it is first used."""

    answers_inline = False

    def __init__(self, base_url: str, resolve: Callable[[str], Storage]) -> None:
        self._base_url = base_url
        self._resolve = resolve
        self._tuning: tuple[Callable[[Storage], Storage], ...] = ()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "inner")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @cached_property
    def inner(self) -> Storage:  # type: ignore[override]  # found when it is first needed
        """The storage that the redirect leads to."""
        with self._lock:
            found: Storage | None = self.__dict__.get("inner")  # another thread was faster
            if found is None:
                found = self._resolve(follow(self._base_url))
                for tune in self._tuning:
                    found = tune(found)
                self.__dict__["inner"] = found
            return found

    def shown_fields(self) -> Iterable[Field]:
        return Field("type", Literal("redirect")), Field("url", Literal(self.url))

    @property
    def url(self) -> str:
        """Where the redirect begins, without secrets."""
        return bare_url(self._base_url)

    def default_settings(self) -> StorageSettings:
        """Nothing special; this does not go to the network."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> Self:
        return self._tuned(methodcaller("with_settings", settings))

    def with_attribution(self, attribution: Attribution) -> Self:
        return self._tuned(methodcaller("with_attribution", attribution))

    def with_request_limit(self, max_concurrent_requests: int) -> Self:
        return self._tuned(methodcaller("with_request_limit", max_concurrent_requests))

    def _tuned(self, tune: Callable[[Storage], Storage]) -> Self:
        other = copy.copy(self)
        other._tuning = (*self._tuning, tune)
        return other

    def _around(self, inner: Storage) -> Self:
        raise NotImplementedError("where this is, its address tells")
