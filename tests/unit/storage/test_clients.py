"""Clients of object stores: which copies of a storage share them."""

from __future__ import annotations

import pickle

import pytest

from frazil.model.config import Attribution, StorageRetriesSettings, StorageSettings
from frazil.storage.constructors import s3_storage
from frazil.storage.credentials import S3StaticCredentials
from frazil.storage.object import ObjectStorage


def _storage() -> ObjectStorage:
    made = s3_storage(
        bucket="b", prefix="p", region="eu-west-1", access_key_id="k", secret_access_key="s"
    )
    assert isinstance(made, ObjectStorage)
    return made


def _ask() -> S3StaticCredentials:
    return S3StaticCredentials("k", "s")


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


def test_storages_of_the_same_place_and_key_share_their_clients() -> None:
    assert _storage()._clients.reader is _storage()._clients.reader
    assert pickle.loads(pickle.dumps(_storage()))._clients.reader is _storage()._clients.reader


def test_another_key_has_a_client_of_its_own() -> None:
    other = s3_storage(
        bucket="b", prefix="p", region="eu-west-1", access_key_id="k", secret_access_key="other"
    )
    assert isinstance(other, ObjectStorage)
    assert other._clients.reader is not _storage()._clients.reader


def test_a_client_knows_the_environment_it_was_opened_in(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _storage()._clients.reader
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert _storage()._clients.reader is not reader


def test_keys_from_a_function_are_not_shared() -> None:
    one, other = (
        s3_storage(bucket="b", prefix="p", region="eu-west-1", get_credentials=_ask)
        for _ in range(2)
    )
    assert isinstance(one, ObjectStorage)
    assert isinstance(other, ObjectStorage)
    assert one._clients.reader is not other._clients.reader
