"""Listing below S3 prefixes with empty parts, when the server does not do as it should."""

from __future__ import annotations

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Storage
from frazil.storage.constructors import s3_storage
from tests.support.web import WebServer


def on_web(server: WebServer) -> Storage:
    """A storage at an odd prefix of what the server takes for a bucket."""
    return s3_storage(
        bucket="bkt",
        prefix="a//b",
        region="us-east-1",
        endpoint_url=server.url,
        allow_http=True,
        access_key_id="key",
        secret_access_key="secret",
    )


def test_a_signed_listing_is_not_sent_elsewhere(web_server: WebServer) -> None:
    web_server.redirects["/bkt"] = f"{web_server.url}/elsewhere"
    with pytest.raises(StorageError, match="did not list this prefix"):
        list(on_web(web_server).list(""))
    assert not any("elsewhere" in path for _, path, _ in web_server.seen)


def page(date: str = "2024-05-01T00:00:00Z", size: str = "1", token: str = "") -> tuple[int, str]:
    """A listing of one object; with a token there is more of it."""
    item = f"<Key>a//b/c</Key><LastModified>{date}</LastModified><Size>{size}</Size>"
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return 200, f"<ListBucketResult><Contents>{item}</Contents>{more}</ListBucketResult>"


def test_a_listing_is_read(web_server: WebServer) -> None:
    web_server.answers["/bkt"] = page()
    assert [(each.key, each.size_bytes) for each in on_web(web_server).list("")] == [("c", 1)]


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<no end"),
        (403, "no"),
        (500, ""),
        page(date="last Tuesday"),
        page(size="many"),
        page(token="again"),
    ],
)
def test_what_is_no_listing_is_an_error(web_server: WebServer, answer: tuple[int, str]) -> None:
    web_server.answers["/bkt"] = answer
    with pytest.raises(StorageError, match="did not list this prefix") as caught:
        list(on_web(web_server).list(""))
    assert "secret" not in str(caught.value)
    assert "Signature" not in str(caught.value)
