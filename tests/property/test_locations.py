"""However a location is spelled, nothing outside of an authorised container is ever asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import FrazilError
from frazil.model.chunks import VirtualRef
from frazil.model.config import (
    AnyObjectStoreConfig,
    RepositoryConfig,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.storage.constructors import azure_store, gcs_store, http_store, s3_store
from frazil.storage.credential_functions import (
    azure_anonymous_credentials,
    gcs_anonymous_credentials,
    s3_credentials,
)
from frazil.storage.credentials import AnyCredential, Credentials, HttpAccess
from frazil.storage.trust import Trust, own_containers
from frazil.storage.virtual import Containers
from tests.support.web import WebServer, web_server

DOTS = (".", "..", "%2e", ".%2e", "%2e.", "%2e%2e")
NAMES = ("data", "x", "y.nc", "a b", "café", "data-2", "DATA", "%41", "")
TRICKS = ("..", ".", "%2e%2e", "%2E.", "%252e%252e", "..%2f..", "%2f", "\\", "..\\..", "%5c..%5c")
TAILS = ("", "?x=/../", "#/../x", "?", "%3f", "%23")


def containers(prefix: str, store: AnyObjectStoreConfig, access: AnyCredential) -> Containers:
    """One authorised container of the caller's own."""
    config = RepositoryConfig(storage=StorageSettings(retries=StorageRetriesSettings(1, 1, 1)))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    return Containers(config, {prefix: access}, Trust(own_containers(config)))


def allowed(text: str, scheme: str, host: str, folder: list[str], *, empty_names: bool) -> bool:
    """What the rules say, in the plainest way that they can be written down."""
    at = text.find("://")
    if at < 0 or text[:at].lower() != scheme:
        return False
    rest, end = text[at + 3 :], 0
    while end < len(rest) and rest[end] not in "/?#":
        end += 1
    found, path = rest[:end], rest[end:].split("?")[0].split("#")[0]
    if found != host and not (scheme in ("http", "https") and found.lower() == host):
        return False
    data, i = bytearray(), 0
    while i < len(path):
        pair = path[i + 1 : i + 3]
        if path[i] == "%" and len(pair) == 2 and all(c in "0123456789abcdefABCDEF" for c in pair):
            data.append(int(pair, 16))
            i += 3
        else:
            data += path[i].encode()
            i += 1
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        return False
    names = whole[1:].split("/")
    if any(part.lower() in DOTS for name in names for part in name.split("\\")):
        return False
    if any(ord(c) < 32 or ord(c) == 127 for c in whole):
        return False
    if names[: len(folder)] != folder or len(names) <= len(folder):
        return False
    return names[-1] != "" and (empty_names or all(names))


def is_covered(made: Containers, texts: list[str]) -> list[bool]:
    """Which locations may be set; text that is no location at all may not."""
    try:
        found: list[bool] = made.check_many(texts)[1].tolist()
    except FrazilError:
        return [False]
    return found


def is_read(made: Containers, text: str) -> bool:
    """Whether a location that somebody else has stored would be asked for."""
    try:
        made.decide(text)
    except FrazilError:
        return False
    return True


def spellings(scheme: str, host: str) -> st.SearchStrategy[str]:
    """Locations near a container: most of them wrong, many of them hardly."""
    odd_hosts = [
        host,
        host.upper(),
        "evil.example",
        f"{host}@evil.example",
        f"{host}%2Fdata%2F@evil.example",
        f"{host}%2fdata",
        f"evil.example\\@{host}",
        f"{host}\\",
        f"{host} ",
        f"{host}\t",
        f"{host}.",
        f"user:pw@{host}",
        f"@{host}",
        f"{host}@account.blob.core.windows.net",
        f"{host}:443",
        f"{host}:80",
        f"{host}:",
        f"{host}:81",
        f"[{host}]",
        f"{host.removesuffix(']')}%25eth0]",
        host.replace(":1]", ":0001]"),
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        host.replace(".", "\u3002"),
        host.replace("e", "\uff45"),
        host.replace("ü", "u\u0308"),
        host.replace("bücher", "xn--bcher-kva"),
        f"{host}\u200d",
        f"{host}\u202e",
        "",
    ]
    part = st.sampled_from([*NAMES, *NAMES, *TRICKS])
    path = st.lists(part, max_size=5).map("/".join)
    return st.builds(
        lambda s, h, first, p, tail: f"{s}://{h}/{first}{p}{tail}",
        st.sampled_from([scheme, scheme, scheme, scheme.upper(), "file", "gs"]),
        st.sampled_from([host] * 8 + odd_hosts),
        st.sampled_from(["data/", "data/", "data/", "da%74a/", "data%2F", "", "DATA/"]),
        path,
        st.sampled_from(TAILS),
    )


@settings(max_examples=600, deadline=None)
@given(spellings("s3", "bucket"))
def test_decisions_about_s3_are_those_of_the_model(text: str) -> None:
    made = containers(
        "s3://bucket/data/", s3_store(), Credentials.S3(s3_credentials(anonymous=True))
    )
    expected = allowed(text, "s3", "bucket", ["data"], empty_names=True)
    assert is_covered(made, [text]) == [expected]
    assert is_covered(made, ["s3://bucket/data/plain", text])[-1] is expected
    assert is_read(made, text) is expected


@settings(max_examples=600, deadline=None)
@given(spellings("http", "host.example:81"))
def test_decisions_about_the_web_are_those_of_the_model(text: str) -> None:
    made = containers("http://host.example:81/data/", http_store(), HttpAccess)
    expected = allowed(text, "http", "host.example:81", ["data"], empty_names=False)
    assert is_covered(made, [text]) == [expected]
    assert is_read(made, text) is expected


ELSEWHERE: dict[str, tuple[str, str, AnyObjectStoreConfig, AnyCredential]] = {
    "google": ("gs", "bucket", gcs_store(), Credentials.Gcs(gcs_anonymous_credentials())),
    "azure": (
        "az",
        "container",
        azure_store(account="acc"),
        Credentials.Azure(azure_anonymous_credentials()),
    ),
    "abfs": (
        "abfs",
        "container",
        azure_store(account="acc"),
        Credentials.Azure(azure_anonymous_credentials()),
    ),
    "tls": ("https", "host.example", http_store(), HttpAccess),
    "numbers": ("http", "[::1]:81", http_store(), HttpAccess),
    "letters": ("https", "bücher.example", http_store(), HttpAccess),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_decisions_about_other_places_are_those_of_the_model(
    kind: str, data: st.DataObject
) -> None:
    scheme, host, store, access = ELSEWHERE[kind]
    made = containers(f"{scheme}://{host}/data/", store, access)
    text = data.draw(spellings(scheme, host))
    expected = allowed(text, scheme, host, ["data"], empty_names=False)
    assert is_covered(made, [text]) == [expected]
    assert is_read(made, text) is expected


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_decided_without_a_foreign_error(text: str) -> None:
    made = containers("http://host.example:81/data/", http_store(), HttpAccess)
    for location in (
        text,
        f"http://host.example:81/data/{text}",
        f"http://{text}",
        f"vcc://{text}",
    ):
        with contextlib.suppress(FrazilError):
            made.decide(location)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[WebServer, WebServer]]:
    with web_server() as good, web_server() as evil:
        for server in (good, evil):
            server.answers["*"] = (200, "0123456789")
        yield good, evil


def asked_below(server: WebServer, folder: str) -> bool:
    """Whether all requests went below a folder, even for a server that decodes twice."""
    paths = [unquote(path.split("?")[0]) for _, path, _ in server.seen]
    for path in (*paths, *map(unquote, paths)):
        parts = path.replace("\\", "/").split("/")
        if not path.startswith(folder) or ".." in parts or "." in parts:
            return False
    return True


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_requests_to_the_web_stay_in_the_container(
    servers: tuple[WebServer, WebServer], data: st.DataObject
) -> None:
    good, evil = servers
    good.seen.clear()
    here, there = good.url.removeprefix("http://"), evil.url.removeprefix("http://")
    text = data.draw(spellings("http", here)).replace("evil.example", there)
    store = http_store(headers={"Authorization": "Bearer secret", "X-Key": "secret"})
    made = containers(f"{good.url}/data/", store, HttpAccess)
    with contextlib.suppress(FrazilError):
        made.fetch(VirtualRef(text, 0, 10))
    assert not evil.seen
    assert asked_below(good, "/data/")
    assert bool(good.seen) <= allowed(text, "http", here, ["data"], empty_names=False)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_signed_requests_stay_in_the_container(
    servers: tuple[WebServer, WebServer], data: st.DataObject
) -> None:
    good, _ = servers
    good.seen.clear()
    text = data.draw(spellings("s3", "bucket")).replace("evil.example", "private-bucket")
    store = s3_store("us-east-1", good.url, allow_http=True, force_path_style=True)
    key = s3_credentials(access_key_id="AK", secret_access_key="SK")
    made = containers("s3://bucket/data/", store, Credentials.S3(key))
    with contextlib.suppress(FrazilError):
        made.fetch(VirtualRef(text, 0, 10))
    assert asked_below(good, "/bucket/data/")
    assert all("authorization" in headers for _, _, headers in good.seen)
