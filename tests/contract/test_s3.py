"""S3 keeps the contract, also when replies are lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from urllib.request import Request
from uuid import uuid4

import pytest

from frazil.model.config import StorageSettings
from frazil.storage.base import Fetched, Storage, Written
from frazil.storage.object import ObjectStorage
from frazil.testing import CommitContract, StorageContract
from tests.support.s3_places import place_on
from tests.support.servers import S3Server, send


class TestS3(StorageContract):
    @pytest.fixture
    def storage(self, s3_server: S3Server) -> Storage:
        return ObjectStorage(place_on(s3_server, f"contract/{uuid4().hex}"))

    def test_head_and_listing_tell_size_and_time(self, storage: Storage) -> None:
        storage.put("a/k", b"0123456789")
        head, (listed,) = storage.head("a/k"), storage.list("a/")
        assert head is not None
        assert (head.key, head.size_bytes) == (listed.key, listed.size_bytes) == ("a/k", 10)
        # HTTP headers tell whole seconds, listings more.
        assert timedelta(0) <= listed.created_at - head.created_at < timedelta(seconds=1)


@pytest.mark.parametrize("prefix", ["/two//slashes/{}"])
class TestOddPrefix(TestS3):
    """Prefixes with empty parts, which the official package uses as they are."""

    @pytest.fixture
    def storage(self, s3_server: S3Server, prefix: str) -> Storage:
        return ObjectStorage(place_on(s3_server, prefix.format(uuid4().hex)))


@pytest.mark.parametrize("prefix", ["/slash/{}", "two//slashes/{}", "behind/{}/"])
def test_keys_are_spelled_like_the_prefix(s3_server: S3Server, prefix: str) -> None:
    bare = prefix.format(uuid4().hex)
    storage = ObjectStorage(place_on(s3_server, bare))
    assert storage.is_empty()
    storage.put("chunks/A", b"here")
    address = f"{s3_server.endpoint}/{s3_server.bucket}/{bare}/chunks/A"
    assert send(Request(address, method="HEAD")) == 200
    assert not storage.is_empty()


def test_this_server_passes_the_probe(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex))
    storage.probe_conditional_writes()
    assert storage.is_empty()


@pytest.mark.parametrize(
    ("from_bytes", "parts"),
    [(1 << 20, 5), (None, 5), (100 << 20, 1)],
    ids=["small", "default", "large"],
)
def test_large_objects_go_up_and_down_in_parts(
    s3_server: S3Server, from_bytes: int | None, parts: int
) -> None:
    settings = StorageSettings(minimum_size_for_multipart_upload=from_bytes)
    assert settings.concurrency is None
    storage = ObjectStorage(place_on(s3_server, uuid4().hex), settings=settings)
    data = bytes(range(251)) * 140_000
    storage.put("chunks/A", data)
    found = storage.fetch("chunks/A")
    assert isinstance(found, Fetched)
    _, _, told = (found.version.etag or "").strip('"').partition("-")  # how many parts
    assert int(told or 1) == parts
    assert storage.get("chunks/A") == data
    assert storage.get("chunks/A", 5, 30_000_000) == data[5:30_000_000]


class TestBucketRoot:
    """An empty prefix means the bucket itself, with or without a slash before keys."""

    @pytest.fixture
    def server(self, s3_server: S3Server) -> S3Server:
        server = replace(s3_server, bucket=f"root-{uuid4().hex[:8]}")
        url = f"{server.endpoint}/{server.bucket}"
        assert send(Request(url, method="PUT")) == 200
        return server

    def test_keys_are_plain(self, server: S3Server) -> None:
        storage = ObjectStorage(place_on(server, ""))
        assert storage.is_empty()
        storage.put("repo", b"x")
        assert [item.key for item in storage.list()] == ["repo"]
        assert not storage.allows_empty_prefix

    def test_an_old_rooted_layout_is_found(self, server: S3Server) -> None:
        old = ObjectStorage(place_on(server, ""), legacy_rooted_keys=True)
        old.put("repo", b"rooted")
        old.put("chunks/A", b"chunk")
        storage = ObjectStorage(place_on(server, ""))
        assert storage.get("repo") == b"rooted"
        assert ObjectStorage(place_on(server, ""), legacy_rooted_keys=False).get("repo") is None
        assert [item.key for item in storage.list("chunks/")] == ["chunks/A"]
        assert isinstance(storage.put_if("refs/x", b"1", None), Written)
        assert storage.delete_many(["chunks/A", "refs/x"]).keys == 2
        assert [item.key for item in storage.list()] == ["repo"]

    def test_both_layouts_at_once_are_refused(self, server: S3Server) -> None:
        ObjectStorage(place_on(server, ""), legacy_rooted_keys=True).put("repo", b"rooted")
        ObjectStorage(place_on(server, ""), legacy_rooted_keys=False).put("repo", b"plain")
        with pytest.raises(Exception, match="legacy_rooted_keys"):
            ObjectStorage(place_on(server, "")).get("repo")


class TestCommitsOnS3(CommitContract):
    @pytest.fixture(params=["v2"])
    def spec(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def storage(self, s3_server: S3Server) -> Storage:
        return ObjectStorage(place_on(s3_server, f"commits/{uuid4().hex}"))
