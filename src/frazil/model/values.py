"""The records users get back: what history, diffs, maintenance and conflicts look like.

Ids are text here and times are aware datetimes; `frazil.model.history` has the inner records,
and the functions at the end translate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from frazil.drawing.cells import SIDE, cell_map, cells_of_chunks, map_axes
from frazil.drawing.markup import (
    BLUE,
    GREEN,
    RED,
    YELLOW,
    Html,
    coloured,
    escaped,
    folded,
    frame,
    joined_html,
    listing,
    note,
)
from frazil.masking import clean
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.model.history import JSON, RepoAvailability
from frazil.model.settings import NamedInt
from frazil.model.updates import UpdateKind
from frazil.naming import dotted

CommitMethod: TypeAlias = Literal["new_commit", "amend"]


class SessionMode(NamedInt):
    """What a session may do."""

    readonly = 0
    writable = 1
    rearrange = 2


class SpecVersion(NamedInt):
    """Version of the format of a repository; negative for the generations before version 1."""

    g1 = -3
    g2 = -2
    g3 = -1
    v1 = 1
    v2 = 2

    @staticmethod
    def current() -> SpecVersion:
        """The version that new repositories get."""
        return SpecVersion.v2

    def __repr__(self) -> str:
        return f"SpecVersion.{self.name}" + (" (current)" if self is SpecVersion.v2 else "")


class VersionSelection:
    """Whose chunk is kept if both sides wrote it; `int()` gives the official number."""

    __slots__ = ("_number", "name")
    Fail: ClassVar[VersionSelection]
    UseOurs: ClassVar[VersionSelection]
    UseTheirs: ClassVar[VersionSelection]

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self._number = number

    def __int__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"VersionSelection.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return getattr, (VersionSelection, self.name)  # there is one of each in a process


for _number, _name in enumerate(("Fail", "UseOurs", "UseTheirs")):
    setattr(VersionSelection, _name, VersionSelection(_name, _number))


class ConflictType(NamedInt):
    """What went wrong between our changes and theirs."""

    NewNodeConflictsWithExistingNode = 1
    NewNodeInInvalidGroup = 2
    ZarrMetadataDoubleUpdate = 3
    ZarrMetadataUpdateOfDeletedArray = 4
    ZarrMetadataUpdateOfDeletedGroup = 5
    ChunkDoubleUpdate = 6
    ChunksUpdatedInDeletedArray = 7
    ChunksUpdatedInUpdatedArray = 8
    DeleteOfUpdatedArray = 9
    DeleteOfUpdatedGroup = 10
    MoveOperationCannotBeRebased = 11
    ReliedUponChanged = 100  # ours: another commit changed what a plan had read

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in self.name)
        return words.strip().capitalize()


class _Record(HasRepr):
    """A dataclass that shows its fields."""

    def _shown_fields(self) -> Iterable[Field]:
        """All fields, text without quotes."""
        # For mypy: of subclasses, which are dataclasses.
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            yield Field(each.name, Verbatim(value) if isinstance(value, str) else value)


@dataclass(frozen=True, repr=False)
class Conflict(_Record):
    """One thing that both sides changed."""

    _shown_name = "conflicts.Conflict"
    conflict_type: ConflictType
    path: str
    conflicted_chunks: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.conflicted_chunks is not None:
            chunks = [list(coords) for coords in self.conflicted_chunks]
            object.__setattr__(self, "conflicted_chunks", chunks)


@dataclass(frozen=True)
class ConflictSolver:
    """Base of the ways to treat conflicts in a rebase."""


@dataclass(frozen=True)
class ConflictDetector(ConflictSolver):
    """Reports conflicts and solves none."""


@dataclass(frozen=True, kw_only=True)
class BasicConflictSolver(ConflictSolver):
    """Solves chunks that both sides wrote and deletions of what the other side changed."""

    on_chunk_conflict: VersionSelection = VersionSelection.UseOurs
    fail_on_delete_of_updated_array: bool = False
    fail_on_delete_of_updated_group: bool = False


@dataclass(frozen=True, repr=False)
class SnapshotInfo(_Record):
    """One commit of the history."""

    # Beside the fields: the page they are still in, and the line there. As a pair these would be
    # one more object for each commit, and make Python collect garbage twice as often.
    __slots__ = ("_line", "_page")
    _shown_name = "snapshots.SnapshotInfo"
    id: str
    parent_id: str | None
    written_at: datetime
    message: str
    metadata: dict[str, JSON] = field(default_factory=dict)

    def __getattr__(self, name: str) -> object:
        """Decode the fields of a commit when one is first used."""
        known = self.__dict__
        if name == "_page":
            raise AttributeError("this commit is in no page")
        page = getattr(self, "_page", None)
        if page is not None:
            fields = page.shown[getattr(self, "_line", 0)]
            known.update(zip(COMMIT_FIELDS, fields, strict=True))
            object.__setattr__(self, "_page", None)
        if name not in known:  # another thread may have filled it in just now
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return known[name]

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}


COMMIT_FIELDS: Final = tuple(each.name for each in dataclasses.fields(SnapshotInfo))


@dataclass(frozen=True, repr=False)
class ManifestFileInfo(_Record):
    """A manifest that a snapshot needs."""

    _shown_name = "snapshots.ManifestFileInfo"
    id: str
    size_bytes: int
    num_chunk_refs: int


@dataclass(frozen=True, repr=False)
class Diff(_Record):
    """What changed between two snapshots, by path."""

    _shown_name = "snapshots.Diff"
    new_groups: set[str] = field(default_factory=set)
    new_arrays: set[str] = field(default_factory=set)
    deleted_groups: set[str] = field(default_factory=set)
    deleted_arrays: set[str] = field(default_factory=set)
    updated_groups: set[str] = field(default_factory=set)
    updated_arrays: set[str] = field(default_factory=set)
    updated_chunks: dict[str, list[list[int]]] = field(default_factory=dict)
    moved_nodes: list[tuple[str, str]] = field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not any(getattr(self, each.name) for each in dataclasses.fields(self))

    def __str__(self) -> str:
        parts = [
            _listing(title, sorted(getattr(self, name))) for name, title in _DIFF_TITLES.items()
        ]
        chunks: list[str] = []
        for path in sorted(self.updated_chunks):
            touched = self.updated_chunks[path]
            chunks.append(f"{path}:")
            chunks += [f"    {list(coords)}" for coords in touched[:_SHOWN_CHUNKS]]
            if len(touched) > _SHOWN_CHUNKS:
                chunks.append(f"    ... {len(touched) - _SHOWN_CHUNKS} more")
        parts.append(_listing("Chunks updated", chunks).removesuffix("\n"))
        moves = [f"{source} -> {target}" for source, target in self.moved_nodes]
        parts.append(_listing("Nodes moved/renamed", moves))
        return clean("".join(parts))

    def _repr_html_(self) -> str:
        return frame(dotted(self._shown_name), self._views())

    def _views(self) -> Iterator[Html]:
        if self.is_empty():
            yield note("nothing changed")
        lines: list[Html] = []
        for name, (mark, what, colour) in _DIFF_MARKS.items():
            lines += [
                joined_html([coloured(f"{mark} {path}", colour), escaped(f" {what}")])
                for path in sorted(getattr(self, name))
            ]
        moves = [f"> {source} -> {target}" for source, target in self.moved_nodes]
        lines += [joined_html([coloured(each, BLUE), escaped(" moved")]) for each in moves]
        yield listing(lines)
        for path in sorted(self.updated_chunks)[:_SHOWN_MAPS]:
            yield _chunk_map(path, self.updated_chunks[path])
        if len(self.updated_chunks) > _SHOWN_MAPS:
            yield note(f"… chunks of {len(self.updated_chunks) - _SHOWN_MAPS:,} more arrays")


_SHOWN_CHUNKS: Final = 10
_SHOWN_MAPS: Final = 10
_DIFF_MARKS: Final = {
    "new_groups": ("+", "group", GREEN),
    "new_arrays": ("+", "array", GREEN),
    "deleted_groups": ("-", "group", RED),
    "deleted_arrays": ("-", "array", RED),
    "updated_groups": ("~", "group metadata", YELLOW),
    "updated_arrays": ("~", "array metadata", YELLOW),
}
_DIFF_TITLES: Final = {
    "new_groups": "Groups created",
    "new_arrays": "Arrays created",
    "updated_groups": "Group definitions updated",
    "updated_arrays": "Array definitions updated",
    "deleted_groups": "Groups deleted",
    "deleted_arrays": "Arrays deleted",
}


def _chunk_map(path: str, chunks: Sequence[Sequence[int]]) -> Html:
    """The chunks of an array that were written, on its grid up to the last of them."""
    title = f"~ {path}  {len(chunks):,} chunk{'s' if len(chunks) != 1 else ''} written"
    if not chunks or not len(chunks[0]):
        return coloured(title, YELLOW)
    coords = np.asarray(chunks, np.int64)
    axes = map_axes([int(most) + 1 for most in coords.max(axis=0)], SIDE)
    filled = np.bincount(cells_of_chunks(coords, axes)[0], minlength=axes.rows * axes.columns)
    names = (f"axis {axes.y}", f"axis {axes.x}")
    picture = cell_map(axes, [YELLOW if count else None for count in filled], names)
    return folded(title, picture, is_open=True)


def _listing(title: str, lines: list[str]) -> str:
    """A titled block, closed by an empty line; nothing when there is nothing to list."""
    return f"{title}:\n" + "".join(f"    {line}\n" for line in lines) + "\n" if lines else ""


@dataclass(frozen=True, repr=False)
class GCSummary(_Record):
    """What a garbage collection deleted."""

    _shown_name = "ops.GCSummary"
    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    throttled_batches: int = 0
    delete_errors: list[str] = field(default_factory=list)
    skipped_phases: list[str] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class ChunkStorageStats(_Record):
    """How many bytes of chunks a repository refers to, by where they are."""

    _shown_name = "stats.ChunkStorageStats"
    native_bytes: int = 0
    virtual_bytes: int = 0
    inlined_bytes: int = 0

    def non_virtual_bytes(self) -> int:
        """Bytes that live in the repository itself."""
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        """All bytes."""
        return self.non_virtual_bytes() + self.virtual_bytes

    def __add__(self, other: ChunkStorageStats) -> ChunkStorageStats:
        if not isinstance(other, ChunkStorageStats):
            return NotImplemented
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


AVAILABILITY_WORDS: Final = {
    RepoAvailability.online: "Online",
    RepoAvailability.read_only: "ReadOnly",
    RepoAvailability.offline: "Offline",
}


@dataclass(repr=False)
class RepoStatus(_Record):
    """Whether a repository takes changes, since when and why not."""

    _shown_name = "repository.RepoStatus"
    availability: RepoAvailability
    set_at: datetime | None = None
    limited_availability_reason: str | None = None

    def __post_init__(self) -> None:
        if self.set_at is None:
            self.set_at = datetime.now(UTC)
        elif self.set_at.tzinfo is None:
            raise ValueError("set_at must have a time zone")

    def _shown_fields(self) -> Iterable[Field]:
        """All fields, the availability as a word."""
        yield Field("availability", Verbatim(AVAILABILITY_WORDS[self.availability]))
        yield Field("set_at", self.set_at)
        yield Field("limited_availability_reason", self.limited_availability_reason)


@dataclass(frozen=True, repr=False)
class Update(_Record):
    """One line of the operations log."""

    _shown_name = "ops.Update"
    kind: UpdateKind
    updated_at: datetime
    backup_path: str | None = None
