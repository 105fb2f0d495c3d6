"""Expiry, garbage collection, statistics and inspection of a repository's files."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta
from typing import Any

from frazil.async_twins import async_twin, in_thread
from frazil.ids import texts_of
from frazil.model.values import ChunkStorageStats, GCSummary
from frazil.repository.handle import RepositoryHandle
from frazil.tip import require_writable


class UpkeepMethods(RepositoryHandle):
    """What keeps a repository small and tells what it is made of."""

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Release snapshots older than a time from the history, and return their ids."""
        from frazil.maintenance.expire import expire

        require_writable(self._context)
        done = expire(
            self._context,
            older_than,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
        )
        return set(texts_of(done.released))

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GCSummary:
        """Delete objects that nothing refers to and that are older than a time.

        Objects younger than a day, by the clock of the store, stay whatever the time is: they may
        be what an open session has written. `unsafe_minimum_age` is another age; with zero the time
        alone counts, which then must be before the beginning of every session that is still open.

        Raises:
            StorageError: too many deletes in a row have failed.
            ConflictError: the repository is of another generation by now, or kept changing.
        """
        from frazil.maintenance.collecting import CollectionOptions, carry_out
        from frazil.maintenance.deleting import DeleteLimits
        from frazil.maintenance.garbage_plan import plan_garbage
        from frazil.maintenance.walk import WalkLimits

        require_writable(self._context, "collect garbage")
        age = self._minimum_age if unsafe_minimum_age is None else unsafe_minimum_age
        limits = WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        plan = plan_garbage(
            self._context,
            delete_object_older_than,
            limits=limits,
            unsafe_minimum_age=age,
            max_concurrent_listings=max_concurrent_listings,
        )
        if dry_run:
            return plan.summary
        deleting = DeleteLimits(max_concurrent_deletes, max_consecutive_delete_failures)
        return carry_out(
            self._context, plan, CollectionOptions(limits, deleting), unsafe_minimum_age=age
        )[0]

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """How many bytes the chunks of the whole history take."""
        from frazil.maintenance import space
        from frazil.maintenance.walk import WalkLimits

        limits = WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        return space.chunk_storage_stats(self._context, limits)

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """How many bytes native chunks take; use `chunk_storage_stats` instead."""
        warnings.warn(
            "total_chunks_storage is deprecated, use chunk_storage_stats",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.chunk_storage_stats(
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        ).native_bytes

    async def total_chunks_storage_async(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """How many bytes native chunks take; use `chunk_storage_stats_async` instead."""
        warnings.warn(
            "total_chunks_storage_async is deprecated, use chunk_storage_stats_async",
            DeprecationWarning,
            stacklevel=2,
        )
        found = await in_thread(
            self.chunk_storage_stats,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return found.native_bytes

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """A snapshot file as plain data."""
        from frazil.maintenance import inspect

        return inspect.inspect_snapshot(self._context, self._id_of(snapshot_id))

    def inspect_repo_info(self) -> dict[str, Any]:
        """The repo object as plain data."""
        from frazil.maintenance import inspect

        return inspect.inspect_repo_info(self._context)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """A manifest file as plain data."""
        from frazil.maintenance import inspect

        return inspect.inspect_manifest(self._context, manifest_id)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """A transaction log as plain data."""
        from frazil.maintenance import inspect

        return inspect.inspect_transaction_log(self._context, self._id_of(snapshot_id))

    expire_snapshots_async = async_twin(expire_snapshots)
    garbage_collect_async = async_twin(garbage_collect)
    chunk_storage_stats_async = async_twin(chunk_storage_stats)
    inspect_snapshot_async = async_twin(inspect_snapshot)
    inspect_repo_info_async = async_twin(inspect_repo_info)
    inspect_manifest_async = async_twin(inspect_manifest)
    inspect_transaction_log_async = async_twin(inspect_transaction_log)
