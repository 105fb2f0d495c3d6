"""The interface to the files of an old generation: records of the model, whatever the bytes."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from frazil.errors import ErrorKind, FormatError, InternalError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.legacy.attributes import with_attributes
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.names import (
    FOLDERS,
    Kind,
    bytes_of_name,
    from_base64_name,
    from_crockford,
    id_of_name,
    narrow_id,
    plain_name,
    without_extension,
)
from frazil.formats.legacy.records import SnapshotRecord
from frazil.formats.legacy.snapshots import root_record, successor
from frazil.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId, crockford
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.combining import concat
from frazil.model.derived_log import derived_log, moves_between
from frazil.model.history import Metadata, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Extents, overlap
from frazil.storage.base import Attributes, Listed, Storage
from frazil.storage.legacy.name_book import CLASSES, NameBook
from frazil.storage.lru import Lru
from frazil.storage.tuning import MANY_NAMES

UNNAMED: Final = Attributes(is_unnamed=True)
RECORDED_NODES: Final = 100_000
"""Nodes of snapshots that are kept, because their successors need what the model does not hold."""


class LegacyFiles(ABC):
    """The immutable files of one repository, read and written as one generation does."""

    def __init__(
        self, storage: Storage, generation: Generation, names: NameBook, root: str = ""
    ) -> None:
        assert generation.dialect is not None
        self.storage = storage
        self.names = names
        self.dialect: Final[Dialect] = generation.dialect
        self.age: Final[LegacyGeneration] = generation.dialect.generation
        self.folders: Final[Mapping[Kind, str]] = {
            kind: root + folder for kind, folder in FOLDERS[self.age].items()
        }
        self.written: Final[set[ChunkId]] = set()
        """chunks whose names are known to be plain, because we wrote them"""
        self._listed: set[Kind] = set()
        self._records: Lru[SnapshotId, SnapshotRecord] = Lru(
            RECORDED_NODES, lambda record: len(record.snapshot.nodes)
        )
        self._boxes: dict[ManifestId, Mapping[NodeId, Extents]] = {}
        """which chunks the manifests of arrays that have several of them hold"""
        self._whole: set[tuple[NodeId, tuple[ManifestId, ...]]] = set()
        """arrays whose manifests are known not to contradict each other"""

    # --- names ---

    @property
    def names_are_ids(self) -> bool:
        """Whether every file is named by the id that the model knows it by."""
        return self.age is LegacyGeneration.G3

    def extension(self, kind: Kind) -> str:
        """What follows the id in the names of our files."""
        return ""

    def key(self, kind: Kind, id: ObjectId) -> str:
        """The key of a file, as far as it is known."""
        folder = self.folders[kind]
        file = self.names.file(kind, id)
        if file is not None:
            return folder + file
        name = self.names.name(kind, id) or plain_name(self.age, kind, id)
        return folder + name + self.extension(kind)

    def likely_keys(self, kind: Kind, id: ObjectId) -> Iterator[str]:
        """The keys under which a file is looked for without listing any."""
        yield self.key(kind, id)

    def find(self, kind: Kind, id: ObjectId) -> str | None:
        """The key of a file that is not where it should be, from a listing; None for none."""
        if self.names_are_ids or kind not in self.folders:
            return None
        folder = self.folders[kind]
        start = str(id)[: 8 * id.width // 5]  # stored ids, which are longer, begin alike
        near = self.storage.list_between(folder, start, start + "~")
        for listing in (near, self.storage.list(folder)):
            for item in listing:
                name = item.key[len(folder) :]
                if self.id_of(kind, name) == id:
                    self._note(kind, id, name)
                    return item.key
        return None

    def listed(self, kind: Kind) -> Iterator[tuple[ObjectId, Listed]]:
        """All files of a kind."""
        folder = self.folders.get(kind)
        if folder is None:
            return
        for item in self.storage.list(folder):
            name = item.key[len(folder) :]
            found = self.id_of(kind, name)
            if found is not None:
                self._note(kind, found, name)
                yield found, item
        self._listed.add(kind)

    def learn_names(self, kind: Kind) -> None:
        """List the files of a kind once: what shall be deleted has been there for long."""
        if kind not in self._listed:
            for _ in self.listed(kind):
                pass

    def id_of(self, kind: Kind, name: str) -> ObjectId | None:
        """The id that a file name stands for; None for files that are none of ours."""
        if "/" in name:
            return None
        cls = CLASSES[kind]
        if self.age is LegacyGeneration.G1:
            return id_of_name(cls, name)
        if self.names_are_ids:
            raw = from_crockford(name, cls.width)
        else:
            raw = bytes_of_name(without_extension(name)) or from_base64_name(name)
        return None if raw is None else cls(narrow_id(raw))

    def _note(self, kind: Kind, id: ObjectId, name: str) -> None:
        """Remember under which name an object was found, if that says anything new."""
        if self.folders[kind] + name == self.key(kind, id):
            return
        raw = bytes_of_name(without_extension(name)) or from_base64_name(name)
        is_spelled = self.age is LegacyGeneration.G2 and raw is not None
        called = crockford(raw) if is_spelled and raw is not None else name
        if self.names.name(kind, id) is None and called != plain_name(self.age, kind, id):
            self.names.note(kind, id, called)
        if self.folders[kind] + name != self.key(kind, id):
            self.names.note_file(kind, id, name)

    def fetch(
        self, kind: Kind, id: ObjectId, near: Storage | None = None
    ) -> tuple[str, bytes] | None:
        """A file with its key, looked for in a listing if it is not where it should be.

        `near` is the storage with copies of some files.
        """
        storage = near or self.storage
        for number, key in enumerate(self.likely_keys(kind, id)):
            blob = storage.get(key)
            if blob is not None:
                if number:
                    self._note(kind, id, key[len(self.folders[kind]) :])
                return key, blob
        elsewhere = self.find(kind, id)
        blob = None if elsewhere is None else storage.get(elsewhere)
        return None if elsewhere is None or blob is None else (elsewhere, blob)

    def put(self, kind: Kind, id: ObjectId, blob: bytes) -> None:
        """Write a file."""
        self.storage.put(self.key(kind, id), blob, UNNAMED)

    def find_chunks(self, tables: Mapping[NodeId, ChunkTable]) -> None:
        """Make sure of the names of chunks that others have written or mentioned.

        A reference must not name an object that we only suppose to be there.
        """
        parts = [table.chunk_id[table.kind == ChunkType.native] for table in tables.values()]
        ids = {ChunkId(raw.tobytes()) for part in parts for raw in part}
        unsure = [one for one in ids - self.written if self.names.name("chunks", one) is None]
        if len(unsure) > MANY_NAMES:
            for _ in self.listed("chunks"):
                pass
            return
        for one in unsure:
            if self.storage.head(self.key("chunks", one)) is None:
                self.find("chunks", one)

    # --- content ---

    @abstractmethod
    def snapshot(self, id: SnapshotId) -> Snapshot | None:
        """A snapshot, its attributes in place and its parent known; None for none."""

    @abstractmethod
    def _attributes(self, file: str) -> Sequence[Metadata]:
        """What an attribute file holds."""

    def _completed(self, record: SnapshotRecord) -> SnapshotRecord:
        """A record that was just read, with the attributes that are in other files."""
        self.names.note_all(record.names)
        files = {file: self._attributes(file) for file in record.attribute_files}
        return with_attributes(record, files) if files else record

    def _following(self, parent: SnapshotRecord | None, snapshot: Snapshot) -> SnapshotRecord:
        """The record of a new snapshot."""
        if parent is None:
            made = root_record(snapshot, self.dialect)
        else:
            made = successor(replace(parent, dialect=self.dialect), snapshot)
        return replace(made, names=self.names.names())

    @abstractmethod
    def attribute_files_of(self, id: SnapshotId) -> set[str]:
        """The attribute files that a snapshot names, as far as they have names in the folder."""

    @abstractmethod
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot, the successor of its parent."""

    @abstractmethod
    def manifest(
        self, id: ManifestId, near: Storage | None = None
    ) -> Mapping[NodeId, ChunkTable] | None:
        """The references of a manifest; None for none."""

    def required_manifest(self, id: ManifestId) -> Mapping[NodeId, ChunkTable]:
        """The references of a manifest."""
        found = self.manifest(id)
        if found is None:
            raise StorageError(
                "a manifest of this snapshot is missing",
                kind=ErrorKind.OBJECT_NOT_FOUND,
                key=self.key("manifests", id),
            )
        return found

    @abstractmethod
    def encode_manifest(self, id: ManifestId, tables: Mapping[NodeId, ChunkTable]) -> bytes:
        """The file of a manifest."""

    def log(self, id: SnapshotId) -> TransactionLog | None:
        """The transaction log of a snapshot, stored or derived; None where neither can be."""
        return self.derived(id)

    @abstractmethod
    def save_log(self, log: TransactionLog) -> None:
        """Write a transaction log, if commits of this age have one."""

    # --- recorded extents, which may be wrong ---

    def bounded(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot whose arrays tell truly which of several manifests has a chunk.

        Raises:
            FormatError: two manifests have a reference each for one chunk of an array.
        """
        several = spread_arrays(snapshot)
        if not several:
            return snapshot
        unknown = {ref.id for node in several.values() for ref in node.manifests}
        self.storage.each(self._learn, sorted(unknown - self._boxes.keys()))
        made = {id: self._bounded(node) for id, node in several.items()}
        return replace(snapshot, nodes=tuple(made.get(node.id, node) for node in snapshot.nodes))

    def _learn(self, id: ManifestId) -> None:
        """Find out which chunks a manifest has; a damaged one raises when it is read from."""
        with contextlib.suppress(FormatError):
            tables = self.manifest(id)
            if tables is not None:
                self._boxes[id] = {node: table.extents for node, table in tables.items()}

    def _bounded(self, node: ArrayNode) -> ArrayNode:
        nothing = tuple((0, 0) for _ in node.grid)
        refs = []
        for ref in node.manifests:
            box = ref.extents
            if ref.id in self._boxes:
                box = self._boxes[ref.id].get(node.id, nothing)
            refs.append(replace(ref, extents=box if len(box) == len(nothing) else ref.extents))
        known = node.id, tuple(ref.id for ref in refs)
        if known not in self._whole and any(
            overlap(one.extents, other.extents) for one, other in combinations(refs, 2)
        ):
            self._require_distinct(node)
        self._whole.add(known)
        return replace(node, manifests=tuple(refs))

    def _require_distinct(self, node: ArrayNode) -> None:
        try:
            self.references(node)
        except InternalError as error:
            raise FormatError(
                f"two manifests of {node.path} have a reference each for the same chunk, and"
                " nothing tells which of them counts",
                kind=ErrorKind.INCONSISTENT_MANIFESTS,
                manifests=tuple(str(ref.id) for ref in node.manifests),
            ) from error

    # --- what no file tells ---

    def derived(self, id: SnapshotId) -> TransactionLog | None:
        """A log made by comparing a snapshot with its parent; None where that is gone."""
        pair = self._with_parent(id)
        if pair is None:
            return None
        before, after = pair
        return derived_log(id, before.nodes, after.nodes, self.references)

    def with_moves(self, log: TransactionLog) -> TransactionLog:
        """A log with the moves, which logs of that age do not tell."""
        pair = self._with_parent(log.id)
        if pair is None:
            return log
        before, after = ({node.id: node for node in each.nodes} for each in pair)
        return replace(log, moved_nodes=moves_between(before, after))

    def _with_parent(self, id: SnapshotId) -> tuple[Snapshot, Snapshot] | None:
        after = self.snapshot(id)
        before = None if after is None or not after.parent_id else self.snapshot(after.parent_id)
        return None if after is None or before is None else (before, after)

    def references(self, node: ArrayNode) -> ChunkTable:
        """All references of an array that lie in its grid.

        Raises:
            StorageError: one of its manifests is missing.
        """
        tables = []
        for ref in node.manifests:
            table = self.required_manifest(ref.id).get(node.id)
            if table is not None and table.ndim == len(node.shape):
                tables.append(table.within(tuple((0, max(1, size)) for size in node.grid)))
        return concat(tables, len(node.shape))


def spread_arrays(snapshot: Snapshot) -> dict[NodeId, ArrayNode]:
    """The arrays of a snapshot that have more than one manifest."""
    return {
        node.id: node
        for node in snapshot.nodes
        if isinstance(node, ArrayNode) and len(node.manifests) > 1
    }
