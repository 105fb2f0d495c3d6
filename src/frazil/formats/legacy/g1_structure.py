"""Structure files of G1: one row for each node, the metadata of arrays in columns.

Parquet as the library of August 2024 wrote it is brought into this form first; read only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.fill_values import UnfitError, fill_from_bytes, fill_to_bytes
from frazil.formats.legacy.g1_schemas import (
    LIMITS,
    PROFILE_KEY,
    SEED,
    WIDE,
    WIDTHS,
    arrow,
    read_table,
    structure_schema,
    write_table,
)
from frazil.formats.legacy.g1_state import StateSnapshot, is_file_name
from frazil.formats.legacy.names import base64_name, id_of_name, node_number, remember, stored_name
from frazil.formats.legacy.records import AttributeRef, Names, SnapshotRecord
from frazil.formats.legacy.structs import MAX_U32, LegacyDocument, Value
from frazil.formats.legacy.zarr_fields import (
    DEFAULT_KEYS,
    REGULAR,
    ArrayFields,
    NamedConfiguration,
    NodeFields,
    array_fields_document,
    build_node,
    dump_json,
    parse_fields,
)
from frazil.ids import ManifestId, SnapshotId
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Dimension, Extents, ManifestRef, Node, path_order

EXTENSION: Final = ".parquet"
_SEPARATORS: Final = {ord("/"): "/", ord("."): ".", ord("x"): None}


def is_library_structure(columns: Collection[str]) -> bool:
    """Tell by its columns whether a structure file is one of the library's."""
    return "array_metadata" not in columns and "manifest_references" in columns


def library_rows(document: LegacyDocument, rows: Iterable[StructureRow]) -> Iterator[StructureRow]:
    """The rows of such a file as rows of G1."""
    return (_row(document, row) for row in rows)


def _row(document: LegacyDocument, row: StructureRow) -> StructureRow:
    raw = row.get("user_attributes_ref")
    found: dict[str, Value] = {
        **_taken(row, "id", "type", "path"),
        "inline_attrs": row.get("user_attributes"),
        "attrs_reference": None
        if raw is None
        else {"attrs_file": _file(document, raw), "row": row.get("user_attributes_row")},
    }
    if row.get("type") == "array":
        found["array_metadata"] = _array(document, row)
        found["inventories"] = list(_inventories(document, row.get("manifest_references")))
    return found


def _taken(row: StructureRow, *names: str) -> dict[str, Value]:
    return {name: row.get(name) for name in names}


def _file(document: LegacyDocument, raw: Value) -> str:
    if not isinstance(raw, bytes) or len(raw) != 16:
        raise document.fail("a file id must have 16 bytes")
    return base64_name(raw) + EXTENSION


def _array(document: LegacyDocument, row: StructureRow) -> StructureRow:
    code = row.get("chunk_key_encoding")
    if isinstance(code, bytes) and len(code) == 1:
        code = code[0]
    if not isinstance(code, int) or code not in _SEPARATORS:
        raise document.fail(f"unknown chunk key encoding {code!r}")
    transformers = row.get("storage_transformers")
    return {
        **_taken(row, "shape", "data_type", "fill_value", "dimension_names"),
        "chunk_grid": {"name": REGULAR, "configuration": {"chunk_shape": row.get("chunk_shape")}},
        "chunk_key_encoding": {
            "name": DEFAULT_KEYS,
            "configuration": {"separator": _SEPARATORS[code]},
        },
        "codecs": [_named(document, each) for each in row.get("codecs") or ()],
        "storage_transformers": None
        if transformers is None
        else [_named(document, each) for each in transformers],
    }


def _named(document: LegacyDocument, raw: Value) -> StructureRow:
    value = document.metadata(document.json(raw, "a codec is not JSON"), "codec")
    configuration = value.get("configuration")
    return {
        "name": value.get("name"),
        "configuration": None if configuration is None else dump_json(configuration),
    }


def _inventories(document: LegacyDocument, value: Value) -> Iterator[StructureRow]:
    if value is None:
        return
    files = document.items(value.get("reference") or [], "manifest references")
    starts = document.items(value.get("start_row") or [], "manifest references")
    if len(files) != len(starts):
        raise document.fail("lists of manifest references differ in length")
    for raw, start in zip(files, starts, strict=True):
        row = document.number(start, "start_row", MAX_U32)
        yield {"inventory_file": _file(document, raw), "row": row, "extent": []}


StructureRow: TypeAlias = Mapping[str, Value]

REFUSING_FLAGS: Final = 0xFF00
"""Bits that a reader must refuse if it does not know them."""
_EMPTY: Final[Mapping[str, Value]] = {}


# --- reading ---


def decode_structure(blob: bytes, *, key: str, item: StateSnapshot) -> SnapshotRecord:
    """Read a structure file; `item` is what the state file says of the snapshot."""
    table = read_table(blob, key=key)
    # No other writer names the profile of a file.
    is_ours = PROFILE_KEY in (table.schema.metadata or {})
    document = LegacyDocument(key, LegacyGeneration.G1, has_true_extents=is_ours)
    is_library = is_library_structure(table.column_names)
    rows = table.to_pylist()
    reader = _Reader(document)
    nodes = [reader.node(row) for row in (library_rows(document, rows) if is_library else rows)]
    nodes.sort(key=lambda node: path_order(node.path))
    if len({node.path for node in nodes}) != len(nodes):
        raise document.fail("two nodes have the same path")
    used = {ref.id for node in nodes if isinstance(node, ArrayNode) for ref in node.manifests}
    snapshot = Snapshot(
        id=item.id,
        parent_id=item.parent_id,
        nodes=tuple(nodes),
        flushed_at=item.timestamp_ms * 1000,
        message=item.message,
        metadata=item.metadata,
        manifest_files=tuple(ManifestFile(id, 0, 0) for id in sorted(used)),
    )
    names: dict[SnapshotId, str] = {}
    remember(names, LegacyGeneration.G1, "snapshots", item.id, item.name, key)
    if item.parent is not None and item.parent_id is not None:
        remember(names, LegacyGeneration.G1, "snapshots", item.parent_id, item.parent, key)
    return SnapshotRecord(
        snapshot=snapshot,
        dialect=Dialect.G1_LIBRARY if is_library else Dialect.G1,
        written_at=item.timestamp_ms * 1_000_000,
        attributes=reader.attributes,
        unresolved=frozenset(reader.attributes),
        names=Names(names, reader.manifests),
        file_name=item.structure_file,
        has_true_extents=is_ours,
    )


class _Reader:
    """Makes nodes of rows; gathers the names of other files."""

    def __init__(self, document: LegacyDocument) -> None:
        self._document = document
        self.attributes: dict[str, AttributeRef] = {}
        self.manifests: dict[ManifestId, str] = {}

    def node(self, row: StructureRow) -> Node:
        """The node of a row."""
        document = self._document
        node_id = document.node_id(row.get("id"))
        path = document.path(row.get("path"), "path")
        attributes = self._attributes(row, path)
        kind = row.get("type")
        if kind == "group":
            return build_node(node_id, path, NodeFields(attributes, None))
        if kind != "array":
            raise document.fail(f"the node at {path} is neither a group nor an array")
        fields = self._array(document.mapping(row.get("array_metadata"), "array_metadata"))
        refs = [
            self._inventory(document.mapping(each, "inventory"), fields.dimensions)
            for each in row.get("inventories") or ()
        ]
        return build_node(node_id, path, NodeFields(attributes, fields), refs)

    def _file(self, value: Value) -> str:
        name = self._document.text(value, "file name")
        if not is_file_name(name):
            raise self._document.fail(f"{name!r} is not the name of a file")
        return name

    def _flags(self, value: Value) -> int:
        flags = 0 if value is None else self._document.number(value, "flags", MAX_U32)
        if flags & REFUSING_FLAGS:
            raise FormatError(
                "a reference has flags that this library does not know",
                key=self._document.key,
                flags=flags,
            )
        return flags

    def _attributes(self, row: StructureRow, path: str) -> Mapping[str, Value] | None:
        ref = row.get("attrs_reference")
        if ref is not None:
            location = self._document.number(ref.get("row"), "row", MAX_U32)
            flags = self._flags(ref.get("flags"))
            self.attributes[path] = AttributeRef(self._file(ref.get("attrs_file")), location, flags)
            return {}
        raw = row.get("inline_attrs")
        return None if raw is None else self._json_object(raw, "attributes")

    def _json_object(self, raw: bytes, what: str) -> dict[str, Value]:
        return self._document.metadata(self._document.json(raw, f"{what}: not JSON"), what)

    def _array(self, row: StructureRow) -> ArrayFields:
        document = self._document
        grid = document.mapping(row.get("chunk_grid"), "chunk_grid")
        if grid.get("name") != REGULAR:
            raise document.fail(f"unknown chunk grid {grid.get('name')!r}")
        keys = document.mapping(row.get("chunk_key_encoding"), "chunk_key_encoding")
        shape = document.numbers(row.get("shape"), "shape")
        configuration = document.mapping(grid.get("configuration"), "chunk_grid")
        chunks = document.numbers(configuration.get("chunk_shape"), "chunk_shape")
        document.check_grid(shape, chunks)
        if any(n and not chunk for n, chunk in zip(shape, chunks, strict=True)):
            raise document.fail("a dimension with elements has chunks of length zero")
        names = row.get("dimension_names")
        if names is not None and len(names) != len(shape):
            raise document.fail("dimension_names do not go with shape")
        data_type = self._data_type(row.get("data_type"))
        transformers = row.get("storage_transformers")  # only the library's files have them
        return ArrayFields(
            shape=shape,
            data_type=data_type,
            chunk_shape=chunks,
            key_encoding=document.text(keys.get("name"), "chunk_key_encoding"),
            separator=(keys.get("configuration") or _EMPTY).get("separator"),
            fill_value=self._fill(data_type, row.get("fill_value")),
            codecs=tuple(map(self._codec, row.get("codecs") or ())),
            storage_transformers=None
            if transformers is None
            else tuple(map(self._codec, transformers)),
            dimension_names=None if names is None else tuple(names),
        )

    def _data_type(self, value: Value) -> str:
        text = self._document.text(value, "data_type")
        if text.startswith("{"):
            self._json_object(text.encode(), "data_type")
        return text

    def _fill(self, data_type: str, raw: bytes | None) -> Value:
        try:
            return fill_from_bytes(data_type, raw)
        except UnfitError as error:
            raise self._document.fail(f"fill value: {error}") from error

    def _codec(self, row: StructureRow) -> NamedConfiguration:
        raw = row.get("configuration")
        name = self._document.text(row.get("name"), "codec")
        return NamedConfiguration(name, None if raw is None else self._json_object(raw, "codec"))

    def _inventory(self, row: StructureRow, dimensions: Sequence[Dimension]) -> ManifestRef:
        name = self._file(row.get("inventory_file"))
        self._flags(row.get("flags"))
        id = id_of_name(ManifestId, name)
        remember(self.manifests, LegacyGeneration.G1, "manifests", id, name, self._document.key)
        return ManifestRef(id, self._extents(row.get("extent") or [], dimensions))

    def _extents(self, value: Value, dimensions: Sequence[Dimension]) -> Extents:
        pairs = [self._document.numbers(each, "extent") for each in value]
        if any(len(pair) != 2 for pair in pairs):
            raise self._document.fail("an extent must have two edges")
        return self._document.edges([(low, high) for low, high in pairs], dimensions)


# --- writing ---


def encode_structure(record: SnapshotRecord) -> bytes:
    """Write a structure file, in the specified widths if all values fit.

    Raises:
        InvalidInputError: the generation cannot hold one of the nodes.
        FormatError: a node has no number.
    """
    ordered = sorted(record.snapshot.nodes, key=lambda node: path_order(node.path))
    rows = [_write_node(node, record) for node in ordered]
    profile = SEED if all(_fits_seed(row) for row in rows) else WIDE
    table = arrow().Table.from_pylist(rows, schema=structure_schema(profile))
    return write_table(table)


def _fits_seed(row: StructureRow) -> bool:
    narrow = LIMITS[WIDTHS[SEED].length]
    numbers = [row["id"], (row["attrs_reference"] or _EMPTY).get("row", 0)]
    metadata = row["array_metadata"]
    if metadata is not None:
        numbers += metadata["shape"]
        numbers += metadata["chunk_grid"]["configuration"]["chunk_shape"]
    for inventory in row["inventories"] or ():
        numbers.append(inventory["row"])
        numbers += [edge for pair in inventory["extent"] for edge in pair]
    return bool(max(numbers) <= narrow)


def _write_node(node: Node, record: SnapshotRecord) -> dict[str, Value]:
    fields = parse_fields(LegacyGeneration.G1, node.user_data)
    ref = record.attributes.get(node.path)
    inline = None if ref is not None or fields.attributes is None else dump_json(fields.attributes)
    row: dict[str, Value] = {
        "id": node_number(node.id),
        "type": "group" if fields.array is None else "array",
        "path": node.path,
        "array_metadata": None,
        "inline_attrs": inline,
        "attrs_reference": None
        if ref is None
        else {"attrs_file": ref.file, "row": ref.location, "flags": ref.flags or None},
        "inventories": None,
    }
    if fields.array is not None:
        assert isinstance(node, ArrayNode)
        row["array_metadata"] = _write_array(fields.array)
        row["inventories"] = [_write_inventory(each, record.names) for each in node.manifests]
    return row


def _write_array(fields: ArrayFields) -> dict[str, Value]:
    codecs = [(codec.name, codec.configuration) for codec in fields.codecs]
    return array_fields_document(fields) | {
        "data_type": fields.data_type,
        "fill_value": fill_to_bytes(fields.data_type, fields.fill_value),
        "codecs": [
            {"name": name, "configuration": None if given is None else dump_json(given)}
            for name, given in codecs
        ],
    }


def _write_inventory(ref: ManifestRef, names: Names) -> dict[str, Value]:
    return {
        "inventory_file": stored_name(LegacyGeneration.G1, "manifests", ref.id, names.manifests),
        "row": 0,
        "extent": [list(pair) for pair in ref.extents],
        "flags": None,
    }
