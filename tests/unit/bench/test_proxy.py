"""The proxy passes on what it gets, unchanged, late and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from bench.proxy import HOST, Passed, Proxy


class Echo(BaseHTTPRequestHandler):
    """Answers with the body it got, or by its path in pieces or not at all."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(204 if self.path == "/nothing" else 200)
        if self.path == "/pieces":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            return
        body = b"" if self.path == "/nothing" else self.path.encode()
        if body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def proxied(delay_s: float) -> Iterator[tuple[Proxy, HTTPConnection]]:
    """A server, a proxy before it and a connection to that."""
    with ThreadingHTTPServer((HOST, 0), Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever)
        thread.start()
        proxy = Proxy(server.server_port)
        port = asyncio.run_coroutine_threadsafe(proxy.listen(delay_s), loop).result()
        connection = HTTPConnection(HOST, port, timeout=20)
        try:
            yield proxy, connection
        finally:
            connection.close()
            asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            server.shutdown()


def ask(
    connection: HTTPConnection, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    connection.request(method, path, body)
    reply = connection.getresponse()
    return reply.status, reply.read()


def test_requests_of_one_connection_pass_and_are_counted() -> None:
    body = bytes(range(256)) * 4096
    with proxied(0) as (proxy, connection):
        assert ask(connection, "GET", "/some/key") == (200, b"/some/key")
        assert ask(connection, "PUT", "/key", body) == (200, body)
        assert ask(connection, "GET", "/pieces") == (200, b"abcde")
        assert ask(connection, "GET", "/nothing") == (204, b"")
        assert proxy.passed == Passed(
            requests=4,
            reads=3,
            sent_bytes=len(body),
            received_bytes=len(b"/some/key") + len(body) + len(b"abcde"),
        )


def test_every_request_waits() -> None:
    with proxied(0.05) as (_, connection):
        begin = time.monotonic()
        for _ in range(3):
            ask(connection, "GET", "/key")
        assert time.monotonic() - begin >= 0.15


def test_bodies_that_pass_at_the_same_time_are_all_counted() -> None:
    body = bytes(4 << 20)
    with proxied(0) as (proxy, first):
        connections = [HTTPConnection(HOST, first.port, timeout=20) for _ in range(4)]
        with ThreadPoolExecutor(len(connections)) as pool:
            answers = list(pool.map(lambda each: ask(each, "PUT", "/key", body), connections))
        for each in connections:
            each.close()
        assert answers == [(200, body)] * 4
        assert proxy.passed == Passed(
            requests=4, reads=0, sent_bytes=4 * len(body), received_bytes=4 * len(body)
        )
