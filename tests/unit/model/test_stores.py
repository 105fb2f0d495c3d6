"""Virtual chunk containers: which are refused, and how they are kept."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInputError
from frazil.model.config import (
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    VirtualChunkContainer,
)
from tests.unit.model.examples import container_at, rebuilt


@pytest.mark.parametrize(
    ("prefix", "store", "name"),
    [
        ("s3://bucket", ObjectStoreConfig.S3(S3Options()), None),
        ("s3:///", ObjectStoreConfig.S3(S3Options()), None),
        ("gs://bucket/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://bucket/", ObjectStoreConfig.InMemory(), None),
        ("tigris://bucket/", ObjectStoreConfig.S3(S3Options()), None),
        ("file:///", ObjectStoreConfig.LocalFileSystem("/"), None),
        ("file:///a/../b/", ObjectStoreConfig.LocalFileSystem("/b"), None),
        ("http:///x/", ObjectStoreConfig.Http(), None),
        ("no url/", ObjectStoreConfig.Http(), None),
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options()), ""),
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options()), "a/b"),
    ],
)
def test_useless_containers_are_refused(prefix: str, store: object, name: str | None) -> None:
    container = VirtualChunkContainer(prefix, store, name)  # type: ignore[arg-type]
    config = RepositoryConfig()
    with pytest.raises(ValueError, match="url_prefix") as caught:
        config.set_virtual_chunk_container(container)
    assert isinstance(caught.value, InvalidInputError)
    assert config.virtual_chunk_containers is None


@pytest.mark.parametrize(
    ("prefix", "store"),
    [
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options())),
        ("s3://bucket/deep/", ObjectStoreConfig.S3Compatible(S3Options())),
        ("s3://bucket/", ObjectStoreConfig.Tigris(S3Options())),
        ("tigris://bucket/", ObjectStoreConfig.Tigris(S3Options())),
        ("gcs://bucket/", ObjectStoreConfig.Gcs()),
        ("gs://bucket/", ObjectStoreConfig.Gcs({"a": "b"})),
        ("az://container/", ObjectStoreConfig.Azure({"account": "a"})),
        ("abfs://container/", ObjectStoreConfig.Azure()),
        ("https://host:8000/x/", ObjectStoreConfig.Http()),
        ("file:///data/", ObjectStoreConfig.LocalFileSystem("/data")),
    ],
)
def test_containers_are_kept_by_prefix(prefix: str, store: object) -> None:
    container = VirtualChunkContainer(prefix, store)  # type: ignore[arg-type]
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container)
    assert config.get_virtual_chunk_container(prefix) == container
    assert isinstance(container.store, ObjectStoreConfig)
    assert rebuilt(container) == container


def test_a_container_replaces_the_one_of_the_same_name() -> None:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container_at("s3://old/", "data"))
    config.set_virtual_chunk_container(container_at("s3://other/"))
    config.set_virtual_chunk_container(container_at("s3://new/", "data"))
    assert set(config.virtual_chunk_containers or ()) == {"s3://other/", "s3://new/"}
