"""Any file of a repository as plain data that JSON can hold, to look at."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np

from frazil.commit.by_repo_object import REPO_KEY, RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import ErrorKind, FormatError, StorageError
from frazil.flatbuf.reader import Buffer
from frazil.formats.config_codec import config_map_from_yaml
from frazil.formats.envelope import Envelope, FileKind, unseal
from frazil.formats.manifest import Manifest, decode_manifest
from frazil.formats.ref_files import read_ref
from frazil.formats.refs import PACKED, ref_groups
from frazil.formats.repo_info import decode_repo_info
from frazil.formats.snapshot import decode_snapshot
from frazil.formats.txlog import ID_LISTS, decode_log
from frazil.ids import ManifestId, ObjectId, SnapshotId
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
from frazil.storage.assets import CHUNKS, log_key, manifest_key, snapshot_key
from frazil.transaction.context import Context
from frazil.transaction.draft import unite

Described: TypeAlias = dict[str, Any]

NOT_SUFFIXED: Final = (history.UpdateType.FeatureFlagChanged, history.UnknownUpdate)
"""Updates whose type is not named with `Update` at its end."""


def _header(envelope: Envelope) -> Described:
    """Who wrote a file, and how."""
    name, dash, version = envelope.writer.partition("-")
    return {
        "written_by": envelope.writer,
        "app_name": name,
        **({"app_version": version} if dash else {}),
        "spec_version": spec(envelope.spec),
        "file_type": _type_name(envelope.kind),
        "compression": "zstd",
    }


def _header_of(context: Context, key: str, kind: FileKind) -> Described:
    """The same of a file by its key; those from before spec 1 are shown as what they mean."""
    blob = None if context.generation.is_legacy else context.storage.get(key)
    if blob is not None:
        return _header(unseal(blob, kind, key=key))
    generation = context.generation
    shown = {"generation": generation.full_name, "spec_version": spec(generation.spec)}
    return {**shown, "file_type": _type_name(kind)}


def _type_name(kind: FileKind) -> str:
    return kind.name.lower().replace("_", "-")


def spec(number: int) -> str:
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


def _snapshot(found: Snapshot, header: Described) -> Described:
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


def _manifest(
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


def _location_compression(buffer: Buffer) -> Described:
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


def _log(found: TransactionLog, header: Described) -> Described:
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


def _repo(info: RepoInfo, envelope: Envelope) -> Described:
    """A repo object."""
    before = info.repo_before_updates
    return {
        "header": _header(envelope),
        "spec_version": spec(info.spec_version),
        "branches": {name: str(info.branches[name]) for name in sorted(info.branches)},
        "tags": {name: str(info.tags[name]) for name in sorted(info.tags)},
        "deleted_tags": sorted(info.deleted_tags, key=str.encode),
        "snapshots": [_entry(entry) for entry in info.snapshots.values()],
        "metadata": dict(info.metadata),
        "latest_updates": [_update(entry) for entry in info.latest_updates],
        **({} if before is None else {"repo_before_updates": before}),
    }


def _rest_of_repo(info: RepoInfo) -> Described:
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
            return spec(value)
        case _:
            return value


COLLAPSED: Final = (
    "Composite of several logs: older snapshots were expired or collected, and this one took "
    "over their logs. `header` is that of its own log."
)


def inspect_snapshot(context: Context, snapshot_id: SnapshotId) -> Described:
    """A snapshot file."""
    found = context.assets.fresh_snapshot(snapshot_id)
    return _snapshot(found, _header_of(context, snapshot_key(snapshot_id), FileKind.SNAPSHOT))


def inspect_manifest(context: Context, manifest_id: str) -> Described:
    """A manifest file."""
    found = ManifestId.parse(manifest_id)
    key, manifest = manifest_key(found), context.assets.fresh_manifest(found)
    blob = context.storage.get(key) or b""
    if not context.generation.is_legacy:
        return inspect_file(blob, key)
    header = _header_of(context, key, FileKind.MANIFEST)
    plain = {"uses_location_compression": False, "num_compressed_refs": 0}
    return _manifest(manifest, header, len(blob), plain)


def inspect_repo_info(context: Context) -> Described:
    """The repo object."""
    context.generation.require_repo_object("the repo object")
    blob = context.storage.get(REPO_KEY)
    if blob is None:
        raise StorageError("no such object", kind=ErrorKind.OBJECT_NOT_FOUND, key=REPO_KEY)
    envelope = unseal(blob, FileKind.REPO_INFO, key=REPO_KEY)
    return _repo(decode_repo_info(blob, key=REPO_KEY), envelope)


def inspect_transaction_log(context: Context, snapshot_id: SnapshotId) -> Described:
    """A transaction log, united with those that the snapshot took over from lost ancestors."""
    own, key = context.assets.fresh_log(snapshot_id), log_key(snapshot_id)
    if own is None:
        raise StorageError("no such log", kind=ErrorKind.OBJECT_NOT_FOUND, key=key)
    header = _header_of(context, key, FileKind.TRANSACTION_LOG)
    pruned = _pruned(context, snapshot_id)
    if not pruned:
        return _log(own, header)
    found = {one: context.assets.log(one) for one in pruned}
    older = [log for log in found.values() if log is not None]
    merged: TransactionLog = reduce(unite, [*older, own])
    return {
        **_log(merged, header),
        "synthetic_composite": {
            "note": COLLAPSED,
            "merged_pruned_ancestor_tx_logs": [str(log.id) for log in older],
            "missing_tx_logs": [str(one) for one, log in found.items() if log is None],
        },
    }


def _pruned(context: Context, snapshot_id: SnapshotId) -> tuple[SnapshotId, ...]:
    """Logs a snapshot took over; none when it has itself left the history."""
    if not isinstance(context.refs, RepoObjectRefs):
        return ()
    entry = context.refs.info().snapshots.get(snapshot_id)
    return () if entry is None else entry.pruned_ancestor_tx_logs


# --- any file ---


def inspect_file(blob: bytes, key: str) -> Described:
    """A file of any kind, recognised by its bytes and its key."""
    if key.startswith(CHUNKS):
        return {"file_type": "chunk", "size_bytes": len(blob)}
    if key.startswith("refs/"):
        return {"file_type": "ref", **_ref(blob, key)}
    if CONFIG_KEY in key.split("/")[-1]:
        stored = config_map_from_yaml(blob, key=key)
        return {"file_type": "config", "config": shown_data(stored)}
    if _is_old(blob, key):
        from frazil.formats.legacy.display import legible  # few repositories are that old

        found = shown_data(legible(blob, key=key))
        # Refs and states lie in no folder of a kind.
        return {**found, "file_type": found["file_type"] or ("ref" if key[:2] == "r/" else "state")}
    envelope = unseal(blob, None, key=key)
    match envelope.kind:
        case FileKind.SNAPSHOT:
            snapshot = decode_snapshot(blob, key=key)
            parent = snapshot.parent_id
            description = _snapshot(snapshot, _header(envelope))
            return {**description, "parent_id": None if parent is None else str(parent)}
        case FileKind.MANIFEST:
            compression = _location_compression(Buffer(envelope.body, key))
            manifest, size = decode_manifest(blob, key=key), len(envelope.body)
            return _manifest(manifest, _header(envelope), size, compression)
        case FileKind.TRANSACTION_LOG:
            log = decode_log(blob, key=key)
            return {"id": str(log.id), **_log(log, _header(envelope))}
        case FileKind.REPO_INFO:
            info = decode_repo_info(blob, key=key)
            return {**_repo(info, envelope), **_rest_of_repo(info)}
        case other:
            raise FormatError("no file has this kind", key=key, kind=other.name)


def _is_old(blob: bytes, key: str) -> bool:
    """Whether a file is of a generation before spec 1; what is inside tells, not its name."""
    from frazil.formats.legacy.display import kind_of_key
    from frazil.formats.legacy.header import Encoding, sniff

    found = sniff(blob, key=key)
    return kind_of_key(key) == "chunk" or found in (
        Encoding.PARQUET,
        Encoding.JSON,
        Encoding.MSGPACK,
    )


def _ref(blob: bytes, key: str) -> Described:
    if not blob:
        return {"is_deleted": True}
    return {"snapshot": read_ref(blob, key=key)["snapshot"]}
