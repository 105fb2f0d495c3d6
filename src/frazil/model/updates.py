"""What can happen to a repository: one record for each kind of update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from frazil.ids import SnapshotId
from frazil.model.plain import Micros
from frazil.model.settings import NamedInt


class RepoAvailability(NamedInt):
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


@dataclass(frozen=True, slots=True)
class UnknownUpdate:
    """Something a newer library did; it can be listed but not written again."""

    tag: int


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
    | UnknownUpdate
)


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """One line of the operations log; `backup_path` names the repo object it was newest in."""

    kind: UpdateKind
    updated_at: Micros
    backup_path: str | None = None
