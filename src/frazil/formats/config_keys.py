"""Keys of the stored configuration in the order they are written, and names of its choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

from frazil.model.config import (
    ChecksumAlgorithm,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.settings import Settings

_ORDER: Final[Mapping[type[Settings], tuple[str, ...]]] = {
    RepositoryConfig: (
        "inline_chunk_threshold_bytes",
        "get_partial_values_concurrency",
        "compression",
        "max_concurrent_requests",
        "max_concurrent_decodes",
        "caching",
        "storage",
        "virtual_chunk_containers",
        "manifest",
        "previous_file",
    ),
    StorageSettings: ("concurrency", "retries", "timeouts", "unsafe_use_conditional_update"),
    S3Options: ("region", "endpoint_url", "anonymous"),
    VirtualChunkContainer: ("name",),
}
"""Keys that come first where the order is not that of the fields."""


def keys_of(cls: type[Settings]) -> tuple[str, ...]:
    """The keys of a record in the order they are written."""
    names = [each.name for each in fields(cast("Any", cls))]
    return tuple(dict.fromkeys((*_ORDER.get(cls, ()), *names)))


CHECKSUMS: Final = {
    ChecksumAlgorithm.Crc32: "crc32",
    ChecksumAlgorithm.Crc32c: "crc32c",
    ChecksumAlgorithm.Crc64Nvme: "crc64_nvme",
    ChecksumAlgorithm.Sha1: "sha1",
    ChecksumAlgorithm.Sha256: "sha256",
}
S3_STORES: Final[Mapping[str, Callable[[S3Options], object]]] = {
    "s3": ObjectStoreConfig.S3,
    "s3_compatible": ObjectStoreConfig.S3Compatible,
    "tigris": ObjectStoreConfig.Tigris,
}
OLD_STORES: Final[Mapping[str, str]] = {
    "S3": "s3",
    "S3Compatible": "s3_compatible",
    "Tigris": "tigris",
    "InMemory": "in_memory",
    "LocalFileSystem": "local_file_system",
    "Gcs": "gcs",
    "Azure": "azure",
}
"""What stores were called until 0.1.0."""
