"""Storage constructors and settings under their official names."""

from __future__ import annotations

from abc import ABCMeta

from frazil.model.chunks import (
    ChunkType,
)
from frazil.model.config import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage import base
from frazil.storage.constructors import (
    azure_storage,
    azure_store,
    gcs_storage,
    gcs_store,
    hf_storage,
    http_storage,
    http_store,
    in_memory_storage,
    local_filesystem_storage,
    local_filesystem_store,
    r2_storage,
    redirect_storage,
    s3_object_store_storage,
    s3_storage,
    s3_store,
    tigris_storage,
)
from frazil.storage.factory import StorageFactory


class Storage(StorageFactory, metaclass=ABCMeta):
    """Every storage is one of these; its class methods make storages of each kind."""


Storage.register(base.Storage)  # type: ignore[type-abstract]  # registered, not made

__all__ = [
    "AnyObjectStoreConfig",
    "ChecksumAlgorithm",
    "ChunkType",
    "ObjectStoreConfig",
    "S3Options",
    "Storage",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "azure_storage",
    "azure_store",
    "gcs_storage",
    "gcs_store",
    "hf_storage",
    "http_storage",
    "http_store",
    "in_memory_storage",
    "local_filesystem_storage",
    "local_filesystem_store",
    "r2_storage",
    "redirect_storage",
    "s3_object_store_storage",
    "s3_storage",
    "s3_store",
    "tigris_storage",
]
