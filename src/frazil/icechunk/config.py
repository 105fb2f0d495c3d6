"""Configuration classes under their official names."""

from __future__ import annotations

from frazil.logs import (
    initialize_logs,
    set_logs_filter,
    shutdown_telemetry,
)
from frazil.model.config import (
    Attribution,
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    FeatureFlag,
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.model.manifest_config import ManifestSplitValues, SplitSizesDict

__all__ = [
    "Attribution",
    "CachingConfig",
    "CompressionAlgorithm",
    "CompressionConfig",
    "FeatureFlag",
    "ManifestConfig",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplitValues",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "ObjectStoreConfig",
    "RepoUpdateRetryConfig",
    "RepositoryConfig",
    "SplitSizesDict",
    "initialize_logs",
    "set_logs_filter",
    "shutdown_telemetry",
]
