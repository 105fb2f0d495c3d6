"""Metadata tables with a row per snapshot, ref, node, change and the like."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import NodeId, SnapshotId
from frazil.maintenance.space import objects_by_kind
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.documents import document_of
from frazil.model.history import SnapshotEntry, TransactionLog, to_datetime
from frazil.model.nodes import ArrayNode, Node
from frazil.model.updates import UpdateType
from frazil.model.values import SnapshotInfo, Update
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.reading.columns import struct
from frazil.spark.reading.variables import variable_of
from frazil.spark.upkeep.procedure import ResultRow
from frazil.storage.assets import snapshot_key
from frazil.transaction.opened import context_of

SNAPSHOTS: Final = struct(
    "committed_at timestamp, snapshot_id string, parent_id string, operation string, "
    "manifest_list string, summary map<string,string>, message string"
)
REFS: Final = struct(
    "name string, type string, snapshot_id string, max_reference_age_in_ms long, "
    "min_snapshots_to_keep int, max_snapshot_age_in_ms long"
)
HISTORY: Final = struct(
    "made_current_at timestamp, snapshot_id string, parent_id string, is_current_ancestor boolean"
)
OPS_LOG: Final = struct(
    "timestamp timestamp, file string, latest_snapshot_id string, operation string, ref string, "
    "previous_snapshot_id string, details string"
)
NODES: Final = struct(
    "path string, type string, node_id string, attributes string, metadata string"
)
ARRAYS: Final = struct(
    "path string, shape array<long>, chunk_shape array<long>, dtype string, "
    "dimension_names array<string>, codecs string, fill_value string, grid_chunks_count long, "
    "chunks_count long, native_count long, virtual_count long, inline_count long, "
    "stored_bytes long, decoded_bytes long, manifests_count long"
)
VIRTUAL_FILES: Final = struct(
    "location string, chunks_count long, referenced_bytes long, node_paths array<string>"
)
STORAGE: Final = struct("category string, objects_count long, size_in_bytes long")
CHANGES: Final = struct(
    "path string, type string, chunk_index array<long>, _change_type string, "
    "_change_ordinal int, _commit_snapshot_id string, _commit_timestamp timestamp"
)


# --- snapshots and refs ---


def reachable_snapshots(repository: Repository) -> Iterator[SnapshotInfo]:
    """Every snapshot that a branch or a tag leads to, newest first along each history."""
    seen: set[str] = set()
    histories = [repository.ancestry(branch=name) for name in sorted(repository.list_branches())]
    histories += [repository.ancestry(tag=name) for name in sorted(repository.list_tags())]
    for history_of_ref in histories:
        for info in history_of_ref:
            if info.id in seen:
                break
            seen.add(info.id)
            yield info


def snapshot_rows(repository: Repository) -> Iterator[ResultRow]:
    """The rows of `#snapshots`, newest first."""
    found = sorted(reachable_snapshots(repository), key=lambda info: info.written_at, reverse=True)
    for info in found:
        yield (
            info.written_at,
            info.id,
            info.parent_id,
            "create" if info.parent_id is None else "commit",
            snapshot_key(SnapshotId.parse(info.id)),
            list(texts(info.metadata).items()),
            info.message,
        )


def texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as a map of texts; what is no text is written as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in metadata.items()
    }


def ref_rows(repository: Repository) -> Iterator[ResultRow]:
    """The rows of `#refs`."""
    for name in sorted(repository.list_branches()):
        yield name, "BRANCH", repository.lookup_branch(name), None, None, None
    for name in sorted(repository.list_tags()):
        yield name, "TAG", repository.lookup_tag(name), None, None, None


def history_rows(repository: Repository, branch: str) -> Iterator[ResultRow]:
    """The rows of `#history`: what a branch was, oldest first, resets included."""
    ancestry = list(repository.ancestry(branch=branch))
    parents = {info.id: info.parent_id for info in ancestry}
    if not context_of(repository).generation.repo_object:
        found = [(info.written_at, info.id) for info in ancestry]
    else:
        found = list(_states(repository, branch, ancestry[0].id))
    for when, snapshot_id in reversed(found):
        known = snapshot_id in parents
        parent = parents.get(snapshot_id) if known else _parent(repository, snapshot_id)
        yield when, snapshot_id, parent, known


def _parent(repository: Repository, snapshot_id: str) -> str | None:
    try:
        return repository.lookup_snapshot(snapshot_id).parent_id
    except KeyError:
        return None  # released from the history since


def _states(repository: Repository, branch: str, tip: str) -> Iterator[tuple[datetime, str]]:
    """What a branch pointed to and since when, newest first, by the operations log."""
    current: str | None = tip
    for update in repository.ops_log():
        match update.kind:
            case UpdateType.NewCommit(branch=name, new_snap_id=new) if name == branch:
                yield update.updated_at, new
                current = _parent(repository, new)
            case UpdateType.CommitAmended(branch=name, new_snap_id=new) if name == branch:
                yield update.updated_at, new
                current = update.kind.previous_snap_id
            case UpdateType.BranchReset(name=name, previous_snap_id=before) if name == branch:
                if current is not None:
                    yield update.updated_at, current
                current = before
            case UpdateType.RepoInitialized() | UpdateType.BranchCreated() as began:
                if getattr(began, "name", branch) != branch:
                    continue
                if current is not None:
                    yield update.updated_at, current
                return
            case _:
                continue


def ops_log_rows(repository: Repository) -> Iterator[ResultRow]:
    """The rows of `#ops_log`, newest first."""
    for update in repository.ops_log():
        facts = {
            field.name: getattr(update.kind, field.name)
            for field in dataclasses.fields(update.kind)
        }
        yield (
            update.updated_at,
            update.backup_path,
            facts.get("new_snap_id"),
            type(update.kind).__name__,
            facts.get("branch") or facts.get("name"),
            facts.get("previous_snap_id"),
            _details(update, facts),
        )


def _details(update: Update, facts: Mapping[str, Any]) -> str:
    shown = {name: v if isinstance(v, int | str | None) else str(v) for name, v in facts.items()}
    return json.dumps({"operation": type(update.kind).__name__, **shown})


# --- nodes ---


def node_rows(session: Session) -> Iterator[ResultRow]:
    """The rows of `#nodes`."""
    for node in session.state.tree:
        document = document_of(node)
        yield (
            node.path,
            "array" if isinstance(node, ArrayNode) else "group",
            str(node.id),
            json.dumps(document.get("attributes") or {}),
            node.user_data.decode(),
        )


def array_rows(session: Session) -> Iterator[ResultRow]:
    """The rows of `#arrays`."""
    for node in session.state.arrays():
        document = document_of(node)
        variable = variable_of(node)
        table = session.state.table(node)
        yield (
            node.path,
            list(variable.shape),
            list(variable.chunks),
            _word(document["data_type"]),
            list(variable.dims),
            json.dumps(document.get("codecs", [])),
            json.dumps(document.get("fill_value")),
            int(np.prod(node.grid, dtype=np.int64)),
            len(table),
            *counts_by_kind(table),
            int(table.length.sum()),
            int(np.prod(variable.shape, dtype=np.int64)) * variable.itemsize,
            len(node.manifests),
        )


def counts_by_kind(table: ChunkTable) -> list[int]:
    """How many chunks are native, virtual and inline."""
    counts = np.bincount(table.kind, minlength=len(ChunkType)).tolist()
    return [counts[kind] for kind in (ChunkType.native, ChunkType.virtual, ChunkType.inline)]


def _word(data_type: object) -> str:
    return data_type if isinstance(data_type, str) else json.dumps(data_type)


def virtual_file_rows(session: Session) -> Iterator[ResultRow]:
    """The rows of `#virtual_files`: external files that hold chunks."""
    found: dict[str, tuple[int, int, dict[str, None]]] = {}
    expand = session.state.context.containers.expand
    for node in session.state.arrays():
        table = session.state.table(node)
        rows = table.kind == ChunkType.virtual
        numbers = table.location[rows]
        counted = np.bincount(numbers, minlength=len(table.locations))
        summed = np.bincount(numbers, table.length[rows], minlength=len(table.locations))
        for location, count, size in zip(
            map(expand, table.locations), counted.tolist(), summed.tolist(), strict=True
        ):
            if count:
                before, size_before, paths = found.get(location, (0, 0, {}))
                paths[node.path] = None
                found[location] = before + count, size_before + int(size), paths
    for location, (count, size, paths) in sorted(found.items()):
        yield location, count, size, list(paths)


def storage_rows(repository: Repository) -> Iterator[ResultRow]:
    """The rows of `#storage`: objects by kind, and what chunk references add up to."""
    for category, kind in sorted(objects_by_kind(context_of(repository).storage).items()):
        yield category, kind.objects, kind.size_bytes
    found = repository.chunk_storage_stats()
    yield "referenced native", None, found.native_bytes
    yield "referenced virtual", None, found.virtual_bytes
    yield "referenced inline", None, found.inlined_bytes


# --- changes ---


def change_rows(repository: Repository, start: str | None, end: str) -> Iterator[ResultRow]:
    """The rows of `#changes`: what commits after `start` up to `end` did, oldest first.

    Raises:
        InvalidInputError: `start` is no ancestor of `end`.
    """
    assets = context_of(repository).assets
    for ordinal, entry in enumerate(_between(repository, start, end)):
        log = assets.log(entry.id)
        if log is None:
            continue
        before = () if entry.parent_id is None else assets.snapshot(entry.parent_id).nodes
        known: dict[NodeId, Node] = {node.id: node for node in before}
        known |= {node.id: node for node in assets.snapshot(entry.id).nodes}
        stamp = (ordinal, str(entry.id), to_datetime(entry.flushed_at))
        for row in _changed(log, known):
            yield (*row, *stamp)


def _between(repository: Repository, start: str | None, end: str) -> list[SnapshotEntry]:
    found: list[SnapshotEntry] = []
    for entry in context_of(repository).refs.ancestry(SnapshotId.parse(end)):
        if start is not None and str(entry.id) == start:
            return found[::-1]
        found.append(entry)
    if start is not None:
        raise InvalidInputError(
            f"snapshot {start} is no ancestor of {end}",
            kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
        )
    return found[::-1]


def _changed(log: TransactionLog, known: Mapping[NodeId, Node]) -> Iterator[ResultRow]:
    groups = (
        ("group", "INSERT", log.new_groups),
        ("array", "INSERT", log.new_arrays),
        ("group", "UPDATE_AFTER", log.updated_groups),
        ("array", "UPDATE_AFTER", log.updated_arrays),
        ("group", "DELETE", log.deleted_groups),
        ("array", "DELETE", log.deleted_arrays),
    )
    for kind, change, ids in groups:
        for node_id in ids:
            if node_id in known:
                yield known[node_id].path, kind, None, change
    for move in log.moved_nodes:
        kind = "array" if move.is_array else "group"
        yield move.source, kind, None, "UPDATE_BEFORE"
        yield move.target, kind, None, "UPDATE_AFTER"
    for node_id, coords in log.updated_chunks.items():
        if node_id in known:
            change = "INSERT" if node_id in log.new_arrays else "UPDATE_AFTER"
            for index in coords.tolist():
                yield known[node_id].path, "chunk", index, change
