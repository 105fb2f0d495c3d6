"""What an upgrade is asked for, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError, SessionStateError
from frazil.formats.generation import BY_SPEC, Generation

LEGACY_ID: Final = "legacy_snapshot_id"
"""The property that tells how a snapshot was called before, if its id has changed."""
LEGACY_CHUNKS: Final = "legacy-chunks"
"""The name of the virtual chunk container that reads chunk objects where they always were."""


class ChunkMode(StrEnum):
    """What becomes of chunk objects that cannot stay under their names."""

    LINK = "link"
    """a second name for a file, or a copy that the store makes itself"""
    COPY = "copy"
    """a copy, also on a disk"""
    VIRTUAL = "virtual"
    """they stay, and are referred to as objects of a virtual chunk container"""

    @classmethod
    def of(cls, text: str) -> ChunkMode:
        """The mode of a name.

        Raises:
            InvalidInputError: there is none.
        """
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(cls)
            raise InvalidInputError(f"chunks are dealt with by one of {known}: not by {text!r}",
                                    kind=ErrorKind.NOT_ALLOWED) from None  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class UpgradeReport(ReportView):
    """What an upgrade found and did, or would do."""

    url: str
    from_generation: str
    dialect: str
    """the byte layout of the last commit"""
    to_spec: int
    mode: str
    branches: int
    tags: int
    deleted_tags: int
    snapshots: int
    renamed_snapshots: int
    """those whose ids are others than in the old files"""
    manifests: int
    """those to be written, one for each array and old manifest"""
    references: int
    dropped_references: int
    """of other arrays or outside the grid, which old writers left behind"""
    logs_made: int
    """transaction logs that no file had"""
    chunks: int
    """objects to be linked or copied"""
    chunk_bytes: int
    missing_chunks: int
    """referred to, but not there; they stay missing"""
    applied: bool


@dataclass(frozen=True, slots=True, repr=False)
class TidyReport(ReportView):
    """What undoing an upgrade, or cleaning up after one, did or would do."""

    url: str
    generation: str
    restored: int
    """files of the old generation that are put back"""
    deleted: int
    deleted_bytes: int
    applied: bool


def target_generation(to: int) -> Generation:
    """The generation of a spec version that can be upgraded to.

    Raises:
        InvalidInputError: there is none.
    """
    if to not in BY_SPEC:
        raise InvalidInputError(
            f"repositories can be upgraded to spec version 1 or 2, not {to}",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    return BY_SPEC[to]


def marker(target: Generation) -> str:
    """What a fence says of where the repository lives on."""
    return f"spec-v{target.spec}"


def cannot(message: str, **facts: object) -> SessionStateError:
    """The error for an upgrade that makes no sense in the present state."""
    return SessionStateError(message, kind=ErrorKind.INVALID_REPOSITORY_MIGRATION, **facts)
