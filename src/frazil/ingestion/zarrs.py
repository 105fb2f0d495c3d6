"""Zarr 2 and 3 as they lie in a folder: metadata, and the chunks that a listing finds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import obstore
from zarr.core.metadata import ArrayV3Metadata

from frazil.bulk.grid import chunk_in_grid
from frazil.errors import ErrorKind, StorageError
from frazil.formats.zarr2 import zarr3_document
from frazil.ingestion.encoding import (
    array_json,
    encoding_from,
    encoding_in,
    variable_from,
    without_zarr_warnings,
)
from frazil.ingestion.records import (
    FileReferences,
    FileVariable,
    InputFile,
    ParsedFile,
    ordered_json,
)
from frazil.ingestion.sources import (
    WEB,
    Allowed,
    bad_file,
    client_for,
    local_path,
    read_whole,
    reading,
)
from frazil.storage.locations import key_of


def zarr2_variable(
    name: str,
    meta: Mapping[str, Any],
    attrs: Mapping[str, Any],
    references: FileReferences,
    url: str,
) -> FileVariable:
    """A variable from the documents `.zarray` and `.zattrs` of an array."""
    if isinstance(meta.get("dtype"), list):
        raise bad_file(f"the array {name!r} has a structured type, which is not supported", url)
    try:
        with without_zarr_warnings():
            made = zarr3_document(meta, attrs, unset=math.nan)
            encoding = _encoding(encoding_in(made), len(made["shape"]))
    except (KeyError, TypeError, ValueError) as error:
        detail = f"the array {name!r} cannot be expressed in Zarr 3: {error}"
        raise bad_file(detail, url) from None
    return variable_from(name, made, encoding, references)


@lru_cache(maxsize=512)
def _encoding(encoding: str, ndim: int) -> str:
    """An encoding as zarr spells it."""
    ones = (1,) * ndim
    made = json.loads(array_json(encoding, ones, ones, ("",) * ndim, {}))
    return encoding_from(ArrayV3Metadata.from_dict(made))


_Keys: TypeAlias = Mapping[str, tuple[str, int, str | int | None]]
"""what a store has: keys, where their bytes are, how many, and a mark of their state"""
_Entry: TypeAlias = tuple[str, int, str | int | None]
"""a key, its size and a mark of its state"""
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def scan_zarr(source: InputFile) -> ParsedFile:
    """The arrays of a group of a Zarr store."""
    url, options = source.url, source.options
    base = f"{url.rstrip('/')}/{source.group.strip('/')}".rstrip("/")
    path = local_path(base)
    moved: dict[str, str] = {}
    found = _listed(base, options) if path is None else _below(path, source, moved)
    keys = {key: (moved.get(key) or f"{base}/{key}", size, mark) for key, size, mark in found}
    names = sorted(
        {key.rpartition("/")[0] for key in keys if key.endswith(("/zarr.json", "/.zarray"))}
    )
    if "zarr.json" in keys:
        about = _read(f"{base}/zarr.json", options)
        if about.get("node_type") != "group":
            raise bad_file("this is a single array; give the group that contains it", url)
        attributes = about.get("attributes") or {}
    elif ".zarray" in keys:
        raise bad_file("this is a single array; give the group that contains it", url)
    else:
        attributes = _read(f"{base}/.zattrs", options) if ".zattrs" in keys else {}
    variables, below = [], []
    for name in names:
        if "/" in name:
            below.append(name)
        elif (made := _variable(base, name, keys, options)) is not None:
            variables.append(made)
    notes = (f"arrays in groups that are not taken: {', '.join(below)}",) if below else ()
    return ParsedFile(variables, ordered_json(attributes), notes)


def _listed(base: str, options: Mapping[str, Any]) -> Iterator[_Entry]:
    """Keys below a folder, their sizes and marks."""
    prefix = key_of(base)
    detail = "the folder of a Zarr store cannot be listed, which references to its chunks need"
    with reading(base, detail):
        for batch in obstore.list(client_for(base, options), prefix=prefix, chunk_size=1000):
            for item in batch:
                etag = None if base.startswith(WEB) else item["e_tag"]  # as for single files
                mark = etag or math.ceil(item["last_modified"].timestamp())
                yield item["path"].removeprefix(prefix).lstrip("/"), item["size"], mark


def _below(folder: str, source: InputFile, moved: dict[str, str]) -> Iterator[_Entry]:
    """The same of a local folder; links out of it must be allowed, and `moved` gets their ends."""
    allowed = Allowed(source.allowed)
    home = os.path.realpath(folder)
    seen = {home}
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        try:
            entries = [*os.scandir(f"{folder}/{inner}")]
        except OSError as error:
            detail = f"the folder of a Zarr store cannot be listed: {error.strerror}"
            raise StorageError(detail, kind=ErrorKind.IO, file=folder) from None
        for entry in entries:
            key = f"{inner}{entry.name}"
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not real.startswith(f"{home}/"):
                    moved[key] = allowed.require(real, source.url)
                if real in seen or not os.path.exists(real):  # noqa: PTH110  (a path as it is)
                    continue
                seen.add(real)
            if entry.is_dir():
                waiting.append(f"{key}/")
            elif entry.is_file():
                status = entry.stat()
                yield key, status.st_size, -(-status.st_mtime_ns // 1_000_000_000)


def _read(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    data = read_whole(url, options)
    try:
        found = json.loads(data or b"")
    except ValueError as error:
        raise bad_file(f"damaged metadata: {error}", url) from None
    if not isinstance(found, dict):
        raise bad_file("damaged metadata: this is no document", url)
    return found


def _variable(base: str, name: str, keys: _Keys, options: Mapping[str, Any]) -> FileVariable | None:
    if f"{name}/zarr.json" in keys:
        meta = _read(f"{base}/{name}/zarr.json", options)
        if meta.get("node_type") != "array":
            return None
        return _from_v3(base, name, meta, keys)
    meta = _read(f"{base}/{name}/.zarray", options)
    attrs = _read(f"{base}/{name}/.zattrs", options) if f"{name}/.zattrs" in keys else {}
    separator = str(meta.get("dimension_separator", "."))
    refs = _references(f"{name}/", separator, meta["shape"], meta["chunks"], keys, base)
    return zarr2_variable(name, meta, attrs, refs, base)


def _from_v3(base: str, name: str, meta: dict[str, Any], keys: _Keys) -> FileVariable:
    try:
        with without_zarr_warnings():
            known = ArrayV3Metadata.from_dict(dict(meta))
            encoding = encoding_from(known)
    except (ValueError, KeyError, TypeError) as error:
        raise bad_file(f"the array {name!r} is not supported: {error}", base) from None
    if meta.get("storage_transformers"):
        raise bad_file(f"the array {name!r} has storage transformers", base)
    if meta["chunk_grid"]["name"] != "regular":
        raise bad_file(f"the array {name!r} has no regular chunk grid", base)
    chunks = tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
    spelled = meta.get("chunk_key_encoding", {"name": "default"})
    is_default = spelled["name"] == "default"
    separator = (spelled.get("configuration") or {}).get("separator", "/" if is_default else ".")
    start = f"{name}/c{separator}" if is_default and meta["shape"] else f"{name}/"
    refs = _references(start, separator, meta["shape"], chunks, keys, base)
    return variable_from(name, meta, encoding, refs)


def chunk_number(coords: Sequence[int], counts: Sequence[int]) -> int:
    """The number of a chunk in a grid of so many chunks, the last axis running fastest."""
    number = 0
    for at, count in zip(coords, counts, strict=True):
        number = number * count + at
    return number


def _references(
    start: str,
    separator: str,
    shape: list[int],
    chunks: list[int] | tuple[int, ...],
    keys: _Keys,
    base: str,
) -> FileReferences:
    grid = [-(-n // max(1, c)) for n, c in zip(shape, chunks, strict=True)]
    rows: list[tuple[int, int, int, str]] = []
    marks: dict[str, str | int | None] = {}
    for key, (location, size, mark) in keys.items():
        name = key[len(start) :]
        if not key.startswith(start) or name in _DOCUMENTS:
            continue
        coords = chunk_in_grid(name, separator, grid) if grid or name in ("c", "0") else None
        if coords is not None:
            if not size:  # as a writer that was killed may leave it
                raise bad_file(f"the chunk {key!r} is empty", base)
            rows.append((chunk_number(coords, grid), 0, size, location))
            marks[location] = mark
    return FileReferences.of_rows(rows, marks=marks)
