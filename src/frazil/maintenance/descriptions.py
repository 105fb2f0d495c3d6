"""What the files of a repository hold, as plain data that JSON can hold."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.flatbuf.reader import Buffer
from frazil.formats.envelope import Envelope, FileKind
from frazil.formats.manifest import Manifest
from frazil.formats.refs import PACKED, ref_groups
from frazil.formats.txlog import ID_LISTS
from frazil.ids import ObjectId
from frazil.masking import shown_data
from frazil.model import history
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.history import (
    Micros,
    RepoInfo,
    Snapshot,
    StoredStatus,
    TransactionLog,
    to_datetime,
)
from frazil.model.nodes import ArrayNode, Node
from frazil.model.values import AVAILABILITY_WORDS

Described: TypeAlias = dict[str, Any]

NOT_SUFFIXED: Final = (history.UpdateType.FeatureFlagChanged, history.UnknownUpdate)
"""Updates whose type is not named with `Update` at its end."""


def header_of(envelope: Envelope) -> Described:
    """Who wrote a file, and how."""
    name, dash, version = envelope.writer.partition("-")
    return {
        "written_by": envelope.writer,
        "app_name": name,
        **({"app_version": version} if dash else {}),
        "spec_version": spec_text(envelope.spec),
        "file_type": file_type_name(envelope.kind),
        "compression": "zstd",
    }


def file_type_name(kind: FileKind) -> str:
    """What a kind of file is called."""
    return kind.name.lower().replace("_", "-")


def spec_text(number: int) -> str:
    """A spec version as text."""
    return f"{number}.0"


def time_text(micros: Micros) -> str:
    """A time in RFC 3339, with as many digits as it needs."""
    return moment_of(to_datetime(micros))


def moment_of(when: datetime) -> str:
    """A UTC time in RFC 3339."""
    precision = "auto" if when.microsecond % 1000 else "milliseconds"
    return when.isoformat(timespec=precision if when.microsecond else "seconds").replace(
        "+00:00", "Z"
    )


# --- snapshots ---


def describe_snapshot(found: Snapshot, header: Described) -> Described:
    """A snapshot file."""
    return {
        "id": str(found.id),
        "header": header,
        "flushed_at": time_text(found.flushed_at),
        "commit_message": found.message,
        "metadata": dict(found.metadata),
        "manifests": [
            {
                "id": str(file.id),
                "size_bytes": file.size_bytes,
                "num_chunk_refs": file.num_chunk_refs,
            }
            for file in found.manifest_files
        ],
        "nodes": [_node(node) for node in found.nodes],
    }


def _node(node: Node) -> Described:
    shown: Described = {"id": str(node.id), "path": node.path}
    if not isinstance(node, ArrayNode):
        return {**shown, "node_type": "group"}
    names = node.dimension_names or (None,) * len(node.shape)
    return {
        **shown,
        "node_type": "array",
        "shape": [
            {
                **({} if name is None else {"name": name}),
                "array_length": dimension.array_length,
                "num_chunks": dimension.num_chunks,
            }
            for name, dimension in zip(names, node.shape, strict=False)
        ],
        "manifest_refs": [
            {"id": str(ref.id), "extents": [list(extent) for extent in ref.extents]}
            for ref in node.manifests
        ],
    }


# --- manifests ---


def describe_manifest(
    found: Manifest, header: Described, size_bytes: int, compression: Described
) -> Described:
    """A manifest file: how many references of which kind, not each of them."""
    arrays = [{"node_id": str(node), **_counts(table)} for node, table in found.tables()]
    totals = {
        f"total_{name}": sum(array[f"num_{name}"] for array in arrays)
        for name in ("chunk_refs", "inline", "native", "virtual")
    }
    return {
        "id": str(found.id),
        "header": header,
        "size_bytes": size_bytes,
        "num_arrays": len(arrays),
        **totals,
        "arrays": arrays,
        "compression": compression,
    }


def _counts(table: ChunkTable) -> Described:
    counts = np.bincount(table.kind, minlength=4).tolist()
    return {
        "num_chunk_refs": len(table),
        "num_inline": counts[ChunkType.inline],
        "num_native": counts[ChunkType.native],
        "num_virtual": counts[ChunkType.virtual],
    }


def location_compression(buffer: Buffer) -> Described:
    """How a manifest file stores the locations of virtual chunks."""
    root = buffer.root()
    dictionary = root.blob(2)
    packed = sum(
        len(group.positions)
        for array in root.tables(1, "arrays")
        for group in ref_groups(buffer, *array.required_vector(1, 4, "refs"))
        if group.has(PACKED)
    )
    return {
        "uses_location_compression": root.byte(3, 1) != 0,
        **({} if dictionary is None else {"dictionary_size_bytes": len(dictionary)}),
        "num_compressed_refs": packed,
    }


# --- transaction logs ---


def describe_log(found: TransactionLog, header: Described) -> Described:
    """A transaction log."""
    return {
        "header": header,
        **{name: [*map(str, getattr(found, name))] for name in ID_LISTS},
        "updated_chunks": [
            {"node_id": str(node), "chunks": coords.tolist()}
            for node, coords in found.updated_chunks.items()
        ],
        "moved_nodes": [{"from": move.source, "to": move.target} for move in found.moved_nodes],
    }


# --- the repo object ---


def describe_repo(info: RepoInfo, envelope: Envelope) -> Described:
    """A repo object."""
    before = info.repo_before_updates
    return {
        "header": header_of(envelope),
        "spec_version": spec_text(info.spec_version),
        "branches": {name: str(info.branches[name]) for name in sorted(info.branches)},
        "tags": {name: str(info.tags[name]) for name in sorted(info.tags)},
        "deleted_tags": sorted(info.deleted_tags, key=str.encode),
        "snapshots": [_entry(entry) for entry in info.snapshots.values()],
        "metadata": dict(info.metadata),
        "latest_updates": [_update(entry) for entry in info.latest_updates],
        **({} if before is None else {"repo_before_updates": before}),
    }


def rest_of_repo(info: RepoInfo) -> Described:
    """What the official description of a repo object leaves out."""
    return {
        "status": _status(info.status),
        "config": shown_data(info.config),
        "enabled_feature_flags": sorted(info.enabled_feature_flags or ()),
        "disabled_feature_flags": sorted(info.disabled_feature_flags or ()),
        "pruned_ancestor_tx_logs": {
            str(entry.id): [*map(str, entry.pruned_ancestor_tx_logs)]
            for entry in info.snapshots.values()
            if entry.pruned_ancestor_tx_logs
        },
    }


def _entry(entry: history.SnapshotEntry) -> Described:
    parent = entry.parent_id
    return {
        "id": str(entry.id),
        **({} if parent is None else {"parent_id": str(parent)}),
        "flushed_at": time_text(entry.flushed_at),
        "message": entry.message,
        "metadata": dict(entry.metadata),
    }


def _status(status: StoredStatus) -> Described:
    return {
        "availability": AVAILABILITY_WORDS[status.availability],
        "set_at": time_text(status.set_at),
        "limited_availability_reason": status.reason,
    }


def _update(entry: history.UpdateEntry) -> Described:
    kind = entry.kind
    name = type(kind).__name__ + ("" if isinstance(kind, NOT_SUFFIXED) else "Update")
    details = {
        each.name: _value(each.name, getattr(kind, each.name)) for each in dataclasses.fields(kind)
    }
    backup = entry.backup_path
    return {
        "update_type": {"type": name, **details},
        "updated_at": time_text(entry.updated_at),
        **({} if backup is None else {"backup_path": backup}),
    }


def _value(name: str, value: object) -> object:
    match value:
        case ObjectId():
            return str(value)
        case StoredStatus():
            return _status(value)
        case int() if name in ("from_version", "to_version"):
            return spec_text(value)
        case _:
            return value
