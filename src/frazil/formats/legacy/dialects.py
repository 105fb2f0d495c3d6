"""The three generations before spec 1: their byte layouts, and the files that give them away."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final


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
STATE_FILES: Final = ("state.json", "icechunk.json")
"""Names of the entry point; the second is that of a later draft."""
ROOTS: Final = {LegacyGeneration.G2: "r/", LegacyGeneration.G3: "refs/"}
"""Folders of the refs."""
