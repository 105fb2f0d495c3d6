"""An object store that redirects elsewhere leads nobody there, whatever is asked of it."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from frazil import config
from frazil.errors import ErrorKind, FrazilError, StorageError
from frazil.ingestion.sources import look, read_head
from frazil.model.chunks import VirtualRef
from frazil.model.config import S3Options, StorageRetriesSettings, StorageSettings
from frazil.storage.base import Storage, Version
from frazil.storage.constructors import (
    azure_storage,
    gcs_storage,
    http_storage,
    s3_storage,
    s3_store,
)
from frazil.storage.credential_functions import s3_credentials
from frazil.storage.credentials import Credentials, S3Credentials
from frazil.storage.fence import amazon_hosts, azure_hosts, fenced, google_hosts, plain_host
from frazil.storage.s3_place import S3Place
from tests.support.web import WebServer
from tests.support.web import web_server as another
from tests.unit.storage.test_virtual import containers

HUSH = "HUSH7"
ONCE = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))
HEADERS = {"X-Api-Key": HUSH}
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def other() -> Iterator[WebServer]:
    """A server under another name of this machine."""
    with another() as server:
        server.files = {"/there": b"0123456789"}
        yield server


def elsewhere(other: WebServer) -> str:
    return f"http://localhost:{other.port}/there"


def s3(url: str) -> Storage:
    return s3_storage(
        bucket="bucket",
        prefix="p",
        endpoint_url=url,
        allow_http=True,
        region="us-east-1",
        access_key_id="key",
        secret_access_key=HUSH,
        session_token=HUSH,
        headers=HEADERS,
    )


def gcs(url: str) -> Storage:
    options = {"base_url": url, "allow_http": "true"}
    return gcs_storage(
        bucket="bucket", prefix="p", bearer_token=HUSH, config=options, headers=HEADERS
    )


def azure(url: str) -> Storage:
    options = {"endpoint": url, "allow_http": "true"}
    token = f"sv=2023&sig={HUSH}"
    return azure_storage(
        account="acc", container="bucket", prefix="p", sas_token=token, config=options
    )


STORES: dict[str, Callable[[str], Storage]] = {"s3": s3, "gcs": gcs, "azure": azure}
USES: dict[str, Callable[[Storage], object]] = {
    "get": lambda storage: storage.get("k"),
    "get_many": lambda storage: storage.get_many([("k", 0, 2), ("k", 5, 9)]),
    "fetch": lambda storage: storage.fetch("k"),
    "head": lambda storage: storage.head("k"),
    "list": lambda storage: [*storage.list("")],
    "put": lambda storage: storage.put("k", b"data"),
    "put_if": lambda storage: storage.put_if("k", b"data", Version('"x"', "5")),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", STORES)
def test_no_request_reaches_another_host(
    kind: str, use: str, web_server: WebServer, other: WebServer
) -> None:
    web_server.redirects = {"*": elsewhere(other)}
    storage = STORES[kind](web_server.url).with_settings(ONCE)
    for web_server.redirect_status in (302, 307):
        with pytest.raises(StorageError, match="redirects to another address") as caught:
            USES[use](storage)
        assert caught.value.kind is ErrorKind.BAD_REDIRECT
        assert HUSH not in f"{caught.value} {caught.value.facts}"
        if kind != "azure":  # where obstore hides the address, with the token in it
            assert f" {web_server.url}/bucket" in str(caught.value)
            assert f"another address, {elsewhere(other)}, which" in str(caught.value)
    assert web_server.seen
    assert not other.seen


def test_a_refused_write_is_known_not_to_have_happened(
    web_server: WebServer, other: WebServer
) -> None:
    web_server.redirects = {"*": elsewhere(other)}
    web_server.redirect_status = 307
    storage = s3(web_server.url).with_settings(ONCE)
    with pytest.raises(StorageError, match="redirects"):
        storage.put_if("k", b"data", None)
    assert not other.seen


@pytest.mark.parametrize("kind", STORES)
def test_what_an_allowed_host_gets(kind: str, web_server: WebServer, other: WebServer) -> None:
    """As the documents tell: obstore leaves the signature behind, and nothing else."""
    web_server.redirects = {"*": elsewhere(other)}
    with config.set(redirect_hosts=f"example.org, localhost:{other.port}"):
        storage = STORES[kind](web_server.url).with_settings(ONCE)
        assert storage.get("k") == b"0123456789"
    ((_, _, headers),) = other.seen
    assert "authorization" not in headers
    carried = {name for name, value in headers.items() if HUSH in value}
    told = {"s3": {"x-api-key", "x-amz-security-token"}, "gcs": {"x-api-key"}, "azure": {"referer"}}
    assert carried == told[kind]


@pytest.mark.parametrize("kind", STORES)
def test_a_redirect_at_the_same_host_is_followed(kind: str, web_server: WebServer) -> None:
    web_server.files["/there"] = b"0123456789"
    paths = {"s3": "/bucket/p/k", "gcs": "/bucket/p/k", "azure": "/bucket/p/k"}
    web_server.redirects = {paths[kind]: "/there"}
    assert STORES[kind](web_server.url).with_settings(ONCE).get("k") == b"0123456789"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LocalHost", "127.1", "0x7f000001", "2130706433"]
)
def test_the_host_that_was_named_is_reached(host: str, web_server: WebServer) -> None:
    web_server.files["/bucket/p/k"] = b"here"
    storage = s3(f"http://{host}:{web_server.port}").with_settings(ONCE)
    assert storage.get("k") == b"here"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is nothing to make keys with")
def test_an_encrypted_store_does_not_lead_to_plain_http(other: WebServer, tmp_path: Path) -> None:
    """Not even at its own host: whoever listens there would read headers and tokens."""
    files = ["-keyout", f"{tmp_path}/key", "-out", f"{tmp_path}/cert"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", *files]
    subprocess.run(command, check=True, capture_output=True)
    with another() as secure, encrypted(secure, tmp_path) as url:
        secure.redirects = {"*": f"http://127.0.0.1:{other.port}/there"}
        known = {"base_url": url, "allow_http": "true", "allow_invalid_certificates": "true"}
        storage = gcs_storage(
            bucket="bucket", prefix="p", bearer_token=HUSH, config=known, headers=HEADERS
        )
        with pytest.raises(StorageError, match="redirects to another address") as caught:
            storage.with_settings(ONCE).get("k")
        assert caught.value.kind is ErrorKind.BAD_REDIRECT
        assert secure.seen
    assert not other.seen
    for given, allowed in (("https://h", False), ("http://h", True), (None, False)):
        place = S3Place(
            "b", "", S3Options(endpoint_url=given, allow_http=True), S3Credentials.Anonymous()
        )
        assert place.allows_http is allowed


@contextmanager
def encrypted(server: WebServer, folder: Path) -> Iterator[str]:
    """The address of a proxy that takes the encryption off before a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near = context.wrap_socket(listener.accept()[0], server_side=True)
                    far = socket.create_connection(("127.0.0.1", server.port))
                    far.sendall(near.recv(65536))
                    near.sendall(far.recv(65536))
                    near.close()
                    far.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


def test_virtual_chunks_stay_at_their_host(web_server: WebServer, other: WebServer) -> None:
    web_server.redirects = {"*": elsewhere(other)}
    store = s3_store("us-east-1", web_server.url, allow_http=True, s3_compatible=True)
    key = s3_credentials(access_key_id="key", secret_access_key=HUSH, session_token=HUSH)
    secret = Credentials.S3(key)
    made = containers(("s3://bucket/", store, None), authorized={"s3://bucket/": secret})
    for fetch in (
        lambda: made.fetch(VirtualRef("s3://bucket/x", 0, 10)),
        lambda: made.fetch_many([VirtualRef("s3://bucket/x", 0, 10)] * 2),
    ):
        with pytest.raises(
            FrazilError, match="redirects to another address, http://local"
        ) as caught:
            fetch()
        assert HUSH not in str(caught.value)
    assert not other.seen


def test_files_to_ingest_stay_at_their_host(
    web_server: WebServer, other: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.ingestion.sources.StorageSettings", lambda: ONCE)
    web_server.redirects = {"/a.nc": elsewhere(other)}
    for read in (look, lambda url: read_head(url, 4)):
        with pytest.raises(StorageError, match="redirects to another address") as caught:
            read(f"{web_server.url}/a.nc")
        assert "localhost" in str(caught.value)
    assert not other.seen
    allowed = {"redirect_hosts": "localhost"}
    assert http_storage(web_server.url, allowed).get("a.nc") == b"0123456789"
    assert read_head(f"{web_server.url}/a.nc", 4, allowed) == b"0123"
    with config.set(allowed):
        assert read_head(f"{web_server.url}/a.nc", 4) == b"0123"


def test_credentials_still_come_from_where_the_environment_says(
    web_server: WebServer, other: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "token").write_text("pod")
    key = {"AccessKeyId": "podkey", "SecretAccessKey": HUSH, "Token": "t"}
    until = {"Expiration": "2999-01-01T00:00:00Z"}
    other.files["/creds"] = json.dumps(key | until).encode()
    web_server.files["/bucket/k"] = b"here"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://localhost:{other.port}/creds")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    storage = s3_storage(
        bucket="bucket", prefix="", endpoint_url=web_server.url, allow_http=True, region="x-1"
    )
    assert storage.with_settings(ONCE).get("k") == b"here"
    assert "Credential=podkey/" in web_server.headers_of("GET")[-1]["authorization"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: s3("http://x.5:9"),
        lambda: s3("http://127.0.0.1:9/a b"),
        lambda: s3("http://h:99999"),
        lambda: s3("http://[::1"),
        lambda: s3("bücher.example"),
        lambda: s3_storage(bucket="b", prefix="p", region="a b", anonymous=True),
        lambda: s3_storage(bucket="b<x", prefix="p", region="eu-1", anonymous=True),
        lambda: gcs("http://x.5"),
        lambda: azure_storage(account='a"b', container="c", prefix="p", anonymous=True),
    ],
)
def test_what_is_no_address_is_refused(make: Callable[[], Storage]) -> None:
    """obstore panics at these, which is no exception that a program could handle."""
    with pytest.raises(StorageError, match="make no address"):
        make().with_settings(ONCE).get("k")


def test_a_stored_container_cannot_make_readers_panic() -> None:
    access = Credentials.S3(s3_credentials(anonymous=True))
    made = containers(("s3://b<x/", s3_store("eu-1"), None), authorized={"s3://b<x/": access})
    with pytest.raises(FrazilError, match="make no address"):
        made.fetch(VirtualRef("s3://b<x/y", 0, 10))


# --- which hosts ---


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://Minio.Example.org:9000/x?y", "minio.example.org"),
        ("http://user:pass@host", "host"),
        ("http://[::1]:9000", "::1"),
        ("http://127.1:80", "127.0.0.1"),
        ("host:9000", "host"),
        ("host.", "host."),
        ("https://bücher.example", "xn--bcher-kva.example"),
        ("cafe.beef", "cafe.beef"),
        ("", ""),
    ],
)
def test_hosts_are_spelled_as_clients_spell_them(address: str, host: str) -> None:
    assert plain_host(address) == host


def test_a_proxy_of_the_caller_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fenced(["h"], {"proxy_url": "http://mine"}) == {"proxy_url": "http://mine"}
    monkeypatch.setenv("HTTPS_PROXY", "http://mine")
    assert fenced(["h.example"]) == {}
    monkeypatch.setenv("NO_PROXY", "h.example")
    assert fenced(["https://h.example"])["proxy_excludes"] == "h.example"
    assert fenced(["h.example", "login.example"]) == {}


def test_nobody_is_allowed_by_a_star() -> None:
    assert fenced(["h"], {"redirect_hosts": "*, a.example:80"})["proxy_excludes"] == "a.example,h"


def test_login_hosts_only_where_somebody_logs_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    assert [*amazon_hosts("https://minio", False)] == ["https://minio"]
    assert {"amazonaws.com", "169.254.169.254"} <= {*amazon_hosts("https://minio", True)}
    assert [*amazon_hosts(None, False)] == ["amazonaws.com"]
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"gcs_base_url": "https://fake-gcs:4443", "disable_oauth": True}))
    assert "https://fake-gcs:4443" in {*google_hosts({"service_account": str(key)}, True)}
    assert [*google_hosts({"base_url": "https://fake"}, False)] == ["https://fake"]
    assert "169.254.169.254" not in {*azure_hosts({"account_name": "a"}, False)}
    assert "login.microsoftonline.com" in {*azure_hosts({"account_name": "a"}, True)}
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "login.example")
    assert "login.example" in {*azure_hosts({"endpoint": "https://e"}, True)}
