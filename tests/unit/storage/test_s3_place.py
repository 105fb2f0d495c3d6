"""Where an S3 bucket is, and how it is talked to."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from obstore.store import S3Store

from frazil.errors import StorageError
from frazil.model.config import (
    ChecksumAlgorithm,
    S3Options,
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.storage.client_settings import Client, Role
from frazil.storage.credential_functions import s3_anonymous_credentials, s3_static_credentials
from frazil.storage.credentials import S3StaticCredentials
from frazil.storage.object import ObjectStorage
from frazil.storage.s3_place import S3Place
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


# --- without requests ---


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of AWS in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def place(bucket: str = "bkt", **options: Any) -> S3Place:  # noqa: ANN401 - of several types
    return S3Place(bucket, "pre", S3Options(**options), s3_anonymous_credentials())


def address_of(made: S3Place) -> tuple[str | None, bool]:
    """The endpoint that a client of a place has, and whether the bucket is in its host name."""
    client = Client(Role.READ, StorageSettings(retries=StorageRetriesSettings(1, 1, 1)), "test")
    opened = made.open(client, None, rooted=False)
    assert isinstance(opened, S3Store)
    config: dict[str, Any] = dict(opened.config)
    hosted = str(config.get("virtual_hosted_style_request")).lower() == "true"
    return config.get("endpoint_url_s3"), hosted


@pytest.mark.usefixtures("no_environment")
def test_an_endpoint_that_is_given_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert place().endpoint is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://all.example")
    assert place().endpoint == "https://all.example"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    assert place().endpoint == "https://s3.example"
    assert place(endpoint_url="https://mine.example").endpoint == "https://mine.example"
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True")
    assert place().endpoint is None


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    ("endpoint", "is_known"),
    [
        (None, True),
        ("https://s3.eu-west-1.amazonaws.com", True),
        ("https://abc.r2.cloudflarestorage.com", True),
        ("https://t3.storage.dev", True),
        ("https://s3.amazonaws.com.evil.example", False),
        ("http://127.0.0.1:9000", False),
    ],
)
def test_only_services_that_honour_conditions_are_trusted_to(
    endpoint: str | None, is_known: bool
) -> None:
    assert place(endpoint_url=endpoint).has_known_conditions == is_known


@pytest.mark.usefixtures("no_environment")
def test_plain_http_is_allowed_only_where_the_address_has_it_and_somebody_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, safe = "HTTP://host.example", "https://host.example"
    assert not place(endpoint_url=plain).allows_http
    assert place(endpoint_url=plain, allow_http=True).allows_http
    assert not place(endpoint_url=safe, allow_http=True).allows_http
    assert not place(allow_http=True).allows_http
    assert replace(place(endpoint_url=plain), accepts_http=True).allows_http
    monkeypatch.setenv("AWS_ALLOW_HTTP", " yes ")
    assert place(endpoint_url=plain).allows_http


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    ("bucket", "given", "endpoint", "is_hosted"),
    [
        ("bkt", None, None, True),
        ("with.dots", None, None, False),
        ("bkt", "https://s3.example/", "https://bkt.s3.example", True),
        ("with.dots", "https://s3.example", "https://s3.example", False),
        ("bkt", "https://s3.example/org", "https://s3.example/org", False),
        ("bkt", "https://localhost:9000", "https://localhost:9000", False),
        ("bkt", "https://127.0.0.1:9000", "https://127.0.0.1:9000", False),
    ],
)
def test_the_bucket_is_in_the_host_name_only_where_it_can_be(
    bucket: str, given: str | None, endpoint: str | None, is_hosted: bool
) -> None:
    assert address_of(place(bucket, region="r", endpoint_url=given)) == (endpoint, is_hosted)
    forced = place(bucket, region="r", endpoint_url=given, force_path_style=True)
    assert address_of(forced) == (None if given is None else given.rstrip("/"), False)


@pytest.mark.usefixtures("no_environment")
def test_an_endpoint_of_the_environment_that_does_not_count_reaches_no_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://elsewhere.example")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "1")
    made = place(region="eu-west-1")
    assert address_of(made) == ("https://bkt.s3.eu-west-1.amazonaws.com", True)


def test_what_is_shown_has_no_secrets_and_no_defaults() -> None:
    made = S3Place(
        "bkt",
        "",
        S3Options(region="r", requester_pays=True),
        s3_static_credentials(access_key_id="AKIA", secret_access_key="hunter2"),
    )
    assert made.fields() == [("bucket", "bkt"), ("region", "r"), ("requester_pays", True)]
    assert "hunter2" not in repr(made) + str(made.fields())
    assert (made.url, made.kind) == ("s3://bkt/", "S3 (native)")
    assert replace(made, keeps_keys=False).kind == "S3"
