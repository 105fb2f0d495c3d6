"""Verification: everything that snapshots refer to exists, with enough bytes.

References and the listing of the chunk objects meet as columns. Sources of virtual chunks are
asked for one byte each, the last that is needed, under the checksum that was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import (
    ErrorKind,
    FormatError,
    InternalError,
    InvalidInputError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.links import manifest_files
from frazil.formats.manifest import decode_manifest
from frazil.ids import ManifestId, NodeId, SnapshotId, crockford_many
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import U8, RowSet
from frazil.maintenance.lineage import ids_where, reachable
from frazil.maintenance.listing import list_older
from frazil.maintenance.needs import (
    U64,
    NativeNeeds,
    Source,
    merge_sources,
    native_needs,
    virtual_needs,
)
from frazil.maintenance.reading import manifest_blob, portions, read_snapshot, snapshot_blob
from frazil.maintenance.walk import WalkLimits, portions_by_size
from frazil.masking import shown_url
from frazil.model.chunks import ChunkTable, ChunkType, VirtualRef
from frazil.model.history import ManifestFile
from frazil.model.nodes import ArrayNode, Coordinates
from frazil.storage.assets import CHUNKS, manifest_key, snapshot_key
from frazil.storage.base import Storage, fan_out
from frazil.transaction.context import Context

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being checked, how much of it is done, and how much there is."""

FEW_OBJECTS: Final = 256
"""So many objects are asked for one by one; listing all others with them would take longer."""
MAX_FINDINGS: Final = 1000
"""Findings that are told in full; the rest is counted."""
SHOWN_CHUNKS: Final = 4
SOURCES_AT_ONCE: Final = 512
ALL: Final = datetime.max.replace(tzinfo=UTC)


class Trouble(StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"
    SHORT = "short"
    DAMAGED = "damaged"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    UNAUTHORIZED = "unauthorized"


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that is not what references need."""

    trouble: Trouble
    target: str
    """key in the repository, or location of a virtual source"""
    detail: str = ""
    references: int = 0
    path: str | None = None
    """an array that needs it"""
    chunks: tuple[Coordinates, ...] = ()
    """some of the chunks of that array that need it"""


@dataclass(slots=True)
class Verification:
    """What was checked and what was found."""

    snapshots: int = 0
    manifests: int = 0
    native_references: int = 0
    native_objects: int = 0
    virtual_references: int = 0
    virtual_sources: int = 0
    """sources that were asked for; 0 unless that was wanted"""
    findings: list[Finding] = field(default_factory=list)
    more_findings: int = 0
    """how many more there are"""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def record(self, finding: Finding) -> None:
        """Keep a finding, or count it."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
        else:
            self.more_findings += 1


def verify_references(
    context: Context,
    *,
    snapshots: Sequence[SnapshotId] | None = None,
    virtual: bool = False,
    limits: WalkLimits | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check that everything some snapshots refer to is there.

    Args:
        context: an open repository.
        snapshots: those to check; None means all that branches and tags reach.
        virtual: also ask for the sources of virtual chunks, which must be authorised.
        limits: what may be in memory at one time.
        progress: is told how far the work is.
    """
    check = _Check(context, limits or WalkLimits(), progress or (lambda *_: None))
    wanted = list(snapshots) if snapshots is not None else check.reached()
    files = check.manifests(wanted)
    check.references(files)
    short = check.native()
    if short:
        check.locate(wanted, files, short)
    if virtual:
        check.virtual()
    return check.result


@dataclass(slots=True, eq=False)
class _Read:
    """What one manifest needs, or why it cannot be read."""

    native: tuple[U8, U64]
    sources: list[tuple[Source, int, int]]
    finding: Finding | None = None


class _Check:
    """One verification while it runs."""

    def __init__(self, context: Context, limits: WalkLimits, progress: Progress) -> None:
        self._context = context
        self._storage: Storage = context.storage
        self._limits = limits
        self._tell = progress
        self._native = NativeNeeds()
        self._sources: dict[Source, tuple[int, int]] = {}
        self.result = Verification()

    # --- snapshots and manifests ---

    def reached(self) -> list[SnapshotId]:
        """The snapshots that branches and tags reach."""
        match self._context.refs:
            case RepoObjectRefs() as refs:
                info = refs.info()
                tips = [*info.branches.values(), *info.tags.values()]
                return sorted(ids_where(info.snapshots, reachable(info.snapshots, tips)))
            case FileRefs() as refs:
                return sorted(self._reached_by_files(refs.roots()))
            case _:
                raise InternalError("unknown way to keep refs")

    def _reached_by_files(self, tips: set[SnapshotId]) -> set[SnapshotId]:
        history = read_file_history(self._storage, self._limits.max_snapshots_in_memory)
        found: set[SnapshotId] = set()
        for tip in tips:
            last: SnapshotId | None = tip
            try:
                for entry in history.ancestry(tip):
                    found.add(entry.id)
                    last = entry.parent_id
            except (SnapshotNotFoundError, FormatError):
                if last is not None:
                    found.add(last)  # reading it again tells what is wrong with it
        return found

    def manifests(self, snapshots: Sequence[SnapshotId]) -> dict[ManifestId, ManifestFile]:
        """The manifests of all snapshots that can be read."""
        found: dict[ManifestId, ManifestFile] = {}
        for group in portions(snapshots, self._limits.max_snapshots_in_memory):
            for answer in fan_out(self._files, group):
                self.result.snapshots += 1
                if isinstance(answer, Finding):
                    self.result.record(answer)
                else:
                    found.update((file.id, file) for file in answer)
            self._tell("snapshots", self.result.snapshots, len(snapshots))
        return found

    def _files(self, snapshot_id: SnapshotId) -> tuple[ManifestFile, ...] | Finding:
        key = snapshot_key(snapshot_id)
        try:
            return manifest_files(snapshot_blob(self._storage, snapshot_id), key=key)
        except SnapshotNotFoundError:
            return Finding(Trouble.MISSING, key)
        except FormatError as error:
            return Finding(Trouble.DAMAGED, key, str(error))

    def references(self, files: dict[ManifestId, ManifestFile]) -> None:
        """Collect what the references of all manifests need."""
        for group in portions_by_size(files.values(), self._limits):
            for read in fan_out(self._read, group):
                self.result.manifests += 1
                if read.finding is not None:
                    self.result.record(read.finding)
                self.result.native_references += len(read.native[0])
                self.result.virtual_references += sum(count for _, _, count in read.sources)
                self._native.add(*read.native)
                merge_sources(self._sources, read.sources)
            self._tell("manifests", self.result.manifests, len(files))

    def _read(self, file: ManifestFile) -> _Read:
        nothing = np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64)
        key = manifest_key(file.id)
        try:
            tables = self._tables(file)
            # Packed locations are read when they are asked for, and may be damaged too.
            sources = [need for _, table in tables for need in virtual_needs(table)]
        except FormatError as error:
            return _Read(nothing, [], Finding(Trouble.DAMAGED, key, str(error)))
        except StorageError as error:
            if error.kind != ErrorKind.OBJECT_NOT_FOUND:
                raise
            return _Read(nothing, [], Finding(Trouble.MISSING, key))
        parts = [nothing, *(native_needs(table) for _, table in tables)]
        native = (
            np.concatenate([ids for ids, _ in parts]),
            np.concatenate([ends for _, ends in parts]),
        )
        return _Read(native, sources)

    def _tables(self, file: ManifestFile) -> list[tuple[NodeId, ChunkTable]]:
        key = manifest_key(file.id)
        return list(decode_manifest(manifest_blob(self._storage, file.id), key=key).tables())

    # --- chunk objects ---

    def native(self) -> dict[bytes, Finding]:
        """The chunk objects that are missing or too short, by id."""
        ids, ends = self._native.rows()
        self.result.native_objects = len(ids)
        self._tell("chunk objects", 0, len(ids))
        sizes = object_sizes(self._storage, ids)
        bad = np.flatnonzero((sizes < 0) | (sizes.astype(np.uint64) < ends))
        self._tell("chunk objects", len(ids), len(ids))
        return {
            ids[row].tobytes(): _native_finding(name, int(sizes[row]), int(ends[row]))
            for row, name in zip(bad.tolist(), crockford_many(ids[bad]), strict=True)
        }

    def locate(
        self,
        snapshots: Sequence[SnapshotId],
        files: dict[ManifestId, ManifestFile],
        bad: dict[bytes, Finding],
    ) -> None:
        """Record findings about chunk objects with the arrays that need them."""
        wanted = RowSet()
        wanted.add_ids(bad)
        users: dict[NodeId, set[bytes]] = {}
        for file in files.values():
            for node_id, one, coords in self._users(file, wanted):
                known = bad[one]
                chunks = known.chunks
                if not chunks or one in users.get(node_id, ()):
                    chunks = (*chunks, *coords[: SHOWN_CHUNKS - len(chunks)])
                    users.setdefault(node_id, set()).add(one)
                bad[one] = replace(known, references=known.references + len(coords), chunks=chunks)
        paths = self._paths(snapshots, users)
        for node_id, ids in users.items():
            for one in ids:
                bad[one] = replace(bad[one], path=paths.get(node_id))
        for finding in sorted(bad.values(), key=lambda each: (each.path or "", each.chunks)):
            self.result.record(finding)

    def _users(
        self, file: ManifestFile, wanted: RowSet
    ) -> Iterator[tuple[NodeId, bytes, list[Coordinates]]]:
        """References of a manifest to some objects, by array and object."""
        try:
            tables = self._tables(file)
        except (FormatError, StorageError):
            return  # told already
        for node_id, table in tables:
            rows = np.flatnonzero(
                (table.kind == ChunkType.native) & wanted.contains(table.chunk_id)
            )
            by_object: dict[bytes, list[Coordinates]] = {}
            for row in rows.tolist():
                coords = tuple(table.coords[row].tolist())
                by_object.setdefault(table.chunk_id[row].tobytes(), []).append(coords)
            for one, places in by_object.items():
                yield node_id, one, places

    def _paths(self, snapshots: Sequence[SnapshotId], nodes: Iterable[NodeId]) -> dict[NodeId, str]:
        """Where arrays are, in the snapshots that can be read."""
        missing, found = set(nodes), dict[NodeId, str]()
        for snapshot_id in snapshots:
            if not missing:
                break
            try:
                snapshot = read_snapshot(self._storage, snapshot_id)
            except (SnapshotNotFoundError, FormatError):
                continue
            for node in snapshot.nodes:
                if isinstance(node, ArrayNode) and node.id in missing:
                    found[node.id] = node.path
                    missing.discard(node.id)
        return found

    # --- virtual sources ---

    def virtual(self) -> None:
        """Ask every source for the last byte that is needed of it."""
        for group in portions(sorted(self._sources.items(), key=str), SOURCES_AT_ONCE):
            for finding in fan_out(self._ask, group):
                self.result.virtual_sources += 1
                if finding is not None:
                    self.result.record(finding)
            self._tell("virtual sources", self.result.virtual_sources, len(self._sources))

    def _ask(self, item: tuple[Source, tuple[int, int]]) -> Finding | None:
        source, (end, count) = item
        return ask_source(self._context, source, end, count)


def object_sizes(storage: Storage, ids: U8) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sizes of chunk objects, -1 for those that are not there; `ids` is (n, 12)."""
    return _listed(storage, ids) if len(ids) > FEW_OBJECTS else _asked(storage, ids)


def _asked(storage: Storage, ids: U8) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sizes of a few objects, -1 for none."""
    found = storage.each(storage.head, [f"{CHUNKS}{name}" for name in crockford_many(ids)])
    return np.array([-1 if item is None else item.size_bytes for item in found], np.int64)


def _listed(storage: Storage, ids: U8) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sizes of objects from a listing, -1 for none."""
    listed = list_older(storage, CHUNKS, ALL)
    sizes = np.full(len(ids), -1, np.int64)
    if not len(listed):
        return sizes
    width = f"S{ids.shape[1]}"
    wanted = np.ascontiguousarray(ids).view(width).ravel()
    names = np.ascontiguousarray(listed.ids).view(width).ravel()
    order = np.argsort(names)
    places = np.minimum(np.searchsorted(names, wanted, sorter=order), len(names) - 1)
    rows = order[places]
    is_there = names[rows] == wanted
    sizes[is_there] = listed.sizes[rows[is_there]].astype(np.int64)
    return sizes


def ask_source(context: Context, source: Source, end: int, count: int) -> Finding | None:
    """Ask a source of virtual chunks for the last byte that `count` references need of it."""
    location, checksum = source
    last = VirtualRef(location, max(end, 1) - 1, 1, checksum)
    try:
        context.containers.fetch(last)
    except InvalidInputError as error:
        return Finding(Trouble.UNAUTHORIZED, shown_url(location), str(error), count)
    except StorageError as error:
        trouble = _TROUBLES.get(error.kind, Trouble.UNREADABLE)
        return Finding(trouble, shown_url(location), str(error), count)
    return None


_TROUBLES: Final = {
    ErrorKind.VIRTUAL_CHUNK_MODIFIED: Trouble.CHANGED,
    ErrorKind.INVALID_OBJECT_SIZE: Trouble.SHORT,
}


def _native_finding(name: str, size: int, end: int) -> Finding:
    if size < 0:
        return Finding(Trouble.MISSING, f"{CHUNKS}{name}")
    return Finding(Trouble.SHORT, f"{CHUNKS}{name}", f"it has {size} bytes, {end} are needed")
