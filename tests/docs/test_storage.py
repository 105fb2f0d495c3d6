"""The guide to storages: its examples run as printed, and its variables count."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import frazil
from frazil.storage.by_url import _FLAGS, _PLAIN, storage_from_url
from tests.support.documents import program
from tests.support.fixtures import s3_server, web_server
from tests.support.servers import S3Server, send
from tests.support.web import WebServer

__all__ = ["s3_server", "web_server"]

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "storage.md"
AMAZON: Final = re.compile(r"AWS_\w+")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in AMAZON.findall(PAGE.read_text()):
        monkeypatch.setenv(name, "")  # so that whatever the page sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.slow
def test_examples_run_as_printed(s3_server: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = f"{s3_server.endpoint}/archive"
    assert send(urllib.request.Request(bucket, method="PUT")) == 200
    text = program(PAGE).replace("http://127.0.0.1:9000", s3_server.endpoint)
    with frazil.config.set(redirect_hosts=""):
        exec(compile(text, str(PAGE), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "archive" in printed
    assert "sig" not in printed


def test_options_of_urls_are_all_there() -> None:
    text = PAGE.read_text()
    found = re.search(r"options can be part of its query: (.*?)\.", text, re.DOTALL)
    assert found is not None
    assert {*re.findall(r"`(\w+)`", found[1])} == _FLAGS | _PLAIN


def asked(web: WebServer, url: str = "s3://bucket/p") -> dict[str, str]:
    """The headers of a request for an object."""
    web.files["/bucket/p/k"] = b"here"
    web.seen.clear()
    assert storage_from_url(url).get("k") == b"here"
    return web.seen[-1][2]


def keys(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mykey")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "mytoken")
    headers = asked(web)
    assert "Credential=mykey/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "mytoken"


def regions(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    keys(monkeypatch, web, folder)
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.setenv(name, name.lower())
        assert f"/{name.lower()}/s3/" in asked(web)["authorization"]


def endpoints(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    asked(web, "s3://bucket/p?anonymous")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
    asked(web, "s3://bucket/p?anonymous")


def ignored(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
    place = storage_from_url("s3://bucket/p?anonymous&region=eu-north-1")._clients  # type: ignore[attr-defined]
    assert "bucket.s3.eu-north-1.amazonaws.com" in str(place.reader.config)
    assert web.url not in str(place.reader.config)


def unencrypted(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    asked(web, "s3://bucket/p?anonymous")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(frazil.StorageError, match="allow_http"):
        asked(web, "s3://bucket/p?anonymous")


def profiles(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    (folder / "c").write_text("[profile work]\nregion = home-1\n")
    (folder / "s").write_text("[work]\naws_access_key_id = filed\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "c"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "s"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    found = asked(web)["authorization"]
    assert "Credential=filed/" in found
    assert "/home-1/s3/" in found


def pods(monkeypatch: pytest.MonkeyPatch, web: WebServer, folder: Path) -> None:
    """What only Amazon's servers can answer is at least asked by the right client."""
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
    with pytest.raises(frazil.StorageError):
        asked(web)


Check = Callable[[pytest.MonkeyPatch, WebServer, Path], None]
CHECKS: dict[Check, tuple[str, ...]] = {
    keys: ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    regions: ("AWS_REGION", "AWS_DEFAULT_REGION"),
    endpoints: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    ignored: ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",),
    unencrypted: ("AWS_ALLOW_HTTP",),
    profiles: ("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    pods: ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
}


def test_every_variable_of_amazon_is_tried() -> None:
    rows = [row.split("|")[1] for row in PAGE.read_text().splitlines() if "| S3 |" in row]
    assert {*AMAZON.findall(" ".join(rows))} == {
        name for names in CHECKS.values() for name in names
    }


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_variables_count(
    check: Check, web_server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", web_server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    check(monkeypatch, web_server, tmp_path)


def test_arguments_count_more_than_the_environment(
    web_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "elsewhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    storage = frazil.s3_storage(
        bucket="bucket",
        prefix="p",
        endpoint_url=web_server.url,
        allow_http=True,
        region="here",
        access_key_id="mine",
        secret_access_key="x",
    )
    web_server.files["/bucket/p/k"] = b"here"
    assert storage.get("k") == b"here"
    found = web_server.headers_of("GET")[-1]["authorization"]
    assert "Credential=mine/" in found
    assert "/here/s3/" in found
