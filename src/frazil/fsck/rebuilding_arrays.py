"""Arrays whose manifests or chunks are lost, as far as history can give them back.

The manifests of an ancestor hold what an array was, and transaction logs tell which chunks were
written since. All others are as they were then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from frazil.arrays import U32
from frazil.fsck.files import RepositoryFiles, content_of
from frazil.fsck.plans import Action, RepairState, RepairStep
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.id_sets import RowSet, native_needs
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, NativeRef
from frazil.model.combining import concat, overlay
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Coordinates, Extents, ManifestRef

MissingChunks: TypeAlias = Literal["drop", "older"]

LISTED_CHUNKS: Final = 100
"""Coordinates that a plan names; the rest is counted."""
OLDEST: Final = 1000
"""Ancestors among which an older version of a chunk is looked for."""


@dataclass(slots=True, eq=False)
class ArrayRewrite:
    """What an array gets instead of what is lost."""

    node: ArrayNode
    kept: list[ManifestRef] = field(default_factory=list)
    tables: list[ChunkTable] = field(default_factory=list)
    """manifests to write"""
    touched: list[U32] = field(default_factory=list)
    """chunks that have another reference, or none, now"""
    rebuilt: int = 0
    lost: list[Coordinates] = field(default_factory=list)
    """chunks that were written since, whose references are lost"""
    dropped: list[Coordinates] = field(default_factory=list)
    replaced: list[Coordinates] = field(default_factory=list)
    is_unknown: bool = False
    """whether a log is missing too, so that it is not known what was written"""
    is_corrected: bool = False
    sources: set[SnapshotId] = field(default_factory=set)
    """snapshots that references were taken from, whose chunks must not have been collected"""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.tables or self.touched or self.rebuilt or self.is_corrected)

    def facts(self) -> dict[str, Any]:
        """What a plan tells of it."""
        chunks = [*self.lost, *self.dropped, *self.replaced]
        return {
            "path": self.node.path,
            "rebuilt_manifests": self.rebuilt,
            "lost_chunks": len(self.lost),
            "dropped_chunks": len(self.dropped),
            "replaced_chunks": len(self.replaced),
            "unknown": self.is_unknown,
            "chunks": [list(index) for index in chunks[:LISTED_CHUNKS]],
        }


@dataclass(slots=True, eq=False)
class Rewrite:
    """A commit that makes the tip of a branch whole again."""

    branch: str
    base: Snapshot
    arrays: list[ArrayRewrite]
    files: dict[ManifestId, ManifestFile]
    """recorded sizes and counts of the readable manifests, corrected"""
    is_corrected: bool
    """whether the snapshot records other sizes or counts"""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.is_corrected or any(each.is_needed for each in self.arrays)

    def step(self) -> RepairStep:
        """The commit as a step of a plan."""
        changed = [each for each in self.arrays if each.is_needed]
        detail = (
            ", ".join(each.node.path for each in changed[:4]) or "what it says of its manifests"
        )
        more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
        return RepairStep(
            Action.REWRITE_ARRAYS,
            self.branch,
            f"a commit after {self.base.id} with {detail}{more}",
            {
                "branch": self.branch,
                "base": str(self.base.id),
                "corrected": self.is_corrected,
                "arrays": [each.facts() for each in changed],
            },
        )

    def losses(self) -> Iterator[str]:
        """What it cannot bring back."""
        for each in self.arrays:
            where = f"{each.node.path} on branch {self.branch!r}"
            if each.is_unknown:
                yield f"{where}: a manifest and the logs since are lost, and with them all it held"
            if each.lost:
                yield f"{where}: references of {len(each.lost)} chunks are lost with a manifest"
            if each.dropped:
                yield f"{where}: {len(each.dropped)} chunks are lost"
            if each.replaced:
                yield f"{where}: {len(each.replaced)} chunks are as they were at an earlier commit"


def plan_rewrite(state: RepairState, branch: str, missing: MissingChunks) -> Rewrite | None:
    """Plan a commit for a branch; None when its tip cannot be read."""
    base = state.snapshot(state.branches[branch])
    if base is None:
        return None
    files = _true_files(state.files, base)
    bad = _bad_objects(state.files, _tables(state.files, base))
    arrays = [
        _array(state, base, node, bad, missing)
        for node in base.nodes
        if isinstance(node, ArrayNode)
    ]
    listed = {file.id: file for file in base.manifest_files}
    is_corrected = any(listed.get(one) != file for one, file in files.items())
    return Rewrite(branch, base, arrays, files, is_corrected)


def _true_files(files: RepositoryFiles, base: Snapshot) -> dict[ManifestId, ManifestFile]:
    used = {ref.id for node in base.nodes if isinstance(node, ArrayNode) for ref in node.manifests}
    found: dict[ManifestId, ManifestFile] = {}
    for one in used:
        read = files.manifest(one)
        manifest = content_of(read, one)
        if read is not None and manifest is not None:
            found[one] = ManifestFile(one, read.size_bytes, manifest.num_refs)
    return found


def _tables(files: RepositoryFiles, base: Snapshot) -> Iterator[ChunkTable]:
    """All references of a snapshot that can be read."""
    for node in base.nodes:
        if isinstance(node, ArrayNode):
            for ref in node.manifests:
                table = files.tables(ref.id, node.id)
                if table is not None:
                    yield table


def _bad_objects(files: RepositoryFiles, tables: Iterable[ChunkTable]) -> RowSet:
    """Chunk objects that references need and that are gone or too short."""
    bad = RowSet()
    for table in tables:
        ids, ends = native_needs(table)
        bad.add(ids[files.objects.are_short(ids, ends)])
    return bad


def _array(
    state: RepairState, base: Snapshot, node: ArrayNode, bad: RowSet, missing: MissingChunks
) -> ArrayRewrite:
    made = ArrayRewrite(node)
    for ref in node.manifests:
        table = state.files.tables(ref.id, node.id)
        if table is None:
            _rebuild(state, base, ref, missing, made)
        elif len(table) and table.ndim != len(node.shape):
            made.kept.append(ref)
        else:
            _mend(state, base, ref, table, bad, missing, made)
    return made


# --- lost manifests ---


def _rebuild(
    state: RepairState, base: Snapshot, ref: ManifestRef, missing: MissingChunks, made: ArrayRewrite
) -> None:
    node = made.node
    made.rebuilt += 1
    written: list[U32] = []
    for source, table in _versions(state, base.id, node.id, ref.extents, written):
        if table is None:
            continue
        made.sources.add(source)
        since = _within(written, ref.extents, node.grid)
        rest = _without(table.within(ref.extents), since)
        bad = _bad_objects(state.files, [rest])
        rest = _without_bad(state, base, rest, bad, missing, made)
        made.lost += map(tuple, since.tolist())
        if len(since):
            made.touched.append(since)
        if len(rest):
            made.tables.append(rest)
        return
    made.is_unknown = True


def _versions(
    state: RepairState, tip: SnapshotId, node_id: NodeId, extents: Extents, written: list[U32]
) -> Iterator[tuple[SnapshotId, ChunkTable | None]]:
    """What an array was at each ancestor, None where that cannot be read.

    `written` collects the chunks written since. It ends where a log is missing.
    """
    for one in state.ancestry(tip):
        entry = state.entries.get(one)
        if entry is None:
            return
        for name in (one, *reversed(entry.pruned_ancestor_tx_logs)):
            log = content_of(state.files.log(name), name)
            if log is None:
                return
            written += [c for n, c in log.updated_chunks.items() if n == node_id]
            if node_id in log.new_arrays:
                yield one, ChunkTable.empty(len(extents))
                return
        if entry.parent_id is None:
            return
        snapshot = state.snapshot(entry.parent_id)
        table = None if snapshot is None else _table_at(state.files, snapshot, node_id, extents)
        yield entry.parent_id, table


def _table_at(
    files: RepositoryFiles, snapshot: Snapshot, node_id: NodeId, extents: Extents
) -> ChunkTable | None:
    """References of an array in some box; None where they cannot be read."""
    node = next((node for node in snapshot.nodes if node.id == node_id), None)
    if not isinstance(node, ArrayNode):
        return ChunkTable.empty(len(extents))
    tables: list[ChunkTable] = []
    for ref in node.manifests:
        if len(ref.extents) != len(extents):
            return None
        if all(a < d and c < b for (a, b), (c, d) in zip(ref.extents, extents, strict=True)):
            table = files.tables(ref.id, node_id)
            if table is None or (len(table) and table.ndim != len(extents)):
                return None
            tables.append(table.within(ref.extents))
    return concat(tables, len(extents))


def _within(parts: Sequence[U32], extents: Extents, grid: Sequence[int]) -> U32:
    """Coordinates that lie in a box and in the grid, once each and in order."""
    fitting = [part for part in parts if len(part) and part.shape[1] == len(grid)]
    if not fitting:
        return np.zeros((0, len(grid)), np.uint32)
    coords = np.unique(np.concatenate(fitting), axis=0) if grid else fitting[0][:1]
    inside = np.ones(len(coords), bool)
    for axis, ((start, end), count) in enumerate(zip(extents, grid, strict=True)):
        column = coords[:, axis]
        inside &= (column >= start) & (column < min(end, max(count, 1)))
    found: U32 = coords[inside]
    return found


def _without(table: ChunkTable, coords: U32) -> ChunkTable:
    if not len(table) or not len(coords):
        return table
    rows = table.find_many(coords)
    keep = np.ones(len(table), bool)
    keep[rows[rows >= 0]] = False
    return table.take(keep)


# --- lost chunks ---


def _mend(
    state: RepairState,
    base: Snapshot,
    ref: ManifestRef,
    table: ChunkTable,
    bad: RowSet,
    missing: MissingChunks,
    made: ArrayRewrite,
) -> None:
    is_bad = (table.kind == ChunkType.native) & bad.contains(table.chunk_id)
    if not is_bad.any():
        true = ManifestRef(ref.id, table.extents if len(table) else ref.extents)
        # What is covered beyond that hides nothing.
        hides = any(
            start < first or end > last
            for (start, end), (first, last) in zip(true.extents, ref.extents, strict=True)
        )
        made.is_corrected |= hides
        made.kept.append(true if hides else ref)
        return
    rest = _without_bad(state, base, table, bad, missing, made)
    if len(rest):
        made.tables.append(rest)


def _without_bad(
    state: RepairState,
    base: Snapshot,
    table: ChunkTable,
    bad: RowSet,
    missing: MissingChunks,
    made: ArrayRewrite,
) -> ChunkTable:
    """References without those to lost objects, or with older ones in their place."""
    is_bad = (table.kind == ChunkType.native) & bad.contains(table.chunk_id)
    if not is_bad.any():
        return table
    coords = table.coords[is_bad]
    made.touched.append(coords)
    older = _older(state, base.id, made, coords, bad) if missing == "older" else {}
    for index in map(tuple, coords.tolist()):
        (made.replaced if index in older else made.dropped).append(index)
    rest = table.take(~is_bad)
    if not older:
        return rest
    found = ChunkTable.from_refs(table.ndim, older.items())
    return overlay(rest, found, np.zeros((0, table.ndim), np.uint32))


def _older(
    state: RepairState, tip: SnapshotId, made: ArrayRewrite, coords: U32, bad: RowSet
) -> dict[Coordinates, ChunkRef]:
    """References of earlier versions of chunks whose bytes are there."""
    found: dict[Coordinates, ChunkRef] = {}
    wanted = {tuple(index) for index in coords.tolist()}
    seen: set[ManifestId] = set()
    for number, one in enumerate(state.ancestry(tip)):
        if number > OLDEST or not wanted:
            break
        snapshot = state.snapshot(one)
        node = _find(snapshot, made.node.id)
        for ref in () if node is None else node.manifests:
            table = None if ref.id in seen else state.files.tables(ref.id, made.node.id)
            seen.add(ref.id)
            if table is None or not len(table) or table.ndim != coords.shape[1]:
                continue
            for index in sorted(wanted):
                row = table.find(index)
                if row >= 0 and _is_there(state.files, table.ref(row), bad):
                    found[index] = table.ref(row)
                    made.sources.add(one)
            wanted -= found.keys()
    return found


def _find(snapshot: Snapshot | None, node_id: NodeId) -> ArrayNode | None:
    nodes = () if snapshot is None else snapshot.nodes
    found = next((node for node in nodes if node.id == node_id), None)
    return found if isinstance(found, ArrayNode) else None


def _is_there(files: RepositoryFiles, ref: ChunkRef, bad: RowSet) -> bool:
    if not isinstance(ref, NativeRef):
        return True
    ids = np.frombuffer(ref.chunk_id, np.uint8).reshape(1, -1)
    if bad.contains(ids)[0]:
        return False
    return int(files.objects.sizes(ids)[0]) >= ref.offset + ref.length
