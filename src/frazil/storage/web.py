"""A repository behind a web server, to be read, and web addresses that redirect to a repository.

Requests are made by `web_client`.
"""

from __future__ import annotations

import copy
import http.client
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Final, Self
from urllib.parse import urljoin, urlsplit

from frazil.errors import ErrorKind, StorageError
from frazil.masking import bare_url
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field, Verbatim
from frazil.storage.base import Fetched, Found, Listed, Storage, Unchanged, Version
from frazil.storage.client_settings import user_agent
from frazil.storage.faults import ask_location
from frazil.storage.keys import byte_span, check_key, check_range
from frazil.storage.object import ObjectRange, ObjectStorage
from frazil.storage.places import HttpPlace
from frazil.storage.pool import fan_out
from frazil.storage.ranges import near_ranges
from frazil.storage.web_client import Reply, WebClient, body_of, ranged
from frazil.storage.wrapped import BulkReads, BulkWrites

MISSING: Final = (404, 410)


class WebStorage(ObjectStorage):
    """The files of a repository below an address of a web server."""

    def __getstate__(self) -> dict[str, object]:
        return {"_clients": self._clients}

    @property
    def _web(self) -> WebClient:
        """The client, made when it is first needed."""
        with _making:
            found: WebClient | None = self.__dict__.get("_client")
            if found is None:
                place = self.place
                assert isinstance(place, HttpPlace)
                agent = user_agent(self._clients.attribution)
                found = self.__dict__["_client"] = WebClient(place, self._clients.settings, agent)
            return found

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        check_key(key)
        check_range(start, end)
        is_empty = start is not None and start == end  # which HTTP cannot ask for
        if not is_empty:
            with self._clients.gate:
                reply = self._web.ask("GET", key, ranged(start, end), limit=end)
            if reply.status in MISSING:
                return None
            if reply.status != 416:
                return body_of(self._checked(reply, key), start, end)
        found = self.head(key)
        if found is None:
            return None
        byte_span(found.size_bytes, start, end)
        return b""

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        check_key(key)
        tag = None if known is None else known.etag
        with self._clients.gate:
            reply = self._web.ask("GET", key, {"If-None-Match": tag} if tag else {})
        if reply.status in MISSING:
            return None
        if reply.status == 304:
            return Unchanged()
        version = Version(self._checked(reply, key).etag)
        if known is not None and tag and version == known:
            return Unchanged()
        return Fetched(reply.body, version)

    def head(self, key: str) -> Listed | None:
        check_key(key)
        with self._clients.gate:
            reply = self._web.ask("HEAD", key)
        if reply.status in MISSING:
            return None
        self._checked(reply, key)
        return Listed(key, reply.size, reply.modified)

    def get_many(self, ranges: Sequence[ObjectRange]) -> Found:
        """Many files or parts of them, side by side; near parts of a file share a request."""
        found: Found = [None] * len(ranges)

        def one(numbers: Sequence[int]) -> None:
            key, first, _ = ranges[numbers[0]]
            last = max(ranges[number][2] or 0 for number in numbers)
            data = self.get(key, first, last) if len(numbers) > 1 else None
            for number in numbers:
                _, start, end = ranges[number]
                if data is not None and first is not None and len(data) == last - first:
                    found[number] = data[(start or 0) - first : (end or 0) - first]
                else:
                    found[number] = self.get(*ranges[number])

        fan_out(one, near_ranges(ranges))
        return found

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the files below a prefix, where the server speaks WebDAV."""
        self._check_listing(prefix)
        return super().list(prefix)

    def is_empty(self) -> bool:
        self._check_listing("")
        return super().is_empty()

    def _check_listing(self, prefix: str) -> None:
        """Ask once ourselves: the library that lists for us would follow any redirect."""
        with self._clients.gate:
            reply = self._web.ask("PROPFIND", prefix.rstrip("/"), {"Depth": "0"})
        if reply.status not in MISSING:
            self._checked(reply, prefix)

    def _checked(self, reply: Reply, key: str) -> Reply:
        if reply.status // 100 == 2:
            return reply
        raise self._web.failed(reply, "read", key)


_making = threading.Lock()


SCHEMES: Final = frozenset(
    ["s3", "gs", "gcs", "r2", "tigris", "http+icechunk", "http+ic", "https+icechunk", "https+ic"]
)
"""Where following ends."""
MAX_REDIRECTS: Final = 10
"""Steps that a redirecting address may take to the repository; browsers allow about twenty."""
TIMEOUT_S: Final = 30
"""Seconds for each step."""
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
        self._target: Storage | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_target")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _target=None, _lock=threading.Lock())

    # Not `cached_property`: up to Python 3.11 that has one lock for all storages of the process.
    @property
    def inner(self) -> Storage:  # type: ignore[override]  # found when it is first needed
        """The storage that the redirect leads to."""
        with self._lock:
            if self._target is None:
                found = self._resolve(follow(self._base_url))
                for tune in self._tuning:
                    found = tune(found)
                self._target = found
            return self._target

    def _shown_fields(self) -> Iterable[Field]:
        return Field("type", Verbatim("redirect")), Field("url", Verbatim(self.url))

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
