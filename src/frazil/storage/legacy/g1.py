"""The files of G1: Parquet structure files, inventories and attribute files, and the state file.

The state is replaced by the next one with a compare-and-swap. Where a storage cannot replace an
object conditionally, each state is a file of its own, created once under the number of its
generation, and the state file says so and is but a copy.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from frazil.arrays import Shape
from frazil.errors import ErrorKind, FormatError, RepositoryNotFoundError, StorageError
from frazil.formats.generation import Generation
from frazil.formats.legacy.attributes import decode_attribute_file, encode_attribute_file
from frazil.formats.legacy.dialects import STATE_FILES, LegacyGeneration
from frazil.formats.legacy.g1_inventory import decode_inventory, encode_inventory
from frazil.formats.legacy.g1_state import (
    CLAIMS,
    G1State,
    StateSnapshot,
    decode_state,
    encode_state,
    new_item,
)
from frazil.formats.legacy.g1_structure import decode_structure, encode_structure
from frazil.formats.legacy.names import Kind, plain_name, sequence_name
from frazil.formats.legacy.records import AttributeRef, ManifestRecord, Names, SnapshotRecord
from frazil.ids import ManifestId, NodeId, ObjectId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.documents import document_of
from frazil.model.history import Metadata, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Node
from frazil.storage.base import (
    JSON_FILE,
    Fetched,
    LostRace,
    Storage,
    Unchanged,
    Version,
    absent,
)
from frazil.storage.legacy.files import UNNAMED, LegacyFiles
from frazil.storage.legacy.name_book import NameBook

CLAIM_FOLDER: Final = "t/"


@dataclass(frozen=True, slots=True)
class VersionedState:
    """A state, where it was read from, and what the storage calls that version of it."""

    state: G1State
    key: str
    version: Version


class StateFile:
    """The mutable state of one repository of G1."""

    def __init__(
        self, storage: Storage, *, replaces: bool = True, known: VersionedState | None = None
    ) -> None:
        self._storage = storage
        self.replaces: Final = replaces
        """whether the storage replaces objects conditionally"""
        self._seen = known
        self._lock = threading.Lock()

    def find(self) -> VersionedState | None:
        """The present state; None where there is no state file."""
        with self._lock:
            seen = self._seen
        held = self._newest(seen)
        if held is None:
            return None
        if seen is not None and held.state.generation < seen.state.generation:
            raise FormatError(
                "the state file is older than the one read before; an old copy was put back",
                key=held.key,
                generation=held.state.generation,
                known=seen.state.generation,
            )
        with self._lock:
            self._seen = held
        return held

    def read(self) -> VersionedState:
        """The present state."""
        held = self.find()
        if held is None:
            raise RepositoryNotFoundError("the repository doesn't exist", url=self._storage.url)
        return held

    def _newest(self, seen: VersionedState | None) -> VersionedState | None:
        if seen is not None and seen.state.commit_mode == CLAIMS:
            return self._claimed(seen)
        held = self._fetched(seen)
        return self._claimed(held) if held and held.state.commit_mode == CLAIMS else held

    def _fetched(self, seen: VersionedState | None) -> VersionedState | None:
        for key in STATE_FILES if seen is None else (seen.key,):
            found = self._storage.fetch(key, None if seen is None else seen.version)
            if isinstance(found, Unchanged):
                return seen
            if isinstance(found, Fetched):
                return VersionedState(decode_state(found.data, key=key), key, found.version)
        return None

    def _claimed(self, held: VersionedState) -> VersionedState:
        """The newest state that was claimed since one of them."""
        while True:
            key = _claim(held.state.generation + 1)
            found = self._storage.fetch(key)
            if not isinstance(found, Fetched):
                return held
            held = VersionedState(decode_state(found.data, key=key), held.key, found.version)

    # --- writing ---

    def create(self, state: G1State) -> bool:
        """Write the first state; False if there is one already."""
        done = self._storage.put_if(STATE_FILES[0], encode_state(state), None, JSON_FILE)
        return not isinstance(done, LostRace)

    def swap(
        self, held: VersionedState, state: G1State, ready: Callable[[], None] = lambda: None
    ) -> bool:
        """Put a state in the place of the one that is held; False when that is no longer there."""
        if state.generation != held.state.generation + 1:
            raise FormatError("a state must follow the one before", generation=state.generation)
        data = encode_state(state)
        if held.state.commit_mode == CLAIMS:
            return self._claim(held, state, data, ready)
        if not self.replaces:
            raise StorageError(
                "the state file of this repository is replaced conditionally, which the settings"
                " of the storage forbid; allow unsafe_use_conditional_update",
                kind=ErrorKind.STORAGE_CONFIG,
            )
        done = self._storage.put_when(held.key, data, held.version, ready, JSON_FILE)
        return not isinstance(done, LostRace)

    def _claim(
        self, held: VersionedState, state: G1State, data: bytes, ready: Callable[[], None]
    ) -> bool:
        key = _claim(state.generation)
        if isinstance(self._storage.put_when(key, data, None, ready, JSON_FILE), LostRace):
            return False
        self._storage.put(held.key, data, JSON_FILE)
        return True


def _claim(generation: int) -> str:
    return f"{CLAIM_FOLDER}{sequence_name(generation)}.json"


INLINE_ATTRIBUTES: Final = 4096
"""Larger ones go to an attribute file, one for each commit."""


class G1Files(LegacyFiles):
    """Files of a repository of G1; its state tells what snapshots are called and descend from."""

    def __init__(
        self,
        storage: Storage,
        generation: Generation,
        names: NameBook,
        state: StateFile,
        root: str = "",
    ) -> None:
        super().__init__(storage, generation, names, root)
        self._state = state
        self._seen_snapshots: set[SnapshotId] = set()
        self._grids: dict[ManifestId, dict[NodeId, set[Shape]]] = {}
        """chunks along the axes of arrays, as the snapshots that were read have them"""

    # --- names ---

    def key(self, kind: Kind, id: ObjectId) -> str:
        """The key of a file; that of a snapshot is its structure file."""
        held = None if kind != "snapshots" else self._state.find()
        item = None if held is None else held.state.find(SnapshotId(id))
        if item is not None:
            return self.folders[kind] + item.structure_file
        # If the state does not list it any more, or not yet, an earlier listing may have given its
        # name.
        if kind == "snapshots" and self.names.file(kind, id) is None:
            return self.folders[kind] + self._item(SnapshotId(id)).structure_file
        return super().key(kind, id)

    def id_of(self, kind: Kind, name: str) -> ObjectId | None:
        """The id of a file; the state tells whose structure file it is."""
        if kind == "snapshots":
            held = self._state.find()
            for item in held.state.snapshots if held is not None else ():
                if item.structure_file == name:
                    return item.id
        return super().id_of(kind, name)

    def _item(self, id: SnapshotId) -> StateSnapshot:
        """What the state says of a snapshot, or would say of one that no commit has listed."""
        held = self._state.find()
        found = None if held is None else held.state.find(id)
        return found or new_item(id, None, timestamp_ms=0, properties={})

    # --- snapshots ---

    def snapshot(self, id: SnapshotId) -> Snapshot | None:
        """A snapshot; its parent is the one that the state knows now."""
        record = self._read(id)
        return None if record is None else record.snapshot

    def _read(self, id: SnapshotId) -> SnapshotRecord | None:
        item = self._item(id)
        key = self.folders["snapshots"] + item.structure_file
        known = self._records.get(id)
        if known is not None and _is_of(known, item):
            return known
        record = self._decoded(item, key)
        if record is None:
            return None
        record = self._completed(record)
        if not record.has_true_extents:
            record = replace(record, snapshot=self.bounded(record.snapshot))
        self._records.put(id, record)
        return record

    def _decoded(self, item: StateSnapshot, key: str) -> SnapshotRecord | None:
        blob = self.storage.get(key)
        if blob is None:
            return None
        record = decode_structure(blob, key=key, item=item)
        for node in record.snapshot.nodes:
            if isinstance(node, ArrayNode):
                for ref in node.manifests:
                    arrays = self._grids.setdefault(ref.id, {})
                    arrays.setdefault(node.id, set()).add(node.grid)
        self._seen_snapshots.add(item.id)
        return record

    def _grids_of(self, id: ManifestId) -> Mapping[NodeId, set[Shape]]:
        """The grids of all arrays that have references in an inventory, whichever is read first."""
        held = self._state.find()
        for item in held.state.snapshots if held is not None else ():
            if item.id not in self._seen_snapshots:
                with contextlib.suppress(FormatError):  # does not matter to readers of others
                    self._decoded(item, self.folders["snapshots"] + item.structure_file)
        return self._grids.get(id, {})

    def _attributes(self, file: str) -> Sequence[Metadata]:
        key = self.folders["attributes"] + file
        blob = self.storage.get(key)
        if blob is None:
            raise absent(key)
        return decode_attribute_file(blob, key=key)

    def attribute_files_of(self, id: SnapshotId) -> set[str]:
        """The attribute files that the nodes of a snapshot name."""
        record = self._read(id)
        return set() if record is None else {ref.file for ref in record.attributes.values()}

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Write the structure file of a snapshot, and an attribute file where it needs one."""
        parent = None if snapshot.parent_id is None else self._read(snapshot.parent_id)
        record = self._following(parent, snapshot)
        spilled = self._spill([n for n in snapshot.nodes if n.path not in record.attributes])
        record = replace(record, attributes={**record.attributes, **spilled})
        self.put("snapshots", snapshot.id, encode_structure(record))

    def _spill(self, nodes: Sequence[Node]) -> dict[str, AttributeRef]:
        """Put large attributes into a file of their own."""
        large: dict[str, Metadata] = {}
        for node in nodes:
            if len(node.user_data) > INLINE_ATTRIBUTES:
                attributes = document_of(node).get("attributes") or {}
                if len(json.dumps(attributes)) > INLINE_ATTRIBUTES:
                    large[node.path] = attributes
        if not large:
            return {}
        file = plain_name(LegacyGeneration.G1, "attributes", ObjectId.random())
        key = self.folders["attributes"] + file
        self.storage.put(key, encode_attribute_file(list(large.values())), UNNAMED)
        self.storage.make_durable([key])
        return {path: AttributeRef(file, row) for row, path in enumerate(large)}

    # --- manifests ---

    def manifest(
        self, id: ManifestId, near: Storage | None = None
    ) -> Mapping[NodeId, ChunkTable] | None:
        """The references of an inventory."""
        found = self.fetch("manifests", id, near)
        if found is None:
            return None
        key, blob = found
        record = decode_inventory(blob, key=key, grids=partial(self._grids_of, id))
        self.names.note_all(Names(chunks=record.names))
        for node, grids in self._grids.get(id, {}).items():
            tables = [record.tables.get(node), *record.strays.get(node, ())]
            ranks = set(map(len, grids))
            if any(table is not None and table.ndim not in ranks for table in tables):
                raise FormatError(
                    "an inventory has coordinates of another rank than their array has",
                    kind=ErrorKind.DESERIALIZATION,
                    key=key,
                    array=int.from_bytes(node, "big"),
                )
        return record.tables

    def encode_manifest(self, id: ManifestId, tables: Mapping[NodeId, ChunkTable]) -> bytes:
        """The file of an inventory."""
        self.find_chunks(tables)
        record = ManifestRecord(tables, self.dialect, id, self.names.names().chunks)
        return encode_inventory(record)

    def save_log(self, log: TransactionLog) -> None:
        """There are none in this generation."""


def _is_of(record: SnapshotRecord, item: StateSnapshot) -> bool:
    """Whether a record was made from what the state says now; expiry gives other parents."""
    snapshot = record.snapshot
    return snapshot.parent_id == item.parent_id and snapshot.flushed_at == item.timestamp_ms * 1000
