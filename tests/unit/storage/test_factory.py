"""Redirects lead to the storage of the URL that they end at."""

from __future__ import annotations

import pickle

import pytest

from frazil.errors import ErrorKind, FrazilError, StorageError
from frazil.storage.constructors import (
    redirect_storage,
)
from frazil.storage.web import RedirectStorage
from tests.support.web import WebServer


class TestRedirect:
    def test_redirects_are_followed_once(self, web_server: WebServer) -> None:
        target = web_server.url.replace("http", "http+ic") + "/data"
        web_server.redirects = {
            "/start": "/next",
            "/next": f"{web_server.url}/last",
            "/last": target,
        }
        web_server.files["/data/repo"] = b"found"
        storage = redirect_storage(f"{web_server.url}/start")
        assert not web_server.seen
        assert storage.get("repo") == b"found"
        assert storage.get("none") is None
        assert [path for _, path, _ in web_server.seen][:3] == ["/start", "/next", "/last"]
        assert not storage.can_write
        assert "type: redirect" in str(storage)

    def test_it_travels_and_takes_settings(self, web_server: WebServer) -> None:
        web_server.redirects["/start"] = web_server.url.replace("http", "http+icechunk")
        web_server.files["/repo"] = b"found"
        storage = redirect_storage(f"{web_server.url}/start")
        storage = storage.with_settings(storage.default_settings())
        assert pickle.loads(pickle.dumps(storage)).get("repo") == b"found"

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ("s3://bucket/a/b?region=r", "s3://bucket/a/b"),
            ("gs://bucket/a", "gs://bucket/a"),
            ("r2://bucket/a?account_id=x", "s3://bucket/a"),
            ("tigris://bucket/a", "s3://bucket/a"),
        ],
    )
    def test_targets(self, web_server: WebServer, target: str, expected: str) -> None:
        web_server.redirects["/"] = target
        storage = redirect_storage(f"{web_server.url}/")
        assert isinstance(storage, RedirectStorage)
        assert storage.inner.url == expected

    @pytest.mark.parametrize(
        "target", ["ftp://host/x", "s3://bucket/without-region", "r2://b/p", "/loop"]
    )
    def test_targets_that_lead_nowhere(self, web_server: WebServer, target: str) -> None:
        web_server.redirects = {"/": target, "/loop": "/loop"}
        with pytest.raises(FrazilError) as caught:
            redirect_storage(f"{web_server.url}/").get("repo")
        assert caught.value.kind is ErrorKind.BAD_REDIRECT

    def test_an_answer_that_is_no_redirect(self, web_server: WebServer) -> None:
        with pytest.raises(StorageError, match="expected a redirect"):
            redirect_storage(f"{web_server.url}/").get("repo")
