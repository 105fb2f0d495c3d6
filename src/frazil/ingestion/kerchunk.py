"""kerchunk references, as JSON or as a folder of Parquet files, with what they hold inline."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np

from frazil.ingestion.allowed import Allowed
from frazil.ingestion.parsed import Parsed
from frazil.ingestion.records import References, Variable, plain
from frazil.ingestion.sources import bad_file, look, read_whole, shown
from frazil.ingestion.zarr_v2 import variable_of
from frazil.model.strings import Strings

_INLINE_BASE64: Final = "base64:"
_TEMPLATE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_META: Final = ".zarray"


def scan_kerchunk_json(
    url: str, options: Mapping[str, Any], group: str, allowed: Allowed
) -> Parsed:
    """Variables of a file of references.

    Raises:
        InvalidInputError: the file is no such file, or uses what is not supported.
    """
    data = read_whole(url, options)
    if data is None:
        raise bad_file("there is no such file", url)
    try:
        found = json.loads(data)
    except ValueError as error:
        raise bad_file(f"the file is no JSON: {error}", url) from None
    if not isinstance(found, dict):
        raise bad_file("the file is JSON, but no kerchunk references", url)
    refs = found.get("refs", found)
    if found.get("gen"):
        raise bad_file("the references are generated ('gen'), which is not supported", url)
    if not isinstance(refs, dict) or not any(key.endswith(_META) for key in refs):
        raise bad_file("the file is JSON, but no kerchunk references", url)
    templates = found.get("templates") or {}
    if not isinstance(templates, dict):
        raise bad_file("the templates of the references are damaged", url)
    places = _Places(url, options, allowed, {str(k): str(v) for k, v in templates.items()})
    prefix = f"{group.strip('/')}/" if group.strip("/") else ""
    names = [
        key.removesuffix(f"/{_META}").removeprefix(prefix)
        for key in refs
        if key.startswith(prefix) and key.endswith(f"/{_META}")
    ]
    inner = [name for name in names if "/" in name]
    variables = [_variable(refs, prefix, name, places) for name in names if "/" not in name]
    notes = (f"arrays in groups that are not taken: {', '.join(inner)}",) if inner else ()
    return Parsed(variables, plain(_document(refs.get(f"{prefix}.zattrs"))), notes)


def _document(value: object) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class _Places:
    """Where references of a file point to, once it is sure that they may."""

    url: str
    options: Mapping[str, Any]
    allowed: Allowed
    templates: Mapping[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def range(self, value: object) -> tuple[int, int, str]:
        """Offset, length and location of a reference."""
        match value:
            case [str(text)]:
                location = self._location(text)
                found = look(location, self.options)
                if found is None:
                    told = f"a file that references name is missing: {shown(location)}"
                    raise bad_file(told, self.url)
                return 0, found.size, location
            case [str(text), int(offset), int(length)] if offset >= 0 and length >= 0:
                return offset, length, self._location(text)
            case _:
                told = f"there is a reference of no known form: {str(value)[:80]!r}"
                raise bad_file(told, self.url)

    def _location(self, text: str) -> str:
        if text not in self.known:
            filled = _TEMPLATE.sub(lambda m: self.templates.get(m[1], m[0]), text)
            self.known[text] = self.allowed.require(filled, self.url)
        return self.known[text]


def _variable(refs: Mapping[str, Any], prefix: str, name: str, places: _Places) -> Variable:
    start = f"{prefix}{name}/"
    meta, attrs = _document(refs[start + _META]), _document(refs.get(start + ".zattrs"))
    grid = _grid(meta, places.url, name)
    separator = str(meta.get("dimension_separator", "."))
    rows: list[tuple[int, int, int, str]] = []
    inline = bytearray()
    for key, value in refs.items():
        if not key.startswith(start) or key[len(start) :].startswith("."):
            continue
        index = _index(key[len(start) :], separator, grid, places.url)
        if isinstance(value, str):
            raw = _inline(value)
            rows.append((index, len(inline), len(raw), ""))
            inline += raw
        else:
            rows.append((index, *places.range(value)))
    return variable_of(name, meta, attrs, _references(rows, bytes(inline)), places.url)


def _grid(meta: Mapping[str, Any], url: str, name: str) -> tuple[int, ...]:
    try:
        pairs = zip(meta["shape"], meta["chunks"], strict=True)
        return tuple(-(-int(n) // max(1, int(c))) for n, c in pairs)
    except (KeyError, TypeError, ValueError):
        raise bad_file(f"the metadata of {name!r} are damaged", url) from None


def _index(key: str, separator: str, grid: tuple[int, ...], url: str) -> int:
    parts = key.split(separator) if grid else []
    number = 0
    is_inside = len(parts) == len(grid) and all(part.isdigit() for part in parts)
    for part, count in zip(parts, grid, strict=False):
        at = int(part) if is_inside else 0
        is_inside = is_inside and at < count
        number = number * count + at
    if not is_inside:
        raise bad_file(f"the chunk {key!r} is outside its array", url)
    return number


def _inline(value: str) -> bytes:
    if value.startswith(_INLINE_BASE64):
        return base64.b64decode(value[len(_INLINE_BASE64) :])
    return value.encode()


def _references(rows: list[tuple[int, int, int, str]], inline: bytes) -> References:
    rows.sort()
    numbers, pool = Strings.distinct([row[3] for row in rows])
    texts = tuple(pool)
    # Inline bytes have no place: their number becomes -1, those behind it move up.
    if "" in texts:
        empty = texts.index("")
        numbers = np.where(numbers == empty, -1, numbers - (numbers > empty)).astype(np.int32)
        texts = tuple(text for text in texts if text)
    columns = np.array([row[:3] for row in rows], np.int64).reshape(len(rows), 3)
    return References(
        columns[:, 0].copy(),
        columns[:, 1].astype(np.uint64),
        columns[:, 2].astype(np.uint64),
        numbers.astype(np.int32, copy=False),
        texts,
        inline,
    )


def scan_kerchunk_parquet(
    url: str, options: Mapping[str, Any], group: str, allowed: Allowed
) -> Parsed:
    """Variables of a folder of references in Parquet.

    Raises:
        InvalidInputError: the folder is not what it should be.
    """
    base = url.rstrip("/")
    data = read_whole(f"{base}/.zmetadata", options)
    if data is None:
        raise bad_file("there is no .zmetadata in the folder", url)
    found = json.loads(data)
    meta, size = found.get("metadata", {}), int(found.get("record_size", 0))
    if size < 1:
        raise bad_file("the folder has no kerchunk references", url)
    prefix = f"{group.strip('/')}/" if group.strip("/") else ""
    names = [
        key.removesuffix(f"/{_META}")
        for key in meta
        if key.startswith(prefix) and key.endswith(f"/{_META}")
    ]
    places = _Places(f"{base}/", options, allowed)
    variables = [
        _from_parquet(base, meta, name, prefix, size, places)
        for name in names
        if "/" not in name.removeprefix(prefix)
    ]
    return Parsed(variables, plain(_document(meta.get(f"{prefix}.zattrs"))))


def _from_parquet(
    base: str,
    meta: Mapping[str, Any],
    name: str,
    prefix: str,
    size: int,
    places: _Places,
) -> Variable:
    from pyarrow import parquet

    array, attrs = _document(meta[f"{name}/{_META}"]), _document(meta.get(f"{name}/.zattrs"))
    total = prod(_grid(array, base, name))
    rows: list[tuple[int, int, int, str]] = []
    inline = bytearray()
    for number in range(-(-total // size)):
        data = read_whole(f"{base}/{name}/refs.{number}.parq", places.options)
        if data is None:
            continue
        table = parquet.read_table(io.BytesIO(data)).to_pydict()
        count = len(table["path"])
        raws = table.get("raw") or [None] * count
        for row in range(min(count, total - number * size)):
            index, path, raw = number * size + row, table["path"][row], raws[row]
            if raw is not None:
                rows.append((index, len(inline), len(raw), ""))
                inline += raw
            elif path:
                where = [path, table["offset"][row], table["size"][row]]
                given = where if where[2] else where[:1]
                rows.append((index, *places.range(given)))
    made = _references(rows, bytes(inline))
    return variable_of(name.removeprefix(prefix), array, attrs, made, places.url)
