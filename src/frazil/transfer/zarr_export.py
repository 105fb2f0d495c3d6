"""Repositories exported to plain Zarr stores, without decoding."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from zarr.core.metadata.v3 import ArrayV3Metadata

from frazil.ids import INITIAL_SNAPSHOT_ID, is_below, node_path
from frazil.maintenance.compaction import fetch_rows
from frazil.maintenance.deleting import delete_keys
from frazil.model.documents import document_of
from frazil.model.history import ManifestFile
from frazil.model.nodes import ArrayNode, Node
from frazil.progress import Tell
from frazil.run import (
    EMPTY_GROUP,
    JobReport,
    LocalRunner,
    Runner,
    by_size,
    path_of,
    run_with_progress,
)
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_at
from frazil.tip import watched
from frazil.transaction.context import Context
from frazil.transaction.draft import in_grid
from frazil.transaction.keys import metadata_key
from frazil.transaction.working import WorkingState
from frazil.transfer.cloning import BATCH_BYTES, TASK_CHUNKS, require_empty
from frazil.transfer.zarr_import import key_reader

CELL_BYTES: Final = 8
"""Assumed bytes per cell, to estimate how much is copied."""


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Some chunks of an array: a part of one of its manifests."""

    node: ArrayNode
    """with that manifest only"""
    manifest_bytes: int
    part: int
    parts: int
    size_bytes: int
    """a guess, decoded"""


def export(
    session: Session,
    target: Storage | str | os.PathLike[str],
    *,
    group: str | None = None,
    overwrite: bool = False,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
) -> JobReport:
    """Copy one version of a repository, or a group of it, to a plain Zarr v3 store.

    Chunks are copied as they are; virtual ones are fetched from where they are. Metadata is
    written last, so that a store which can be opened is complete.

    Args:
        session: based on the version to copy.
        target: the store: a storage, a directory or a URL.
        group: the group that becomes the root of the store.
        overwrite: write also where something is. Arrays of the same paths are replaced; what else
            is there stays.
        runner: what copies; threads of this process by default.
        progress: is called with the current step and the progress so far.

    Raises:
        AlreadyExistsError: there is something at the target.
        SnapshotNotFoundError: the version was erased, or expired, meanwhile.
        NodeNotFoundError: there is no such group.
    """
    storage = storage_at(target)
    if not overwrite:
        require_empty(storage)
    state = WorkingState(session.state.context, session.state.base_id)
    require_kept = watched(state.context, state.base_id)
    top = node_path(path_of(group, ""))
    if top != "/":
        state.node(top)
    nodes = [n for n in state.tree if n.path == top or is_below(n.path, top)]
    if overwrite:
        _make_way(storage, nodes, top)
    items = [*_portions(state, nodes)]
    work = ExportChunks(state.context, storage, top)
    size_bytes = sum(item.size_bytes for item in items)
    chunks = size = 0
    for _, done in run_with_progress(runner, work, items, progress, "parts", size_bytes=size_bytes):
        chunks, size = chunks + done[0], size + done[1]
    require_kept()
    # The root comes last, when all else is sure to last.
    documents, keys = {node.path: node.user_data for node in nodes}, list[str]()
    for place in sorted({top, *documents}, reverse=True):
        key = _below(place, top, metadata_key)
        if place == top:
            storage.make_durable(keys)
        storage.put(key, documents.get(place, EMPTY_GROUP))
        keys.append(key)
    storage.make_durable(keys[-1:])
    arrays = tuple(node.path for node in nodes if isinstance(node, ArrayNode))
    return JobReport(None, arrays, chunks, size, len(items))


def _below(path: str, top: str, key: Callable[[str], str]) -> str:
    return key(path if top == "/" else path[len(top) :] or "/")


def _make_way(storage: Storage, nodes: Sequence[Node], top: str) -> None:
    """Delete what a store has of some nodes: chunks that these lack would be read as theirs.

    Metadata goes first, so that no reader decodes new chunks by the metadata of the old ones.
    """
    paths = {top, *(node.path for node in nodes)}
    delete_keys(storage, [_below(path, top, metadata_key) for path in sorted(paths)])
    for node in (each for each in nodes if isinstance(each, ArrayNode)):
        folder = _below(node.path, top, lambda each: each.strip("/"))
        above, read = f"{folder}/" if folder else "", key_reader(document_of(node))
        found = (item.key for item in storage.list(above))
        delete_keys(storage, [key for key in found if read(key[len(above) :]) is not None])


def _portions(state: WorkingState, nodes: Iterable[Node]) -> Iterator[ExportPart]:
    """What items of work copy."""
    for node in (each for each in nodes if isinstance(each, ArrayNode)):
        cells = prod(-(-dim.array_length // max(1, dim.num_chunks)) for dim in node.shape)
        for ref in node.manifests:
            known = state.manifest_files.get(ref.id) or ManifestFile(ref.id, 0, 0)
            parts = max(1, -(-known.num_chunk_refs // TASK_CHUNKS))
            size = known.num_chunk_refs * cells * CELL_BYTES // parts
            for part in range(parts):
                yield ExportPart(
                    replace(node, manifests=(ref,)), known.size_bytes, part, parts, size
                )


@dataclass(frozen=True, slots=True)
class ExportChunks:
    """Copies chunks of arrays to a Zarr store."""

    context: Context
    target: Storage
    top: str

    def __call__(self, item: ExportPart) -> tuple[int, int]:
        """Copy the chunks of a part; give their number and their bytes."""
        node, parts = item.node, item.parts
        state = WorkingState(self.context, INITIAL_SNAPSHOT_ID)  # for its context only
        manifest = self.context.assets.manifest(node.manifests[0].id, item.manifest_bytes)
        table = manifest.table(node.id)
        if table is None:
            return 0, 0
        table = in_grid(table, node.grid)
        first, last = len(table) * item.part // parts, len(table) * (item.part + 1) // parts
        table = table.take(slice(first, last))
        encode = ArrayV3Metadata.from_dict(document_of(node)).encode_chunk_key
        folder = _below(node.path, self.top, lambda each: each.strip("/"))
        sizes, stored = table.length.tolist(), list[str]()
        for rows in by_size(sizes, BATCH_BYTES):
            data = fetch_rows(state, table, rows)
            keys = [encode(tuple(c)) for c in table.coords[rows.start : rows.stop].tolist()]
            named = [f"{folder}/{key}" if folder else key for key in keys]
            self.target.put_many(zip(named, data, strict=True))
            stored += named
        self.target.make_durable(stored)
        return len(table), sum(sizes)
