"""Requests to one web server: it sends nobody elsewhere, and nobody waits for it too long."""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime
from http.client import HTTPMessage

import pytest

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.model.config import (
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.constructors import http_storage
from frazil.storage.places import HttpPlace
from frazil.storage.web_client import Reply, WebClient, body_of, ranged
from tests.support.web import WebServer

TEN = b"0123456789"
HEADERS = {"Authorization": "Bearer secret", "X-Api-Key": "secret"}


def test_a_redirect_to_another_server_is_refused(web_server: WebServer, other: WebServer) -> None:
    web_server.redirects = {"/x/repo": f"{other.url}/x/repo?sig=secret"}
    storage = http_storage(f"{web_server.url}/x", headers=HEADERS)
    for read in (storage.get, storage.fetch, storage.head):
        with pytest.raises(StorageError, match="redirects to another address") as caught:
            read("repo")
        assert caught.value.kind is ErrorKind.BAD_REDIRECT
        assert f"{other.url}/x/repo" in str(caught.value)
        assert "secret" not in str(caught.value)
    with pytest.raises(StorageError, match="redirects to another address"):
        storage.get_many([("repo", 0, 2), ("repo", 5, 6)])
    assert not other.seen


def test_an_allowed_host_gets_no_headers(web_server: WebServer, other: WebServer) -> None:
    web_server.redirects = {"/x/repo": f"{other.url}/x/repo"}
    options = {"redirect_hosts": f"example.org, 127.0.0.1:{other.port}"}
    storage = http_storage(f"{web_server.url}/x", options, HEADERS)
    assert storage.get("repo", 2, 5) == b"234"
    assert other.seen
    assert all("secret" not in str(headers) for _, _, headers in other.seen)
    assert all(headers["x-api-key"] == "secret" for headers in web_server.headers_of("GET"))


def test_a_redirect_on_the_same_server_is_followed(web_server: WebServer) -> None:
    web_server.files["/y/repo"] = TEN
    web_server.redirects = {"/x/repo": "/y/repo", "/x/loop": "/x/loop", "/x/file": "file:///etc/x"}
    storage = http_storage(f"{web_server.url}/x", headers=HEADERS)
    assert storage.get("repo") == TEN
    assert all(headers["x-api-key"] == "secret" for headers in web_server.headers_of("GET"))
    for key in ("loop", "file"):
        with pytest.raises(StorageError, match="redirects") as caught:
            storage.get(key)
        assert caught.value.kind is ErrorKind.BAD_REDIRECT


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b.example/x",
        f"http://{'a' * 64}.example/x",
        "http://bücher.invalid/x",
        "http://host:99999/x",
        "http://host:port/x",
        "http://[::1/x",
        "http://[fe80::1%25lo]:1/x",
        "http://127.0.0.1:0/x",
    ],
)
def test_addresses_that_nobody_has_are_told(url: str) -> None:
    once = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))
    with pytest.raises(StorageError):
        http_storage(url).with_settings(once).get("repo")


def test_connections_are_kept_and_travel_nowhere(web_server: WebServer) -> None:
    web_server.files["/repo"] = TEN
    storage = http_storage(web_server.url)
    assert [storage.get("repo") for _ in range(3)] == [TEN] * 3
    assert pickle.loads(pickle.dumps(storage)).get("repo", 1, 3) == b"12"


@pytest.mark.parametrize(
    ("status", "kind"), [(403, ErrorKind.OBJECT_STORE), (429, ErrorKind.THROTTLED)]
)
def test_failures_are_told(web_server: WebServer, status: int, kind: ErrorKind) -> None:
    web_server.answers["*"] = (status, "<html>")
    once = StorageSettings(retries=StorageRetriesSettings(2, 1, 1))
    with pytest.raises(StorageError) as caught:
        http_storage(web_server.url).with_settings(once).get("repo")
    assert caught.value.kind is kind
    assert len(web_server.seen) == (2 if status == 429 else 1)


def test_no_further_try_begins_after_the_operation_timeout(web_server: WebServer) -> None:
    web_server.answers["*"] = (503, "")
    settings = StorageSettings(
        retries=StorageRetriesSettings(9, 30, 30),
        timeouts=StorageTimeoutSettings(operation_timeout_ms=10),
    )
    with pytest.raises(StorageError):
        http_storage(web_server.url).with_settings(settings).get("repo")
    assert len(web_server.seen) <= 2


def test_a_server_that_is_not_there() -> None:
    once = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))
    with pytest.raises(StorageError, match="cannot reach the store") as caught:
        http_storage("http://user:hunter2@127.0.0.1:9/x?sig=hunter2").with_settings(once).get("k")
    assert "hunter2" not in str(caught.value)


def test_user_and_query_of_the_address_are_sent(web_server: WebServer) -> None:
    web_server.files["/x/a b"] = TEN
    address = web_server.url.replace("http://", "http://user:p%40w@")
    assert http_storage(f"{address}/x?sig=1").get("a b") == TEN
    _, path, headers = web_server.seen[-1]
    assert path == "/x/a%20b?sig=1"
    assert headers["authorization"] == "Basic dXNlcjpwQHc="


def test_a_proxy_is_asked_for_the_whole_address(web_server: WebServer) -> None:
    web_server.answers["*"] = (200, "through")
    proxy = web_server.url.replace("http://", "http://me:pw@")
    storage = http_storage("http://archive.example/x", {"proxy_url": proxy})
    assert storage.get("repo") == b"through"
    _, path, headers = web_server.seen[-1]
    assert path == "http://archive.example/x/repo"
    assert headers["host"] == "archive.example"
    assert headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_needs_no_scheme(
    web_server: WebServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    web_server.answers["*"] = (200, "through")
    monkeypatch.setenv(name, web_server.url.replace("http://", "me:pw@"))
    monkeypatch.setenv("no_proxy", "")
    assert http_storage("http://archive.example/x").get("repo") == b"through"
    assert web_server.seen[-1][2]["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "proxy",
    [
        "socks5://me:hunter2@127.0.0.1:9",
        "https://me:hunter2@127.0.0.1:9",
        "http://me:hunter2@[bad",
        "http://me:hunter2@127.0.0.1:port",
        "http://",
    ],
)
def test_other_proxies_are_refused_and_get_no_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(InvalidInputError, match="http://host:port") as refusal:
        http_storage("http://archive.example/x").get("repo")
    assert "hunter2" not in str(refusal.value)


# --- answers ---


def reply(status: int, body: bytes, **headers: str) -> Reply:
    """An answer with some headers, whose names have no hyphens here."""
    message = HTTPMessage()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return Reply(status, message, body)


@pytest.mark.parametrize(
    ("start", "end", "header"),
    [
        (0, 4, "bytes=0-3"),
        (None, 4, "bytes=0-3"),
        (7, None, "bytes=7-"),
        (-3, None, "bytes=-3"),
    ],
)
def test_a_range_is_told_with_its_last_byte(
    start: int | None, end: int | None, header: str
) -> None:
    assert ranged(start, end) == {"Range": header}
    assert ranged(None, None) == {}


def test_of_a_whole_file_the_asked_part_is_taken() -> None:
    whole = reply(200, TEN)
    spans = [(2, 5), (None, 3), (-3, None), (None, None), (8, 99)]
    assert [body_of(whole, start, end) for start, end in spans] == [
        b"234",
        b"012",
        b"789",
        TEN,
        b"89",
    ]


@pytest.mark.parametrize("told", ["bytes 0-2/10", "bytes */10", ""])
def test_another_part_than_the_asked_one_is_refused(told: str) -> None:
    with pytest.raises(StorageError, match="another part of the object") as caught:
        body_of(reply(206, b"012", Content_Range=told), 2, 5)
    assert caught.value.kind is ErrorKind.OBJECT_STORE
    assert body_of(reply(206, b"234", Content_Range="bytes 2-4/10"), 2, 5) == b"234"
    assert body_of(reply(206, b"89", Content_Range="bytes 8-9/10"), -2, None) == b"89"


def test_size_and_time_of_a_file_are_told_as_well_as_the_server_does() -> None:
    part = reply(206, b"234", Content_Range="bytes 2-4/10", Content_Length="3")
    assert part.size == 10
    assert reply(200, b"", Content_Length="7").size == 7  # as after HEAD
    assert reply(206, b"234", Content_Range="bytes 2-4/*").size == 3
    assert reply(200, b"xx").size == 2
    dated = reply(200, b"", Last_Modified="Sun, 06 Nov 1994 08:49:37 GMT")
    assert dated.modified == datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
    for none in (reply(200, b""), reply(200, b"", Last_Modified="yesterday")):
        assert none.modified == datetime.fromtimestamp(0, UTC)


# --- settings ---


@pytest.mark.parametrize("text", ["", "5", "fast", "-3s", "1.5s"])
def test_an_option_that_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(StorageError, match="'read_timeout' is no duration") as caught:
        http_storage("http://host.example/x", {"read_timeout": text}).get("repo")
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG


def test_a_server_that_does_not_answer_in_time_is_given_up(web_server: WebServer) -> None:
    web_server.gate = threading.Event()
    once = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))
    storage = http_storage(web_server.url, {"read_timeout": "30 ms"}).with_settings(once)
    with pytest.raises(StorageError, match="did not answer in time"):
        storage.get("repo")
    web_server.gate.set()


def test_no_more_of_an_answer_is_read_than_the_limit(web_server: WebServer) -> None:
    web_server.files["/x"] = bytes(5 << 20)
    client = WebClient(HttpPlace(web_server.url), StorageSettings(), "test")
    assert len(client.ask("GET", "x", limit=10).body) == 10
    assert len(client.ask("GET", "x").body) == 5 << 20
    assert client.ask("HEAD", "x").size == 5 << 20
