from typing import Final

from frazil import bulk as bulk
from frazil import config as config
from frazil.codec_pipeline import disable_fast_zarr as disable_fast_zarr
from frazil.codec_pipeline import enable_fast_zarr as enable_fast_zarr
from frazil.comparing.records import ArrayDiff as ArrayDiff
from frazil.comparing.records import ValueDiff as ValueDiff
from frazil.errors import AlreadyExistsError as AlreadyExistsError
from frazil.errors import AuditFailedError as AuditFailedError
from frazil.errors import ConflictError as ConflictError
from frazil.errors import ErrorKind as ErrorKind
from frazil.errors import FormatError as FormatError
from frazil.errors import FrazilError as FrazilError
from frazil.errors import InternalError as InternalError
from frazil.errors import InvalidInputError as InvalidInputError
from frazil.errors import MergeConflictError as MergeConflictError
from frazil.errors import NodeNotFoundError as NodeNotFoundError
from frazil.errors import NotFoundError as NotFoundError
from frazil.errors import ReadOnlyError as ReadOnlyError
from frazil.errors import RebaseFailedError as RebaseFailedError
from frazil.errors import RefNotFoundError as RefNotFoundError
from frazil.errors import RepositoryNotFoundError as RepositoryNotFoundError
from frazil.errors import SelectionError as SelectionError
from frazil.errors import SessionStateError as SessionStateError
from frazil.errors import SnapshotNotFoundError as SnapshotNotFoundError
from frazil.errors import StorageError as StorageError
from frazil.ingestion.pipeline import ingest as ingest
from frazil.ingestion.reports import IngestReport as IngestReport
from frazil.logs import initialize_logs as initialize_logs
from frazil.logs import set_logs_filter as set_logs_filter
from frazil.logs import shutdown_telemetry as shutdown_telemetry
from frazil.maintenance.garbage_plan import GarbagePlan as GarbagePlan
from frazil.merging.records import ChangeCounts as ChangeCounts
from frazil.merging.records import ConflictKind as ConflictKind
from frazil.merging.records import MergeConflict as MergeConflict
from frazil.merging.records import MergeReport as MergeReport
from frazil.merging.records import MergeStatus as MergeStatus
from frazil.model.chunks import ChunkType as ChunkType
from frazil.model.config import Attribution as Attribution
from frazil.model.config import CachingConfig as CachingConfig
from frazil.model.config import ChecksumAlgorithm as ChecksumAlgorithm
from frazil.model.config import CompressionAlgorithm as CompressionAlgorithm
from frazil.model.config import CompressionConfig as CompressionConfig
from frazil.model.config import FeatureFlag as FeatureFlag
from frazil.model.config import ManifestConfig as ManifestConfig
from frazil.model.config import ManifestPreloadCondition as ManifestPreloadCondition
from frazil.model.config import ManifestPreloadConfig as ManifestPreloadConfig
from frazil.model.config import ManifestSplitCondition as ManifestSplitCondition
from frazil.model.config import ManifestSplitDimCondition as ManifestSplitDimCondition
from frazil.model.config import ManifestSplittingConfig as ManifestSplittingConfig
from frazil.model.config import (
    ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
)
from frazil.model.config import ObjectStoreConfig as ObjectStoreConfig
from frazil.model.config import RepositoryConfig as RepositoryConfig
from frazil.model.config import RepoUpdateRetryConfig as RepoUpdateRetryConfig
from frazil.model.config import S3Options as S3Options
from frazil.model.config import StorageConcurrencySettings as StorageConcurrencySettings
from frazil.model.config import StorageRetriesSettings as StorageRetriesSettings
from frazil.model.config import StorageSettings as StorageSettings
from frazil.model.config import StorageTimeoutSettings as StorageTimeoutSettings
from frazil.model.config import VirtualChunkContainer as VirtualChunkContainer
from frazil.model.config import VirtualChunkSpec as VirtualChunkSpec
from frazil.model.graph import AncestryGraph as AncestryGraph
from frazil.model.updates import RepoAvailability as RepoAvailability
from frazil.model.updates import UpdateType as UpdateType
from frazil.model.values import BasicConflictSolver as BasicConflictSolver
from frazil.model.values import ChunkStorageStats as ChunkStorageStats
from frazil.model.values import CommitMethod as CommitMethod
from frazil.model.values import Conflict as Conflict
from frazil.model.values import ConflictDetector as ConflictDetector
from frazil.model.values import ConflictSolver as ConflictSolver
from frazil.model.values import ConflictType as ConflictType
from frazil.model.values import Diff as Diff
from frazil.model.values import GCSummary as GCSummary
from frazil.model.values import ManifestFileInfo as ManifestFileInfo
from frazil.model.values import RepoStatus as RepoStatus
from frazil.model.values import SessionMode as SessionMode
from frazil.model.values import SnapshotInfo as SnapshotInfo
from frazil.model.values import SpecVersion as SpecVersion
from frazil.model.values import Update as Update
from frazil.model.values import VersionSelection as VersionSelection
from frazil.purging.records import PurgeReport as PurgeReport
from frazil.repository import Repository as Repository
from frazil.repository.checks import AuditReport as AuditReport
from frazil.repository.checks import Check as Check
from frazil.repository.checks import CheckResult as CheckResult
from frazil.run import JobReport as JobReport
from frazil.run import Runner as Runner
from frazil.session import ForkSession as ForkSession
from frazil.session import Session as Session
from frazil.storage.base import Storage as Storage
from frazil.storage.constructors import azure_storage as azure_storage
from frazil.storage.constructors import azure_store as azure_store
from frazil.storage.constructors import gcs_storage as gcs_storage
from frazil.storage.constructors import gcs_store as gcs_store
from frazil.storage.constructors import hf_storage as hf_storage
from frazil.storage.constructors import http_storage as http_storage
from frazil.storage.constructors import http_store as http_store
from frazil.storage.constructors import in_memory_storage as in_memory_storage
from frazil.storage.constructors import local_filesystem_storage as local_filesystem_storage
from frazil.storage.constructors import local_filesystem_store as local_filesystem_store
from frazil.storage.constructors import r2_storage as r2_storage
from frazil.storage.constructors import redirect_storage as redirect_storage
from frazil.storage.constructors import s3_object_store_storage as s3_object_store_storage
from frazil.storage.constructors import s3_storage as s3_storage
from frazil.storage.constructors import s3_store as s3_store
from frazil.storage.constructors import tigris_storage as tigris_storage
from frazil.storage.credential_functions import (
    azure_anonymous_credentials as azure_anonymous_credentials,
)
from frazil.storage.credential_functions import azure_credentials as azure_credentials
from frazil.storage.credential_functions import (
    azure_from_env_credentials as azure_from_env_credentials,
)
from frazil.storage.credential_functions import (
    azure_refreshable_credentials as azure_refreshable_credentials,
)
from frazil.storage.credential_functions import azure_static_credentials as azure_static_credentials
from frazil.storage.credential_functions import containers_credentials as containers_credentials
from frazil.storage.credential_functions import (
    gcs_anonymous_credentials as gcs_anonymous_credentials,
)
from frazil.storage.credential_functions import gcs_credentials as gcs_credentials
from frazil.storage.credential_functions import gcs_from_env_credentials as gcs_from_env_credentials
from frazil.storage.credential_functions import (
    gcs_refreshable_credentials as gcs_refreshable_credentials,
)
from frazil.storage.credential_functions import gcs_static_credentials as gcs_static_credentials
from frazil.storage.credential_functions import s3_anonymous_credentials as s3_anonymous_credentials
from frazil.storage.credential_functions import s3_credentials as s3_credentials
from frazil.storage.credential_functions import s3_from_env_credentials as s3_from_env_credentials
from frazil.storage.credential_functions import (
    s3_refreshable_credentials as s3_refreshable_credentials,
)
from frazil.storage.credential_functions import s3_static_credentials as s3_static_credentials
from frazil.storage.credentials import AzureCredentials as AzureCredentials
from frazil.storage.credentials import AzureRefreshableCredential as AzureRefreshableCredential
from frazil.storage.credentials import AzureStaticCredentials as AzureStaticCredentials
from frazil.storage.credentials import Credentials as Credentials
from frazil.storage.credentials import GcsBearerCredential as GcsBearerCredential
from frazil.storage.credentials import GcsCredentials as GcsCredentials
from frazil.storage.credentials import GcsStaticCredentials as GcsStaticCredentials
from frazil.storage.credentials import HttpAccess as HttpAccess
from frazil.storage.credentials import LocalFileSystemAccess as LocalFileSystemAccess
from frazil.storage.credentials import S3Credentials as S3Credentials
from frazil.storage.credentials import S3StaticCredentials as S3StaticCredentials
from frazil.store import FrazilStore as FrazilStore
from frazil.transfer.cloning import clone as clone
from frazil.transfer.zarr_export import export as export
from frazil.transfer.zarr_import import import_zarr as import_zarr
from frazil.upgrade import clean_upgrade as clean_upgrade
from frazil.upgrade import plan_upgrade as plan_upgrade
from frazil.upgrade import undo_upgrade as undo_upgrade
from frazil.upgrade import upgrade_older as upgrade_older
from frazil.upgrade import upgrade_repository as upgrade_repository
from frazil.upgrading.source import TidyReport as TidyReport
from frazil.upgrading.source import UpgradeReport as UpgradeReport

__version__: Final[str]
