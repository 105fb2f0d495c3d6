"""The configuration of a repository: None is unset, defaults are here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import EnumType
from typing import Final, cast

from frazil.model.display import Field, HasRepr, Verbatim
from frazil.model.manifest_config import (
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    should_preload,
    split_sizes,
)
from frazil.model.settings import (
    NamedInt,
    SettingsRecord,
    instance,
    record,
    setting,
    string,
    u8,
    u16,
    u64,
)
from frazil.model.stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
    VirtualChunkSpec,
)

__all__ = [
    "AnyObjectStoreConfig",
    "Attribution",
    "CachingConfig",
    "ChecksumAlgorithm",
    "CompressionAlgorithm",
    "CompressionConfig",
    "FeatureFlag",
    "ManifestConfig",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "ObjectStoreConfig",
    "RepoUpdateRetryConfig",
    "RepositoryConfig",
    "S3Options",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "VirtualChunkContainer",
    "VirtualChunkSpec",
    "should_preload",
    "split_sizes",
]


class _OneMember(EnumType):
    """Lets an enumeration be called without a value for its default."""

    # For mypy: a default more than `EnumType` has.
    def __call__(cls, value: object = 0, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        # For mypy: it looks up a member.
        return super().__call__(value, *args, **kwargs)  # type: ignore[call-overload]


class CompressionAlgorithm(NamedInt, metaclass=_OneMember):
    """How metadata files are compressed."""

    Zstd = 0

    @staticmethod
    def default() -> CompressionAlgorithm:
        """The algorithm of every file so far."""
        return CompressionAlgorithm.Zstd


@record
class CompressionConfig(SettingsRecord):
    """How metadata files are compressed; there is one algorithm, so only the level counts."""

    _shown_name = "config.CompressionConfig"
    algorithm: CompressionAlgorithm | None = setting(
        instance(CompressionAlgorithm), CompressionAlgorithm.Zstd
    )
    level: int | None = setting(u8, 3)

    @staticmethod
    def default() -> CompressionConfig:
        """Nothing set."""
        return CompressionConfig()


@record
class CachingConfig(SettingsRecord):
    """How much is kept in memory.

    `num_bytes_attributes` is stored with the others and has no effect: it is a limit for files of
    attributes, and attributes are part of snapshots.
    """

    _shown_name = "config.CachingConfig"
    num_snapshot_nodes: int | None = setting(u64, 500_000)
    num_chunk_refs: int | None = setting(u64, 15_000_000)
    num_transaction_changes: int | None = setting(u64, 0)
    num_bytes_attributes: int | None = setting(u64, 0)
    num_bytes_chunks: int | None = setting(u64, 0)


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """The limits of caches that exist, with nothing left unset."""

    num_snapshot_nodes: int
    num_chunk_refs: int
    num_transaction_changes: int
    num_bytes_chunks: int


def _patient_retries() -> StorageRetriesSettings:
    return StorageRetriesSettings(100, 50, 30_000)


@record
class RepoUpdateRetryConfig(SettingsRecord):
    """How often a lost race for the repo object is run again."""

    _shown_name = "config.RepoUpdateRetryConfig"
    default: StorageRetriesSettings | None = setting(
        instance(StorageRetriesSettings), _patient_retries
    )


def _containers(value: object) -> dict[str, VirtualChunkContainer]:
    if not isinstance(value, Mapping):
        raise TypeError("virtual_chunk_containers must be a mapping")
    return {string(key): instance(VirtualChunkContainer)(item) for key, item in value.items()}


@record
class RepositoryConfig(SettingsRecord):
    """The settings of a repository; methods named like a setting give the value that counts."""

    _shown_name = "config.RepositoryConfig"
    shown_order = (
        "inline_chunk_threshold_bytes",
        "get_partial_values_concurrency",
        "max_concurrent_requests",
        "max_concurrent_decodes",
        "num_updates_per_repo_info_file",
        "compression",
        "caching",
        "storage",
        "manifest",
        "repo_update_retries",
        "virtual_chunk_containers",
    )
    inline_chunk_threshold_bytes: int | None = setting(u16, 512)
    get_partial_values_concurrency: int | None = setting(u16, 10)
    compression: CompressionConfig | None = setting(instance(CompressionConfig), CompressionConfig)
    max_concurrent_requests: int | None = setting(u16, 256)
    caching: CachingConfig | None = setting(instance(CachingConfig), CachingConfig)
    storage: StorageSettings | None = setting(instance(StorageSettings))
    virtual_chunk_containers: dict[str, VirtualChunkContainer] | None = setting(
        _containers, replace=True
    )
    manifest: ManifestConfig | None = setting(instance(ManifestConfig), ManifestConfig)
    repo_update_retries: RepoUpdateRetryConfig | None = setting(
        instance(RepoUpdateRetryConfig), RepoUpdateRetryConfig
    )
    num_updates_per_repo_info_file: int | None = setting(u16, 1000)
    max_concurrent_decodes: int | None = setting(u16, lambda: os.cpu_count() or 1)
    previous_file: str | None = setting(string, init=False)

    @staticmethod
    def default() -> RepositoryConfig:
        """Nothing set."""
        return RepositoryConfig()

    def get_virtual_chunk_container(self, name: str) -> VirtualChunkContainer | None:
        """The container kept under this URL prefix."""
        return (self.virtual_chunk_containers or {}).get(name)

    def set_virtual_chunk_container(self, cont: VirtualChunkContainer) -> None:
        """Add a container, in place of the one with the same prefix or the same name.

        Raises:
            InvalidInputError: the container could never serve a chunk.
        """
        instance(VirtualChunkContainer)(cont).check()
        kept = {
            prefix: other
            for prefix, other in (self.virtual_chunk_containers or {}).items()
            if cont.name is None or other.name != cont.name
        }
        self.virtual_chunk_containers = {**kept, cont.url_prefix: cont}

    def clear_virtual_chunk_containers(self) -> None:
        """Leave no container, also over a stored configuration that has some."""
        self.virtual_chunk_containers = {}

    # --- the values that count ---

    def inline_chunk_threshold(self) -> int:
        """Chunks of at most so many bytes live inside manifests."""
        return cast("int", self.effective("inline_chunk_threshold_bytes"))

    def request_limit(self) -> int:
        """How many requests may be under way at once."""
        return max(cast("int", self.effective("max_concurrent_requests")), 1)

    def partial_values_limit(self) -> int:
        """How many keys of one partial read are fetched at once."""
        return max(cast("int", self.effective("get_partial_values_concurrency")), 1)

    def decode_limit(self) -> int | None:
        """How many manifests are read and decoded at once; None for as many as is quickest."""
        limit = self.max_concurrent_decodes
        return None if limit is None else max(limit, 1)

    def compression_level(self) -> int:
        """The zstd level of metadata files."""
        return cast("int", (self.compression or CompressionConfig()).effective("level"))

    def cache_sizes(self) -> CacheSizes:
        """The cache sizes that count."""
        caching = self.caching or CachingConfig()
        names = [field.name for field in fields(CacheSizes)]
        return CacheSizes(*(cast("int", caching.effective(name)) for name in names))

    def update_retries(self) -> StorageRetriesSettings:
        """How a lost race for the repo object is run again, nothing unset."""
        chosen = (self.repo_update_retries or RepoUpdateRetryConfig()).effective("default")
        return cast("StorageRetriesSettings", _filled(cast("StorageRetriesSettings", chosen)))

    def updates_per_repo_info_file(self) -> int:
        """How many lines of the operations log the repo object keeps."""
        return cast("int", self.effective("num_updates_per_repo_info_file"))

    def manifests(self) -> ManifestConfig:
        """The manifest settings, themselves perhaps unset."""
        return self.manifest or ManifestConfig()

    def preload(self) -> ManifestPreloadConfig:
        """The preload settings, nothing but the condition unset."""
        return cast(
            "ManifestPreloadConfig", _filled(self.manifests().preload or ManifestPreloadConfig())
        )

    def location_compression(self) -> ManifestVirtualChunkLocationCompressionConfig:
        """How virtual locations are compressed, nothing unset."""
        chosen = self.manifests().virtual_chunk_location_compression
        return cast(
            "ManifestVirtualChunkLocationCompressionConfig",
            _filled(chosen or ManifestVirtualChunkLocationCompressionConfig()),
        )

    def manifest_fetch_limit(self) -> int | None:
        """How many manifests a commit reads at once; None for as many as is quickest."""
        limit = self.manifests().max_concurrent_manifest_fetches_during_commit
        return None if limit is None else max(limit, 1)

    def storage_settings(self, backend: StorageSettings) -> StorageSettings:
        """What is configured, over the defaults of the storage in use."""
        return backend.merge(self.storage) if self.storage else backend

    def split_sizes(
        self, path: str, dimension_names: Iterable[str | None] | None, grid: Iterable[int]
    ) -> tuple[int, ...]:
        """How many chunks a manifest of this array covers along each axis."""
        names = None if dimension_names is None else list(dimension_names)
        return split_sizes(self.manifest, path, names, list(grid))

    def tells_splitting(self) -> bool:
        """Whether a split rule is configured. Otherwise arrays are split by size."""
        return self.manifest is not None and self.manifest.splitting is not None


def _filled(settings: SettingsRecord) -> SettingsRecord:
    """A copy with the defaults in place of what is unset."""
    made = type(settings)()
    for field in settings._shown_fields():
        setattr(made, field.name, field.default if field.value is None else field.value)
    return made


_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LABEL_FORBIDDEN: Final = frozenset('()\\;="')
_LABEL_BYTES: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Attribution(HasRepr):
    """Labels that requests carry in their User-Agent, for the owner of the bucket to count by."""

    _shown_name = "Attribution"
    _executable = True
    client: str | None = None
    workload: str | None = None
    principal: str | None = None

    def __post_init__(self) -> None:
        """Check the labels."""
        for name, label in self._labels():
            if label is None:
                continue
            string(label)
            if len(label.encode()) > _LABEL_BYTES:
                raise ValueError(f"attribution {name!r} is longer than {_LABEL_BYTES} bytes")
            if name == "client":
                parts = label.split("/")
                if len(parts) > 2 or not all(_TOKEN.fullmatch(part) for part in parts):
                    shown = f"{label!r} is not name or name/version in token characters"
                    raise ValueError(f"attribution 'client': {shown}")
            elif bad := [c for c in label if not " " <= c <= "~" or c in _LABEL_FORBIDDEN]:
                raise ValueError(f"attribution {name!r} has the forbidden character {bad[0]!r}")

    def _labels(self) -> list[tuple[str, str | None]]:
        return [
            ("client", self.client),
            ("workload", self.workload),
            ("principal", self.principal),
        ]

    def _shown_fields(self) -> Iterable[Field]:
        return [Field(name, label) for name, label in self._labels()]


@dataclass(frozen=True, slots=True, repr=False)
class FeatureFlag(HasRepr):
    """A guarded ability of a repository, and whether it is on."""

    _shown_name = "config.FeatureFlag"
    id: int
    name: str
    default_enabled: bool
    setting: bool | None = None

    @property
    def enabled(self) -> bool:
        """Whether the ability is on."""
        return self.default_enabled if self.setting is None else self.setting

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("id", self.id)
        yield Field("name", Verbatim(self.name))
        for name in ("default_enabled", "setting", "enabled"):
            yield Field(name, getattr(self, name))
