"""Places on Google, Azure and the web: what their clients are made of, and what is shown."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.errors import StorageError
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.client_settings import Client, Role
from frazil.storage.credential_functions import (
    azure_anonymous_credentials,
    azure_credentials,
    gcs_anonymous_credentials,
    gcs_credentials,
)
from frazil.storage.credentials import AzureRefreshableCredential, GcsBearerCredential
from frazil.storage.places import AzurePlace, CloudPlace, GcsPlace, HttpPlace, split_options
from tests.support.web import WebServer

END = datetime.now(UTC) + timedelta(hours=1)
CLIENT = Client(Role.READ, StorageSettings(retries=StorageRetriesSettings(1, 1, 1)), "test")


def give_bearer() -> GcsBearerCredential:
    return GcsBearerCredential("renewed", END)


def give_token() -> AzureRefreshableCredential.SasToken:
    return AzureRefreshableCredential.SasToken("sas", END)


def opened(place: CloudPlace) -> dict[str, Any]:
    """The configuration of a live client."""
    return dict(place.open(CLIENT, place.provider(), rooted=False).config)  # type: ignore[union-attr]


def given(place: CloudPlace) -> object:
    """The credential that a client of a place gets."""
    provider = place.provider()
    return None if provider is None else provider()


def test_options_of_the_client_are_told_from_those_of_the_store() -> None:
    config = {
        "azure_allow_http": "true",
        "google_timeout": "5s",
        "proxy_url": "http://p",
        "http2_only": "true",
        "redirect_hosts": "a.example",
        "azure_use_emulator": "true",
        "endpoint": "http://e",
        "not_a_timeout": "x",
    }
    store, client = split_options(config)
    assert store == {"azure_use_emulator": "true", "endpoint": "http://e", "not_a_timeout": "x"}
    assert client == {
        "allow_http": "true",
        "timeout": "5s",
        "proxy_url": "http://p",
        "http2_only": "true",
        "redirect_hosts": "a.example",
    }
    assert split_options({}) == ({}, {})


def test_tokens_of_google_are_given_or_got() -> None:
    fixed = GcsPlace("b", "", gcs_credentials(bearer_token="token"))
    assert given(fixed) == {"token": "token", "expires_at": None}
    renewed = GcsPlace("b", "", gcs_credentials(get_credentials=give_bearer))
    assert given(renewed) == {"token": "renewed", "expires_at": END}
    assert given(pickle.loads(pickle.dumps(renewed))) == given(renewed)
    assert given(GcsPlace("b", "", gcs_anonymous_credentials())) is None


@pytest.mark.parametrize(
    ("secret", "wanted"),
    [
        ({"access_key": "c2VjcmV0"}, {"access_key": "c2VjcmV0", "expires_at": None}),
        ({"sas_token": "sig=1"}, {"sas_token": "sig=1", "expires_at": None}),
        ({"bearer_token": "token"}, {"token": "token", "expires_at": None}),
        ({"get_credentials": give_token}, {"sas_token": "sas", "expires_at": END}),
    ],
)
def test_secrets_of_azure_are_given_by_their_kind(
    secret: dict[str, Any], wanted: dict[str, object]
) -> None:
    made = AzurePlace("acc", "c", "", azure_credentials(**secret))
    assert given(made) == wanted
    assert given(AzurePlace("acc", "c", "", azure_anonymous_credentials())) is None


def test_anonymous_clients_sign_nothing(web_server: WebServer) -> None:
    google = GcsPlace("b", "", gcs_anonymous_credentials())
    azure = AzurePlace("acc", "c", "", azure_anonymous_credentials(), {"endpoint": web_server.url})
    assert opened(google)["skip_signature"] == "true"
    found = opened(azure)
    assert (found["skip_signature"], found["account_name"]) == ("true", "acc")


@pytest.mark.parametrize("bucket", ["a b", "b\\c"])
def test_what_makes_no_address_is_refused_before_a_client_is_made(bucket: str) -> None:
    with pytest.raises(StorageError):
        opened(GcsPlace(bucket, "", gcs_anonymous_credentials()))
    with pytest.raises(StorageError):
        opened(AzurePlace("acc", bucket, "", azure_anonymous_credentials()))


def test_places_show_where_they_are_and_no_secrets() -> None:
    google = GcsPlace("b", "p", gcs_credentials(bearer_token="hunter2"))
    azure = AzurePlace("acc", "c", "", azure_credentials(access_key="hunter2"))
    web = HttpPlace("https://me:hunter2@host/x?sig=hunter2", {}, {"authorization": "hunter2"})
    assert [each.url for each in (google, azure, web)] == ["gs://b/p", "az://c/", "https://host/x"]
    assert google.fields() == [("bucket", "b"), ("prefix", "p")]
    assert azure.fields() == [("account", "acc"), ("container", "c")]
    assert web.fields() == [("url", "https://host/x")]
    assert "hunter2" not in "".join(map(repr, (google, azure, web)))


def test_a_web_server_is_only_read() -> None:
    assert not HttpPlace("https://host/x").can_write
    assert HttpPlace("https://host/x").provider() is None
