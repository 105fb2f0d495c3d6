"""A repository behind a web server: its versions, its ranges, and no listing from elsewhere."""

from __future__ import annotations

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Fetched, Unchanged
from frazil.storage.constructors import http_storage
from tests.support.web import WebServer

TEN = b"0123456789"
HEADERS = {"Authorization": "Bearer secret", "X-Api-Key": "secret"}


def test_listing_is_not_redirected_either(web_server: WebServer, other: WebServer) -> None:
    web_server.redirects = {"/x/": f"{other.url}/x/", "/x/refs": f"{other.url}/x/refs"}
    storage = http_storage(f"{web_server.url}/x", headers=HEADERS)
    for work in (storage.is_empty, lambda: list(storage.list("refs/"))):
        with pytest.raises(StorageError):
            work()
    assert not other.seen


def test_versions_are_told(web_server: WebServer) -> None:
    web_server.files["/repo"] = TEN
    storage = http_storage(web_server.url)
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    assert found.data == TEN
    assert storage.fetch("repo", found.version) == Unchanged()
    seen = storage.head("repo")
    assert seen is not None
    assert (seen.size_bytes, seen.created_at.timestamp()) == (10, web_server.modified)


def test_near_parts_share_a_request(web_server: WebServer) -> None:
    web_server.files = {"/a": bytes(range(200)) * 1000, "/b": TEN}
    storage = http_storage(web_server.url)
    wanted = [("a", 5, 9), ("b", 0, 3), ("a", 0, 2), ("none", 0, 1), ("a", 190_000, 190_003)]
    wanted += [("b", 8, 12), ("a", 7, 20), ("a", 199_999, 200_010)]
    parts = storage.get_many(wanted)
    whole = {"a": bytes(range(200)) * 1000, "b": TEN}
    assert parts == [whole[key][start:end] if key in whole else None for key, start, end in wanted]
    web_server.seen.clear()
    assert storage.get_many([("a", 0, 2), ("a", 100, 102), ("a", 4000, 4001)])[1] == b"de"
    assert len(web_server.seen) == 1
    assert storage.get_many([("b", None, None), ("b", -2, None), ("a", 3, 3)]) == [TEN, b"89", b""]


def test_ranges_beyond_the_end(web_server: WebServer) -> None:
    web_server.files["/repo"] = TEN
    storage = http_storage(web_server.url)
    assert storage.get("repo", 8, 99) == b"89"
    assert storage.get("repo", 10, 12) == b""
    assert storage.get("repo", 3, 3) == b""
    with pytest.raises(StorageError, match="beyond the end"):
        storage.get("repo", 11, 12)
