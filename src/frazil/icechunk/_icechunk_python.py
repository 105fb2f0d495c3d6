"""Names that programs take from the private module of the official package."""

from __future__ import annotations

from frazil.async_twins import AsyncItems as AsyncCloseableIterator
from frazil.errors import ConflictError, ErrorKind, IcechunkError, RebaseFailedError
from frazil.icechunk.functions import __version__, spec_version, user_agent
from frazil.icechunk.functions import upgrade_icechunk_repository as _upgrade_icechunk_repository
from frazil.icechunk.repository import Repository as PyRepository
from frazil.icechunk.session import Session as PySession
from frazil.icechunk.storage import Storage
from frazil.icechunk.store import IcechunkStore as PyStore
from frazil.model.config import RepoUpdateRetryConfig
from frazil.model.graph import AncestryGraph
from frazil.model.values import ChunkStorageStats, Diff, GCSummary, SnapshotInfo, Update
from frazil.storage.base import Listed as StorageObjectInfo
from frazil.storage.wrapped import LatencyStorage

__all__ = [
    "AncestryGraph",
    "AsyncCloseableIterator",
    "ChunkStorageStats",
    "ConflictError",
    "Diff",
    "GCSummary",
    "IcechunkError",
    "LatencyStorage",
    "PyRepository",
    "PySession",
    "PyStore",
    "RebaseFailedError",
    "RepoUpdateRetryConfig",
    "SnapshotInfo",
    "Storage",
    "StorageObjectInfo",
    "Update",
    "__version__",
    "_all_error_kinds",
    "_upgrade_icechunk_repository",
    "spec_version",
    "user_agent",
]


def _all_error_kinds() -> list[str]:
    """All codes that errors carry."""
    return [kind.value for kind in ErrorKind]
