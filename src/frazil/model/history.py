"""Snapshots, transaction logs and the repo object as records.

The records of the operations log and the table of snapshots have files of their own; this one
offers them too, because together they are the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, FormatError
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.nodes import Node
from frazil.model.oplog import UpdateLog
from frazil.model.plain import JSON, MAX_MICROS, Metadata, Micros, to_datetime, to_micros
from frazil.model.snapshots import SnapshotEntry, SnapshotTable
from frazil.model.updates import (
    RepoAvailability,
    StoredStatus,
    UnknownUpdate,
    UpdateEntry,
    UpdateKind,
    UpdateType,
)

__all__ = [
    "JSON",
    "MAX_MICROS",
    "NODE_FIELDS",
    "ManifestFile",
    "Metadata",
    "Micros",
    "Move",
    "RepoAvailability",
    "RepoInfo",
    "Snapshot",
    "SnapshotEntry",
    "SnapshotTable",
    "StoredStatus",
    "TransactionLog",
    "UnknownUpdate",
    "UpdateEntry",
    "UpdateKind",
    "UpdateLog",
    "UpdateType",
    "to_datetime",
    "to_micros",
    "with_update",
]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest a snapshot needs: `size_bytes` is the whole file, header included."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the whole hierarchy at one commit; nodes ascend by path bytes."""

    id: SnapshotId
    parent_id: SnapshotId | None
    """only spec 1 files store it; elsewhere the repo object knows"""
    nodes: Sequence[Node]
    flushed_at: Micros
    message: str
    metadata: Metadata
    manifest_files: tuple[ManifestFile, ...]

    def entry(
        self, parent_id: SnapshotId | None, pruned: tuple[SnapshotId, ...] = ()
    ) -> SnapshotEntry:
        """What history records of it."""
        fields = (self.flushed_at, self.message, self.metadata)
        return SnapshotEntry(self.id, parent_id, *fields, pruned_ancestor_tx_logs=pruned)


@dataclass(frozen=True, slots=True)
class Move:
    """A node that changed its path."""

    source: str
    target: str
    node_id: NodeId
    is_array: bool


NODE_FIELDS: Final = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)
"""Fields of a transaction log, and of a diff, that name nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class TransactionLog:
    """What a commit changed. Id tuples ascend; chunk coordinates are (n, ndim) in order."""

    id: SnapshotId
    new_groups: tuple[NodeId, ...] = ()
    new_arrays: tuple[NodeId, ...] = ()
    deleted_groups: tuple[NodeId, ...] = ()
    deleted_arrays: tuple[NodeId, ...] = ()
    updated_arrays: tuple[NodeId, ...] = ()
    updated_groups: tuple[NodeId, ...] = ()
    updated_chunks: Mapping[NodeId, npt.NDArray[np.uint32]] = field(default_factory=dict)
    moved_nodes: tuple[Move, ...] = ()


@dataclass(frozen=True)
class RepoInfo:
    """The v2 repo object: the whole mutable state of a repository."""

    spec_version: int
    tags: Mapping[str, SnapshotId]
    branches: Mapping[str, SnapshotId]
    deleted_tags: frozenset[str]
    snapshots: SnapshotTable
    status: StoredStatus
    metadata: Metadata
    latest_updates: Sequence[UpdateEntry]
    """newest first; an `UpdateLog` where it comes from a file"""
    repo_before_updates: str | None = None
    config: JSON | None = None
    """the stored configuration as a plain map, or None"""
    enabled_feature_flags: frozenset[int] | None = None
    disabled_feature_flags: frozenset[int] | None = None


def with_update(
    info: RepoInfo,
    kind: UpdateKind,
    now_micros: Micros,
    backup_name: str,
    limit: int,
    **changes: Any,  # noqa: ANN401  # fields of RepoInfo
) -> RepoInfo:
    """The repo object after a change.

    `backup_name` is the copy of the object as it was, which from now on holds the lines beyond
    `limit`.
    """
    log = UpdateLog.of(info.latest_updates)
    if now_micros <= log.newest_at:
        raise FormatError(
            "the clock says it is not later than the last change of the repository",
            kind=ErrorKind.SNAPSHOT_TIMESTAMP,
            now=now_micros,
        )
    log, dropped = log.with_newest(
        UpdateEntry(kind, now_micros), backup_path=backup_name, limit=limit
    )
    before = info.repo_before_updates if dropped is None else dropped
    return replace(info, **changes, latest_updates=log, repo_before_updates=before)
