"""What merges tell: conflicts as data, and the report of what was or would be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.drawing.reports import ReportView
from frazil.ids import NodeId, ObjectId
from frazil.masking import safe
from frazil.model.history import TransactionLog
from frazil.model.nodes import Coordinates
from frazil.model.plain import JSON
from frazil.texts import json_float

Side: TypeAlias = Literal["ours", "theirs"]
OURS: Final[Side] = "ours"
THEIRS: Final[Side] = "theirs"


class Contested:
    """Neither side: what a base has where the snapshots it was made of do not agree.

    It differs from everything, so a merge with such a base has to decide again.
    """

    def __init__(self) -> None:
        self.mark = f"contested {ObjectId.random()}"


Resolution: TypeAlias = "Side | Contested | None"
SHOWN_CHUNKS: Final = 16
"""Chunks of a conflict that are listed; the others are counted."""


class ConflictKind(StrEnum):
    """Kinds of conflicts."""

    ATTRIBUTE = "attribute"
    """one attribute got two values"""
    METADATA = "metadata"
    """another field of the metadata document got two values"""
    SHAPE = "shape"
    """an axis got two lengths, or was cut where the other side wrote"""
    STRUCTURE = "structure"
    """type, chunk grid or codecs changed on one side, and the array on the other too"""
    CHUNKS = "chunks"
    """chunks were written, or deleted, on both sides"""
    DELETED = "deleted"
    """deleted on one side and changed, or filled, on the other"""
    CREATED = "created"
    """two different nodes were made at one path"""
    MOVED = "moved"
    """a node was moved to two places, or two nodes to one"""


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """One thing that both sides changed; `ours` is the branch that would get the commit."""

    kind: ConflictKind
    path: str
    ours: JSON
    """what is there on our side"""
    theirs: JSON
    name: str | None = None
    """of the attribute or metadata field"""
    chunk_count: int = 0
    chunks: tuple[Coordinates, ...] = ()
    """indices of the first of them"""
    resolution: Side | None = None
    """the side that was chosen, by policy"""

    def resolved(self, side: Side | None) -> MergeConflict:
        """The same with the side that was chosen."""
        return replace(self, resolution=side)

    def as_json(self) -> dict[str, Any]:
        """All fields as plain data, which every reader of JSON takes."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        sides = {"ours": _finite(self.ours), "theirs": _finite(self.theirs)}
        chunks = [list(each) for each in self.chunks]
        return {**found, **sides, "kind": str(self.kind), "chunks": chunks}

    def __str__(self) -> str:
        what = f" {self.name!r}" if self.name is not None else ""
        if self.chunk_count:
            first = ", ".join(str(list(c)) for c in self.chunks[:3])
            more = " …" if self.chunk_count > 3 else ""
            what += f" {self.chunk_count} chunks: {first}{more}"
        chosen = f" (taken: {self.resolution})" if self.resolution else ""
        return safe(f"{self.kind} {self.path}{what}{chosen}")


def _finite(value: JSON) -> JSON:
    """A value with NaN and infinities as text."""
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return value


def chunk_sample(coords: npt.NDArray[np.uint32]) -> tuple[Coordinates, ...]:
    """The first few of some coordinates."""
    return tuple(tuple(c) for c in coords[:SHOWN_CHUNKS].tolist())


class MergeStatus(StrEnum):
    """How a merge, cherry-pick, revert, squash or fast-forward ended."""

    UP_TO_DATE = "up-to-date"
    """there was nothing to do, and nothing was done"""
    FAST_FORWARD = "fast-forward"
    """the branch was pointed to the other snapshot"""
    COMMITTED = "committed"
    """a snapshot was made"""
    CONFLICTS = "conflicts"
    """conflicts were left; nothing was done"""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How much a commit changes in the branch that gets it."""

    new_nodes: int = 0
    deleted_nodes: int = 0
    updated_nodes: int = 0
    moved_nodes: int = 0
    chunks: dict[str, int] = field(default_factory=dict)
    """changed chunks by the path of their array"""

    @classmethod
    def of(cls, log: TransactionLog, paths: Mapping[NodeId, str]) -> ChangeCounts:
        """What a transaction log tells, with the paths of the arrays whose chunks it names."""
        chunks = sorted((paths[one], len(coords)) for one, coords in log.updated_chunks.items())
        return cls(
            new_nodes=len(log.new_groups) + len(log.new_arrays),
            deleted_nodes=len(log.deleted_groups) + len(log.deleted_arrays),
            updated_nodes=len(log.updated_groups) + len(log.updated_arrays),
            moved_nodes=len(log.moved_nodes),
            chunks=dict(chunks),
        )

    @property
    def nodes(self) -> int:
        """Nodes that are made, deleted, changed or moved."""
        return self.new_nodes + self.deleted_nodes + self.updated_nodes + self.moved_nodes

    @property
    def chunk_count(self) -> int:
        """Changed chunks of all arrays."""
        return sum(self.chunks.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.nodes and not self.chunks


@dataclass(frozen=True, slots=True, repr=False)
class MergeReport(ReportView):
    """What an operation on branches did, or would do in a dry run."""

    operation: str
    """merge, cherry-pick, revert, squash or fast-forward"""
    status: MergeStatus
    branch: str
    """the branch that was, or would be, changed"""
    source: str
    """the snapshot whose changes were wanted"""
    previous_snapshot_id: str
    """where the branch was"""
    snapshot_id: str | None
    """where it is now; None when a commit was only planned, or refused for conflicts"""
    bases: tuple[str, ...] = ()
    """the snapshots that both sides were compared with"""
    conflicts: tuple[MergeConflict, ...] = ()
    changes: ChangeCounts = field(default_factory=ChangeCounts)
    dry_run: bool = False
    attempts: int = 1
    """how often it was worked out, because the branch moved meanwhile"""

    @property
    def unresolved(self) -> tuple[MergeConflict, ...]:
        """The conflicts that no policy settled."""
        return tuple(each for each in self.conflicts if each.resolution is None)

    @property
    def changed(self) -> bool:
        """Whether the branch was moved."""
        return not self.dry_run and self.snapshot_id not in (None, self.previous_snapshot_id)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The conflicts as plain data, one for each row of a table."""
        return (conflict.as_json() for conflict in self.conflicts)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        fields = {**asdict(self), "bases": list(self.bases), "conflicts": list(self.rows())}
        return {**fields, "status": str(self.status)}


def conflicts_summary(conflicts: Sequence[MergeConflict]) -> str:
    """A few conflicts in one line."""
    first = "; ".join(map(str, conflicts[:3]))
    return first + (f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else "")
