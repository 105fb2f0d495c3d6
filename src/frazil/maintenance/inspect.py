"""Any file of a repository, read and described, to look at."""

from __future__ import annotations

from functools import reduce
from typing import Final

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import ErrorKind, FormatError, StorageError
from frazil.flatbuf.reader import Buffer
from frazil.formats.config_codec import config_map_from_yaml
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.manifest import decode_manifest
from frazil.formats.ref_files import read_ref
from frazil.formats.repo_info import REPO_KEY, decode_repo_info
from frazil.formats.snapshot import decode_snapshot
from frazil.formats.txlog import decode_log
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.descriptions import (
    Described,
    describe_log,
    describe_manifest,
    describe_repo,
    describe_snapshot,
    file_type_name,
    header_of,
    location_compression,
    rest_of_repo,
    spec_text,
)
from frazil.masking import shown_data
from frazil.model.history import TransactionLog
from frazil.storage.assets import CHUNKS, log_key, manifest_key, snapshot_key
from frazil.transaction.context import Context
from frazil.transaction.draft import unite

COLLAPSED: Final = (
    "Composite of several logs: older snapshots were expired or collected, and this one took "
    "over their logs. `header` is that of its own log."
)


def _stored_header(context: Context, key: str, kind: FileKind) -> Described:
    """Who wrote the file of a key, and how; for old generations, which one it is."""
    blob = None if context.generation.is_legacy else context.storage.get(key)
    if blob is not None:
        return header_of(unseal(blob, kind, key=key))
    generation = context.generation
    shown = {"generation": generation.full_name, "spec_version": spec_text(generation.spec)}
    return {**shown, "file_type": file_type_name(kind)}


def inspect_snapshot(context: Context, snapshot_id: SnapshotId) -> Described:
    """A snapshot file."""
    found = context.assets.fresh_snapshot(snapshot_id)
    header = _stored_header(context, snapshot_key(snapshot_id), FileKind.SNAPSHOT)
    return describe_snapshot(found, header)


def inspect_manifest(context: Context, manifest_id: str) -> Described:
    """A manifest file."""
    found = ManifestId.parse(manifest_id)
    key, manifest = manifest_key(found), context.assets.fresh_manifest(found)
    blob = context.storage.get(key) or b""
    if not context.generation.is_legacy:
        return inspect_file(blob, key)
    header = _stored_header(context, key, FileKind.MANIFEST)
    plain = {"uses_location_compression": False, "num_compressed_refs": 0}
    return describe_manifest(manifest, header, len(blob), plain)


def inspect_repo_info(context: Context) -> Described:
    """The repo object."""
    context.generation.require_repo_object("the repo object")
    blob = context.storage.get(REPO_KEY)
    if blob is None:
        raise StorageError("no such object", kind=ErrorKind.OBJECT_NOT_FOUND, key=REPO_KEY)
    envelope = unseal(blob, FileKind.REPO_INFO, key=REPO_KEY)
    return describe_repo(decode_repo_info(blob, key=REPO_KEY), envelope)


def inspect_transaction_log(context: Context, snapshot_id: SnapshotId) -> Described:
    """A transaction log, united with those that the snapshot took over from lost ancestors."""
    own, key = context.assets.fresh_log(snapshot_id), log_key(snapshot_id)
    if own is None:
        raise StorageError("no such log", kind=ErrorKind.OBJECT_NOT_FOUND, key=key)
    header = _stored_header(context, key, FileKind.TRANSACTION_LOG)
    pruned = _pruned(context, snapshot_id)
    if not pruned:
        return describe_log(own, header)
    found = {one: context.assets.log(one) for one in pruned}
    older = [log for log in found.values() if log is not None]
    merged: TransactionLog = reduce(unite, [*older, own])
    return {
        **describe_log(merged, header),
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
            description = describe_snapshot(snapshot, header_of(envelope))
            return {**description, "parent_id": None if parent is None else str(parent)}
        case FileKind.MANIFEST:
            compression = location_compression(Buffer(envelope.body, key))
            manifest, size = decode_manifest(blob, key=key), len(envelope.body)
            return describe_manifest(manifest, header_of(envelope), size, compression)
        case FileKind.TRANSACTION_LOG:
            log = decode_log(blob, key=key)
            return {"id": str(log.id), **describe_log(log, header_of(envelope))}
        case FileKind.REPO_INFO:
            info = decode_repo_info(blob, key=key)
            return {**describe_repo(info, envelope), **rest_of_repo(info)}
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
