"""Snapshots of old generations become snapshots of spec 1 or 2, with manifests and logs.

Every id follows from the old ones, so that a conversion which is interrupted and begun again
writes the same files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from frazil.formats.generation import Generation
from frazil.formats.legacy.names import MAX_NODE_NUMBER
from frazil.formats.legacy.snapshots import ROOT_MARK
from frazil.formats.txlog import ID_LISTS
from frazil.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.combining import concat
from frazil.model.derived_log import derived_log, is_same_node
from frazil.model.history import ManifestFile, Metadata, Micros, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Extents, GroupNode, ManifestRef, Node
from frazil.opening import INITIAL_METADATA
from frazil.storage.lru import Lru
from frazil.transaction.committing import NodeIds
from frazil.upgrading.chunks import Relocate
from frazil.upgrading.sinks import Sink
from frazil.upgrading.source import LEGACY_ID, UpgradeSource
from frazil.upgrading.tuning import CACHED_REFS

Tables: TypeAlias = Mapping[NodeId, ChunkTable]


@dataclass(frozen=True, slots=True)
class ManifestSlice:
    """Which references of an old manifest a new one holds."""

    old: ManifestId
    node: NodeId
    box: Extents


@dataclass(frozen=True, slots=True)
class MadeManifest:
    """A manifest that was written, as snapshots know it."""

    ref: ManifestRef
    file: ManifestFile


@dataclass(frozen=True, slots=True)
class Converted:
    """What the children of a snapshot need to know of it."""

    id: SnapshotId
    written_at: Micros
    ids: NodeIds


class Converter:
    """Converts snapshots, parents before children."""

    def __init__(
        self,
        source: UpgradeSource,
        target: Generation,
        root: SnapshotId | None,
        sink: Sink,
        relocate: Relocate,
    ) -> None:
        self._source = source
        self._files = source.files
        self._target = target
        self._root = root
        self._sink = sink
        self._relocate = relocate
        self.done: Final[dict[SnapshotId, Converted]] = {}
        self.entries: Final[dict[SnapshotId, Snapshot]] = {}
        """the new snapshots, without their nodes, by their new ids"""
        self.renamed = self.logs_made = self.dropped = 0
        self._made: dict[tuple[ManifestId, NodeId, Extents], MadeManifest | None] = {}
        self._parts: dict[ManifestId, ManifestSlice] = {}
        self._sizes: dict[ManifestId, int] = {}
        self._tables: Lru[ManifestId, Tables] = Lru(
            CACHED_REFS, lambda tables: sum(map(len, tables.values()))
        )

    @property
    def manifests(self) -> list[ManifestId]:
        """All manifests that were made."""
        return [*self._sizes]

    def new_id(self, id: SnapshotId) -> SnapshotId:
        """The id of a snapshot in the new repository."""
        return INITIAL_SNAPSHOT_ID if id == self._root else id

    def convert(self, id: SnapshotId) -> None:
        """Convert a snapshot whose parent was converted before."""
        if id in self.done:
            return
        old = self._source.snapshot(id)
        before = None if old.parent_id is None else self._source.snapshot(old.parent_id)
        parent = None if old.parent_id is None else self.done[old.parent_id]
        ids = node_ids(
            id,
            old.nodes,
            {} if before is None else {node.id: node for node in before.nodes},
            {} if parent is None else parent.ids,
            moves=self._target.repo_object,
        )
        nodes, files = self._nodes(old, ids)
        written_at = old.flushed_at
        if parent is not None:
            written_at = max(written_at, parent.written_at + 1)
        made = Snapshot(
            id=self.new_id(id),
            parent_id=None if parent is None else parent.id,
            nodes=nodes,
            flushed_at=written_at,
            message=old.message,
            metadata=self._metadata(old),
            manifest_files=files,
        )
        self._sink.commit(made, self._log(old, made, before, ids))
        self.done[id] = Converted(made.id, written_at, ids)
        self.entries[made.id] = replace(made, nodes=(), manifest_files=())

    def _metadata(self, old: Snapshot) -> Metadata:
        kept = {name: value for name, value in old.metadata.items() if name != ROOT_MARK}
        if old.id == self._root:
            kept = {**INITIAL_METADATA, **kept}
        name, new = self._source.stored_id(old.id), str(self.new_id(old.id))
        if name == new:
            return kept
        self.renamed += 1
        return {**kept, LEGACY_ID: name}

    # --- nodes and manifests ---

    def _nodes(
        self, old: Snapshot, ids: NodeIds
    ) -> tuple[Sequence[Node], tuple[ManifestFile, ...]]:
        nodes: list[Node] = []
        files: dict[ManifestId, ManifestFile] = {}
        for node in old.nodes:
            new = ids.get(node.id, node.id)
            if isinstance(node, GroupNode):
                nodes.append(replace(node, id=new))
                continue
            made = [self._manifest(node, new, ref) for ref in node.manifests]
            found = [each for each in made if each is not None]
            files.update((each.file.id, each.file) for each in found)
            nodes.append(replace(node, id=new, manifests=tuple(each.ref for each in found)))
        return nodes, tuple(files.values())

    def _manifest(self, node: ArrayNode, new: NodeId, ref: ManifestRef) -> MadeManifest | None:
        """The part of an old manifest that is of an array; None where it has none."""
        box = _visible(node, ref)
        key = ref.id, new, box
        if key not in self._made:
            self._made[key] = self._make(node, new, ref.id, box)
        return self._made[key]

    def _make(
        self, node: ArrayNode, new: NodeId, old: ManifestId, box: Extents
    ) -> MadeManifest | None:
        table = self._old_tables(old).get(node.id)
        if table is None:
            return None
        own = self._own(table, len(node.shape), box)
        dropped = len(table) - len(own)
        self.dropped += dropped
        if not len(own):
            return None
        id = manifest_id(old, new, box if dropped else None)
        self._parts[id] = ManifestSlice(old, node.id, box)
        if id in self._sizes:
            file = ManifestFile(id, self._sizes[id], len(own))
        else:
            file = self._sink.manifest(id, new, self._relocate(own.compact()))
            self._sizes[id] = file.size_bytes
        return MadeManifest(ManifestRef(id, own.extents), file)

    def _own(self, table: ChunkTable, rank: int, box: Extents) -> ChunkTable:
        return table.within(box) if table.ndim == rank else ChunkTable.empty(rank)

    def _old_tables(self, id: ManifestId) -> Tables:
        found = self._tables.get(id)
        if found is None:
            found = self._files.required_manifest(id)
            self._tables.put(id, found)
        return found

    def _references(self, node: ArrayNode) -> ChunkTable:
        """The references of a converted array."""
        rank = len(node.shape)
        parts = [self._parts[ref.id] for ref in node.manifests]
        tables = [
            self._own(self._old_tables(part.old)[part.node], rank, part.box) for part in parts
        ]
        return concat(tables, rank)

    # --- transaction logs ---

    def _log(
        self, old: Snapshot, made: Snapshot, before: Snapshot | None, ids: NodeIds
    ) -> TransactionLog | None:
        """What a snapshot changed: as its log says, or as comparing it with its parent tells."""
        if before is None:
            return TransactionLog(made.id) if self._target.initial_log else None
        known = self.done[before.id].ids
        stored = self._stored_log(old.id)
        if stored is not None and not stored.moved_nodes:
            return _renamed(stored, made.id, {**known, **ids})
        self.logs_made += 1
        nodes, _ = self._nodes(before, known)
        return derived_log(made.id, nodes, made.nodes, self._references)

    def _stored_log(self, id: SnapshotId) -> TransactionLog | None:
        has_logs = "transactions" in self._files.folders and self._files.dialect.has_logs
        if not has_logs or self._files.fetch("transactions", id) is None:
            return None
        return self._files.log(id)


def _visible(node: ArrayNode, ref: ManifestRef) -> Extents:
    """The chunks of an array that readers look for in a manifest."""
    grid = tuple((0, max(1, size)) for size in node.grid)
    if len(ref.extents) != len(grid):
        return grid
    pairs = zip(grid, ref.extents, strict=True)
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in pairs)


def _renamed(log: TransactionLog, id: SnapshotId, ids: NodeIds) -> TransactionLog:
    """A log under the new id of its snapshot, with the new ids of nodes."""
    if not ids:
        return replace(log, id=id)

    lists = {
        name: tuple(sorted(ids.get(one, one) for one in getattr(log, name))) for name in ID_LISTS
    }
    chunks = {ids.get(one, one): coords for one, coords in log.updated_chunks.items()}
    return replace(log, id=id, **lists, updated_chunks=chunks)


# --- ids of what is written anew ---

NODE: Final = b"icechunk-legacy-node"
MANIFEST: Final = b"icechunk-legacy-manifest"


def node_id(first: SnapshotId, old: NodeId) -> NodeId:
    """The id of a node that was known by a number, from the snapshot where it first appears."""
    number = int.from_bytes(old, "big")
    raw = number.to_bytes(4, "big") if number <= MAX_NODE_NUMBER else bytes(old)
    return NodeId(hashlib.sha256(NODE + first + raw).digest()[: NodeId.width])


def manifest_id(old: ManifestId, node: NodeId, box: Extents | None = None) -> ManifestId:
    """The id of the part of a manifest that belongs to an array.

    `box` tells which chunks were kept, where some were dropped: the same old manifest may serve
    an array before and after it shrank.
    """
    kept = b"" if box is None else np.array(box, ">u8").tobytes()
    found = hashlib.sha256(MANIFEST + old + node + kept).digest()
    return ManifestId(found[: ManifestId.width])


def node_ids(
    id: SnapshotId,
    nodes: Iterable[Node],
    before: Mapping[NodeId, Node],
    known: NodeIds,
    *,
    moves: bool,
) -> NodeIds:
    """The new ids of the nodes of a snapshot.

    `before` are the nodes of its parent and `known` their new ids. A node keeps its id while it
    stays the same node; `moves` tells whether it may do so at another path.
    """
    made: dict[NodeId, NodeId] = {}
    for node in nodes:
        old = before.get(node.id)
        is_kept = old is not None and is_same_node(old, node)
        if is_kept and old is not None and (moves or old.path == node.path):
            new = known.get(node.id, node.id)
        elif old is not None or int.from_bytes(node.id, "big") <= MAX_NODE_NUMBER:
            new = node_id(id, node.id)
        else:
            new = node.id
        if new != node.id:
            made[node.id] = new
    return known if made == known else made
