"""Snapshots, transaction logs, refs and the repo object as records (format reference 3.4-3.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.nodes import Node

JSON: TypeAlias = Any
"""A value JSON can hold; metadata comes from foreign bytes."""
Metadata: TypeAlias = Mapping[str, JSON]
Micros: TypeAlias = int
"""Microseconds since 1970 UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(micros: Micros) -> datetime:
    """The time as an aware datetime."""
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(when: datetime) -> Micros:
    """An aware datetime as microseconds since 1970."""
    return (when - _EPOCH) // timedelta(microseconds=1)


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
    nodes: tuple[Node, ...]
    flushed_at: Micros
    message: str
    metadata: Metadata
    manifest_files: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A node that changed its path."""

    source: str
    target: str
    node_id: NodeId
    is_array: bool


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


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """What history needs to know of a snapshot without opening its file."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: Micros
    message: str
    metadata: Metadata
    pruned_ancestor_tx_logs: tuple[SnapshotId, ...] = ()


class RepoAvailability(IntEnum):
    """Whether a repository takes changes."""

    online = 0
    read_only = 1
    offline = 2


@dataclass(frozen=True, slots=True)
class Status:
    """Availability of a repository, since when and why."""

    availability: RepoAvailability
    set_at: Micros
    reason: str | None = None


# --- operations log: one record for each kind of update, in the order of its union tag ---


@dataclass(frozen=True, slots=True)
class RepoInitialized:
    """The repository was created."""


@dataclass(frozen=True, slots=True)
class RepoMigrated:
    """The repository changed its spec."""

    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The stored configuration was replaced."""


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The repository attributes changed."""


@dataclass(frozen=True, slots=True)
class TagCreated:
    """A tag was made."""

    name: str


@dataclass(frozen=True, slots=True)
class TagDeleted:
    """A tag was deleted, for good."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchCreated:
    """A branch was made."""

    name: str


@dataclass(frozen=True, slots=True)
class BranchDeleted:
    """A branch was deleted."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchReset:
    """A branch was pointed to another snapshot."""

    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit moved a branch."""

    branch: str
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class CommitAmended:
    """The tip of a branch was replaced."""

    branch: str
    previous_snap_id: SnapshotId
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewDetachedSnapshot:
    """A snapshot was written that no branch points to."""

    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class GCRan:
    """Garbage was collected."""


@dataclass(frozen=True, slots=True)
class ExpirationRan:
    """Old snapshots were released."""


@dataclass(frozen=True, slots=True)
class FeatureFlagChanged:
    """A feature flag was set; None returns it to its default."""

    id: int
    new_value: bool | None


@dataclass(frozen=True, slots=True)
class RepoStatusChanged:
    """The availability changed."""

    status: Status


UpdateKind: TypeAlias = (
    RepoInitialized
    | RepoMigrated
    | ConfigChanged
    | MetadataChanged
    | TagCreated
    | TagDeleted
    | BranchCreated
    | BranchDeleted
    | BranchReset
    | NewCommit
    | CommitAmended
    | NewDetachedSnapshot
    | GCRan
    | ExpirationRan
    | FeatureFlagChanged
    | RepoStatusChanged
)


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """One line of the operations log; `backup_path` names the repo object it was newest in."""

    kind: UpdateKind
    updated_at: Micros
    backup_path: str | None = None


@dataclass(frozen=True)
class RepoInfo:
    """The v2 repo object: the whole mutable state of a repository.

    `snapshots` behaves as a mapping by id, so that a codec may keep it as columns and make an
    entry only when it is asked for.
    """

    spec_version: int
    tags: Mapping[str, SnapshotId]
    branches: Mapping[str, SnapshotId]
    deleted_tags: frozenset[str]
    snapshots: Mapping[SnapshotId, SnapshotEntry]
    status: Status
    metadata: Metadata
    latest_updates: Sequence[UpdateEntry]
    """newest first"""
    repo_before_updates: str | None = None
    config: JSON | None = None
    """the stored configuration as a plain map, or None"""
    enabled_feature_flags: frozenset[int] | None = None
    disabled_feature_flags: frozenset[int] | None = None
