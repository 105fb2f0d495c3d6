"""Storage constructors and settings under their official names."""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec

from frazil.model.chunks import ChunkType
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
from frazil.storage import base, constructors
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
    redirect_storage,
    s3_object_store_storage,
    s3_store,
)
from frazil.storage.factory import StorageFactory
from frazil.storage.object import ObjectStorage
from frazil.storage.s3_place import S3Place

P = ParamSpec("P")


def _accepting_http(make: Callable[P, base.Storage]) -> Callable[P, base.Storage]:
    """The same storage, for which a plain `http://` endpoint is consent enough.

    The official package's own S3 client does not look at `allow_http` either.
    """

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> base.Storage:
        storage = make(*args, **kwargs)
        if isinstance(storage, ObjectStorage) and isinstance(storage.place, S3Place):
            return storage.moved_to(replace(storage.place, accepts_http=True))
        return storage

    return made


s3_storage = _accepting_http(constructors.s3_storage)
r2_storage = _accepting_http(constructors.r2_storage)
tigris_storage = _accepting_http(constructors.tigris_storage)


class Storage(StorageFactory, metaclass=ABCMeta):
    """Every storage is one of these; its class methods make storages of each kind."""

    new_s3 = staticmethod(_accepting_http(StorageFactory.new_s3))
    new_r2 = staticmethod(_accepting_http(StorageFactory.new_r2))
    new_tigris = staticmethod(_accepting_http(StorageFactory.new_tigris))


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
