"""Expiry, garbage collection, statistics and inspection of a repository's files."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from frazil.bulk.pack import Packing
from frazil.maintenance import collecting, compaction, expire, inspect, stats
from frazil.maintenance.compaction import Compaction
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.walk import WalkLimits
from frazil.model.values import (
    BasicConflictSolver,
    ChunkStorageStats,
    GCSummary,
    VersionSelection,
)
from frazil.repository.handle import Handle
from frazil.tip import tip_of


class Upkeep(Handle):
    """What keeps a repository small and tells what it is made of."""

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Release snapshots older than a time from the history, and return their ids."""
        self.require_writable()
        return expire.expire_snapshots(
            self.context,
            older_than,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
        )

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
        be what an open session has written. `unsafe_minimum_age` is another age.
        """
        self.require_writable()
        return collecting.garbage_collect(
            self.context,
            delete_object_older_than,
            dry_run=dry_run,
            unsafe_minimum_age=self.age_floor(unsafe_minimum_age),
            walk=WalkLimits(
                max_snapshots_in_memory,
                max_compressed_manifest_mem_bytes,
                max_decoded_manifest_mem_bytes,
                max_concurrent_manifest_fetches,
            ),
            deleting=DeleteLimits(max_concurrent_deletes, max_consecutive_delete_failures),
            max_concurrent_listings=max_concurrent_listings,
        )

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """How many bytes the chunks of the whole history take."""
        limits = WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        return stats.chunk_storage_stats(self.context, limits)

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
        found = await asyncio.to_thread(
            self.chunk_storage_stats,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return found.native_bytes

    def compact_chunks(
        self,
        branch: str = "main",
        path: str = "/",
        *,
        packing: Packing | bool = True,
        min_dead_share: float = compaction.MIN_DEAD_SHARE,
        message: str = "compact chunks",
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Compaction:
        """Put small chunks into shared objects, and write packs with much dead space anew.

        Values stay as they are, and nothing is decoded. It is one commit, or none if there is
        nothing to do; where others change the same chunks meanwhile, their change stays. The
        old objects go when the snapshots that use them have expired, with garbage collection.

        Raises:
            NodeNotFoundError: there is no node at `path`.
        """
        self.require_writable()
        session = tip_of(self.context, branch).writable_session()
        done = compaction.compact_chunks(
            session.state, path, packing=packing, min_dead_share=min_dead_share, dry_run=dry_run
        )
        if dry_run or not done.chunks:
            return done
        theirs = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
        return replace(done, snapshot_id=session.commit(message, metadata, rebase_with=theirs))

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """A snapshot file as plain data."""
        return inspect.inspect_snapshot(self.context, self.id_of(snapshot_id))

    def inspect_repo_info(self) -> dict[str, Any]:
        """The repo object as plain data."""
        return inspect.inspect_repo_info(self.context)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """A manifest file as plain data."""
        return inspect.inspect_manifest(self.context, manifest_id)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """A transaction log as plain data."""
        return inspect.inspect_transaction_log(self.context, self.id_of(snapshot_id))
