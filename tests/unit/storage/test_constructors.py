"""Constructors lead to the right place, or say what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import ObjectStoreConfig, S3Options
from frazil.storage.constructors import (
    azure_storage,
    azure_store,
    gcs_storage,
    gcs_store,
    hf_storage,
    http_store,
    local_filesystem_store,
    r2_storage,
    s3_object_store_storage,
    s3_storage,
    s3_store,
    tigris_storage,
)
from frazil.storage.object import ObjectStorage
from frazil.storage.places import AzurePlace, GcsPlace
from frazil.storage.s3_place import S3Place


def place(storage: object) -> S3Place:
    """The place of an S3 storage."""
    assert isinstance(storage, ObjectStorage)
    assert isinstance(storage.place, S3Place)
    return storage.place


def test_s3_says_where_it_is() -> None:
    storage = s3_storage(bucket="b", prefix="p/", region="r", anonymous=True)
    assert str(storage).splitlines() == [
        "<frazil.Storage>",
        "type: S3 (native)",
        "bucket: b",
        "prefix: p",
        "region: r",
        "anonymous: True",
    ]
    assert storage.url == "s3://b/p"
    assert storage.allows_empty_prefix
    assert not s3_storage(bucket="b", prefix=None).allows_empty_prefix
    assert storage.default_settings().effective("unsafe_use_conditional_update") is True


def test_generic_s3_spells_names_otherwise() -> None:
    assert place(s3_storage(bucket="b", prefix="p")).keeps_keys
    assert not place(s3_object_store_storage(bucket="b", prefix="p")).keeps_keys


def test_tigris_is_consistent_or_read_only() -> None:
    strong = tigris_storage(
        bucket="b", prefix="p", region="iad", headers={"x-tigris-regions": "mine", "x-other": "1"}
    )
    assert place(strong).options.endpoint_url == "https://t3.storage.dev"
    assert place(strong).write_headers == {
        "x-other": "1",
        "X-Tigris-Regions": "iad",
        "X-Tigris-Consistent": "true",
    }
    assert place(strong).read_headers["Cache-Control"] == "no-cache"
    weak = tigris_storage(bucket="b", prefix="p", use_weak_consistency=True)
    assert (strong.can_write, weak.can_write) == (True, False)
    with pytest.raises(StorageError, match="region"):
        tigris_storage(bucket="b", prefix="p")


def test_r2_finds_bucket_and_endpoint() -> None:
    made = place(r2_storage(prefix="a/b/c", account_id="id"))
    assert (made.bucket, made.prefix) == ("a", "b/c")
    assert made.options.endpoint_url == "https://id.r2.cloudflarestorage.com"
    assert (made.options.region, made.options.force_path_style) == ("auto", True)
    lacking: list[dict[str, Any]] = [{"bucket": "b"}, {"account_id": "id"}]
    for wrong in lacking:
        with pytest.raises(StorageError) as caught:
            r2_storage(**wrong)
        assert caught.value.kind is ErrorKind.STORAGE_CONFIG


def test_hugging_face_puts_the_namespace_into_the_endpoint() -> None:
    made = place(hf_storage(bucket="b", prefix="p", namespace="org"))
    assert made.options.endpoint_url == "https://s3.hf.co/org"
    assert made.options.force_path_style


def test_google_and_azure() -> None:
    google = gcs_storage(bucket="b", prefix="/p/", anonymous=True)
    azure = azure_storage(account="acc", container="c", prefix="p", access_key="c2VjcmV0")
    assert isinstance(google, ObjectStorage)
    assert isinstance(google.place, GcsPlace)
    assert isinstance(azure, ObjectStorage)
    assert isinstance(azure.place, AzurePlace)
    assert (google.url, azure.url) == ("gs://b/p", "az://c/p")
    assert "account: acc" in str(azure)
    assert "c2VjcmV0" not in str(azure)


def test_rooted_keys_need_an_empty_prefix() -> None:
    with pytest.raises(StorageError, match="empty prefix"):
        s3_storage(bucket="b", prefix="p", legacy_rooted_keys=True)


@pytest.mark.parametrize("prefix", ["a/../b", "./a"])
def test_prefixes_that_cannot_be_used(prefix: str) -> None:
    with pytest.raises(StorageError, match="prefix"):
        s3_storage(bucket="b", prefix=prefix)


@pytest.mark.parametrize("bucket", ["", "a/b"])
def test_buckets_that_cannot_be(bucket: str) -> None:
    with pytest.raises(StorageError, match="name of a bucket"):
        s3_storage(bucket=bucket, prefix="p")


def test_stores_of_containers() -> None:
    assert isinstance(s3_store(), ObjectStoreConfig.S3)
    compatible = s3_store(endpoint_url="http://h", allow_http=True, s3_compatible=True)
    assert isinstance(compatible, ObjectStoreConfig.S3Compatible)
    assert compatible.options == S3Options(
        endpoint_url="http://h", allow_http=True, network_stream_timeout_seconds=60
    )
    assert gcs_store({"a": "b"}).opts == {"a": "b"}
    assert azure_store(account="acc", config={"a": "b"}).opts == {"account": "acc", "a": "b"}
    assert http_store(headers={"a": "b"}).headers == {"a": "b"}
    assert local_filesystem_store("/x").path == "/x"
