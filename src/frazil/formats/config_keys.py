"""Keys of the stored configuration in the order they are written, and names of its choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from frazil.model.config import (
    CachingConfig,
    ChecksumAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
)
from frazil.model.settings import Settings

KEYS: Final[Mapping[type[Settings], tuple[str, ...]]] = {
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
        "repo_update_retries",
        "num_updates_per_repo_info_file",
    ),
    CompressionConfig: ("algorithm", "level"),
    CachingConfig: (
        "num_snapshot_nodes",
        "num_chunk_refs",
        "num_transaction_changes",
        "num_bytes_attributes",
        "num_bytes_chunks",
    ),
    StorageSettings: (
        "concurrency",
        "retries",
        "timeouts",
        "unsafe_use_conditional_update",
        "unsafe_use_conditional_create",
        "unsafe_use_metadata",
        "storage_class",
        "metadata_storage_class",
        "chunks_storage_class",
        "minimum_size_for_multipart_upload",
    ),
    StorageConcurrencySettings: (
        "max_concurrent_requests_for_object",
        "ideal_concurrent_request_size",
    ),
    StorageRetriesSettings: ("max_tries", "initial_backoff_ms", "max_backoff_ms"),
    StorageTimeoutSettings: (
        "connect_timeout_ms",
        "read_timeout_ms",
        "operation_timeout_ms",
        "operation_attempt_timeout_ms",
    ),
    ManifestConfig: (
        "preload",
        "splitting",
        "virtual_chunk_location_compression",
        "max_concurrent_manifest_fetches_during_commit",
    ),
    ManifestPreloadConfig: ("max_total_refs", "preload_if", "max_arrays_to_scan"),
    ManifestSplittingConfig: ("split_sizes",),
    ManifestVirtualChunkLocationCompressionConfig: (
        "min_num_chunks",
        "dictionary_max_training_samples",
        "dictionary_max_size_bytes",
        "compression_level",
    ),
    RepoUpdateRetryConfig: ("default",),
    S3Options: (
        "region",
        "endpoint_url",
        "anonymous",
        "allow_http",
        "force_path_style",
        "network_stream_timeout_seconds",
        "requester_pays",
        "checksum_algorithm",
    ),
    VirtualChunkContainer: ("name", "url_prefix", "store"),
}

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
