"""Everything that reads and writes the Parquet files of G1, in one place to import from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from frazil.errors import FormatError
from frazil.formats.legacy.g1_inventory import decode_inventory, encode_inventory
from frazil.formats.legacy.g1_schemas import arrow, attribute_schema, read_table, write_table
from frazil.formats.legacy.g1_structure import decode_structure, encode_structure
from frazil.formats.legacy.messages import unpack_message
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.structs import Document
from frazil.formats.legacy.zarr_fields import dump
from frazil.model.history import Metadata

__all__ = [
    "INLINE_ATTRIBUTES",
    "decode_attribute_file",
    "decode_inventory",
    "decode_structure",
    "encode_attribute_file",
    "encode_inventory",
    "encode_structure",
]

INLINE_ATTRIBUTES: Final = 4096
"""Bytes up to which attributes stay in the structure file."""


def decode_attribute_file(blob: bytes, *, key: str) -> tuple[Metadata, ...]:
    """Read an attribute file; each row is JSON or MessagePack.

    Raises:
        FormatError: the file is damaged.
    """
    table = read_table(blob, key=key)
    if "attrs" not in table.column_names:
        raise FormatError("damaged file: there is no column attrs", key=key)
    document = Document(key, LegacyGeneration.G1)
    return tuple(_row(document, raw) for raw in table.column("attrs").to_pylist())


def _row(document: Document, raw: object) -> Metadata:
    if not isinstance(raw, bytes):
        raise document.fail("attributes must be bytes")
    # No MessagePack map begins with a brace.
    if raw[:1] != b"{":
        return document.metadata(unpack_message(raw, key=document.key), "attributes")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise document.fail(f"attributes: not JSON: {error}") from error
    return document.metadata(value, "attributes")


def encode_attribute_file(items: Sequence[Metadata], paths: Sequence[str] | None = None) -> bytes:
    """Write an attribute file; the paths of the nodes help whoever looks into it."""
    rows = [
        {"attrs": dump(item), "node_id": None, "path": None if paths is None else paths[number]}
        for number, item in enumerate(items)
    ]
    return write_table(arrow().Table.from_pylist(rows, schema=attribute_schema()))
