"""What can happen to a repository: one record for each kind of update."""

from __future__ import annotations

from abc import ABC
from collections.abc import Set
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Final, Self, TypeAlias

from frazil.model.display import source
from frazil.model.plain import Micros
from frazil.model.settings import NamedInt
from frazil.naming import dotted


class RepoAvailability(NamedInt):
    """Whether a repository takes changes."""

    online = 0
    read_only = 1
    offline = 2


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """Availability of a repository, since when and why."""

    availability: RepoAvailability
    set_at: Micros
    reason: str | None = None


SnapId: TypeAlias = Any
"""A `SnapshotId` in the log itself, text in what users get."""
AnyStatus: TypeAlias = Any
"""A `StoredStatus` in the log itself, a `RepoStatus` in what users get."""


class UpdateKind:
    """Base of the kinds of lines of the operations log, which are dataclasses."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        names = (each.name for each in fields(self))
        arguments = ", ".join(f"{name}={source(getattr(self, name))}" for name in names)
        return dotted(f"ops.UpdateType.{type(self).__name__}({arguments})")


class UpdateType(ABC):  # noqa: B024  (a namespace; the variants are virtual subclasses)
    """What an update did; one nested class for each kind."""

    def __new__(cls) -> Self:
        """Refuse: only the variants can be made."""
        raise TypeError("use one of the variants, such as UpdateType.NewCommit")

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoInitialized(UpdateKind):
        """The repository was created."""

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoMigrated(UpdateKind):
        """The repository changed its spec."""

        from_version: int
        to_version: int

    @dataclass(frozen=True, slots=True, repr=False)
    class RepoStatusChanged(UpdateKind):
        """The availability changed."""

        status: AnyStatus

    @dataclass(frozen=True, slots=True, repr=False)
    class ConfigChanged(UpdateKind):
        """The stored configuration was replaced."""

    @dataclass(frozen=True, slots=True, repr=False)
    class MetadataChanged(UpdateKind):
        """The repository attributes changed."""

    @dataclass(frozen=True, slots=True, repr=False)
    class TagCreated(UpdateKind):
        """A tag was made."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class TagDeleted(UpdateKind):
        """A tag was deleted, for good."""

        name: str
        previous_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchCreated(UpdateKind):
        """A branch was made."""

        name: str

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchDeleted(UpdateKind):
        """A branch was deleted."""

        name: str
        previous_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class BranchReset(UpdateKind):
        """A branch was pointed to another snapshot."""

        name: str
        previous_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class NewCommit(UpdateKind):
        """A commit moved a branch."""

        branch: str
        new_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class CommitAmended(UpdateKind):
        """The tip of a branch was replaced."""

        branch: str
        previous_snap_id: SnapId
        new_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class NewDetachedSnapshot(UpdateKind):
        """A snapshot was written that no branch points to."""

        new_snap_id: SnapId

    @dataclass(frozen=True, slots=True, repr=False)
    class GCRan(UpdateKind):
        """Garbage was collected."""

    @dataclass(frozen=True, slots=True, repr=False)
    class ExpirationRan(UpdateKind):
        """Old snapshots were released."""

    @dataclass(frozen=True, slots=True, repr=False)
    class FeatureFlagChanged(UpdateKind):
        """A feature flag was set; None returns it to its default."""

        id: int
        new_value: bool | None = None


UpdateType.register(UpdateKind)


@dataclass(frozen=True, slots=True, repr=False)
class UnknownUpdate(UpdateKind):
    """Something a newer library did; it can be listed but not written again."""

    tag: int


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """One line of the operations log; `backup_path` names the repo object it was newest in."""

    kind: UpdateKind
    updated_at: Micros
    backup_path: str | None = None


# --- feature flags of a v2 repository ---

MOVE_NODE: Final = 3
CREATE_TAG: Final = 4
DELETE_TAG: Final = 5

FLAGS: Final = {MOVE_NODE: "move_node", CREATE_TAG: "create_tag", DELETE_TAG: "delete_tag"}
"""Known flags by id; all are on by default."""


def is_enabled(flag: int, enabled: Set[int] | None, disabled: Set[int] | None) -> bool:
    """Whether a flag is in force, given what was set on and off."""
    return flag in (enabled or ()) or flag not in (disabled or ())
