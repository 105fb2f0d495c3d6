"""The content of branch and tag files of G2 and G3: JSON that names a snapshot."""

from __future__ import annotations

import json
from typing import Final

from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.layouts import IdForm, layout_of
from frazil.formats.legacy.names import stored_name
from frazil.formats.legacy.nodes import write_id
from frazil.formats.legacy.records import Dialect, LegacyGeneration, RefRecord
from frazil.formats.legacy.structs import Document, format_time
from frazil.formats.legacy.zarr_fields import dump
from frazil.formats.ref_files import MAX_SIZE
from frazil.ids import SnapshotId

MOVED: Final = "moved_to"
DELETED: Final = "deleted"


def decode_ref(blob: bytes, *, key: str, generation: LegacyGeneration) -> RefRecord:
    """Read a ref file.

    Raises:
        FormatError: it does not name a snapshot.
    """
    document = Document(key, generation)
    if len(blob) > MAX_SIZE:
        raise FormatError("damaged ref: file is too large", key=key, size=len(blob))
    try:
        value = json.loads(blob)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"damaged ref: {error}", kind=ErrorKind.DESERIALIZATION, key=key
        ) from error
    if not isinstance(value, dict) or "snapshot" not in value:
        raise FormatError(
            "damaged ref: no snapshot is named", kind=ErrorKind.DESERIALIZATION, key=key
        )
    snapshot = document.snapshot_id(value["snapshot"], "snapshot")
    when, properties, moved_to = (value.get(name) for name in ("timestamp", "properties", MOVED))
    return RefRecord(
        snapshot=snapshot,
        name=document.snapshots.get(snapshot),
        timestamp=None if when is None else document.time(when, "timestamp"),
        properties={} if properties is None else document.metadata(properties, "properties"),
        moved_to=None if moved_to is None else document.text(moved_to, MOVED),
        is_deleted=value.get(DELETED) is True,
    )


def encode_ref(record: RefRecord, dialect: Dialect) -> bytes:
    """Write a ref file: in one line, with keys in order."""
    names: dict[SnapshotId, str] = {record.snapshot: record.name} if record.name else {}
    name = stored_name(dialect.generation, "snapshots", record.snapshot, names)
    # Refs kept the text when ids in other files became byte strings.
    form = IdForm.NUMBERS if layout_of(dialect).ids is IdForm.NUMBERS else IdForm.TEXT
    value: dict[str, object] = {"snapshot": write_id(form, record.snapshot, name)}
    if record.moved_to is not None:
        value[MOVED] = record.moved_to
    if record.is_deleted:
        value[DELETED] = True
    if layout_of(dialect).is_named:  # as the schema wants it
        value["properties"] = dict(record.properties)
        value["timestamp"] = format_time(record.timestamp or 0)
    return dump(dict(sorted(value.items())))
