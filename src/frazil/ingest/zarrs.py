"""Zarr 2 and 3 as they lie in a folder: metadata, and the chunks that a listing finds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import obstore
from zarr.core.metadata import ArrayV3Metadata

from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.ingest.encoding import encoding_from, quiet
from frazil.ingest.parsed import Parsed
from frazil.ingest.records import References, Variable, plain
from frazil.ingest.sources import client_for, read_whole, shown
from frazil.ingest.zarr_v2 import variable_of
from frazil.model.strings import Strings
from frazil.storage.faults import FOREIGN, cleaned
from frazil.storage.locations import key_of

_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def scan_zarr(url: str, options: Mapping[str, Any], group: str) -> Parsed:
    """The arrays of a group of a Zarr store.

    Raises:
        InvalidInputError: there is no such group, or an array is not supported.
        StorageError: the folder cannot be listed.
    """
    base = url.rstrip("/") + (f"/{group.strip('/')}" if group.strip("/") else "")
    keys = dict(_listed(base, options))
    names = sorted(
        {key.rpartition("/")[0] for key in keys if key.endswith(("/zarr.json", "/.zarray"))}
    )
    if "zarr.json" in keys:
        about = _read(f"{base}/zarr.json", options)
        if about.get("node_type") != "group":
            raise _unsuitable("this is a single array; take the group that it is in", url)
        attributes = about.get("attributes") or {}
    elif ".zarray" in keys:
        raise _unsuitable("this is a single array; take the group that it is in", url)
    else:
        attributes = _read(f"{base}/.zattrs", options) if ".zattrs" in keys else {}
    variables, below = [], []
    for name in names:
        if "/" in name:
            below.append(name)
        elif (made := _variable(base, name, keys, options)) is not None:
            variables.append(made)
    notes = (f"arrays in groups that are not taken: {', '.join(below)}",) if below else ()
    return Parsed(variables, plain(attributes), notes)


def _listed(base: str, options: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Keys below a folder, and their sizes."""
    prefix = key_of(base)
    try:
        for batch in obstore.list(client_for(base, options), prefix=prefix, chunk_size=1000):
            for item in batch:
                yield item["path"].removeprefix(prefix).lstrip("/"), item["size"]
    except FOREIGN as error:
        raise StorageError(
            "the folder of a Zarr store cannot be listed, which references to its chunks need:"
            f" {cleaned(error)}",
            kind=ErrorKind.IO,
            file=shown(base),
        ) from None


def _read(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    data = read_whole(url, options)
    try:
        found = json.loads(data or b"{}")
    except ValueError as error:
        raise _unsuitable(f"damaged metadata: {error}", url) from None
    return found if isinstance(found, dict) else {}


def _variable(
    base: str, name: str, keys: Mapping[str, int], options: Mapping[str, Any]
) -> Variable | None:
    if f"{name}/zarr.json" in keys:
        meta = _read(f"{base}/{name}/zarr.json", options)
        if meta.get("node_type") != "array":
            return None
        return _from_v3(base, name, meta, keys)
    meta = _read(f"{base}/{name}/.zarray", options)
    attrs = _read(f"{base}/{name}/.zattrs", options) if f"{name}/.zattrs" in keys else {}
    separator = str(meta.get("dimension_separator", "."))
    refs = _references(base, f"{name}/", separator, meta["shape"], meta["chunks"], keys)
    return variable_of(name, meta, attrs, refs)


def _from_v3(base: str, name: str, meta: dict[str, Any], keys: Mapping[str, int]) -> Variable:
    try:
        with quiet():
            known = ArrayV3Metadata.from_dict(dict(meta))
            encoding = encoding_from(known)
    except (ValueError, KeyError, TypeError) as error:
        raise _unsuitable(f"the array {name!r} is not supported: {error}", base) from None
    if meta["chunk_grid"]["name"] != "regular":
        raise _unsuitable(f"the array {name!r} has no regular chunk grid", base)
    chunks = tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
    spelled = meta.get("chunk_key_encoding", {"name": "default"})
    is_default = spelled["name"] == "default"
    separator = (spelled.get("configuration") or {}).get("separator", "/" if is_default else ".")
    start = f"{name}/c{separator}" if is_default and meta["shape"] else f"{name}/"
    refs = _references(base, start, separator, meta["shape"], chunks, keys)
    dims = meta.get("dimension_names") or [None] * len(chunks)
    return Variable(
        name,
        tuple(dim or f"phony_dim_{axis}" for axis, dim in enumerate(dims)),
        tuple(meta["shape"]),
        chunks,
        encoding,
        plain(meta.get("attributes") or {}),
        refs,
    )


def _references(
    base: str,
    start: str,
    separator: str,
    shape: list[int],
    chunks: list[int] | tuple[int, ...],
    keys: Mapping[str, int],
) -> References:
    grid = [-(-n // max(1, c)) for n, c in zip(shape, chunks, strict=True)]
    rows: list[tuple[int, str, int]] = []
    for key, size in keys.items():
        name = key[len(start) :]
        if not key.startswith(start) or name in _DOCUMENTS:
            continue
        parts = name.split(separator) if grid else []
        if not grid and name in ("c", "0"):
            rows.append((0, key, size))
        elif len(parts) == len(grid) and all(part.isdigit() for part in parts):
            place = [*map(int, parts)]
            if all(at < count for at, count in zip(place, grid, strict=True)):
                number = int(np.ravel_multi_index(place, grid)) if prod(grid) else 0
                rows.append((number, key, size))
    rows.sort()
    _, pool = Strings.distinct([f"{_root(base)}{key}" for _, key, _ in rows])
    return References(
        np.array([row[0] for row in rows], np.int64),
        np.zeros(len(rows), np.uint64),
        np.array([row[2] for row in rows], np.uint64),
        np.arange(len(rows), dtype=np.int32),
        tuple(pool),
    )


def _root(base: str) -> str:
    return f"{base}/"


def _unsuitable(message: str, url: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA, file=shown(url))
