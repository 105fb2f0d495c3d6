"""What a store answers when it fails becomes one of our errors, without secrets."""

from __future__ import annotations

import inspect
import pickle
import socket
from collections.abc import Callable
from typing import Any

import pytest
from obstore import exceptions as foreign

from frazil.errors import ErrorKind, FrazilError, StorageError
from frazil.model.config import (
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.credentials import S3StaticCredentials
from frazil.storage.faults import cleaned, fault
from tests.support.servers import HOST, free_port
from tests.support.web import WebServer
from tests.unit.storage.test_object import SECRET, on_web

ANSWERS = [
    (404, "NoSuchBucket", "bucket or container does not exist", ErrorKind.STORAGE_CONFIG),
    (403, "AccessDenied", "access denied", ErrorKind.OBJECT_STORE),
    (403, "InvalidAccessKeyId", "does not know the access key", ErrorKind.OBJECT_STORE),
    (403, "SignatureDoesNotMatch", "secret key", ErrorKind.OBJECT_STORE),
    (400, "ExpiredToken", "expired", ErrorKind.OBJECT_STORE),
    (400, "AuthorizationHeaderMalformed", "region", ErrorKind.STORAGE_CONFIG),
    (301, "PermanentRedirect", "region", ErrorKind.STORAGE_CONFIG),
    (503, "SlowDown", "slow down", ErrorKind.THROTTLED),
    (401, "", "access denied", ErrorKind.OBJECT_STORE),
    (500, "", "the store failed", ErrorKind.OBJECT_STORE),
]


class TestFailures:
    @pytest.mark.parametrize(("status", "code", "text", "kind"), ANSWERS)
    def test_answers_of_the_server_are_explained(
        self, web_server: WebServer, status: int, code: str, text: str, kind: ErrorKind
    ) -> None:
        body = f"<Error><Code>{code}</Code><Message>m</Message></Error>" if code else ""
        web_server.answers["*"] = (status, body)
        storage = on_web(web_server)
        works: list[Callable[[], object]] = [
            lambda: storage.get("k"),
            lambda: storage.put("k", b"x"),
        ]
        for work in works:
            with pytest.raises(StorageError, match=text) as caught:
                work()
            assert caught.value.kind is kind
            # A redirect is followed inside obstore, which does not show the code.
            assert code in str(caught.value) or status == 301
            assert SECRET not in str(caught.value)
            assert "s3://bkt/pre" in str(caught.value)

    def test_an_unreachable_host(self) -> None:
        storage = on_web(WebServer(port=free_port()))
        with pytest.raises(StorageError, match="cannot reach the store") as caught:
            storage.get("k")
        assert caught.value.kind is ErrorKind.IO

    def test_plain_http_must_be_allowed(self, web_server: WebServer) -> None:
        with pytest.raises(StorageError, match="allow_http=True"):
            on_web(web_server, allow_http=False).get("k")
        assert not web_server.seen

    def test_a_silent_server(self) -> None:
        with socket.create_server((HOST, 0)) as silent:
            web = WebServer(port=silent.getsockname()[1])
            limits = StorageTimeoutSettings(operation_attempt_timeout_ms=50)
            storage = on_web(
                web, StorageSettings(retries=StorageRetriesSettings(1, 1, 1), timeouts=limits)
            )
            with pytest.raises(StorageError, match="in time"):
                storage.get("k")

    def test_a_store_that_ignores_conditions_fails_the_probe(self, web_server: WebServer) -> None:
        with pytest.raises(StorageError, match="could be created twice"):
            on_web(web_server).probe_conditional_writes()

    def test_credentials_that_cannot_be_got(self, web_server: WebServer) -> None:
        options: dict[str, Any] = {
            "access_key_id": None,
            "secret_access_key": None,
            "get_credentials": fail,
        }
        with pytest.raises(StorageError, match="bad creds"):
            on_web(web_server, **options).get("k")

    @pytest.mark.parametrize(
        "error_type",
        [t for _, t in inspect.getmembers(foreign, inspect.isclass)] + [OSError, ValueError],
    )
    def test_every_foreign_error_has_a_counterpart(self, error_type: type[Exception]) -> None:
        told = fault(error_type("words?sig=abc"), "read", "k", "s3://b/p")
        assert isinstance(told, FrazilError)
        assert told.kind in ErrorKind
        assert "sig=abc" not in str(told)
        assert pickle.loads(pickle.dumps(told)).kind is told.kind

    def test_secrets_are_cut_out(self) -> None:
        text = "GET https://user:pw@host/x?sv=1&sig=s3cr3t in 1ms, token=abc\n\nDebug source:\nx"
        assert cleaned(ValueError(text)) == "GET https://host/x in 1ms, token=****"


def fail() -> S3StaticCredentials:
    raise RuntimeError("bad creds")


def give_number() -> int:
    return 42
