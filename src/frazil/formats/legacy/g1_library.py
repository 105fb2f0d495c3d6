"""Parquet as the library of August 2024 wrote it, brought into the form of G1; read only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from frazil.formats.legacy.names import base64_name
from frazil.formats.legacy.structs import MAX_U32, Document
from frazil.formats.legacy.zarr_fields import DEFAULT_KEYS, REGULAR, dump

Value: TypeAlias = Any
Row: TypeAlias = Mapping[str, Value]

EXTENSION: Final = ".parquet"
_SEPARATORS: Final = {ord("/"): "/", ord("."): ".", ord("x"): None}


def is_library_structure(columns: Collection[str]) -> bool:
    """Tell by its columns whether a structure file is one of the library's."""
    return "array_metadata" not in columns and "manifest_references" in columns


def library_rows(document: Document, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of such a file as rows of G1."""
    return (_row(document, row) for row in rows)


def _row(document: Document, row: Row) -> Row:
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


def _taken(row: Row, *names: str) -> dict[str, Value]:
    return {name: row.get(name) for name in names}


def _file(document: Document, raw: Value) -> str:
    if not isinstance(raw, bytes) or len(raw) != 16:
        raise document.fail("a file id must have 16 bytes")
    return base64_name(raw) + EXTENSION


def _array(document: Document, row: Row) -> Row:
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


def _named(document: Document, raw: Value) -> Row:
    value = document.metadata(document.json(raw, "a codec is not JSON"), "codec")
    configuration = value.get("configuration")
    return {
        "name": value.get("name"),
        "configuration": None if configuration is None else dump(configuration),
    }


def _inventories(document: Document, value: Value) -> Iterator[Row]:
    if value is None:
        return
    files = document.items(value.get("reference") or [], "manifest references")
    starts = document.items(value.get("start_row") or [], "manifest references")
    if len(files) != len(starts):
        raise document.fail("lists of manifest references differ in length")
    for raw, start in zip(files, starts, strict=True):
        row = document.number(start, "start_row", MAX_U32)
        yield {"inventory_file": _file(document, raw), "row": row, "extent": []}
