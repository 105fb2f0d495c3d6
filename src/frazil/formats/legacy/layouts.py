"""The dialects of G2 and G3 as a table: what each writes where it differs from the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.header import BARE, LONG, SEED, Wrapping
from frazil.formats.legacy.records import ManifestRecord


class IdForm(Enum):
    """How object ids are spelled inside files."""

    NUMBERS = "a list of 16 numbers"
    TEXT = "Crockford text"
    PACKED = "a byte string and an empty list"


@dataclass(frozen=True, slots=True)
class DialectLayout:
    """What one dialect writes."""

    snapshot_fields: int
    manifest_fields: int
    log_fields: int
    """0 where there are no logs"""
    ids: IdForm
    file_info: tuple[str, ...]
    """fields of the entries in `manifest_files`"""
    is_nested: bool
    """manifests map nodes to chunks, not pairs of both"""
    has_extents: bool
    """references to manifests tell which chunks are there"""
    checksums: bool
    """virtual references have a checksum"""
    version: int
    """the number where files begin with one"""
    wrapping: Wrapping = BARE
    manifest_wrapping: Wrapping = BARE
    is_json: bool = False
    is_named: bool = False
    """structs are maps of their fields by name, not lists"""
    has_flags: bool = False
    """references have a list of flags, which is always empty"""

    def wrapping_of(self, kind: FileKind) -> Wrapping:
        """What is around files of a kind."""
        return self.manifest_wrapping if kind is FileKind.MANIFEST else self.wrapping


_ZSTD: Final = Wrapping(compressed=True)
_LONG: Final = Wrapping(LONG, compressed=True)

_G2_JSON: Final = DialectLayout(
    snapshot_fields=7,
    manifest_fields=1,
    log_fields=0,
    ids=IdForm.NUMBERS,
    file_info=(),
    is_nested=False,
    has_extents=True,
    checksums=False,
    version=0,
    is_json=True,
    is_named=True,
    has_flags=True,
)
_G2_MAPS: Final = replace(_G2_JSON, is_json=False)
_G2_MSGPACK: Final = replace(_G2_MAPS, ids=IdForm.TEXT, has_extents=False, is_named=False)
_3A: Final = replace(
    _G2_MSGPACK,
    snapshot_fields=11,
    manifest_fields=3,
    file_info=("id", "version"),
    has_flags=False,
)
_3B: Final = replace(_3A, log_fields=8)
_3C: Final = replace(_3B, checksums=True)
_3D: Final = replace(_3C, file_info=("id", "version", "size"), manifest_wrapping=_ZSTD)
_3E: Final = replace(_3D, snapshot_fields=9, version=1, wrapping=_LONG, manifest_wrapping=_LONG)
_3F: Final = replace(_3E, is_nested=True, ids=IdForm.PACKED)
_3G: Final = replace(
    _3F, manifest_fields=4, file_info=("id", "version", "size", "rows"), has_extents=True
)
_3H: Final = replace(_3G, snapshot_fields=8)
_3I: Final = replace(_3H, manifest_fields=2, log_fields=7, file_info=("id", "size", "rows"))

LAYOUTS: Final = {
    Dialect.G2_JSON: _G2_JSON,
    Dialect.G2_MAPS: _G2_MAPS,
    Dialect.G2_MAPS_TEXT: replace(_G2_MAPS, ids=IdForm.TEXT),
    Dialect.G2_MSGPACK: _G2_MSGPACK,
    Dialect.G3_UNRELEASED: _G2_MSGPACK,
    Dialect.G3A: _3A,
    Dialect.G3B: _3B,
    Dialect.G3C: _3C,
    Dialect.G3D: _3D,
    Dialect.G3E: _3E,
    Dialect.G3_SEED: replace(_3E, wrapping=SEED, manifest_wrapping=SEED, has_extents=True),
    Dialect.G3F: _3F,
    Dialect.G3G: _3G,
    Dialect.G3H: _3H,
    Dialect.G3I: _3I,
}
"""Newer dialects name what differs from the one before."""
_MAPS: Final = (Dialect.G2_MAPS, Dialect.G2_MAPS_TEXT)


def dialect_layout(dialect: Dialect) -> DialectLayout:
    """What a dialect writes."""
    if dialect not in LAYOUTS:
        raise FormatError(
            "files of this dialect cannot be written so",
            kind=ErrorKind.SERIALIZATION,
            dialect=dialect.value,
        )
    return LAYOUTS[dialect]


def refined(dialect: Dialect, manifests: Iterable[ManifestRecord]) -> Dialect:
    """The dialect of a snapshot, made more precise by what its manifests show.

    Snapshots of 3b and 3c look alike; only virtual references tell them apart. In G2, snapshots
    may write structs as maps, and manifests in another way.
    """
    if dialect is Dialect.G3B and any(each.has_checksums for each in manifests):
        return Dialect.G3C
    if dialect in _MAPS and any(each.dialect not in _MAPS for each in manifests):
        return Dialect.G2_MIXED
    return dialect
