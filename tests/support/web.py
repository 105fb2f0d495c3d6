"""A small web server that answers as a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from tests.support.servers import HOST


@dataclass
class WebServer:
    """Files by path, fixed answers by path, and the requests so far."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    modified: float = 1_700_000_000.0
    redirects: dict[str, str] = field(default_factory=dict)
    """path or `*` -> address"""
    redirect_status: int = 302
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    """path or `*` -> (status, body), before anything else"""
    has_ranges: bool = True
    honours_conditions: bool = True
    gate: threading.Event | None = None
    """requests wait until it is set"""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """(method, path, headers in lower case)"""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def headers_of(self, method: str) -> list[dict[str, str]]:
        """The headers of all requests with a method."""
        return [headers for asked, _, headers in self.seen if asked == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET

    def _answer(self) -> None:
        web, path = self.web, unquote(self.path.split("?", 1)[0])
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        web.seen.append((self.command, self.path, headers))
        if web.gate is not None:
            web.gate.wait(60)
        fixed = web.answers.get(path) or web.answers.get("*")
        if fixed:
            self._send(fixed[0], fixed[1].encode())
        elif target := web.redirects.get(path) or web.redirects.get("*"):
            self._send(web.redirect_status, b"", Location=target)
        elif self.command == "PUT":
            web.files[path] = body
            self._send(200, b"", ETag='"put"')
        elif path not in web.files:
            self._send(404, b"")
        else:
            self._send_file(web.files[path], headers)

    def _send_file(self, data: bytes, headers: dict[str, str]) -> None:
        extra = {
            "ETag": f'"{len(data)}"',
            "Last-Modified": formatdate(self.web.modified, usegmt=True),
        }
        if self.web.honours_conditions and self._fails_condition(extra["ETag"], headers):
            self._send(412, b"")
            return
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if not found or not self.web.has_ranges:
            self._send(200, data, **extra)
            return
        first, last = found[1], found[2]
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= len(data):
            self._send(416, b"")
            return
        extra["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._send(206, data[start:end], **extra)

    def _fails_condition(self, etag: str, headers: dict[str, str]) -> bool:
        limit = headers.get("if-unmodified-since")
        if limit and parsedate_to_datetime(limit).timestamp() < self.web.modified:
            return True
        return headers.get("if-match", etag) != etag

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def web_server(port: int = 0) -> Iterator[WebServer]:
    """A server that lives as long as the block."""
    web = WebServer()
    handler = type("Handler", (_Handler,), {"web": web})
    with ThreadingHTTPServer((HOST, port), handler) as server:
        server.daemon_threads = True
        web.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
