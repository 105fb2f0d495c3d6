"""kerchunk references, as JSON or as a folder of Parquet files, with what they hold inline."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

from frazil.bulk.grid import chunk_in_grid
from frazil.ingestion.records import (
    FileReferences,
    InputFile,
    ParsedFile,
    ordered_json,
)
from frazil.ingestion.sources import Allowed, bad_file, display_url, look, read_whole
from frazil.ingestion.zarrs import chunk_number, zarr2_variable
from frazil.masking import MaskedRecord

_INLINE_BASE64: Final = "base64:"
_TEMPLATE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OPEN: Final = "{{"
_META: Final = ".zarray"
_META_3: Final = "zarr.json"
Range: TypeAlias = tuple[int, int, str]
"""offset, length and location of bytes in a file"""
Row: TypeAlias = tuple[int, Range | bytes]
"""the number of a chunk, and where it is or what it is"""


def scan_kerchunk_json(source: InputFile) -> ParsedFile:
    """Variables of a file of references."""
    url = source.url
    data = read_whole(url, source.options)
    if data is None:
        raise bad_file("there is no such file", url)
    try:
        found = json.loads(data)
    except ValueError as error:
        raise bad_file(f"the file is not valid JSON: {error}", url) from None
    if not isinstance(found, dict):
        raise bad_file("the file is JSON, but has no kerchunk references", url)
    refs = found.get("refs", found)
    if found.get("gen"):
        raise bad_file("the references are generated ('gen'), which is not supported", url)
    if isinstance(refs, dict) and any(key.endswith(_META_3) for key in refs):
        raise bad_file("the references have metadata of Zarr 3, which is not supported", url)
    if not isinstance(refs, dict) or not any(key.endswith(_META) for key in refs):
        raise bad_file("the file is JSON, but has no kerchunk references", url)
    templates = found.get("templates") or {}
    if not isinstance(templates, dict):
        raise bad_file("the templates of the references are damaged", url)
    known = {str(key): str(value) for key, value in templates.items()}
    places = _Places(url, source.options, Allowed(source.allowed), known)

    def rows_of(start: str, meta: Mapping[str, Any]) -> Iterator[Row]:
        grid = _grid(meta, url, start.rstrip("/"))
        separator = str(meta.get("dimension_separator", "."))
        for key, value in refs.items():
            if key.startswith(start) and not key[len(start) :].startswith("."):
                index = _index(key[len(start) :], separator, grid, url)
                yield index, _inline(value, url) if isinstance(value, str) else places.range(value)

    return _parsed(refs, source, rows_of)


def _parsed(
    meta: Mapping[str, Any],
    source: InputFile,
    rows_of: Callable[[str, Mapping[str, Any]], Iterator[Row]],
) -> ParsedFile:
    """The arrays of a group, by its documents and by what finds the chunks of an array."""
    prefix = f"{source.group.strip('/')}/".lstrip("/")
    names = [
        key.removesuffix(f"/{_META}").removeprefix(prefix)
        for key in meta
        if key.startswith(prefix) and key.endswith(f"/{_META}")
    ]
    variables = []
    for name in names:
        if "/" not in name:
            start = f"{prefix}{name}/"
            array, attrs = (
                _document(meta, f"{start}{each}", source.url) for each in (_META, ".zattrs")
            )
            refs = _references(rows_of(start, array), name, source.url)
            variables.append(zarr2_variable(name, array, attrs, refs, source.url))
    inner = [name for name in names if "/" in name]
    if inner and not variables:
        groups = dict.fromkeys(name.rpartition("/")[0] for name in inner)
        raise bad_file(
            f"the group {source.group or '/'!r} has no variables; choose one of its groups"
            f" ({', '.join(groups)}) as the source group",
            source.url,
        )
    notes = (f"arrays in groups that are not taken: {', '.join(inner)}",) if inner else ()
    about = _document(meta, f"{prefix}.zattrs", source.url)
    return ParsedFile(variables, ordered_json(about), notes)


def _document(meta: Mapping[str, Any], key: str, url: str) -> dict[str, Any]:
    """A document among the references; an empty one where there is none."""
    value = meta.get(key, {})
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise bad_file(f"the metadata {key!r} are not valid JSON", url) from None
    if not isinstance(found, dict):
        raise bad_file(f"the metadata {key!r} are no document, or in another file", url)
    return found


@dataclass(slots=True, repr=False)
class _Places(MaskedRecord):
    """Where references of a file point to, once it is sure that they may."""

    url: str
    options: Mapping[str, Any]
    allowed: Allowed
    templates: Mapping[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def range(self, value: object) -> Range:
        """Offset, length and location of a reference."""
        match value:
            case [str(text)]:
                location = self._location(text)
                found = look(location, self.options)
                if found is None:
                    detail = f"a file that references name is missing: {display_url(location)}"
                    raise bad_file(detail, self.url)
                return 0, found.size, location
            case [str(text), int(offset), int(length)] if offset >= 0 and length >= 0:
                return offset, length, self._location(text)
            case _:
                detail = f"there is a reference of no known form: {str(value)[:80]!r}"
                raise bad_file(detail, self.url)

    def _location(self, text: str) -> str:
        if text not in self.known:
            filled = _TEMPLATE.sub(lambda m: self.templates.get(m[1], m[0]), text)
            if _OPEN in filled:
                detail = f"a reference has a template that cannot be filled in: {filled[:80]!r}"
                raise bad_file(detail, self.url)
            self.known[text] = self.allowed.require(filled, self.url)
        return self.known[text]


def _grid(meta: Mapping[str, Any], url: str, name: str) -> tuple[int, ...]:
    try:
        pairs = zip(meta["shape"], meta["chunks"], strict=True)
        return tuple(-(-int(n) // max(1, int(c))) for n, c in pairs)
    except (KeyError, TypeError, ValueError):
        raise bad_file(f"the metadata of {name!r} are damaged", url) from None


def _index(key: str, separator: str, grid: tuple[int, ...], url: str) -> int:
    coords = chunk_in_grid(key, separator, grid)
    if coords is None:
        raise bad_file(f"the chunk {key!r} is outside its array", url)
    return chunk_number(coords, grid)


def _inline(value: str, url: str) -> bytes:
    if not value.startswith(_INLINE_BASE64):
        return value.encode()
    try:
        return base64.b64decode(value[len(_INLINE_BASE64) :], validate=True)
    except ValueError:
        raise bad_file("the bytes of a chunk are damaged: they are no base64", url) from None


def _references(found: Iterator[Row], name: str, url: str) -> FileReferences:
    rows: list[tuple[int, int, int, str]] = []
    inline = bytearray()
    for index, value in found:
        if isinstance(value, bytes):
            rows.append((index, len(inline), len(value), ""))
            inline += value
        else:
            rows.append((index, *value))
        if not rows[-1][2]:
            raise bad_file(f"a chunk of {name!r} is empty", url)
    return FileReferences.of_rows(rows, bytes(inline))


def scan_kerchunk_parquet(source: InputFile) -> ParsedFile:
    """Variables of a folder of references in Parquet."""
    from pyarrow import parquet

    base = source.url.rstrip("/")
    data = read_whole(f"{base}/.zmetadata", source.options)
    if data is None:
        raise bad_file("there is no .zmetadata in the folder", source.url)
    found = json.loads(data)
    size = int(found.get("record_size", 0))
    if size < 1:
        raise bad_file("the folder has no kerchunk references", source.url)
    places = _Places(f"{base}/", source.options, Allowed(source.allowed))

    def rows_of(start: str, meta: Mapping[str, Any]) -> Iterator[Row]:
        total = prod(_grid(meta, base, start.rstrip("/")))
        for number in range(-(-total // size)):
            data = read_whole(f"{base}/{start}refs.{number}.parq", source.options)
            if data is None:
                continue
            table = parquet.read_table(io.BytesIO(data)).to_pydict()
            count = len(table["path"])
            raws = table.get("raw") or [None] * count
            for row in range(min(count, total - number * size)):
                index, path = number * size + row, table["path"][row]
                if raws[row] is not None:
                    yield index, raws[row]
                elif path:
                    where = [path, table["offset"][row], table["size"][row]]
                    yield index, places.range(where if where[2] else where[:1])

    return _parsed(found.get("metadata", {}), source, rows_of)
