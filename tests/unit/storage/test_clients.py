"""Clients of object stores: which copies of a storage share them."""

from __future__ import annotations

from frazil.model.config import Attribution, StorageRetriesSettings, StorageSettings
from frazil.storage.constructors import s3_storage
from frazil.storage.object import ObjectStorage


def _storage() -> ObjectStorage:
    made = s3_storage(
        bucket="b", prefix="p", region="eu-west-1", access_key_id="k", secret_access_key="s"
    )
    assert isinstance(made, ObjectStorage)
    return made


def test_copies_that_ask_alike_share_their_clients() -> None:
    storage = _storage()
    reader = storage._clients.reader
    assert storage.with_request_limit(7)._clients.reader is reader
    assert storage.with_settings(storage.default_settings())._clients.reader is reader
    # Also the other way round: what a copy opens serves the first.
    assert storage.with_request_limit(9)._clients.writer is storage._clients.writer


def test_copies_that_ask_otherwise_have_clients_of_their_own() -> None:
    storage = _storage()
    reader = storage._clients.reader
    patient = StorageSettings(retries=StorageRetriesSettings(max_tries=3))
    assert storage.with_settings(patient)._clients.reader is not reader
    named = storage.with_attribution(Attribution(client="ocean"))
    assert named._clients.reader is not reader
