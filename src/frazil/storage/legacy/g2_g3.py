"""The files of G2 and G3: JSON or MessagePack bodies, with or without a header.

Branches are numbered files, found by listing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Final

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.generation import Generation
from frazil.formats.legacy.attributes import decode_attributes
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import Wrapping, is_flat
from frazil.formats.legacy.layouts import dialect_layout, refined
from frazil.formats.legacy.logs import decode_log, encode_log, from_log, to_log
from frazil.formats.legacy.manifest_writing import encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.names import Kind
from frazil.formats.legacy.records import ManifestRecord, Names, SnapshotRecord
from frazil.formats.legacy.refs import RefLayout, decode_ref
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot
from frazil.ids import MAIN, ManifestId, NodeId, ObjectId, SnapshotId
from frazil.logs import warn_once
from frazil.model.chunks import ChunkTable
from frazil.model.history import Metadata, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode
from frazil.storage.base import Storage, absent
from frazil.storage.legacy.branch_files import layout_at, steps_of
from frazil.storage.legacy.files import LegacyFiles
from frazil.storage.legacy.name_book import NameBook

MISPLACING: Final = frozenset({Dialect.G3_UNRELEASED, Dialect.G3A, Dialect.G3B})
"""Whose writers could put references of other arrays under a node, and misname the root."""
UNDECIDED: Final = frozenset({Dialect.G2_MAPS, Dialect.G2_MAPS_TEXT, Dialect.G3B})
"""Which snapshots alone do not tell for certain."""
LOOKED_AT: Final = 4
"""Manifests that are read to tell dialects apart that differ in nothing else."""
JSON_SUFFIX: Final = ".json"
MSGPACK_SUFFIX: Final = ".msgpack"
OTHER_SUFFIX: Final = {JSON_SUFFIX: MSGPACK_SUFFIX, MSGPACK_SUFFIX: JSON_SUFFIX}
PRESERVED: Final = "legacy-g3/"
"""Below it, an upgrade keeps the files of G3 whose keys it needs for their successors."""

log = logging.getLogger(__name__)


class G2G3Files(LegacyFiles):
    """Files of a repository of G2 or G3, written in the dialect that it uses."""

    def __init__(
        self,
        storage: Storage,
        generation: Generation,
        names: NameBook,
        layout: RefLayout | None = None,
    ) -> None:
        super().__init__(storage, generation, names)
        self._layout = layout
        self._wrapping: Final = generation.wrapping
        self._ranks: dict[ManifestId, dict[NodeId, int]] = {}
        self._root: SnapshotId | None = None

    def extension(self, kind: Kind) -> str:
        """G2 tells the encoding of metadata files in their names."""
        if self.age is not LegacyGeneration.G2 or kind == "chunks":
            return ""
        return JSON_SUFFIX if self.dialect is Dialect.G2_JSON else MSGPACK_SUFFIX

    def likely_keys(self, kind: Kind, id: ObjectId) -> Iterator[str]:
        """Under the encoding of the dialect, then under the other one."""
        key = self.key(kind, id)
        yield key
        extension = self.extension(kind)
        if extension and key.endswith(extension):
            yield key.removesuffix(extension) + OTHER_SUFFIX[extension]

    def fetch(
        self, kind: Kind, id: ObjectId, near: Storage | None = None
    ) -> tuple[str, bytes] | None:
        """A file with its key; where an upgrade has put its successor, the file it preserved."""
        found = super().fetch(kind, id, near)
        if found is None or self.age is not LegacyGeneration.G3 or not is_flat(found[1]):
            return found
        original = self.storage.get(PRESERVED + found[0])
        return None if original is None else (found[0], original)

    # --- snapshots ---

    def snapshot(self, id: SnapshotId) -> Snapshot | None:
        """A snapshot as its file is now."""
        record = self._read(id)
        if record is None or record.has_true_extents:
            return None if record is None else record.snapshot
        return self.bounded(record.snapshot)

    def record(self, id: SnapshotId) -> SnapshotRecord | None:
        """A snapshot with what its file knows beyond the model; may be a remembered one."""
        return self._records.get(id) or self._read(id)

    def style_of(self, record: SnapshotRecord) -> tuple[Dialect, Wrapping | None]:
        """The dialect of a snapshot, judged by it and some of its manifests.

        Also the header and compression of its file, if they are unusual for the dialect.
        """
        dialect = record.dialect
        if dialect in UNDECIDED:
            files = record.snapshot.manifest_files[:LOOKED_AT]
            found = [self.fetch("manifests", file.id) for file in files]
            manifests = [
                decode_manifest(blob, key=key, generation=self.age)
                for key, blob in filter(None, found)
            ]
            dialect = refined(dialect, manifests)
        if dialect.is_json or not dialect.is_writable:
            return dialect, None
        usual = dialect_layout(dialect).wrapping_of(FileKind.SNAPSHOT)
        return dialect, None if record.wrapping == usual else record.wrapping

    def _read(self, id: SnapshotId) -> SnapshotRecord | None:
        found = self.fetch("snapshots", id)
        if found is None:
            return None
        key, blob = found
        record = self._rooted(decode_snapshot(blob, key=key, generation=self.age, id=id))
        record = self._completed(record)
        self._note_ranks(record.snapshot)
        self._records.put(id, record)
        return record

    def _attributes(self, file: str) -> tuple[Metadata, ...]:
        folder = self.folders["attributes"]
        for name in (
            file + self.extension("attributes"),
            file,
            file + JSON_SUFFIX,
            file + MSGPACK_SUFFIX,
        ):
            blob = self.storage.get(folder + name)
            if blob is not None:
                return decode_attributes(blob, key=folder + name, dialect=self.dialect)
        raise absent(folder + file)

    def _rooted(self, record: SnapshotRecord) -> SnapshotRecord:
        """The record with its parent by the name of its file.

        Early writers stored the first snapshot under another name than the id in it, by which
        its children know it.
        """
        snapshot = record.snapshot
        parent = snapshot.parent_id
        if parent is None or record.total_parents != 1 or record.dialect not in MISPLACING:
            return record
        if self._root is None:
            there = self.storage.head(self.key("snapshots", parent)) is not None
            self._root = parent if there else self._first()
        return replace(record, snapshot=replace(snapshot, parent_id=self._root))

    def _first(self) -> SnapshotId | None:
        """The snapshot that the main branch began with."""
        layout = self._layout or layout_at(self.storage, self.age)
        steps = [*steps_of(self.storage, layout, MAIN)]
        blob = self.storage.get(steps[-1].key) if steps else None
        if blob is None:
            return None
        return decode_ref(blob, key=steps[-1].key, generation=self.age).snapshot

    def attribute_files_of(self, id: SnapshotId) -> set[str]:
        """Attribute files under each name that they may have."""
        record = self.record(id)
        named = set() if record is None else {ref.file for ref in record.attributes.values()}
        return {
            name + extension for name in named for extension in ("", JSON_SUFFIX, MSGPACK_SUFFIX)
        }

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Write a new snapshot."""
        parent = None if snapshot.parent_id is None else self.record(snapshot.parent_id)
        record = self._following(parent, snapshot)
        self.put("snapshots", snapshot.id, encode_snapshot(record, self._wrapping))
        self._records.put(snapshot.id, record)

    # --- manifests ---

    def manifest(
        self, id: ManifestId, near: Storage | None = None
    ) -> Mapping[NodeId, ChunkTable] | None:
        """The references of a manifest, those that strayed under other arrays left out."""
        found = self.fetch("manifests", id, near)
        if found is None:
            return None
        key, blob = found
        record = decode_manifest(blob, key=key, generation=self.age)
        self.names.note_all(Names(chunks=record.names))
        ranks = self._ranks_of(id, record.strays.keys())
        return {
            node: table
            if node not in record.strays and ranks.get(node, table.ndim) == table.ndim
            else self._own(node, record, ranks, key)
            for node, table in record.tables.items()
        }

    def _ranks_of(self, id: ManifestId, needed: Set[NodeId]) -> Mapping[NodeId, int]:
        """How many axes the arrays of a manifest have; those that are `needed` are read first."""
        known = self._ranks.setdefault(id, {})
        if needed <= known.keys():
            return known
        for snapshot, _ in self.listed("snapshots"):
            with contextlib.suppress(FormatError):  # does not matter to readers of others
                self._read(SnapshotId(snapshot))
            if needed <= known.keys():
                break
        return known

    def _own(
        self, node: NodeId, record: ManifestRecord, ranks: Mapping[NodeId, int], key: str
    ) -> ChunkTable:
        """The references of an array that have as many coordinates as it has axes.

        Raises:
            FormatError: there are others, and no writer of that age is known to have made them.
        """
        found = [record.tables[node], *record.strays.get(node, ())]
        rank = ranks.get(node, found[0].ndim)
        if self.age is not LegacyGeneration.G3:
            raise FormatError(
                "a manifest has coordinates of another rank than their array has",
                kind=ErrorKind.DESERIALIZATION,
                key=key,
                array=str(node),
            )
        own = next((table for table in found if table.ndim == rank), ChunkTable.empty(rank))
        dropped = sum(map(len, found)) - len(own)
        if dropped:
            warn_once(
                log,
                (self.storage.url, key, node),
                "%s has %d chunk references of other arrays under node %s, a bug of its writer;"
                " they are ignored",
                key,
                dropped,
                node,
            )
        return own

    def _note_ranks(self, snapshot: Snapshot) -> None:
        for node in snapshot.nodes:
            if isinstance(node, ArrayNode):
                for ref in node.manifests:
                    self._ranks.setdefault(ref.id, {})[node.id] = len(node.shape)

    def encode_manifest(self, id: ManifestId, tables: Mapping[NodeId, ChunkTable]) -> bytes:
        """The file of a manifest."""
        if not self.names_are_ids:
            self.find_chunks(tables)
        record = ManifestRecord(tables, self.dialect, id, self.names.names().chunks)
        return encode_manifest(record, self._wrapping)

    # --- transaction logs ---

    def log(self, id: SnapshotId) -> TransactionLog | None:
        """The log of a snapshot: its file if it has one, else what is known without it."""
        found = self.fetch("transactions", id) if "transactions" in self.folders else None
        if found is None:
            return self.derived(id)
        key, blob = found
        pair = self._with_parent(id)
        nodes = [] if pair is None else [node for each in pair for node in each.nodes]
        arrays = {node.id for node in nodes if isinstance(node, ArrayNode)}
        return self.with_moves(to_log(decode_log(blob, key=key), id, arrays))

    def save_log(self, log: TransactionLog) -> None:
        """Write a transaction log, if the dialect has them; the nodes themselves tell moves."""
        if self.dialect.has_logs:
            log = replace(log, moved_nodes=())
            blob = encode_log(from_log(log, self.dialect), self._wrapping)
            self.put("transactions", log.id, blob)
