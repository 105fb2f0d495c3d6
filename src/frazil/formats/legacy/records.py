"""What the files of the older generations hold, in the terms of the model.

Ids of other widths become ids of the model by fixed rules (`names`). The stored name cannot always
be computed from the id. So a record also carries the stored names that differ from the plain ones,
and every encoder gets them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.formats.legacy.header import BARE, Wrapping
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.history import Metadata, Micros, Snapshot

Nanos: TypeAlias = int
"""Nanoseconds since 1970 UTC: the old libraries kept that many digits."""
Coords: TypeAlias = npt.NDArray[np.uint32]


class LegacyGeneration(IntEnum):
    """The three generations before spec 1."""

    G1 = 1
    G2 = 2
    G3 = 3


class Dialect(StrEnum):
    """A byte layout inside a generation; a repository is continued in the one it uses."""

    G1 = "g1"
    """state file, Parquet structure files and inventories"""
    G1_LIBRARY = "g1-library"
    """Parquet as the library of August 2024 wrote it; read only"""
    G2_JSON = "g2-json"
    G2_MSGPACK = "g2-msgpack"
    G2_MAPS = "g2-maps"
    """MessagePack with the content of `g2-json`: structs are maps, ids are lists of numbers"""
    G2_MAPS_TEXT = "g2-maps-text"
    """the same with ids as texts"""
    G2_MIXED = "g2-mixed"
    """structs partly lists and partly maps, or maps with unknown fields; read only"""
    G2_NODES = "g2-nodes"
    """snapshots of nodes alone, without history; read only"""
    G3_UNRELEASED = "g3-unreleased"
    """the bodies of G2 with the ids and folders of G3"""
    G3_MAPS = "g3-maps"
    """structs are maps, for whose fields no text of that age has names; read only"""
    G3A = "3a"
    G3B = "3b"
    G3C = "3c"
    G3D = "3d"
    G3E = "3e"
    G3_SEED = "3e-27"
    """as 3e, behind a header of 27 bytes, with extents"""
    G3F = "3f"
    G3G = "3g"
    G3H = "3h"
    G3I = "3i"

    @property
    def generation(self) -> LegacyGeneration:
        """The generation this dialect belongs to."""
        if self.value.startswith("g1"):
            return LegacyGeneration.G1
        return LegacyGeneration.G2 if self.value.startswith("g2") else LegacyGeneration.G3

    @property
    def is_writable(self) -> bool:
        """Whether files can be written in it."""
        return self not in _READ_ONLY

    @property
    def is_json(self) -> bool:
        """Whether attributes are JSON, which has no NaN and no infinities."""
        return self in (Dialect.G1, Dialect.G2_JSON)

    @property
    def has_numbered_nodes(self) -> bool:
        """Whether nodes have small numbers for ids instead of random bytes."""
        return self not in LOGGED  # random ids and logs came together

    @property
    def has_logs(self) -> bool:
        """Whether commits write transaction logs."""
        return self in LOGGED

    @property
    def has_checksums(self) -> bool:
        """Whether virtual references keep an ETag or a time of change."""
        return self in LOGGED and self is not Dialect.G3B


_READ_ONLY: Final = frozenset(
    {Dialect.G1_LIBRARY, Dialect.G2_NODES, Dialect.G2_MIXED, Dialect.G3_MAPS}
)
LOGGED: Final = frozenset(
    dialect
    for dialect in Dialect
    if dialect.generation is LegacyGeneration.G3
    and dialect not in (Dialect.G3_UNRELEASED, Dialect.G3A)
)
SEED_DIALECT: Final = {
    LegacyGeneration.G1: Dialect.G1,
    LegacyGeneration.G2: Dialect.G2_JSON,
    LegacyGeneration.G3: Dialect.G3A,
}
"""What new repositories of a generation are written in; that of G3 behind a header."""


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
