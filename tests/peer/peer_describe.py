"""Describe a whole repository as plain JSON, through any icechunk module.

Two parties that open the same repository must give equal descriptions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import warnings
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype

CHUNK_KINDS = ("uninitialized", "native", "virtual", "inline")


def describe(repo: Any) -> dict[str, Any]:
    """Describe refs, history, every reachable snapshot and, in spec v2, the log of operations."""
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    history = {
        **{f"branch {name}": [info_of(i) for i in repo.ancestry(branch=name)] for name in branches},
        **{f"tag {name}": [info_of(i) for i in repo.ancestry(tag=name)] for name in tags},
    }
    reachable = sorted({info["id"] for infos in history.values() for info in infos})
    stats = repo.chunk_storage_stats()
    return {
        "branches": branches,
        "tags": tags,
        "history": history,
        "snapshots": {name: describe_snapshot(repo, name) for name in reachable},
        "diffs": {
            ref: describe_diff(
                repo.diff(from_snapshot_id=infos[-1]["id"], to_snapshot_id=infos[0]["id"])
            )
            for ref, infos in history.items()
            if len(infos) > 1
        },
        "bytes": [stats.native_bytes, stats.inlined_bytes, stats.virtual_bytes],
        "repo": describe_repo(repo),
    }


def info_of(info: Any) -> dict[str, Any]:
    """One entry of the history."""
    return {
        "id": info.id,
        "parent": info.parent_id,
        "message": info.message,
        "metadata": info.metadata,
        "written_at": stamp(info.written_at),
    }


def stamp(when: datetime) -> str:
    """Spell a time in one way."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def describe_repo(repo: Any) -> dict[str, Any] | None:
    """What only spec v2 keeps: operations, deleted tags, status, flags, metadata."""
    if not is_v2(repo):
        return None
    stored = repo.inspect_repo_info()
    status = repo.get_status()
    return {
        "operations": [
            {
                "kind": type(update.kind).__name__,
                "fields": update_fields(update.kind),
                "at": stamp(update.updated_at),
                "backup": update.backup_path,
            }
            for update in repo.ops_log()
        ],
        "deleted_tags": sorted(stored["deleted_tags"]),
        "all_snapshots": {s["id"]: s.get("parent_id") for s in stored["snapshots"]},
        "metadata": repo.get_metadata(),
        "status": int(status.availability),
        "flags": {flag.name: [flag.setting, flag.enabled] for flag in repo.feature_flags()},
    }


def is_v2(repo: Any) -> bool:
    """Tell whether the repository is of spec v2; the oldest peer knows only v1."""
    return hasattr(repo, "spec_version") and int(repo.spec_version) == 2


def update_fields(kind: Any) -> dict[str, Any]:
    """The fields of one operation, without the variants that the class carries along."""
    fields = {}
    for name in dir(kind):
        value = None if name.startswith("_") else getattr(kind, name)
        if isinstance(value, str | int | bool):
            fields[name] = value
    return fields


def describe_diff(diff: Any) -> dict[str, Any]:
    """Changed nodes and chunks between two snapshots."""
    names = ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays")
    found: dict[str, Any] = {
        name: sorted(getattr(diff, name)) for name in (*names, "updated_groups", "updated_arrays")
    }
    found["updated_chunks"] = {
        path: sorted([int(axis) for axis in index] for index in chunks)
        for path, chunks in sorted(diff.updated_chunks.items())
    }
    found["moved"] = sorted(list(pair) for pair in getattr(diff, "moved_nodes", ()))
    return found


def describe_snapshot(repo: Any, snapshot: str) -> dict[str, Any]:
    """Every key, node, value and manifest of one snapshot."""
    session = repo.readonly_session(snapshot_id=snapshot)
    store = session.store
    stored = repo.inspect_snapshot(snapshot)
    stored = json.loads(stored) if isinstance(stored, str) else stored
    keys, listed = asyncio.run(read_keys(store))
    nodes = {node["path"]: describe_node(session, node, keys) for node in stored["nodes"]}
    return {
        "keys": {key: digest(value) for key, value in keys.items()},
        "listed": listed,
        "nodes": nodes,
        "message": stored["commit_message"],
        "manifests": {
            manifest["id"]: [manifest["size_bytes"], manifest["num_chunk_refs"]]
            for manifest in stored["manifests"]
        },
        "virtual_locations": sorted(session.all_virtual_chunk_locations()),
    }


async def read_keys(store: Any) -> tuple[dict[str, bytes], dict[str, list[str]]]:
    """Every key with its bytes, and what the store lists in each directory above them."""
    keys = sorted([key async for key in store.list()])
    found = {}
    prototype = default_buffer_prototype()
    for key in keys:
        value = await store.get(key, prototype)
        found[key] = b"" if value is None else value.to_bytes()
    folders = sorted({key.rpartition("/")[0] for key in keys if key.endswith("zarr.json")})
    listed = {folder: sorted([n async for n in store.list_dir(folder)]) for folder in folders}
    for folder, names in listed.items():
        # The official package lists a chunk folder for every array, zarr only where chunks are.
        if "c" in names and f"{folder}/zarr.json" in found:
            listed[folder] = [
                name for name in names if name != "c" or f"{folder}/c/zarr.json" in found
            ]
    return found, listed


def describe_node(session: Any, node: dict[str, Any], keys: dict[str, bytes]) -> dict[str, Any]:
    """One group or array: its document, its chunks by kind, and its values."""
    path = node["path"]
    document = json.loads(keys[f"{path}/zarr.json".lstrip("/")])
    found = {"id": node["id"], "kind": node["node_type"], "attributes": document.get("attributes")}
    if node["node_type"] == "group":
        return found
    chunks = asyncio.run(coordinates(session, path))
    return found | {
        "chunks": {",".join(map(str, index)): chunk_kind(session, path, index) for index in chunks},
        "manifests": sorted([ref["id"], ref["extents"]] for ref in node["manifest_refs"]),
        "values": values(session.store, path, document),
    }


def chunk_kind(session: Any, path: str, index: tuple[int, ...]) -> str:
    """How a chunk is stored, in words that do not differ between releases."""
    return CHUNK_KINDS[int(session.chunk_type(path, index))]


async def coordinates(session: Any, path: str) -> list[tuple[int, ...]]:
    """The coordinates of an array's chunks, sorted."""
    return sorted([tuple(map(int, index)) async for index in session.chunk_coordinates(path)])


def values(store: Any, path: str, document: dict[str, Any]) -> list[Any] | None:
    """Shape, data type and a digest of the decoded values, where every zarr can decode them."""
    if document["chunk_grid"]["name"] != "regular":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.open_array(store, path=path.lstrip("/"), mode="r")
        decoded = np.asarray(array[...])
    if decoded.dtype.kind in "TOU":
        return [list(array.shape), "text", digest(json.dumps(decoded.tolist()).encode())]
    return [list(array.shape), decoded.dtype.str, digest(np.ascontiguousarray(decoded).tobytes())]


def digest(data: bytes) -> str:
    """A short fingerprint of some bytes."""
    return f"{len(data)}:{hashlib.sha256(data).hexdigest()[:16]}"
