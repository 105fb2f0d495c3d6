"""Storage behind a redirect: a web address that says where the repository is."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urljoin, urlsplit

from frazil.errors import ErrorKind, StorageError
from frazil.masking import bare_url
from frazil.model.config import Attribution, StorageSettings
from frazil.model.display import Field, Literal
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
)
from frazil.storage.places import user_agent

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
    is_safe = parts.scheme == "https"
    connect = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=TIMEOUT_S)
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    try:
        connection.request("GET", target, headers={"User-Agent": user_agent()})
        reply = connection.getresponse()
        location = reply.getheader("Location")
    except (OSError, http.client.HTTPException) as error:
        raise _bad(f"cannot follow the redirect: {error}", url) from None
    finally:
        connection.close()
    if reply.status not in _REDIRECTS or not location:
        raise _bad("expected a redirect to a storage URL, such as s3://bucket/prefix", url)
    return location


def _bad(message: str, url: str) -> StorageError:
    return StorageError(message, kind=ErrorKind.BAD_REDIRECT, url=bare_url(url))


class RedirectStorage(Storage):
    """Storage that asks a web address where it is, once, when it is first used."""

    def __init__(self, base_url: str, resolve: Callable[[str], Storage]) -> None:
        self._base_url = base_url
        self._resolve = resolve
        self._settings: StorageSettings | None = None
        self._attribution: Attribution | None = None
        self._request_limit: int | None = None
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._found: Storage | None = None

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_found")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def target(self) -> Storage:
        """The storage that the redirect leads to."""
        with self._lock:
            if self._found is None:
                self._found = self._tuned(self._resolve(follow(self._base_url)))
            return self._found

    def _tuned(self, found: Storage) -> Storage:
        if self._settings is not None:
            found = found.with_settings(self._settings)
        if self._attribution is not None:
            found = found.with_attribution(self._attribution)
        if self._request_limit is not None:
            found = found.with_request_limit(self._request_limit)
        return found

    def shown_fields(self) -> Iterable[Field]:
        """Where the redirect begins."""
        return Field("type", Literal("redirect")), Field("url", Literal(self.url))

    @property
    def url(self) -> str:
        """Where the redirect begins, without secrets."""
        return bare_url(self._base_url)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Ask the target."""
        return self.target.get(key, start, end)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Ask the target."""
        return self.target.fetch(key, known)

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Ask the target."""
        self.target.put(key, data, attributes)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Ask the target."""
        return self.target.put_if(key, data, expected, attributes)

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        """Ask the target."""
        self.target.duplicate(source, target, may_link=may_link)

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Ask the target."""
        return self.target.copy_if(source, target, expected)

    def head(self, key: str) -> Listed | None:
        """Ask the target."""
        return self.target.head(key)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Ask the target."""
        return self.target.list(prefix)

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Ask the target."""
        return self.target.delete_many(keys)

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Ask the target."""
        return self.target.get_many(ranges)

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Ask the target."""
        self.target.put_many(items, attributes)

    def is_empty(self) -> bool:
        """Ask the target."""
        return self.target.is_empty()

    @property
    def can_write(self) -> bool:
        """Ask the target."""
        return self.target.can_write

    @property
    def allows_empty_prefix(self) -> bool:
        """Ask the target."""
        return self.target.allows_empty_prefix

    def default_settings(self) -> StorageSettings:
        """Nothing special; this does not go to the network."""
        return StorageSettings()

    def with_settings(self, settings: StorageSettings) -> RedirectStorage:
        """The same address, used with other settings."""
        return self._changed(_settings=settings)

    def with_attribution(self, attribution: Attribution) -> RedirectStorage:
        """The same address, with labels on requests to the target."""
        return self._changed(_attribution=attribution)

    def with_request_limit(self, max_concurrent_requests: int) -> RedirectStorage:
        """The same address, with a limit on requests to the target."""
        return self._changed(_request_limit=max_concurrent_requests)

    def _changed(self, **settings: object) -> RedirectStorage:
        other = RedirectStorage.__new__(RedirectStorage)
        other.__setstate__({**self.__getstate__(), **settings})
        return other

    @property
    def percent_encodes_names(self) -> bool:
        """Ask the target."""
        return self.target.percent_encodes_names

    def require_safe_commits(self) -> None:
        """Ask the target."""
        self.target.require_safe_commits()
