"""Where an S3 bucket is, and how it is talked to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from frazil.errors import StorageError
from frazil.model.config import (
    ChecksumAlgorithm,
    S3Options,
)
from frazil.storage.credentials import S3StaticCredentials
from frazil.storage.object import ObjectStorage
from tests.support.s3_places import place_on
from tests.support.servers import REGION, S3Server
from tests.support.web import WebServer
from tests.unit.storage.test_object import on_web


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


def test_the_payer_and_the_checksum_are_told(web_server: WebServer) -> None:
    options: dict[str, Any] = {
        "requester_pays": True,
        "checksum_algorithm": ChecksumAlgorithm.Sha256,
    }
    on_web(web_server, **options).put("k", b"x")
    (sent,) = web_server.headers_of("PUT")
    assert sent["x-amz-request-payer"] == "requester"
    assert sent["x-amz-checksum-sha256"]


def test_a_checksum_that_cannot_be_sent_is_warned_about(
    web_server: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = f"b{uuid4().hex}"
    options: dict[str, Any] = {
        "bucket": bucket,
        "checksum_algorithm": ChecksumAlgorithm.Crc32c,
    }
    for _ in range(2):
        on_web(web_server, **options).put("k", b"x")
    told = [r.getMessage() for r in caplog.records if bucket in r.getMessage()]
    assert len(told) == 1
    assert "Crc32c" in told[0]
    assert not any("checksum" in name for name in web_server.headers_of("PUT")[0])


def test_anonymous_requests_are_not_signed(web_server: WebServer) -> None:
    options: dict[str, Any] = {
        "access_key_id": None,
        "secret_access_key": None,
        "anonymous": True,
    }
    on_web(web_server, **options).get("k")
    assert "authorization" not in web_server.headers_of("GET")[0]


def test_a_foreign_session_token_is_not_picked_up(
    web_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody-else")
    on_web(web_server).get("k")
    assert "x-amz-security-token" not in web_server.headers_of("GET")[0]


NO_KEY: dict[str, Any] = {"access_key_id": None, "secret_access_key": None}


def give_test_key() -> S3StaticCredentials:
    return S3StaticCredentials("renewed", "secret")


def test_renewed_keys_sign_requests(web_server: WebServer) -> None:
    on_web(web_server, **NO_KEY, get_credentials=give_test_key).get("k")
    assert "Credential=renewed/" in web_server.headers_of("GET")[0]["authorization"]
