"""Access control: host, origin, method and token are checked before anything else.

A page of another site can make a browser send requests here, and a name of another site can be
pointed here (DNS rebinding). `Origin` and `Sec-Fetch-Site` reveal the first, `Host` the
second: only addresses and the names that we were given are ours.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frazil.web.settings import ServerSettings

ZARR: Final = "/zarr/"
BY_PATH: Final = "/t/"
"""`/t/TOKEN/zarr/…` is for clients that send neither cookies nor headers"""
METHODS: Final = ("GET", "HEAD")
FOREIGN: Final = ("cross-site", "same-site")
"""What `Sec-Fetch-Site` says of other sites; another port of this machine is of the same site."""
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
CORS_HEADERS: Final[Mapping[str, str]] = {
    "access-control-allow-methods": "GET, HEAD, OPTIONS",
    "access-control-allow-headers": "range, if-none-match, authorization",
    "access-control-expose-headers": "content-range, content-length, etag, accept-ranges",
    "access-control-max-age": "86400",
    "cross-origin-resource-policy": "cross-origin",
}


class Guard:
    """An ASGI application around another one, which sees only requests that may be answered."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = dict(HEADERS)
        answer = self._answer(scope, added)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(added)
            await send(message)

        await (answer or self._app)(scope, receive, send_safely)

    def _answer(self, scope: Scope, added: dict[str, str]) -> Response | None:
        """The answer to a request that goes no further; the path loses a token it holds."""
        request = Request(scope)
        if not self._is_our_host(request.headers.get("host", "")):
            return _refusal(421, "this server does not answer to that name; see --allow-host")
        given = _token_of_path(scope) or _bearer(request.headers)
        is_zarr = scope["path"].startswith(ZARR)
        if is_zarr and self._settings.cors:
            added["vary"] = "Origin"  # also without one: caches must not mix the two
        origin = request.headers.get("origin")
        if origin is not None and not self._is_same(origin, request.headers["host"]):
            if not is_zarr or not self._allows(origin):
                return _refusal(403, "pages of other sites may not read this; see --cors")
            added.update(CORS_HEADERS)
            added["access-control-allow-origin"] = origin
            if request.method == "OPTIONS":
                return Response(status_code=204)
        elif request.headers.get("sec-fetch-site") in FOREIGN and not _is_visit(request):
            return _refusal(403, "pages of other sites may not use this")
        if request.method not in METHODS:
            return _refusal(405, "this server only shows: GET and HEAD")
        return self._check_token(request, given)

    def _is_our_host(self, text: str) -> bool:
        try:
            name = urlsplit(f"//{text}").hostname or ""
        except ValueError:
            return False
        if name == "localhost" or name in self._settings.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_same(self, origin: str, host: str) -> bool:
        return origin in (f"http://{host}", f"https://{host}")

    def _allows(self, origin: str) -> bool:
        return "*" in self._settings.cors or origin in self._settings.cors

    def _check_token(self, request: Request, given: str | None) -> Response | None:
        wanted = self._settings.token
        if wanted is None:
            return None
        if (asked := request.query_params.get("token")) is not None:
            if not _same(asked, wanted):
                return _refusal(403, "that is not the token of this server")
            return self._with_cookie(request.url, wanted)
        found = given or request.cookies.get(self._settings.cookie)
        if found is None or not _same(found, wanted):
            return _refusal(
                403, "open the address that `frazil serve` has printed: it has the token"
            )
        return None

    def _with_cookie(self, url: URL, token: str) -> Response:
        """Keep the token in a cookie, so that it stands in no history and no screenshot."""
        rest = [pair for pair in parse_qsl(url.query, keep_blank_values=True) if pair[0] != "token"]
        target = "/" + url.path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
        answer = RedirectResponse(target, status_code=303)
        answer.set_cookie(self._settings.cookie, token, httponly=True, samesite="lax", path="/")
        return answer


def _token_of_path(scope: Scope) -> str | None:
    path: str = scope["path"]
    if not path.startswith(BY_PATH):
        return None
    token, slash, rest = path.removeprefix(BY_PATH).partition("/")
    if not slash or not f"/{rest}".startswith(ZARR):
        return None
    scope["path"] = f"/{rest}"
    scope["raw_path"] = scope.get("raw_path", b"").removeprefix(f"{BY_PATH}{token}".encode())
    return token


def _bearer(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token else None


def _is_visit(request: Request) -> bool:
    """Whether a person follows a link, which shows them a page and the other site nothing."""
    headers = request.headers
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") in (
        "document",
        None,
    )


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _refusal(status: int, text: str) -> Response:
    return PlainTextResponse(f"frazil: {text}\n", status)
