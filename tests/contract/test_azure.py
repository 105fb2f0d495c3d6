"""Azure keeps the contract, also when replies are lost."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.base import Fetched, LostRace, Storage, Written
from frazil.storage.credential_functions import azure_credentials
from frazil.storage.credentials import AnyAzureCredential
from frazil.storage.object import ObjectStorage
from frazil.storage.places import AzurePlace
from frazil.testing.storage import StorageContract
from tests.support.servers import HOST, AzureServer, CuttingProxy

pytestmark = pytest.mark.soak
"""The emulator comes from npm, and takes a minute to install."""
QUICK = StorageSettings(retries=StorageRetriesSettings(4, 1, 5))


def storage_on(
    server: AzureServer,
    prefix: str,
    *,
    port: int | None = None,
    container: str | None = None,
    credentials: AnyAzureCredential | None = None,
) -> ObjectStorage:
    """A storage on the test server."""
    endpoint = f"http://{HOST}:{port or server.port}/{server.account}"
    place = AzurePlace(
        server.account,
        container or server.container,
        prefix,
        credentials or azure_credentials(access_key=server.access_key),
        {"azure_storage_endpoint": endpoint, "azure_allow_http": "true"},
    )
    return ObjectStorage(place, settings=QUICK)


class TestAzure(StorageContract):
    @pytest.fixture
    def storage(self, azure_server: AzureServer) -> Storage:
        return storage_on(azure_server, f"contract/{uuid4().hex}")

    def test_head_and_listing_tell_size_and_time(self, storage: Storage) -> None:
        storage.put("a/k", b"0123456789")
        head, (listed,) = storage.head("a/k"), storage.list("a/")
        assert head is not None
        assert (head.key, head.size_bytes) == (listed.key, listed.size_bytes) == ("a/k", 10)
        assert abs(listed.created_at - head.created_at) < timedelta(seconds=1)


def test_a_lost_reply_is_known_as_our_own_write(azure_server: AzureServer) -> None:
    proxy = CuttingProxy(azure_server.port)
    storage = storage_on(azure_server, uuid4().hex, port=proxy.port)
    proxy.lose_reply_to("PUT")
    assert isinstance(storage.put_if("repo", b"one", None), Written)
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    proxy.lose_reply_to("PUT")
    assert isinstance(storage.put_if("repo", b"two", found.version), Written)
    assert storage.put_if("repo", b"three", found.version) == LostRace("repo")
    assert proxy.cuts == 2
    proxy.close()


def test_the_way_back_to_old_bytes_does_not_revive_old_versions(azure_server: AzureServer) -> None:
    storage = storage_on(azure_server, uuid4().hex)
    first = storage.put_if("ref", b"A", None)
    assert isinstance(first, Written)
    storage.put("ref", b"B")
    storage.put("ref", b"A")
    assert storage.put_if("ref", b"C", first.version) == LostRace("ref")


def test_a_missing_container_is_named(azure_server: AzureServer) -> None:
    storage = storage_on(azure_server, "p", container="nowhere")
    with pytest.raises(StorageError, match="does not exist") as caught:
        storage.get("repo")
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG


def test_wrong_credentials_do_not_show_in_the_error(azure_server: AzureServer) -> None:
    key = "bm90LXRoZS1rZXk="
    storage = storage_on(azure_server, "p", credentials=azure_credentials(access_key=key))
    with pytest.raises(StorageError) as caught:
        storage.get("repo")
    assert key not in str(caught.value)
    assert key not in repr(storage)
