# Written by scripts/stubs; edit the methods themselves.
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

from frazil.comparing import values
from frazil.comparing.records import ValueDiff
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.merging.merge import FastForward
from frazil.merging.policies import Policy
from frazil.merging.records import MergeReport
from frazil.model.config import Attribution, FeatureFlag, RepositoryConfig, StorageSettings
from frazil.model.graph import AncestryGraph
from frazil.model.values import (
    ChunkStorageStats,
    CommitMethod,
    Diff,
    GCSummary,
    ManifestFileInfo,
    RepoStatus,
    SnapshotInfo,
    SpecVersion,
    Update,
)
from frazil.purging.records import PurgeReport
from frazil.repository.repository import Authorized
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.tip import Tip

class AsyncRepository:
    async def ancestry_graph_async(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph: ...
    async def cherry_pick_async(
        self,
        snapshot: str,
        onto: str = "main",
        *,
        message: str | None = None,
        policy: Policy = ...,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport: ...
    async def chunk_storage_stats_async(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = ...,
        max_decoded_manifest_mem_bytes: int = ...,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats: ...
    async def collect_planned_async(
        self,
        plan: GarbagePlan,
        *,
        quarantine: bool = False,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GCSummary: ...
    @classmethod
    async def create_async(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        spec_version: SpecVersion | int | str | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self: ...
    async def create_branch_async(self, branch: str, snapshot_id: str) -> None: ...
    async def create_tag_async(self, tag: str, snapshot_id: str) -> None: ...
    async def delete_branch_async(self, branch: str) -> None: ...
    async def delete_tag_async(self, tag: str) -> None: ...
    async def diff_async(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff: ...
    async def diff_values_async(
        self,
        before: str,
        after: str,
        *,
        paths: Sequence[str] | None = None,
        max_samples: int = ...,
        progress: values.Progress | None = None,
    ) -> ValueDiff: ...
    async def disabled_feature_flags_async(self) -> list[FeatureFlag]: ...
    async def enabled_feature_flags_async(self) -> list[FeatureFlag]: ...
    @staticmethod
    async def exists_async(
        storage: Storage | str | Path, storage_settings: StorageSettings | None = None
    ) -> bool: ...
    async def expire_snapshots_async(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]: ...
    async def fast_forward_async(
        self, branch: str, to: str, *, dry_run: bool = False
    ) -> MergeReport: ...
    async def feature_flags_async(self) -> list[FeatureFlag]: ...
    @staticmethod
    async def fetch_config_async(storage: Storage | str | Path) -> RepositoryConfig | None: ...
    @staticmethod
    async def fetch_spec_version_async(
        storage: Storage | str | Path, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None: ...
    async def garbage_collect_async(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = ...,
        max_decoded_manifest_mem_bytes: int = ...,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GCSummary: ...
    async def get_metadata_async(self) -> dict[str, Any]: ...
    async def get_status_async(self) -> RepoStatus: ...
    async def inspect_manifest_async(self, manifest_id: str) -> dict[str, Any]: ...
    async def inspect_repo_info_async(self) -> dict[str, Any]: ...
    async def inspect_snapshot_async(self, snapshot_id: str) -> dict[str, Any]: ...
    async def inspect_transaction_log_async(self, snapshot_id: str) -> dict[str, Any]: ...
    async def list_branches_async(self) -> set[str]: ...
    async def list_manifest_files_async(self, snapshot_id: str) -> list[ManifestFileInfo]: ...
    async def list_snapshots_async(self) -> list[SnapshotInfo]: ...
    async def list_tags_async(self) -> set[str]: ...
    async def lookup_branch_async(self, branch: str) -> str: ...
    async def lookup_snapshot_async(self, snapshot_id: str) -> SnapshotInfo: ...
    async def lookup_tag_async(self, tag: str) -> str: ...
    async def merge_async(
        self,
        source: str,
        into: str = "main",
        *,
        message: str | None = None,
        policy: Policy = ...,
        ff: FastForward = True,
        base: str | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport: ...
    @classmethod
    async def open_async(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        attribution: Attribution | None = None,
        *,
        store_root: Storage | str | None = None,
        endpoints: Iterable[str] = ...,
    ) -> Self: ...
    @classmethod
    async def open_or_create_async(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        create_version: SpecVersion | int | str | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self: ...
    def ops_log_async(self) -> AsyncIterator[Update]: ...
    async def plan_garbage_async(
        self,
        older_than: datetime,
        *,
        incremental: bool = False,
        snapshots: Iterable[str] | None = None,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GarbagePlan: ...
    async def purge_async(
        self,
        path: str,
        region: Sequence[slice | tuple[int, int | None]] | None = None,
        *,
        confirm: str | None = None,
        dry_run: bool = False,
        delete_backups: bool = False,
        unsafe_minimum_age: timedelta | None = None,
    ) -> PurgeReport: ...
    async def readonly_session_async(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session: ...
    async def rearrange_session_async(self, branch: str) -> Session: ...
    async def reopen_async(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        *,
        endpoints: Iterable[str] = ...,
    ) -> Self: ...
    async def reset_branch_async(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None: ...
    async def revert_async(
        self,
        snapshot: str,
        on: str = "main",
        *,
        message: str | None = None,
        policy: Policy = ...,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport: ...
    async def rewrite_manifests_async(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str: ...
    async def save_config_async(self) -> None: ...
    async def set_feature_flag_async(self, name: str, setting: bool | None) -> None: ...
    async def set_metadata_async(self, metadata: dict[str, Any]) -> None: ...
    async def set_status_async(self, status: RepoStatus) -> None: ...
    async def squash_async(
        self,
        branch: str,
        from_: str,
        to: str | None = None,
        *,
        message: str | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport: ...
    async def tip_async(self, branch: str, *, snapshot_id: str | None = None) -> Tip: ...
    async def update_metadata_async(self, metadata: dict[str, Any]) -> dict[str, Any]: ...
    async def writable_session_async(self, branch: str) -> Session: ...
