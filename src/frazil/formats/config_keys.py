"""The stored configuration as a plain map: order of keys, names of choices, how changes merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from frazil.errors import ConflictError, ErrorKind
from frazil.model.config import (
    ChecksumAlgorithm,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.history import JSON
from frazil.model.settings import SettingsRecord

_ORDER: Final[Mapping[type[SettingsRecord], tuple[str, ...]]] = {
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


@dataclass(frozen=True, slots=True)
class Variant:
    """A value of an enumeration that carries data: a tag in YAML, a map of one key elsewhere."""

    name: str
    payload: object


def setting_keys(cls: type[SettingsRecord]) -> tuple[str, ...]:
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


def merged_config(
    base: Mapping[str, JSON], ours: Mapping[str, JSON], theirs: Mapping[str, JSON]
) -> dict[str, JSON]:
    """What is stored with our changes of it; all are plain maps, and unset is the same as None.

    Raises:
        ConflictError: both sides gave a setting different values.
    """
    return _merged_map(base, ours, theirs, "")


def _merged_map(
    base: Mapping[str, JSON], ours: Mapping[str, JSON], theirs: Mapping[str, JSON], where: str
) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for name in {**theirs, **ours}:
        here = f"{where}.{name}" if where else name
        value = _merged(base.get(name), ours.get(name), theirs.get(name), here)
        if value is not None or (name in ours and name in theirs):
            found[name] = value
    return found


def _merged(base: JSON, ours: JSON, theirs: JSON, where: str) -> JSON:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _merged_map(base if isinstance(base, dict) else {}, ours, theirs, where)
    raise ConflictError(
        message=f"another process changed the setting {where!r} of the stored configuration "
        "meanwhile; open the repository again and decide which value it should have",
        kind=ErrorKind.CONFIG_UPDATED,
        setting=where,
    )
