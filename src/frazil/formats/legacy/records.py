"""What the files of the older generations hold, in the terms of the model.

Ids of other widths become ids of the model by fixed rules (`names`). The stored name cannot always
be computed from the id. So a record also carries the stored names that differ from the plain ones,
and every encoder gets them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from frazil.arrays import Coords
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.header import BARE, Wrapping
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.history import Metadata, Micros, Snapshot

Nanos: TypeAlias = int
"""Nanoseconds since 1970 UTC: the old libraries kept that many digits."""


@dataclass(frozen=True, slots=True)
class Names:
    """Stored names, without folder, of the ids whose name is not the plain one.

    G1 names are texts as found. The 16 bytes of G2 are spelled in 26 Crockford characters
    here, whatever their spelling in the file. G3 needs none.
    """

    snapshots: Mapping[SnapshotId, str] = field(default_factory=dict)
    manifests: Mapping[ManifestId, str] = field(default_factory=dict)
    chunks: Mapping[ChunkId, str] = field(default_factory=dict)


NO_NAMES: Final = Names()


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A snapshot as the histories of its descendants list it."""

    id: SnapshotId
    written_at: Nanos
    message: str

    @property
    def flushed_at(self) -> Micros:
        """The time in the precision of the model."""
        return self.written_at // 1000


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """Where the attributes of a node are, if not in its snapshot."""

    file: str
    """stored name below the attribute folder; for G2 and G3 the Crockford text of the id"""
    location: int
    """row or item of that file"""
    flags: int = 0
    """G1 only: bit 0 says that the row is MessagePack, not JSON"""


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot with what its file knows beyond the model."""

    snapshot: Snapshot
    """nodes in order; attributes that `attributes` points to are `{}` until resolved"""
    dialect: Dialect
    history: tuple[Ancestor, ...] = ()
    """ancestors, newest first, as far as the file lists them"""
    total_parents: int = 0
    """number of all ancestors; 0 in dialects that store the parent only"""
    written_at: Nanos = 0
    started_at: Nanos | None = None
    stored_id: SnapshotId | None = None
    """the id inside the file where it differs from the file's name, an old writer's bug"""
    attributes: Mapping[str, AttributeRef] = field(default_factory=dict)
    """path of a node -> where its attributes are"""
    unresolved: frozenset[str] = frozenset()
    """paths in `attributes` whose documents still lack them"""
    names: Names = NO_NAMES
    file_name: str | None = None
    """G1: stored name of the structure file"""
    wrapping: Wrapping = field(default=BARE, compare=False)
    """what was around the file"""
    has_true_extents: bool = field(default=False, compare=False)
    """which chunks a manifest has is known; else an array looks for a chunk in all its manifests"""

    @property
    def attribute_files(self) -> tuple[str, ...]:
        """Files to be read before the documents of all nodes are whole."""
        return tuple(sorted({self.attributes[path].file for path in self.unresolved}))


@dataclass(frozen=True, slots=True, eq=False)
class ManifestRecord:
    """The references of some arrays.

    An old writer's bug put references of other arrays under a node. Those of another rank than most
    are in `strays`; a caller who knows the grid of the array finds the right ones.
    """

    tables: Mapping[NodeId, ChunkTable]
    dialect: Dialect
    id: ManifestId | None = None
    """where the file tells its own id"""
    names: Mapping[ChunkId, str] = field(default_factory=dict)
    strays: Mapping[NodeId, Sequence[ChunkTable]] = field(default_factory=dict)
    has_checksums: bool = False
    """there are virtual references in the form that has room for one"""

    @property
    def num_refs(self) -> int:
        """References of all arrays, strays included."""
        strays = sum(len(table) for tables in self.strays.values() for table in tables)
        return strays + sum(map(len, self.tables.values()))


@dataclass(frozen=True, slots=True, eq=False)
class LogRecord:
    """What a commit changed, as logs of G3 tell it; ids ascend, coordinates too."""

    dialect: Dialect
    new_groups: tuple[NodeId, ...] = ()
    new_arrays: tuple[NodeId, ...] = ()
    deleted_groups: tuple[NodeId, ...] = ()
    deleted_arrays: tuple[NodeId, ...] = ()
    updated_user_attributes: tuple[NodeId, ...] = ()
    """groups and arrays; new ones are listed here as well"""
    updated_zarr_metadata: tuple[NodeId, ...] = ()
    updated_chunks: Mapping[NodeId, Coords] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefRecord:
    """The content of a branch or tag file."""

    snapshot: SnapshotId
    name: str | None = None
    """stored name of the snapshot where it is not the plain one"""
    timestamp: Nanos | None = None
    properties: Metadata = field(default_factory=dict)
    moved_to: str | None = None
    """set by an upgrade: the spec the branch lives on in"""
    is_deleted: bool = False
    """the branch ends here; a later file makes it again"""
