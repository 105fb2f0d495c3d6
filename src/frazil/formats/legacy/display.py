"""Any file of the older generations as plain data, to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.g1_coords import OVI1, decode_as
from frazil.formats.legacy.g1_schemas import COORD_KEY, PROFILE_KEY, read_table
from frazil.formats.legacy.header import Encoding, Wrapping, sniff, unwrap
from frazil.formats.legacy.logs import FIELDS as LOG_FIELDS
from frazil.formats.legacy.manifests import FIELDS as MANIFEST_FIELDS
from frazil.formats.legacy.messages import unpack_message
from frazil.formats.legacy.names import FOLDERS
from frazil.formats.legacy.snapshots import FIELDS as SNAPSHOT_FIELDS
from frazil.formats.legacy.structs import LegacyDocument, Value
from frazil.ids import crockford

MAX_ROWS: Final = 1000
"""Rows of a table that are shown."""
KINDS: Final = {
    "snapshots": "snapshot",
    "manifests": "manifest",
    "attributes": "attributes",
    "transactions": "transaction-log",
    "chunks": "chunk",
}
_ID_WIDTHS: Final = (8, 12, 16)


def kind_of_key(key: str) -> str | None:
    """What a file is by the folder it lies in."""
    folder = key.rpartition("/")[0].rpartition("/")[2] + "/"
    for folders in FOLDERS.values():
        for kind, name in folders.items():
            if name == folder:
                return KINDS[kind]
    return None


def legible(blob: bytes, *, key: str) -> dict[str, Value]:
    """The content of a file as JSON can hold it; ids become texts, structs get their names."""
    kind = kind_of_key(key)
    if kind == "chunk":
        return {"file_type": kind, "size_bytes": len(blob)}
    found: dict[str, Value] = {"file_type": kind, "encoding": str(sniff(blob, key=key))}
    match found["encoding"]:
        case Encoding.PARQUET:
            return found | _table(blob, key)
        case Encoding.JSON:
            body = unwrap(blob, None, key=key)[1]
            return found | {"content": LegacyDocument(key, LegacyGeneration.G2).json(body)}
        case Encoding.MSGPACK:
            wrapping, body = unwrap(blob, None, key=key)
            content = _named(kind, unpack_message(body, key=key, packed=wrapping.size))
            return found | _header(wrapping) | {"content": content}
        case _:
            raise FormatError("not a file of an older generation", key=key, size=len(blob))


def _header(wrapping: Wrapping) -> dict[str, Value]:
    if not wrapping.header:
        return {"compressed": True} if wrapping.compressed else {}
    return {
        "header": {
            "size_bytes": wrapping.header,
            "writer": wrapping.writer,
            "spec_version": wrapping.spec,
            "file_type": None if wrapping.kind is None else wrapping.kind.name.lower(),
            "compression": "zstd" if wrapping.compressed else "none",
        }
    }


def _named(kind: str | None, value: Value) -> Value:
    """A message with the names of its outermost fields."""
    known: Mapping[str | None, Mapping[int, Sequence[str]]] = {
        "snapshot": SNAPSHOT_FIELDS,
        "manifest": MANIFEST_FIELDS,
        "transaction-log": LOG_FIELDS,
    }
    if isinstance(value, list):
        names = known.get(kind, {}).get(len(value))
        if names is not None:
            return {name: _plain(item) for name, item in zip(names, value, strict=True)}
    return _plain(value)


def _plain(value: Value) -> Value:
    if isinstance(value, bytes):
        return crockford(value) if len(value) in _ID_WIDTHS else value.hex()
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], bytes) and not value[1]:
            return _plain(value[0])  # an id and its empty mark
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(name): _plain(item) for name, item in value.items()}
    return value


def _key(name: Value) -> str:
    plain = _plain(name)
    return plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))


def _table(blob: bytes, key: str) -> dict[str, Value]:
    table = read_table(blob, key=key)
    marks = table.schema.metadata or {}
    encoding = marks.get(COORD_KEY, OVI1.encode()).decode(errors="replace")
    return {
        "schema_profile": marks.get(PROFILE_KEY, b"").decode(errors="replace") or None,
        "columns": {field.name: str(field.type) for field in table.schema},
        "num_rows": table.num_rows,
        "rows": [_row(row, encoding) for row in table.slice(0, MAX_ROWS).to_pylist()],
    }


def _row(row: Mapping[str, Value], encoding: str) -> dict[str, Value]:
    return {name: _cell(name, value, encoding) for name, value in row.items()}


def _cell(name: str, value: Value, encoding: str) -> Value:
    if isinstance(value, Mapping):
        return _row(value, encoding)
    if isinstance(value, list):
        return [_cell(name, item, encoding) for item in value]
    if not isinstance(value, bytes):
        return value
    if name in ("coord", "coords"):
        return _coords(value, "be64" if name == "coords" else encoding)
    if name in ("inline_attrs", "configuration", "attrs", "user_attributes", "codecs"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value.hex()
    return value.hex()


def _coords(raw: bytes, encoding: str) -> Value:
    data, ends = np.frombuffer(raw, np.uint8), np.array([len(raw)], np.int64)
    try:
        indices, _ = decode_as(encoding, data, np.zeros(1, np.int64), ends, key="")
    except FormatError:
        return raw.hex()
    return indices[0].tolist()
