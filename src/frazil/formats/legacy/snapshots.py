"""Snapshots of G2 and G3 in all their dialects, told apart by the number of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import SHORT, Wrapping, refuse_flat, unwrap, wrap
from frazil.formats.legacy.layouts import DialectLayout, dialect_layout
from frazil.formats.legacy.messages import pack_message, unpack_message
from frazil.formats.legacy.names import WIDE, node_number
from frazil.formats.legacy.nodes import NodeWriter, file_id, read_nodes
from frazil.formats.legacy.records import Ancestor, AttributeRef, Nanos, SnapshotRecord
from frazil.formats.legacy.structs import (
    MAX_U16,
    MAX_U32,
    MAX_U64,
    LegacyDocument,
    StructForm,
    Value,
    early_dialect,
    format_time,
)
from frazil.formats.legacy.zarr_fields import dump_json
from frazil.ids import SnapshotId
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Node

ENTRY: Final = ("id", "written_at", "message")
_HISTORY: Final = (
    "total_parents",
    "short_term_parents",
    "short_term_history",
    "metadata",
    "started_at",
    "properties",
    "nodes",
)
_FILES: Final = ("manifest_files", "attribute_files")
FIELDS: Final = {
    1: ("nodes",),
    7: _HISTORY,
    8: ("id", "parent_id", "flushed_at", "message", "metadata", *_FILES, "nodes"),
    9: (*_FILES, *_HISTORY),
    11: ("version", "flags", *_FILES, *_HISTORY),
}
"""Names of the fields by their number."""
_BY_PARENT: Final = 8
_OLD_INFO: Final = ("id", "version", "size", "rows")
_NEW_INFO: Final = ("id", "size", "rows")


# --- reading ---


def decode_snapshot(
    blob: bytes, *, key: str, generation: LegacyGeneration, id: SnapshotId | None = None
) -> SnapshotRecord:
    """Read a snapshot of G2 or G3 in whatever dialect it is.

    The name of the file is the identity of the snapshot: `id` wins over the id in the file.
    """
    wrapping, body = unwrap(blob, FileKind.SNAPSHOT, key=key)
    document = LegacyDocument(key, generation, has_true_extents=wrapping.is_ours)
    is_json = body[:1] == b"{"
    if is_json:
        value = document.json(body)
    else:
        if wrapping.header:
            refuse_flat(body, key=key)
        value = unpack_message(body, key=key, packed=wrapping.size)
    count = _count(document, value)
    names = FIELDS[count]
    fields = dict(zip(names, document.fields(value, names, "a snapshot"), strict=True))
    record = _Reader(document, fields, count).record(id)
    dialect = Dialect.G2_JSON if is_json else _dialect(document, count, fields, wrapping)
    return replace(record, dialect=dialect, wrapping=wrapping.form)


def _count(document: LegacyDocument, value: Value) -> int:
    """The number of fields of a snapshot, which tells its layout."""
    if isinstance(value, Mapping):
        if "flushed_at" in value:
            return _BY_PARENT
        return 9 if "manifest_files" in value else 7 if "metadata" in value else 1
    if not isinstance(value, list) or len(value) not in FIELDS:
        raise document.fail("not a snapshot of a known layout")
    return len(value)


class _Reader:
    """Makes a record of the fields of a snapshot."""

    def __init__(self, document: LegacyDocument, fields: Mapping[str, Value], count: int) -> None:
        self._document = document
        self._fields = fields
        self._count = count

    def record(self, id: SnapshotId | None) -> SnapshotRecord:
        """The record; its dialect is not known yet."""
        document, fields = self._document, self._fields
        history: tuple[Ancestor, ...] = ()
        started_at: Nanos | None = None
        total = 0
        if self._count == 1:
            own = Ancestor(id or SnapshotId(bytes(SnapshotId.width)), 0, "")
            parent, properties = None, {}
        elif self._count == _BY_PARENT:
            own = self._ancestor([fields["id"], fields["flushed_at"], fields["message"]])
            raw_parent = fields["parent_id"]
            parent = None if raw_parent is None else document.snapshot_id(raw_parent, "parent")
            properties = document.metadata(fields["metadata"], "metadata")
        else:
            own = self._ancestor(fields["metadata"])
            history = self._history()
            total = document.number(fields["total_parents"], "total_parents", MAX_U32)
            started_at = document.time(fields["started_at"], "started_at")
            parent = history[0].id if history else None
            properties = document.metadata(fields["properties"], "properties")
        nodes, attributes = read_nodes(document, fields["nodes"])
        snapshot = Snapshot(
            id=own.id if id is None else id,
            parent_id=parent,
            nodes=nodes,
            flushed_at=own.flushed_at,
            message=own.message,
            metadata=properties,
            manifest_files=self._manifest_files(nodes),
        )
        return SnapshotRecord(
            snapshot=snapshot,
            dialect=Dialect.G3A,
            history=history,
            total_parents=total,
            written_at=own.written_at,
            started_at=started_at,
            stored_id=None if own.id == snapshot.id else own.id,
            attributes=attributes,
            unresolved=frozenset(attributes),
            names=document.names(),
            has_true_extents=document.has_true_extents,
        )

    def _ancestor(self, value: Value) -> Ancestor:
        id, written_at, message = self._document.fields(value, ENTRY, "snapshot metadata")
        return Ancestor(
            self._document.snapshot_id(id),
            self._document.time(written_at, "written_at"),
            self._document.text(message, "message"),
        )

    def _history(self) -> tuple[Ancestor, ...]:
        listed = self._document.items(self._fields["short_term_history"], "short_term_history")
        # The count beside the list wrapped around in long histories, so nothing relies on it.
        self._document.number(self._fields["short_term_parents"], "short_term_parents", MAX_U16)
        return tuple(map(self._ancestor, listed))

    def _manifest_files(self, nodes: Sequence[Node]) -> tuple[ManifestFile, ...]:
        if "manifest_files" not in self._fields:
            used = {
                ref.id for node in nodes if isinstance(node, ArrayNode) for ref in node.manifests
            }
            return tuple(ManifestFile(id, 0, 0) for id in sorted(used))
        document = self._document
        document.items(self._fields["attribute_files"], "attribute_files")
        listed = document.items(self._fields["manifest_files"], "manifest_files")
        return tuple(map(self._manifest_file, listed))

    def _manifest_file(self, value: Value) -> ManifestFile:
        document = self._document
        if not isinstance(value, Mapping):
            items = document.items(value, "a manifest file")
            is_new = self._count == _BY_PARENT and len(items) == len(_NEW_INFO)
            names = _NEW_INFO if is_new else _OLD_INFO[: len(items)]
            value = dict(zip(names, document.fields(items, names, "a file"), strict=True))
        size = value.get("size", value.get("size_bytes", 0))
        rows = value.get("rows", value.get("num_rows", 0))
        return ManifestFile(
            document.manifest_id(value.get("id")),
            document.number(size, "size", MAX_U64),
            document.number(rows, "rows", MAX_U32),
        )


def _dialect(
    document: LegacyDocument, count: int, fields: Mapping[str, Value], wrapping: Wrapping
) -> Dialect:
    """The dialect of a snapshot as far as its content tells; an empty one fits several."""
    if document.generation is LegacyGeneration.G3 and not document.forms <= {StructForm.LIST}:
        return Dialect.G3_MAPS
    if count == 1:
        return Dialect.G2_NODES
    if count == 7:
        is_wide = document.generation is LegacyGeneration.G2 or document.id_width == WIDE
        return early_dialect(document) if is_wide else Dialect.G3_UNRELEASED
    files = fields["manifest_files"]
    info = len(files[0]) if files else None
    if count == _BY_PARENT:
        return Dialect.G3H if info == 4 else Dialect.G3I
    if count == 9:
        if document.has_packed_ids:
            return Dialect.G3F if info == 3 else Dialect.G3G
        return Dialect.G3_SEED if wrapping.header == SHORT else Dialect.G3E
    if info == 3:
        return Dialect.G3D
    return Dialect.G3B if document.has_numbered_nodes is False else Dialect.G3A


# --- writing ---


def encode_snapshot(record: SnapshotRecord, wrapping: Wrapping | None = None) -> bytes:
    """Write a snapshot in the dialect of its record, wrapped as usual or as `wrapping` says.

    Raises:
        InvalidInputError: the generation cannot hold one of its nodes.
        FormatError: the dialect cannot be written.
    """
    layout = dialect_layout(record.dialect)
    if record.unresolved - record.attributes.keys():
        raise FormatError("attributes are neither resolved nor in a file")
    writer = _Writer(record, layout)
    fields = writer.fields()
    names = FIELDS[layout.snapshot_fields]
    value = writer.struct(names, [fields[name] for name in names])
    if layout.is_json:
        return dump_json(value)
    body = pack_message(value)
    return wrap(body, FileKind.SNAPSHOT, wrapping or layout.wrapping_of(FileKind.SNAPSHOT))


class _Writer:
    """Spells the fields of a snapshot in a dialect."""

    def __init__(self, record: SnapshotRecord, layout: DialectLayout) -> None:
        self._record = record
        self._layout = layout
        self._nodes = NodeWriter(record.dialect, layout, record.names)
        self.struct = self._nodes.struct

    def fields(self) -> dict[str, Value]:
        """All fields that a snapshot of any dialect has, by name."""
        record, snapshot = self._record, self._record.snapshot
        own = record.stored_id or snapshot.id
        written_at = record.written_at or snapshot.flushed_at * 1000
        started_at = written_at if record.started_at is None else record.started_at
        fields: dict[str, Value] = {
            "version": self._layout.version,
            "flags": {},
            "manifest_files": [self._manifest_file(file) for file in snapshot.manifest_files],
            "attribute_files": self._attribute_files(),
            "properties": dict(snapshot.metadata),
            "started_at": format_time(started_at),
            "nodes": self._nodes.nodes(snapshot.nodes, record.attributes),
        }
        if self._layout.snapshot_fields == _BY_PARENT:
            parent = snapshot.parent_id
            return fields | {
                "id": self._nodes.snapshot_id(own),
                "parent_id": None if parent is None else self._nodes.snapshot_id(parent),
                "flushed_at": format_time(written_at),
                "message": snapshot.message,
                "metadata": fields["properties"],
            }
        return fields | {
            "total_parents": record.total_parents,
            "short_term_parents": len(record.history) & MAX_U16,
            "short_term_history": [self._entry(each) for each in record.history],
            "metadata": self._entry(Ancestor(own, written_at, snapshot.message)),
        }

    def _entry(self, entry: Ancestor) -> Value:
        values = self._nodes.snapshot_id(entry.id), format_time(entry.written_at), entry.message
        return self.struct(ENTRY, values)

    def _manifest_file(self, file: ManifestFile) -> Value:
        values = {
            "id": self._nodes.manifest_id(file.id),
            "version": self._layout.version,
            "size": file.size_bytes,
            "rows": file.num_chunk_refs,
        }
        return [values[name] for name in self._layout.file_info]

    def _attribute_files(self) -> list[Value]:
        files = sorted({ref.file for ref in self._record.attributes.values()})
        has_version = "version" in self._layout.file_info
        tail = [self._layout.version] if has_version else []
        return [[file_id(self._layout.ids, file), *tail] for file in files]


# --- the next snapshot of a history ---

MAX_HISTORY: Final = 1000
"""Ancestors that a snapshot lists; for more, open the oldest of them."""
ROOT_MARK: Final = "__root"
_PARENT_ONLY: Final = frozenset({Dialect.G3H, Dialect.G3I})


def root_record(snapshot: Snapshot, dialect: Dialect) -> SnapshotRecord:
    """The record of the first snapshot of a repository, marked as its dialect does."""
    if dialect in _PARENT_ONLY:
        snapshot = replace(snapshot, metadata={**snapshot.metadata, ROOT_MARK: True})
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(snapshot, dialect, written_at=when, started_at=when)


def successor(parent: SnapshotRecord, snapshot: Snapshot) -> SnapshotRecord:
    """The record of a snapshot committed upon another, in the same dialect.

    Nodes whose documents are those of the parent keep the references to their attributes.
    """
    base = parent.snapshot
    entry = Ancestor(base.id, parent.written_at or base.flushed_at * 1000, base.message)
    is_short = parent.dialect in _PARENT_ONLY
    history = () if is_short else (entry, *parent.history)[:MAX_HISTORY]
    when = snapshot.flushed_at * 1000
    return SnapshotRecord(
        snapshot=replace(snapshot, parent_id=base.id),
        dialect=parent.dialect,
        history=history,
        total_parents=0 if is_short else parent.total_parents + 1,
        written_at=when,
        started_at=when,
        attributes=_kept_attributes(parent, snapshot.nodes),
    )


def _kept_attributes(parent: SnapshotRecord, nodes: Iterable[Node]) -> dict[str, AttributeRef]:
    if not parent.attributes:
        return {}
    before = {node.path: node.user_data for node in parent.snapshot.nodes}
    return {
        node.path: parent.attributes[node.path]
        for node in nodes
        if node.path in parent.attributes and before.get(node.path) == node.user_data
    }


def next_node_number(nodes: Iterable[Node]) -> int:
    """The number that a new node gets: one more than the largest, from 1 on."""
    return 1 + max((node_number(node.id) for node in nodes), default=0)
