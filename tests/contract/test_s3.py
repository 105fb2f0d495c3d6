"""S3 keeps the contract, also when replies are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar
from urllib.request import Request
from uuid import uuid4

import pytest

from frazil.errors import StorageError
from frazil.model.config import S3Options, StorageRetriesSettings, StorageSettings
from frazil.storage.base import Fetched, LostRace, Storage, Version, Written
from frazil.storage.credential_functions import s3_static_credentials
from frazil.storage.object import ObjectStorage
from frazil.storage.s3_place import S3Place
from frazil.testing import CommitContract, StorageContract
from tests.support.servers import REGION, CuttingProxy, S3Server, send


def place_on(server: S3Server, prefix: str, endpoint: str | None = None) -> S3Place:
    """A place on the test server."""
    return S3Place(
        server.bucket,
        prefix,
        S3Options(region=REGION, endpoint_url=endpoint or server.endpoint, allow_http=True),
        s3_static_credentials(
            access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
        ),
    )


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


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(proxy: CuttingProxy, s3_server: S3Server) -> ObjectStorage:
    settings = StorageSettings(retries=StorageRetriesSettings(4, 1, 5))
    place = place_on(s3_server, f"lost/{uuid4().hex}", proxy.endpoint)
    return ObjectStorage(place, settings=settings)


def written(answer: Written | LostRace) -> Version:
    """The version of a write that went well."""
    assert isinstance(answer, Written)
    return answer.version


WITHOUT_IDS = StorageSettings(retries=StorageRetriesSettings(4, 1, 5), unsafe_use_metadata=False)


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["with write ids", "without write ids"])
class TestLostReply:
    """A conditional write whose reply is lost is known as our own."""

    @pytest.fixture
    def storage(self, behind: ObjectStorage, *, keeps_ids: bool) -> ObjectStorage:
        return behind if keeps_ids else behind.with_settings(WITHOUT_IDS)

    def test_a_create_is_ours(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("PUT")
        answer = storage.put_if("refs/x", b"ours", None)
        assert proxy.cuts == 1
        found = storage.fetch("refs/x")
        assert isinstance(found, Fetched)
        assert answer == Written(found.version)
        assert storage.put_if("refs/x", b"ours", None) == LostRace("refs/x")

    def test_a_replacement_is_ours(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        storage.put("repo", b"one")
        found = storage.fetch("repo")
        assert isinstance(found, Fetched)
        proxy.lose_reply_to("PUT")
        assert isinstance(storage.put_if("repo", b"two", found.version), Written)
        assert (proxy.cuts, storage.get("repo")) == (1, b"two")

    def test_also_when_the_reading_back_fails_at_first(
        self, storage: ObjectStorage, proxy: CuttingProxy
    ) -> None:
        proxy.lose_reply_to("PUT")
        proxy.lose_reply_to("HEAD", times=2)
        assert isinstance(storage.put_if("refs/x", b"ours", None), Written)
        assert proxy.cuts == 3

    def test_somebody_else_is_not_us(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        storage.put("refs/x", b"theirs")
        proxy.lose_reply_to("PUT")
        assert storage.put_if("refs/x", b"ours", None) == LostRace("refs/x")
        assert storage.get("refs/x") == b"theirs"

    @pytest.mark.parametrize("is_new", [True, False])
    def test_what_others_replaced_meanwhile_is_in_doubt(
        self, storage: ObjectStorage, proxy: CuttingProxy, s3_server: S3Server, *, is_new: bool
    ) -> None:
        direct = ObjectStorage(place_on(s3_server, storage.place.prefix))
        expected = None if is_new else written(storage.put_if("refs/x", b"old", None))
        proxy.lose_reply_to("PUT", then=lambda: direct.put("refs/x", b"theirs"))
        answer = storage.put_if("refs/x", b"ours", expected)
        assert isinstance(answer, LostRace)
        assert answer.in_doubt
        assert direct.get("refs/x") == b"theirs"

    def test_a_plain_refusal_is_not_in_doubt(
        self, storage: ObjectStorage, proxy: CuttingProxy
    ) -> None:
        storage.put("refs/x", b"theirs")
        answer = storage.put_if("refs/x", b"ours", None)
        assert isinstance(answer, LostRace)
        assert not answer.in_doubt

    def test_plain_writes_are_repeated(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("PUT", times=2)
        storage.put("chunks/A", b"bytes")
        assert (proxy.cuts, storage.get("chunks/A")) == (2, b"bytes")


class TestBrokenReply:
    """A reply that breaks off in the middle is asked for again."""

    READS: ClassVar[dict[str, Callable[[ObjectStorage], object]]] = {
        "get": lambda storage: storage.get("a/x"),
        "a range": lambda storage: storage.get("a/x", 100, 900),
        "fetch": lambda storage: storage.fetch("a/x"),
        "many": lambda storage: storage.get_many([("a/x", 0, 500), ("a/y", None, None)]),
        "list": lambda storage: [*storage.list("a/")],
        "list between": lambda storage: [*storage.list_between("a/", "x", "z")],
        "is empty": lambda storage: storage.is_empty(),
    }

    @pytest.fixture
    def storage(self, behind: ObjectStorage) -> ObjectStorage:
        behind.put_many([("a/x", b"x" * 1000), ("a/y", b"y" * 1000)])
        return behind

    @pytest.mark.parametrize("name", READS)
    def test_reads_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy, name: str) -> None:
        wanted = self.READS[name](storage)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert self.READS[name](storage) == wanted
        assert proxy.cuts == 2

    def test_copies_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        found = storage.fetch("a/x")
        assert isinstance(found, Fetched)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert isinstance(storage.copy_if("a/x", "b", found.version), Written)
        assert storage.get("b") == found.data

    def test_but_not_for_ever(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("GET", times=100, passed=0.5)
        with pytest.raises(StorageError):
            storage.get("a/x")
        assert proxy.cuts < 100


def test_equal_bytes_of_somebody_else_are_not_ours(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex))
    assert isinstance(storage.put_if("refs/tag.t/ref.json", b"same", None), Written)
    assert storage.put_if("refs/tag.t/ref.json", b"same", None) == LostRace("refs/tag.t/ref.json")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("consent", ["environment", "argument"])
def test_endpoint_of_the_environment(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, consent: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nobody.invalid")
    monkeypatch.setenv(name, s3_server.endpoint)
    if consent == "environment":
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    options = S3Options(region=REGION, allow_http=consent == "argument")
    place = replace(place_on(s3_server, uuid4().hex), options=options)
    assert not place.has_known_conditions
    storage = ObjectStorage(place)
    storage.put("a", b"found")
    assert ObjectStorage(place_on(s3_server, place.prefix)).get("a") == b"found"


def test_plain_http_of_the_environment_needs_consent(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    place = replace(place_on(s3_server, uuid4().hex), options=S3Options(region=REGION))
    with pytest.raises(StorageError, match="allow_http"):
        ObjectStorage(place).get("a")
    assert ObjectStorage(replace(place, accepts_http=True)).get("a") is None


def test_this_server_passes_the_probe(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex))
    storage.probe_conditional_writes()
    assert storage.is_empty()


def test_unconditional_writes_on_request(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex)).with_settings(
        StorageSettings(unsafe_use_conditional_create=False, unsafe_use_conditional_update=False)
    )
    storage.put("k", b"old")
    assert isinstance(storage.put_if("k", b"new", None), Written)
    assert isinstance(storage.put_if("k", b"newer", Version('"stale"')), Written)
    assert storage.get("k") == b"newer"


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
