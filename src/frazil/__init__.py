"""Frazil: transactional, versioned storage for Zarr arrays, in the Icechunk format.

Names are loaded on first use, so that `import frazil` costs next to nothing; `__init__.pyi`
tells them to type checkers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

__version__: Final = "0.1.0"

_NAMES: Final = {
    "frazil.codec_pipeline": "disable_fast_zarr enable_fast_zarr",
    "frazil.comparing.records": "ArrayDiff ValueDiff",
    "frazil.errors": (
        "AlreadyExistsError AuditFailedError ConflictError ErrorKind FormatError FrazilError "
        "InternalError InvalidInputError MergeConflictError NodeNotFoundError NotFoundError "
        "ReadOnlyError RebaseFailedError RefNotFoundError RepositoryNotFoundError "
        "SelectionError SessionStateError SnapshotNotFoundError StorageError"
    ),
    "frazil.ingestion.pipeline": "ingest",
    "frazil.ingestion.reports": "IngestReport",
    "frazil.logs": "initialize_logs set_logs_filter shutdown_telemetry",
    "frazil.maintenance.garbage_plan": "GarbagePlan",
    "frazil.merging.records": "ChangeCounts ConflictKind MergeConflict MergeReport MergeStatus",
    "frazil.model.chunks": "ChunkType",
    "frazil.model.config": (
        "Attribution CachingConfig ChecksumAlgorithm CompressionAlgorithm "
        "CompressionConfig FeatureFlag ManifestConfig ManifestPreloadCondition "
        "ManifestPreloadConfig ManifestSplitCondition ManifestSplitDimCondition "
        "ManifestSplittingConfig ManifestVirtualChunkLocationCompressionConfig "
        "ObjectStoreConfig RepoUpdateRetryConfig RepositoryConfig S3Options "
        "StorageConcurrencySettings StorageRetriesSettings StorageSettings "
        "StorageTimeoutSettings VirtualChunkContainer VirtualChunkSpec"
    ),
    "frazil.model.graph": "AncestryGraph",
    "frazil.model.updates": "RepoAvailability UpdateType",
    "frazil.model.values": (
        "BasicConflictSolver ChunkStorageStats CommitMethod Conflict ConflictDetector "
        "ConflictSolver ConflictType Diff GCSummary ManifestFileInfo RepoStatus "
        "SessionMode SnapshotInfo SpecVersion Update VersionSelection"
    ),
    "frazil.purging.records": "PurgeReport",
    "frazil.repository": "Repository",
    "frazil.repository.checks": "AuditReport Check CheckResult",
    "frazil.run": "JobReport Runner",
    "frazil.session": "ForkSession Session",
    "frazil.storage.base": "Storage",
    "frazil.storage.constructors": (
        "azure_storage azure_store gcs_storage gcs_store hf_storage http_storage "
        "http_store in_memory_storage local_filesystem_storage local_filesystem_store "
        "r2_storage redirect_storage s3_object_store_storage s3_storage s3_store "
        "tigris_storage"
    ),
    "frazil.storage.credential_functions": (
        "azure_anonymous_credentials azure_credentials azure_from_env_credentials "
        "azure_refreshable_credentials azure_static_credentials containers_credentials "
        "gcs_anonymous_credentials gcs_credentials gcs_from_env_credentials "
        "gcs_refreshable_credentials gcs_static_credentials s3_anonymous_credentials "
        "s3_credentials s3_from_env_credentials s3_refreshable_credentials "
        "s3_static_credentials"
    ),
    "frazil.storage.credentials": (
        "AzureCredentials AzureRefreshableCredential AzureStaticCredentials Credentials "
        "GcsBearerCredential GcsCredentials GcsStaticCredentials HttpAccess "
        "LocalFileSystemAccess S3Credentials S3StaticCredentials"
    ),
    "frazil.store": "FrazilStore",
    "frazil.transfer.cloning": "clone",
    "frazil.transfer.zarr_export": "export",
    "frazil.transfer.zarr_import": "import_zarr",
    "frazil.upgrade": ("clean_upgrade plan_upgrade undo_upgrade upgrade_older upgrade_repository"),
    "frazil.upgrading.source": "TidyReport UpgradeReport",
}
"""public names by the module they live in"""

_MODULES: Final = ("bulk", "config")
"""modules that can be used without being imported by name"""

_HOME: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *sorted({*_HOME, *_MODULES})]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"frazil.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
    found: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
