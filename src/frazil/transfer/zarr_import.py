"""Plain Zarr stores copied into repositories, without decoding."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from frazil.bulk.grid import chunk_in_grid, parse_grid
from frazil.bulk.pack import write_encoded
from frazil.errors import AlreadyExistsError, ErrorKind, NotFoundError, unsuitable
from frazil.formats.zarr2 import zarr3_document
from frazil.ids import MAIN, parent_path
from frazil.model.chunks import ChunkTable
from frazil.model.combining import concat
from frazil.model.nodes import ArrayNode
from frazil.progress import Tell
from frazil.repository import Repository
from frazil.run import (
    JobReport,
    LocalRunner,
    Runner,
    by_size,
    commit_job,
    copy_groups,
    path_of,
    rely_on_lengths,
    run_with_progress,
    scratch_array,
)
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_at
from frazil.transaction.context import Context
from frazil.transaction.keys import METADATA, ZARR_V2_NAMES
from frazil.transaction.opened import context_of
from frazil.transfer.cloning import (
    BATCH_BYTES,
    TASK_BYTES,
    TASK_CHUNKS,
    fetch_all,
    place_name,
)

_CONSOLIDATED: Final = "consolidated_metadata"


def import_zarr(
    store: Storage | str | os.PathLike[str],
    target: Repository | Storage | str | os.PathLike[str],
    *,
    group: str | None = None,
    branch: str = MAIN,
    message: str | None = None,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
) -> JobReport:
    """Copy a plain Zarr store into a repository, in one commit, without decoding.

    Args:
        store: a Zarr store, version 3 or 2, that can be listed: a storage, a directory or a URL.
        target: the repository; it is made when there is none at a place.
        group: where the root of the store goes; the root by default.
        branch: the branch to commit to.
        message: of the commit.
        runner: what copies; threads of this process by default.
        progress: is called with the current step and the progress so far.

    Raises:
        NotFoundError: there is no Zarr store.
        AlreadyExistsError: there is an array or group of one of the names already.
        InvalidInputError: an array of version 2 has what version 3 cannot say.
    """
    source = storage_at(store)
    found = read_store(source)
    if not isinstance(target, Repository):
        target = Repository.open_or_create(storage_at(target))
    writing = target.tip(branch).writable_session()
    top = path_of(group, "")
    _make_nodes(writing, found, top)
    arrays = sorted(found.chunks)
    items = [
        (number, chunks[part.start : part.stop])
        for number, chunks in enumerate(found.chunks[path] for path in arrays)
        for part in by_size([each.size for each in chunks], TASK_BYTES, TASK_CHUNKS)
    ]
    documents = [found.documents[path] for path in arrays]
    work = ImportChunks(source, context_of(target), documents)
    tables: dict[int, list[ChunkTable]] = {}
    counts = [len(chunks) for _, chunks in items]
    sizes = sum(each.size for chunks in found.chunks.values() for each in chunks)
    for at, table in run_with_progress(
        runner, work, items, progress, "chunks", counts=counts, size_bytes=sizes
    ):
        tables.setdefault(items[at][0], []).append(table)
    for number, parts in tables.items():
        node = writing.state.array(path_of(top, arrays[number]))
        writing.state.set_table(node, concat(parts, len(node.shape)))
    size = sum(int(part.length.sum()) for parts in tables.values() for part in parts)
    shown = place_name(source)
    facts = {"imported-from": shown, "added-chunks": sum(counts), "added-bytes": size}
    text = message or f"Import {shown}"
    snapshot = commit_job(writing, "import", text, {**facts, **runner.facts()})
    paths = tuple(path_of(top, path) for path in arrays)
    return JobReport(snapshot, paths, sum(counts), size, len(items))


def _make_nodes(writing: Session, found: StoreContents, top: str) -> None:
    state = writing.state
    _rely(writing, found, top)
    if top != "/":
        copy_groups(state, state, parent_path(top))
    for path, document in sorted(found.documents.items()):
        place = path_of(top, path)
        old = state.tree.get(place)
        if old is not None and (place != top or isinstance(old, ArrayNode)):
            raise AlreadyExistsError(
                f"there is a node at {place!r} already", kind=ErrorKind.NODE_ALREADY_EXISTS
            )
        state.set_metadata(place, document)


def _rely(writing: Session, found: StoreContents, top: str) -> None:
    """Name the dimensions that arrays will share with others of the groups they go to."""
    dims: dict[str, set[str]] = {}
    for path in found.chunks:
        names = json.loads(found.documents[path]).get("dimension_names") or ()
        dims.setdefault(parent_path(path_of(top, path)), set()).update(filter(None, names))
    for group, shared in dims.items():
        rely_on_lengths(writing, group, shared)


class StoredChunk(NamedTuple):
    """A chunk of an array, as an object of a Zarr store."""

    key: str
    coords: tuple[int, ...]
    size: int


@dataclass(slots=True)
class StoreContents:
    """What a Zarr store holds, by path."""

    documents: dict[str, bytes]
    """`zarr.json` of every node, as a repository keeps it"""
    chunks: dict[str, list[StoredChunk]]
    """of every array"""


def read_store(storage: Storage) -> StoreContents:
    """List a Zarr store and read its metadata."""
    listed = [*storage.list("")]
    named = {item.key: item.key.rpartition("/")[2] for item in listed}
    keys = [key for key, name in named.items() if name == METADATA]
    old = [key for key, name in named.items() if name in ZARR_V2_NAMES]
    if not keys and not old:
        raise NotFoundError(
            "there is no Zarr store that can be listed",
            kind=ErrorKind.REPOSITORY_NOT_FOUND,
            url=place_name(storage),
        )
    raw = _documents(storage, keys) if keys else _converted(_documents(storage, old))
    nodes = {"/" + key.removesuffix(METADATA).strip("/"): json.loads(raw[key]) for key in raw}
    readers = {
        path: key_reader(node) for path, node in nodes.items() if node["node_type"] == "array"
    }
    chunks: dict[str, list[StoredChunk]] = {path: [] for path in readers}
    for item in listed:
        if named[item.key] == METADATA or named[item.key] in ZARR_V2_NAMES:
            continue
        path = _owner(item.key, readers)
        if path is None:
            continue
        coords = readers[path](item.key[len(path.strip("/")) :].strip("/"))
        if coords is not None:
            chunks[path].append(StoredChunk(item.key, coords, item.size_bytes))
    return StoreContents({path: _as_kept(node) for path, node in nodes.items()}, chunks)


def _documents(storage: Storage, keys: Sequence[str]) -> dict[str, bytes]:
    found = storage.get_many([(key, None, None) for key in keys])
    return {key: data for key, data in zip(keys, found, strict=True) if data is not None}


def _converted(old: Mapping[str, bytes]) -> dict[str, bytes]:
    """The metadata of a store of version 2 as version 3 says it."""
    made: dict[str, bytes] = {}
    try:
        for key, data in old.items():
            folder, name = key[: key.rfind("/") + 1], key.rpartition("/")[2]
            attributes = json.loads(old.get(f"{folder}.zattrs", b"{}"))
            if name == ".zgroup":
                node = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
            elif name == ".zarray":
                node = zarr3_document(json.loads(data), attributes)
            else:
                continue
            made[f"{folder}{METADATA}"] = json.dumps(node).encode()
    except (ValueError, TypeError, KeyError) as error:
        raise unsuitable(f"metadata of version 2 that version 3 cannot express: {error}") from error
    return made


def _as_kept(node: Mapping[str, Any]) -> bytes:
    """A document as a repository keeps it: chunks have the usual keys, nothing is said twice."""
    kept = {name: value for name, value in node.items() if name != _CONSOLIDATED}
    if kept["node_type"] == "array":
        kept["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    return json.dumps(kept).encode()


def _owner(key: str, arrays: Mapping[str, object]) -> str | None:
    """The array below whose path a key is."""
    path = f"/{key}"
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in arrays:
            return path
    return None


def key_reader(node: Mapping[str, Any]) -> Callable[[str], tuple[int, ...] | None]:
    """How keys of chunks are read: their coordinates, or None for other files."""
    encoding = node["chunk_key_encoding"]
    is_default = encoding["name"] == "default"
    mark = (encoding.get("configuration") or {}).get("separator", "/" if is_default else ".")
    grid = [axis.count for axis in parse_grid(node)]

    start = f"c{mark}" if is_default else ""

    def read(name: str) -> tuple[int, ...] | None:
        if not grid:
            return () if name == ("c" if is_default else "0") else None
        # What lies beyond the end is left from before the array was cut.
        inner = name.removeprefix(start)
        return chunk_in_grid(inner, mark, grid) if name.startswith(start) else None

    return read


@dataclass(frozen=True, slots=True)
class ImportChunks:
    """Copies chunks of a Zarr store into a repository."""

    source: Storage
    target: Context
    documents: Sequence[bytes]

    def __call__(self, item: tuple[int, list[StoredChunk]]) -> ChunkTable:
        """Copy some chunks of an array, and tell where they are."""
        number, chunks = item
        state, node = scratch_array(self.target, "/imported", self.documents[number])
        made = []
        for part in by_size([each.size for each in chunks], BATCH_BYTES):
            batch = chunks[part.start : part.stop]
            pairs = fetch_all(self.source, [each.key for each in batch])
            coords = np.array([each.coords for each in batch], np.uint32)
            coords = coords.reshape(len(pairs), len(node.shape))
            made.append(write_encoded(state, node, coords, [data for _, data in pairs]))
        return concat(made, len(node.shape))
