"""A repository behind a web server, to be read; requests are made by `web_client`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final

from frazil.storage.base import (
    Fetched,
    Found,
    Listed,
    Unchanged,
    Version,
    byte_span,
    check_key,
    check_range,
    fan_out,
)
from frazil.storage.object import ObjectStorage, Range
from frazil.storage.places import HttpPlace, user_agent
from frazil.storage.requests import near_ranges
from frazil.storage.web_client import Reply, WebClient, body_of, ranged

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

    def get_many(self, ranges: Sequence[Range]) -> Found:
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
        """Ask once ourselves: whoever lists for us would follow any redirect."""
        with self._clients.gate:
            reply = self._web.ask("PROPFIND", prefix.rstrip("/"), {"Depth": "0"})
        if reply.status not in MISSING:
            self._checked(reply, prefix)

    def _checked(self, reply: Reply, key: str) -> Reply:
        if reply.status // 100 == 2:
            return reply
        raise self._web.failed(reply, "read", key)


_making = threading.Lock()
