"""Attribute files of G2 and G3, and attributes put into the documents of the nodes they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.header import refuse_flat, unwrap
from frazil.formats.legacy.messages import unpack_message
from frazil.formats.legacy.records import Dialect, SnapshotRecord
from frazil.formats.legacy.snapshots import parse_json
from frazil.formats.legacy.structs import Document
from frazil.formats.legacy.zarr_fields import put_attributes
from frazil.model.history import Metadata


def decode_attributes(blob: bytes, *, key: str, dialect: Dialect) -> tuple[Metadata, ...]:
    """Read an attribute file of a repository; a single map counts as a list of one.

    Raises:
        FormatError: the file is damaged or of another kind.
    """
    wrapping, body = unwrap(blob, FileKind.ATTRIBUTES, key=key)
    if wrapping.header:
        refuse_flat(body, key=key)
    document = Document(key, dialect.generation)
    # No MessagePack list or map begins with a bracket.
    is_json = body[:1] in (b"[", b"{")
    if is_json:
        value = parse_json(document, body)
    else:
        value = unpack_message(body, key=key, packed=wrapping.size)
    items = [value] if isinstance(value, Mapping) else document.items(value, "attributes")
    return tuple(document.metadata(each, "attributes") for each in items)


def with_attributes(
    record: SnapshotRecord, files: Mapping[str, Sequence[Metadata]]
) -> SnapshotRecord:
    """The record with attributes put into the documents of its nodes, from the files given.

    Raises:
        FormatError: a file has no item where a node points to.
    """
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
