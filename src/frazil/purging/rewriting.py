"""Rewrites snapshots, manifests and logs without the erased data, under new ids.

Rewritten files get new names, so that no cache returns erased data under the name of a file that
stays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.bulk.grid import ArrayLayout, Grid, array_layout
from frazil.formats.txlog import ID_LISTS
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.expire import adopt
from frazil.model.chunks import ChunkRef, ChunkTable, NativeRef
from frazil.model.combining import overlay
from frazil.model.history import ManifestFile, Metadata, SnapshotEntry, TransactionLog
from frazil.model.nodes import ArrayNode, Coordinates, Extents, ManifestRef, Node
from frazil.purging.finding import PurgeMatches, encoding_digest
from frazil.purging.records import PurgeTarget
from frazil.storage.assets import chunk_key, manifest_key
from frazil.storage.pool import ahead
from frazil.transaction.context import Context
from frazil.transaction.long_open import require_objects, was_long_ago
from frazil.transaction.working import WorkingState

ChunkVersion: TypeAlias = tuple[ChunkRef, Coordinates, bytes]
AT_ONCE: Final = 8
"""Chunks in memory at a time."""


@dataclass(frozen=True, slots=True)
class RewrittenManifest:
    """A manifest without what is erased."""

    file: ManifestFile | None
    """None when nothing is left"""
    extents: Mapping[NodeId, Extents]


@dataclass(slots=True, eq=False)
class Rewriter:
    """Writes files anew; each manifest once, however many snapshots use it."""

    context: Context
    target: PurgeTarget
    blanker: Blanker
    ids: dict[SnapshotId, SnapshotId] = field(default_factory=dict)
    """new ids of snapshots and logs by old ones"""
    parents: dict[SnapshotId, SnapshotId | None] = field(default_factory=dict)
    """parents of the old snapshots, as the new ones have them"""
    written: dict[str, None] = field(default_factory=dict)
    """keys of all files that were written"""
    began: float = field(default_factory=time.time)
    """when the first of them may have been written, in seconds since 1970"""
    _done: dict[tuple[object, ...], RewrittenManifest] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, found: PurgeMatches) -> Rewriter:
        """A rewriter for what was found."""
        state = WorkingState(context, next(iter(found.history)))
        return cls(context, found.target, Blanker(state, found.target))

    def write(self, found: PurgeMatches) -> None:
        """Write everything that is affected and was not written yet, and make it durable."""
        fresh = [one for one in sorted(found.affected | found.logs) if one not in self.ids]
        self.ids.update((one, SnapshotId.random()) for one in fresh)
        tainted = found.tainted_ids()
        for one in fresh:
            if one in found.history:
                self._write_snapshot(one, found.history[one], tainted)
            self._write_log(one)
        for key in self.blanker.stored:
            self._note(key)
        self.context.assets.make_durable(self.written)

    def require_written(self) -> None:
        """Refuse to go on if this took so long that a collection may have deleted what is new.

        Raises:
            SessionStateError: a file that was written is gone.
        """
        if was_long_ago(self.began):
            require_objects(self.context.storage, self.written, "this erasure", "erase again")

    def _note(self, key: str) -> None:
        self.written[key] = None

    # --- snapshots ---

    def _write_snapshot(
        self, one: SnapshotId, entry: SnapshotEntry, tainted: set[ManifestId]
    ) -> None:
        old = self.context.assets.fresh_snapshot(one)
        arrays = {
            node.id: node
            for node in old.nodes
            if node.id in self.target.nodes and isinstance(node, ArrayNode)
        }
        used: dict[ManifestId, ManifestFile] = {}
        known = {file.id: file for file in old.manifest_files}
        nodes = tuple(
            self._node(node, arrays, tainted, known, used)
            for node in old.nodes
            if self.target.region is not None or node.id not in self.target.nodes
        )
        new = replace(
            old,
            id=self.ids[one],
            parent_id=self.renamed(entry.parent_id) if old.parent_id is not None else None,
            nodes=nodes,
            metadata=self.relinked(old.metadata),
            manifest_files=tuple(used[name] for name in sorted(used)),
        )
        self._note(self.context.assets.save_snapshot(new))
        self.parents[one] = entry.parent_id

    def follow(self, known: Mapping[SnapshotId, SnapshotEntry]) -> None:
        """Give new snapshots the parents that an expiry has given to the old ones meanwhile.

        `known` is what the files of old snapshots say now. One that an expiry has rewritten is
        too young to be collected; one that is gone was not rewritten.
        """
        for one, parent in self.parents.items():
            now = known.get(one)
            if now is None or now.parent_id == parent:
                continue
            parent_id, metadata = self.renamed(now.parent_id), self.relinked(now.metadata)
            adopt(self.context, self.ids[one], parent_id, metadata)
            self.parents[one] = now.parent_id

    def _node(
        self,
        node: Node,
        arrays: dict[NodeId, ArrayNode],
        tainted: set[ManifestId],
        known: Mapping[ManifestId, ManifestFile],
        used: dict[ManifestId, ManifestFile],
    ) -> Node:
        """A node with the manifests that replace its old ones, which are added to `used`."""
        if not isinstance(node, ArrayNode):
            return node
        refs: list[ManifestRef] = []
        for ref in node.manifests:
            if ref.id not in tainted:
                refs.append(ref)
                used[ref.id] = known[ref.id]
                continue
            made = self._manifest(ref.id, arrays)
            if made.file is not None and node.id in made.extents:
                refs.append(ManifestRef(made.file.id, made.extents[node.id]))
                used[made.file.id] = made.file
        return replace(node, manifests=tuple(refs))

    # --- manifests ---

    def _manifest(self, one: ManifestId, arrays: dict[NodeId, ArrayNode]) -> RewrittenManifest:
        manifest = self.context.assets.fresh_manifest(one)
        held = {node_id: arrays[node_id] for node_id in manifest.nodes() if node_id in arrays}
        key = (one, encodings_key(held))
        if key not in self._done:
            tables: dict[NodeId, ChunkTable] = {}
            for node_id, table in manifest.tables():
                left = self._table(node_id, table, held)
                if left is not None and len(left):
                    tables[node_id] = left.compact()
            self._done[key] = self._save(tables)
        return self._done[key]

    def _table(
        self, node_id: NodeId, table: ChunkTable, held: dict[NodeId, ArrayNode]
    ) -> ChunkTable | None:
        if node_id not in self.target.nodes:
            return table
        # Arrays that the snapshot does not have are leftovers; no reader uses them.
        if self.target.region is None or node_id not in held:
            self.blanker.dropped += len(table)
            return None
        return self.blanker.blank(held[node_id], table)

    def _save(self, tables: dict[NodeId, ChunkTable]) -> RewrittenManifest:
        if not tables:
            return RewrittenManifest(None, {})
        file = self.context.assets.save_manifest(ManifestId.random(), tables)
        self._note(manifest_key(file.id))
        return RewrittenManifest(file, {one: table.extents for one, table in tables.items()})

    # --- logs ---

    def _write_log(self, one: SnapshotId) -> None:
        log = self.context.assets.fresh_log(one)
        if log is not None:
            self._note(self.context.assets.save_log(self._log(log, self.ids[one])))

    def _log(self, log: TransactionLog, new_id: SnapshotId) -> TransactionLog:
        if self.target.region is not None:
            return replace(log, id=new_id)
        gone = self.target.nodes
        kept: dict[str, tuple[NodeId, ...]] = {
            name: tuple(one for one in getattr(log, name) if one not in gone) for name in ID_LISTS
        }
        return TransactionLog(
            id=new_id,
            **kept,
            updated_chunks={
                one: chunks for one, chunks in log.updated_chunks.items() if one not in gone
            },
            moved_nodes=tuple(move for move in log.moved_nodes if move.node_id not in gone),
        )

    # --- names ---

    def renamed(self, one: SnapshotId | None) -> SnapshotId | None:
        """The new id of a snapshot, or the old one where it is as it was."""
        return None if one is None else self.ids.get(one, one)

    def relinked(self, metadata: Metadata) -> Metadata:
        """Commit metadata in which snapshots are called by their new ids."""
        names = {str(old): str(new) for old, new in self.ids.items()}

        def relink(value: Any) -> Any:  # noqa: ANN401 - what JSON holds
            match value:
                case str():
                    return names.get(value, value)
                case list():
                    return [relink(each) for each in value]
                case dict():
                    return {name: relink(each) for name, each in value.items()}
                case _:
                    return value

        found: Metadata = relink(dict(metadata))
        return found

    def entry(self, old: SnapshotEntry) -> SnapshotEntry:
        """What history records of a snapshot from now on."""
        is_new = old.id in self.ids
        return replace(
            old,
            id=self.ids.get(old.id, old.id),
            parent_id=self.renamed(old.parent_id),
            metadata=self.relinked(old.metadata) if is_new else old.metadata,
            pruned_ancestor_tx_logs=tuple(
                self.ids.get(one, one) for one in old.pruned_ancestor_tx_logs
            ),
        )


# --- chunks without the cells of a region ---


@dataclass(slots=True, eq=False)
class Blanker:
    """Blanks a region of chunks; what several snapshots share is written once."""

    state: WorkingState
    """to read chunks and to store them"""
    target: PurgeTarget
    done: dict[ChunkVersion, ChunkRef | None] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    """keys of the chunk objects that were written"""
    dropped: int = 0
    blanked: int = 0

    def blank(self, node: ArrayNode, table: ChunkTable) -> ChunkTable:
        """The references of an array, as they are without the region."""
        layout = array_layout(node)
        assert layout is not None  # refused before
        encoding = encoding_digest(node)
        rows = np.flatnonzero(self.target.meets(layout.grid, table.coords)).tolist()
        keys = [(table.ref(row), tuple(table.coords[row].tolist()), encoding) for row in rows]
        fresh = [key for key in dict.fromkeys(keys) if key not in self.done]
        made = ahead(lambda key: self._blank_one(layout, key), fresh, AT_ONCE)
        for key, ref in zip(fresh, made, strict=True):
            self.done[key] = ref
            if isinstance(ref, NativeRef):
                self.stored.append(chunk_key(ref.chunk_id))
            if ref is not None:  # a commit since may refer to it; it needs no other blanking
                self.done[ref, key[1], encoding] = ref
        changed = [(key[1], ref) for key in keys if (ref := self.done[key]) is not None]
        gone = [key[1] for key in keys if self.done[key] is None]
        self.dropped += len(gone)
        self.blanked += len(changed)
        changes = ChunkTable.from_refs(table.ndim, changed)
        return overlay(table, changes, np.array(gone, np.uint32).reshape(-1, table.ndim))

    def _blank_one(self, layout: ArrayLayout, key: ChunkVersion) -> ChunkRef | None:
        """A chunk without the region; None where nothing is left of it."""
        ref, coords, _ = key
        starts, sizes = _box(layout.grid, coords)
        inner = tuple(
            slice(max(0, start - first), size if stop is None else min(size, stop - first))
            for (start, stop), first, size in zip(
                self.target.region or (), starts, sizes, strict=False
            )
        )
        whole = all(part == slice(0, size) for part, size in zip(inner, sizes, strict=False))
        if whole:
            return None
        chain = layout.chain
        old = self.state.context.read_chunk(ref)
        cells = np.array(chain.decode(old, tuple(sizes)), chain.dtype)
        cells[inner] = chain.fill_value
        if chain.is_fill(cells):
            return None
        data = chain.encode(np.ascontiguousarray(cells))
        return None if data is None else self.state.payload(data)


def _box(grid: Grid, coords: Coordinates) -> tuple[list[int], list[int]]:
    """First cell and length of a chunk along each axis."""
    places = [np.array([one], np.int64) for one in coords]
    starts = [int(axis.start_of(at)[0]) for axis, at in zip(grid, places, strict=True)]
    sizes = [int(axis.size_of(at)[0]) for axis, at in zip(grid, places, strict=True)]
    return starts, sizes


def encodings_key(nodes: dict[NodeId, ArrayNode]) -> tuple[tuple[NodeId, bytes], ...]:
    """How some arrays are encoded, as a key."""
    return tuple(sorted((one, encoding_digest(node)) for one, node in nodes.items()))
