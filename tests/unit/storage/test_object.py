"""What object storage sends, how it explains failures, and how it travels."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any
from uuid import uuid4

import pytest

from frazil.errors import ErrorKind, InvalidInputError, ReadOnlyError, StorageError
from frazil.model.config import (
    Attribution,
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.storage.base import Attributes, Fetched, Written
from frazil.storage.clients import Clients
from frazil.storage.constructors import http_storage, s3_storage
from frazil.storage.object import ObjectStorage
from frazil.storage.requests import begin_get
from frazil.storage.s3_place import S3Place
from tests.support.servers import REGION, S3Server
from tests.support.web import WebServer

ONCE = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))
THRICE = StorageSettings(retries=StorageRetriesSettings(3, 1, 2))
SECRET = "very-secret-key"


def on_web(
    web: WebServer,
    settings: StorageSettings = ONCE,
    **options: Any,  # noqa: ANN401
) -> ObjectStorage:
    """A storage that speaks S3 to a server which only records."""
    given: dict[str, Any] = {
        "bucket": "bkt",
        "prefix": "pre",
        "region": REGION,
        "endpoint_url": web.url,
        "allow_http": True,
        "access_key_id": "AKIA",
        "secret_access_key": SECRET,
    }
    storage = s3_storage(**given | options)
    assert isinstance(storage, ObjectStorage)
    return storage.with_settings(settings)


def on_server(server: S3Server, **options: Any) -> ObjectStorage:  # noqa: ANN401
    """A storage on the S3 server."""
    given: dict[str, Any] = {
        "bucket": server.bucket,
        "prefix": uuid4().hex,
        "region": REGION,
        "endpoint_url": server.endpoint,
        "allow_http": True,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    storage = s3_storage(**given | options)
    assert isinstance(storage, ObjectStorage)
    return storage


class TestRequests:
    def test_keys_lie_below_bucket_and_prefix(self, web_server: WebServer) -> None:
        on_web(web_server, prefix="pre/").put("chunks/A", b"x")
        assert web_server.files == {"/bkt/pre/chunks/A": b"x"}

    def test_metadata_is_sent_and_can_be_switched_off(self, web_server: WebServer) -> None:
        attributes = Attributes("application/json", {"ic_spec_ver": "2"})
        storage = on_web(web_server)
        storage.put_if("repo", b"x", None, attributes)
        (sent,) = web_server.headers_of("PUT")
        assert sent["x-amz-meta-icspecver"] == "2"
        assert sent["content-type"] == "application/json"
        assert sent["x-amz-meta-icechunkwriteid"]
        assert sent["if-none-match"] == "*"
        bare = StorageSettings(unsafe_use_metadata=False)
        storage.with_settings(bare).put_if("repo", b"x", None, attributes)
        sent = web_server.headers_of("PUT")[1]
        assert not [name for name in sent if name.startswith("x-amz-meta")]
        assert sent.get("content-type") != "application/json"

    def test_chunks_have_a_storage_class_of_their_own(self, web_server: WebServer) -> None:
        settings = StorageSettings(storage_class="COMMON", chunks_storage_class="COLD")
        storage = on_web(web_server, settings)
        storage.put("repo", b"x")
        storage.put("chunks/A", b"x", Attributes(is_chunk=True))
        classes = [h["x-amz-storage-class"] for h in web_server.headers_of("PUT")]
        assert classes == ["COMMON", "COLD"]

    def test_headers_go_with_their_role_and_are_signed(self, web_server: WebServer) -> None:
        storage = on_web(
            web_server,
            headers={"x-both": "1", "x-role": "both"},
            read_headers={"X-Role": "read"},
            write_headers={"x-amz-acl": "bucket-owner-full-control"},
        )
        storage = pickle.loads(pickle.dumps(storage))
        storage.put("k", b"x")
        storage.get("k")
        (put,), (get,) = web_server.headers_of("PUT"), web_server.headers_of("GET")
        assert (put["x-both"], put["x-role"]) == ("1", "both")
        assert put["x-amz-acl"] == "bucket-owner-full-control"
        assert "x-amz-acl" in put["authorization"]
        assert (get["x-both"], get["x-role"]) == ("1", "read")
        assert "x-amz-acl" not in get

    def test_labels_are_in_the_user_agent(self, web_server: WebServer) -> None:
        labels = Attribution(client="wrapper/1.0", workload="wl", principal="me")
        on_web(web_server).with_attribution(labels).get("k")
        agent = web_server.headers_of("GET")[0]["user-agent"]
        assert "wrapper/1.0 icechunk/" in agent
        assert agent.endswith("(workload=wl; principal=me)")

    def test_failures_are_repeated_as_often_as_set(self, web_server: WebServer) -> None:
        web_server.answers["*"] = (500, "")
        with pytest.raises(StorageError):
            on_web(web_server, THRICE).get("k")
        assert len(web_server.headers_of("GET")) == 3
        with pytest.raises(StorageError):
            on_web(web_server, THRICE).put_if("k", b"x", None)
        assert len(web_server.headers_of("PUT")) == 3


def test_it_travels_as_configuration(s3_server: S3Server) -> None:
    storage = on_server(s3_server)
    storage.put("k", b"x")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy.get("k") == b"x"
    assert copy.url == storage.url
    assert repr(copy) == repr(storage)
    assert s3_server.secret_access_key not in repr(storage)


def _read(storage: ObjectStorage, answers: multiprocessing.Queue[object]) -> None:
    try:
        answers.put(storage.get("k"))
    except StorageError as error:
        answers.put(str(error))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(("method", "expected"), [("fork", "spawn"), ("spawn", b"x")])
def test_other_processes_work_or_say_why_not(
    s3_server: S3Server, method: str, expected: object
) -> None:
    storage = on_server(s3_server)
    storage.put("k", b"x")
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=_read, args=(storage, answers))
    child.start()
    answer = answers.get(timeout=60)
    child.join(60)
    assert answer == expected if isinstance(expected, bytes) else str(expected) in str(answer)


def test_a_limit_of_one_request_at_a_time_works(s3_server: S3Server) -> None:
    storage = on_server(s3_server).with_request_limit(1)
    written = storage.put_if("k", b"x", None)
    assert isinstance(written, Written)
    assert isinstance(storage.copy_if("k", "copy", written.version), Written)
    assert storage.get_many([("k", 0, 1), ("copy", None, None)]) == [b"x", b"x"]
    assert storage.get("k", 1, 5) == b""


def test_the_copy_keeps_metadata(s3_server: S3Server) -> None:
    storage = on_server(s3_server)
    storage.put_if("repo", b"x", None, Attributes("application/json", {"ic_spec_ver": "2"}))
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    storage.copy_if("repo", "overwritten/repo.1", found.version)
    place = storage.place
    assert isinstance(place, S3Place)
    kept = begin_get(Clients(place, StorageSettings()), "overwritten/repo.1", {})
    assert kept is not None
    assert kept.attributes["icspecver"] == "2"
    assert kept.attributes["Content-Type"] == "application/json"


class TestHttp:
    def test_a_web_server_can_be_read(self, web_server: WebServer) -> None:
        web_server.files["/a/repo"] = b"0123456789"
        storage = http_storage(f"{web_server.url}/a", headers={"authorization": "Bearer t"})
        assert storage.get("repo") == b"0123456789"
        assert storage.get("repo", 2, 5) == b"234"
        assert storage.get("repo", -3) == b"789"
        assert storage.get("none") is None
        assert isinstance(storage.fetch("repo"), Fetched)
        assert storage.head("none") is None
        assert storage.get_many([("repo", 0, 1), ("none", 0, 1), ("repo", 8, 10)]) == [
            b"0",
            None,
            b"89",
        ]
        assert all(h["authorization"] == "Bearer t" for h in web_server.headers_of("GET"))
        assert "Bearer" not in repr(storage)

    def test_a_server_without_ranges_too(self, web_server: WebServer) -> None:
        web_server.files["/repo"] = b"0123456789"
        web_server.has_ranges = False
        storage = http_storage(web_server.url)
        assert storage.get("repo", 2, 5) == b"234"
        assert storage.get_many([("repo", 0, 2), ("repo", 7, 99)]) == [b"01", b"789"]

    def test_it_cannot_be_written(self, web_server: WebServer) -> None:
        storage = http_storage(web_server.url)
        assert not storage.can_write
        for work in (
            lambda: storage.put("k", b""),
            lambda: storage.put_if("k", b"", None),
            lambda: storage.delete_many(["k"]),
        ):
            with pytest.raises(ReadOnlyError) as caught:
                work()
            assert caught.value.kind is ErrorKind.READ_ONLY_STORAGE
        assert not web_server.seen

    def test_the_password_in_an_address_is_not_shown(self) -> None:
        storage = http_storage("https://user:hunter2@example.org/x")
        assert "hunter2" not in repr(storage) + storage.url


def test_bad_headers_are_refused_before_any_request() -> None:
    for headers in ({"bad name": "v"}, {"name": "line\nbreak"}):
        with pytest.raises(InvalidInputError, match="invalid HTTP header"):
            s3_storage(bucket="b", prefix="p", write_headers=headers)
