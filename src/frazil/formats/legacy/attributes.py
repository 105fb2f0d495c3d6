"""Attribute files, and attributes put into the documents of the nodes they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.g1_schemas import arrow, attribute_schema, read_table, write_table
from frazil.formats.legacy.header import refuse_flat, unwrap
from frazil.formats.legacy.messages import unpack_message
from frazil.formats.legacy.records import SnapshotRecord
from frazil.formats.legacy.structs import LegacyDocument
from frazil.formats.legacy.zarr_fields import dump_json, put_attributes
from frazil.model.history import Metadata


def decode_attributes(blob: bytes, *, key: str, dialect: Dialect) -> tuple[Metadata, ...]:
    """Read an attribute file of a repository; a single map counts as a list of one."""
    wrapping, body = unwrap(blob, FileKind.ATTRIBUTES, key=key)
    if wrapping.header:
        refuse_flat(body, key=key)
    document = LegacyDocument(key, dialect.generation)
    # No MessagePack list or map begins with a bracket.
    is_json, size = body[:1] in (b"[", b"{"), wrapping.size
    value = document.json(body) if is_json else unpack_message(body, key=key, packed=size)
    items = [value] if isinstance(value, Mapping) else document.items(value, "attributes")
    return tuple(document.metadata(each, "attributes") for each in items)


def with_attributes(
    record: SnapshotRecord, files: Mapping[str, Sequence[Metadata]]
) -> SnapshotRecord:
    """The record with attributes put into the documents of its nodes, from the files given."""
    found: dict[str, Metadata] = {}
    for path in record.unresolved:
        ref = record.attributes[path]
        if ref.file not in files:
            continue
        items = files[ref.file]
        if ref.location >= len(items):
            raise FormatError(
                "attribute file is shorter than a node expects",
                key=ref.file,
                path=path,
                location=ref.location,
            )
        found[path] = items[ref.location]
    nodes = tuple(
        replace(node, user_data=put_attributes(node.user_data, found[node.path]))
        if node.path in found
        else node
        for node in record.snapshot.nodes
    )
    return replace(
        record,
        snapshot=replace(record.snapshot, nodes=nodes),
        unresolved=record.unresolved - found.keys(),
    )


# --- attribute files of G1 ---


def decode_attribute_file(blob: bytes, *, key: str) -> tuple[Metadata, ...]:
    """Read an attribute file; each row is JSON or MessagePack."""
    table = read_table(blob, key=key)
    if "attrs" not in table.column_names:
        raise FormatError("damaged file: there is no column attrs", key=key)
    document = LegacyDocument(key, LegacyGeneration.G1)
    return tuple(_row(document, raw) for raw in table.column("attrs").to_pylist())


def _row(document: LegacyDocument, raw: object) -> Metadata:
    if not isinstance(raw, bytes):
        raise document.fail("attributes must be bytes")
    # No MessagePack map begins with a brace.
    if raw[:1] != b"{":
        return document.metadata(unpack_message(raw, key=document.key), "attributes")
    return document.metadata(document.json(raw, "attributes: not JSON"), "attributes")


def encode_attribute_file(items: Sequence[Metadata], paths: Sequence[str] | None = None) -> bytes:
    """Write an attribute file; the paths of the nodes are for people who look into it."""
    rows = [
        {
            "attrs": dump_json(item),
            "node_id": None,
            "path": None if paths is None else paths[number],
        }
        for number, item in enumerate(items)
    ]
    return write_table(arrow().Table.from_pylist(rows, schema=attribute_schema()))
