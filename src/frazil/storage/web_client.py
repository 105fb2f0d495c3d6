"""Requests to one web server, with control over redirects, which obstore does not offer.

A caller that names a server has not named any other one. A redirect to another host, port or scheme
is refused unless that address was allowed, and even then carries none of the headers along.
"""

from __future__ import annotations

import base64
import http.client
import math
import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib import request
from urllib.parse import quote, unquote, urljoin, urlsplit

from frazil.errors import ErrorKind, StorageError, invalid_option
from frazil.masking import MaskedRecord, bare_url
from frazil.model.config import StorageSettings, StorageTimeoutSettings
from frazil.storage.client_settings import ATTEMPT_TIMEOUT_S, backoff_s, max_tries
from frazil.storage.faults import shown_status, unreachable
from frazil.storage.fence import ALLOWED, allowed_hosts, plain_host
from frazil.storage.keys import byte_span
from frazil.storage.places import HttpPlace
from frazil.storage.reaching import require_listener
from frazil.storage.tuning import POOL_THREADS

MAX_REDIRECTS: Final = 5
"""Steps that one request may take: within one server few are needed."""
READ_TIMEOUT_S: Final = 60
"""Seconds without a byte before a read counts as stalled."""
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_KEPT: Final = "/%:@!$&'()*+,;=~"
"""What stays as it is in a path that is encoded already."""
_PIECE: Final = 1 << 20
"""Bytes read at a time, so that a limit is noticed soon after it is passed."""
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|sec|seconds|m|min|minutes)")
_UNITS: Final = {
    "ms": 0.001,
    **dict.fromkeys(("s", "sec", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minutes"), 60.0),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server has answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def etag(self) -> str | None:
        """The version of the object, if the server tells one."""
        return self.headers.get("ETag")

    @property
    def modified(self) -> datetime:
        """When the object was changed; long ago if the server does not tell."""
        try:
            found = parsedate_to_datetime(self.headers.get("Last-Modified", ""))
        except (TypeError, ValueError):
            return datetime.fromtimestamp(0, UTC)
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    @property
    def size(self) -> int:
        """Bytes of the object, of which the body may be a part."""
        _, slash, total = self.headers.get("Content-Range", "").partition("/")
        text = total if slash else self.headers.get("Content-Length", "")
        return int(text) if text.isdecimal() else len(self.body)


@dataclass(frozen=True, slots=True)
class _Address:
    """Scheme, host and port of a server."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> _Address:
        parts = urlsplit(url)
        usual = 443 if parts.scheme == "https" else 80
        port = usual if parts.port is None else parts.port
        return cls(parts.scheme, plain_host(url), port)

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.scheme == "https" else 80
        return host if self.port == usual else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, repr=False)
class _Request(MaskedRecord):
    """One request and its destination."""

    at: _Address
    method: str
    target: str
    """path and query"""
    headers: Mapping[str, str]
    limit: int | None
    """of the body at most so many bytes are read"""

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.at.scheme}://{self.at.netloc}{self.target}"


@dataclass(frozen=True, slots=True, repr=False)
class _Line(MaskedRecord):
    """An open connection, and the proxy at its other end."""

    connection: http.client.HTTPConnection
    proxy: str | None


class WebClient:
    """Asks one server for the objects below one address."""

    def __init__(self, place: HttpPlace, settings: StorageSettings, agent: str) -> None:
        parts = urlsplit(place.base_url)
        self._url = place.url
        self._home = _Address.of(place.base_url)
        self._path, self._query = quote(parts.path.rstrip("/"), _KEPT), parts.query
        self._settings = settings
        self._options = {name.lower(): value for name, value in place.config.items()}
        self._headers = {"User-Agent": agent, "Accept-Encoding": "identity", **place.read_headers}
        self._headers = _basic(place.base_url, "Authorization") | self._headers
        self._allowed = allowed_hosts(self._options)
        timeouts = settings.timeouts or StorageTimeoutSettings()
        self._connect_s = self._seconds(timeouts.connect_timeout_ms, "connect_timeout", 5)
        self._read_s = self._seconds(timeouts.read_timeout_ms, "read_timeout", READ_TIMEOUT_S)
        self._whole_s = self._seconds(
            timeouts.operation_attempt_timeout_ms, "timeout", ATTEMPT_TIMEOUT_S
        )
        window = timeouts.operation_timeout_ms
        self._window_s = window / 1000 if window else math.inf
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._process = os.getpid()
        weakref.finalize(self, _close_all, self._idle)

    def _seconds(self, milliseconds: int | None, option: str, default: float) -> float:
        text = self._options.get(option)
        if text is None:
            return milliseconds / 1000 if milliseconds else default
        found = _DURATION.fullmatch(text.strip())
        if found is None:
            raise StorageError(
                f"the option {option!r} is no duration such as 30s or 500ms",
                kind=ErrorKind.STORAGE_CONFIG,
                found=text,
            )
        return int(found[1]) * _UNITS[found[2]]

    def ask(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Reply:
        """Make a request, again if it fails; of the body at most `limit` bytes are read.

        Raises:
            StorageError: there is no answer, or it leads elsewhere.
        """
        path = f"{self._path}/{quote(key)}"
        target = f"{path}?{self._query}" if self._query else path
        asked = _Request(self._home, method, target, dict(headers or {}), limit)
        require_listener(self._url, self._settings, self._options)
        until = time.monotonic() + self._window_s
        for number in range(max_tries(self._settings)):
            try:
                reply = self._follow(asked)
            except (OSError, UnicodeError, http.client.HTTPException) as error:
                if self._is_last(number, until):
                    raise unreachable(error, key, self._url) from None
            else:
                if reply.status not in _AGAIN or self._is_last(number, until):
                    return reply
            time.sleep(backoff_s(self._settings, number))
        raise AssertionError("a request is made at least once")

    def _is_last(self, number: int, until: float) -> bool:
        """Whether no try follows this one: they are used up, or the time for all of them is."""
        is_late = time.monotonic() + backoff_s(self._settings, number) >= until
        return is_late or number == max_tries(self._settings) - 1

    def failed(self, reply: Reply, action: str, key: str) -> StorageError:
        """The error for an answer that is of no use."""
        return shown_status(reply.status, action, key, self._url)

    # --- redirects ---

    def _follow(self, asked: _Request) -> Reply:
        now = replace(asked, headers={**self._headers, **asked.headers})
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._once(now)
            location = reply.headers.get("Location")
            if reply.status not in _REDIRECTS or not location:
                return reply
            try:
                url = urljoin(now.url, location)
                there = _Address.of(url)
            except ValueError:
                raise self._elsewhere("to what is no address", location) from None
            headers = now.headers
            if there != now.at:
                self._check(there, url)
                # Whatever was meant for the server that was named stays with it.
                headers = {"User-Agent": self._headers["User-Agent"], **asked.headers}
            parts = urlsplit(url)
            path = quote(parts.path or "/", _KEPT)
            target = f"{path}?{parts.query}" if parts.query else path
            now = replace(now, at=there, target=target, headers=headers)
        raise self._elsewhere("too often", self._url)

    def _check(self, there: _Address, url: str) -> None:
        is_downgrade = self._home.scheme == "https" and there.scheme != "https"
        known = {there.netloc, there.host}
        if there.scheme not in ("http", "https") or is_downgrade or not known & self._allowed:
            raise self._elsewhere("to another address", url)

    def _elsewhere(self, how: str, url: str) -> StorageError:
        return StorageError(
            f"the server redirects {how}, which is not followed; if it is to be trusted, use it"
            f" in place of this one, or allow its host by the option {ALLOWED!r},"
            f" frazil.config.set({ALLOWED}=…) or FRAZIL_{ALLOWED.upper()}",
            kind=ErrorKind.BAD_REDIRECT,
            url=self._url,
            to=bare_url(url),
        )

    # --- one request ---

    def _once(self, asked: _Request) -> Reply:
        line = self._kept() if asked.at == self._home else None
        if line is not None:
            try:
                return self._exchange(line, asked)
            except (http.client.RemoteDisconnected, ConnectionError):
                pass  # the server had closed it meanwhile
        return self._exchange(self._connected(asked.at), asked)

    def _exchange(self, line: _Line, asked: _Request) -> Reply:
        end = time.monotonic() + self._whole_s
        is_reusable = False
        target, sent = asked.target, {"Host": asked.at.netloc, **asked.headers}
        if line.proxy is not None and asked.at.scheme == "http":
            target = asked.url
            sent |= _basic(line.proxy, "Proxy-Authorization")
        try:
            line.connection.request(asked.method, target, headers=sent)
            found = line.connection.getresponse()
            body = _body(found, asked.limit, end)
            is_reusable = found.isclosed() and not found.will_close
            return Reply(found.status, found.headers, body)
        finally:
            if is_reusable and asked.at == self._home:
                self._keep(line)
            else:
                line.connection.close()

    def _connected(self, at: _Address) -> _Line:
        proxy = self._proxy(at)
        near = at if proxy is None else _Address.of(proxy)
        connection: http.client.HTTPConnection
        if at.scheme == "https":
            connection = http.client.HTTPSConnection(
                near.host, near.port, timeout=self._connect_s, context=self._tls()
            )
            if proxy is not None:
                connection.set_tunnel(at.host, at.port, _basic(proxy, "Proxy-Authorization"))
        else:
            connection = http.client.HTTPConnection(near.host, near.port, timeout=self._connect_s)
        connection.connect()
        connection.sock.settimeout(self._read_s)
        return _Line(connection, proxy)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._options.get("root_certificate"))
        if self._options.get("allow_invalid_certificates", "").lower() in ("1", "true", "yes"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _proxy(self, at: _Address) -> str | None:
        given = self._options.get("proxy_url")
        if given:
            excluded = {"no": self._options.get("proxy_excludes", "")}
            return None if _is_near(at.host, excluded) else _proxy_url(given)
        found = request.getproxies_environment()
        if _is_near(at.host, found):
            return None
        named = found.get(at.scheme) or found.get("all")
        return _proxy_url(named) if named else None

    def _kept(self) -> _Line | None:
        with self._lock:
            if self._process != os.getpid():  # connections of a parent process are not ours
                _close_all(self._idle)
                self._process = os.getpid()
            return self._idle.pop() if self._idle else None

    def _keep(self, line: _Line) -> None:
        with self._lock:
            if len(self._idle) < POOL_THREADS:  # more are not in use at once
                self._idle.append(line)
                return
        line.connection.close()


def _is_near(host: str, proxies: Mapping[str, str]) -> bool:
    """Whether a host is among those that proxies are not asked for."""
    bypass = request.proxy_bypass_environment  # type: ignore[attr-defined]  # left out by types
    return bool(bypass(host, proxies))


def _proxy_url(text: str) -> str:
    """The address of a proxy, with its scheme.

    Other schemes than http are refused: such proxies would get user and password in another way.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        at = _Address.of(url)
    except ValueError:
        at = None
    if at is None or at.scheme != "http" or not at.host:
        raise invalid_option(
            "a proxy must be given as http://host:port, by the environment or by proxy_url;"
            " other kinds of proxies are not supported"
        )
    return url


def _close_all(lines: list[_Line]) -> None:
    while lines:
        lines.pop().connection.close()


def _body(found: http.client.HTTPResponse, limit: int | None, end: float) -> bytes:
    """The body, or its beginning; a server that is slow on purpose is not waited for."""
    pieces: list[bytes] = []
    size = 0
    while limit is None or size < limit:
        piece = found.read1(_PIECE if limit is None else min(_PIECE, limit - size))
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if time.monotonic() > end:
            raise TimeoutError("the server did not answer in time")
    if found.length == 0 or not (size or found.isclosed()):
        found.close()  # all of it was read: the connection can be used again
    elif found.length and (limit is None or size < limit):
        raise http.client.IncompleteRead(b"", found.length)
    return b"".join(pieces)


def _basic(url: str, header: str) -> dict[str, str]:
    """The header for the user and password in an address, if it has some."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def ranged(start: int | None, end: int | None) -> dict[str, str]:
    """The header for a range that is not empty."""
    if start is None and end is None:
        return {}
    if start is not None and start < 0:
        return {"Range": f"bytes={start}"}
    return {"Range": f"bytes={start or 0}-{'' if end is None else end - 1}"}


def body_of(reply: Reply, start: int | None, end: int | None) -> bytes:
    """The asked range of an answer, also from a server that sends more than that."""
    if reply.status != 206:
        first, last = byte_span(len(reply.body), start, end)
        return reply.body[first:last]
    matched = re.match(r"bytes (\d+)-", reply.headers.get("Content-Range", ""))
    is_suffix = start is not None and start < 0
    if matched is None or not (is_suffix or int(matched[1]) == (start or 0)):
        raise StorageError(
            "the server sent another part of the object than it was asked for",
            kind=ErrorKind.OBJECT_STORE,
            asked=start,
        )
    return reply.body
