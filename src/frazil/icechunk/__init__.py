"""Frazil under the names of the official `icechunk` package.

`import frazil.icechunk as icechunk` runs programs written for that package: the names,
signatures and errors of its release 2.3.0 are here. Modules that only name what lives elsewhere
are made from a table; stubs of the same names tell type checkers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final

from frazil.logs import initialize_logs
from frazil.naming import OFFICIAL, name_process

_MADE: Final = {
    "_exceptions": {
        "frazil.errors": (
            "AlreadyExistsError ConflictError ErrorKind FormatError IcechunkError InternalError "
            "InvalidInputError NodeNotFoundError NotFoundError ReadOnlyError RebaseFailedError "
            "RefNotFoundError RepositoryNotFoundError SessionStateError SnapshotNotFoundError "
            "StorageError"
        ),
    },
    "config": {
        "frazil.logs": "initialize_logs set_logs_filter shutdown_telemetry",
        "frazil.model.config": (
            "Attribution CachingConfig CompressionAlgorithm CompressionConfig FeatureFlag "
            "ManifestConfig ManifestPreloadCondition ManifestPreloadConfig ManifestSplitCondition "
            "ManifestSplitDimCondition ManifestSplittingConfig "
            "ManifestVirtualChunkLocationCompressionConfig ObjectStoreConfig RepositoryConfig "
            "RepoUpdateRetryConfig"
        ),
        "frazil.model.manifest_config": "ManifestSplitValues SplitSizesDict",
    },
    "conflicts": {
        "frazil.model.values": (
            "BasicConflictSolver Conflict ConflictDetector ConflictSolver ConflictType "
            "VersionSelection"
        ),
    },
    "credentials": {
        "frazil.storage.credential_functions": (
            "azure_anonymous_credentials azure_credentials azure_from_env_credentials "
            "azure_refreshable_credentials azure_static_credentials containers_credentials "
            "gcs_anonymous_credentials gcs_credentials gcs_from_env_credentials "
            "gcs_refreshable_credentials gcs_static_credentials s3_anonymous_credentials "
            "s3_credentials s3_from_env_credentials s3_refreshable_credentials "
            "s3_static_credentials"
        ),
        "frazil.storage.credentials": (
            "AnyAzureCredential AnyAzureStaticCredential AnyCredential AnyGcsCredential "
            "AnyGcsStaticCredential AnyS3Credential AzureCredentials "
            "AzureRefreshableCredential AzureStaticCredentials Credentials GcsBearerCredential "
            "GcsCredentials GcsStaticCredentials HttpAccess LocalFileSystemAccess "
            "S3Credentials S3StaticCredentials"
        ),
    },
    "ops": {
        "frazil.model.updates": "UpdateType",
        "frazil.model.values": "GCSummary Update",
    },
    "snapshots": {
        "frazil.model.graph": "AncestryGraph",
        "frazil.model.values": "Diff ManifestFileInfo SnapshotInfo",
    },
    "types": {
        "frazil.model.values": "CommitMethod SpecVersion",
    },
    "virtual": {
        "frazil.model.config": "VirtualChunkContainer VirtualChunkSpec",
    },
}
"""modules that are made here: the names in them, by the module that these live in"""

_FILES: Final = {
    "functions": (
        "__version__ print_debug_info spec_version user_agent supported_spec_versions "
        "upgrade_icechunk_repository"
    ),
    "repository": "RepoAvailability Repository RepoStatus",
    "session": "ForkSession Session SessionMode",
    "storage": (
        "AnyObjectStoreConfig ChecksumAlgorithm ChunkType S3Options Storage "
        "StorageConcurrencySettings StorageRetriesSettings StorageSettings StorageTimeoutSettings "
        "azure_storage gcs_storage gcs_store hf_storage http_storage http_store in_memory_storage "
        "local_filesystem_storage local_filesystem_store r2_storage redirect_storage s3_storage "
        "s3_store tigris_storage"
    ),
    "store": "IcechunkStore",
}
"""modules that are files, and those of their names that the package has too"""

_ELSEWHERE_ONLY: Final = (
    "HttpAccess LocalFileSystemAccess ManifestSplitValues RepoUpdateRetryConfig SplitSizesDict "
    "gcs_anonymous_credentials supported_spec_versions upgrade_icechunk_repository"
)
"""names that the official package does not list in its `__all__`"""


def _make(name: str, homes: dict[str, str]) -> ModuleType:
    """Make a module that holds names of others, and can be imported like a file."""
    made = ModuleType(f"{__name__}.{name}", "Names of the official package.")
    for home, names in homes.items():
        source = import_module(home)
        vars(made).update({name: getattr(source, name) for name in names.split()})
    vars(made)["__all__"] = sorted(" ".join(homes.values()).split())
    sys.modules[made.__name__] = made
    globals()[name] = made
    return made


def _fill() -> list[str]:
    """Put all names into this package, and return those that it lists."""
    found: dict[str, object] = {}
    for name, homes in _MADE.items():
        made = _make(name, homes)
        found.update({name: getattr(made, name) for name in vars(made)["__all__"]})
    for name, names in _FILES.items():
        file = import_module(f"{__name__}.{name}")
        found.update({name: getattr(file, name) for name in names.split()})
    globals().update(found)
    return sorted(found.keys() - {*_ELSEWHERE_ONLY.split()})


__all__ = _fill()

initialize_logs()
name_process(OFFICIAL)
