"""Finds what to erase: which nodes, in which snapshots, logs, manifests and objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import Final

import numpy as np

from frazil.arrays import U8, Mask
from frazil.bulk.grid import array_layout, grid_of
from frazil.commit.base import OVERWRITTEN, attempts
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.errors import (
    ErrorKind,
    FormatError,
    InternalError,
    InvalidInputError,
    NodeNotFoundError,
    SnapshotNotFoundError,
)
from frazil.formats.manifest import decode_manifest
from frazil.formats.snapshot import decode_snapshot
from frazil.formats.txlog import ID_LISTS, decode_log
from frazil.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import ID_NAME, batched
from frazil.maintenance.space import RANGE_WIDTH, native_ranges
from frazil.maintenance.trash import TRASH
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.documents import document_of
from frazil.model.history import Snapshot, SnapshotEntry, TransactionLog
from frazil.model.nodes import ArrayNode
from frazil.purging.records import PurgeTarget
from frazil.purging.snapshot_bytes import holds_ids, holds_path
from frazil.storage.assets import LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

DAMAGED: Final = f"{OVERWRITTEN}damaged.snapshots."
"""How the keys begin under which repair keeps snapshot files that could not be read."""
AT_ONCE: Final = 32
"""Files in memory at a time."""


@dataclass(slots=True, eq=False)
class PurgeMatches:
    """Everything that contains data to erase."""

    target: PurgeTarget
    history: dict[SnapshotId, SnapshotEntry]
    """all snapshots that the repository knows"""
    own: frozenset[str] = frozenset()
    """keys of files that the erasure itself wrote"""
    seen: set[str] = field(default_factory=set)
    """keys of snapshot files that were looked at"""
    paths: set[str] = field(default_factory=set)
    affected: set[SnapshotId] = field(default_factory=set)
    """snapshots of the history that must be written anew"""
    logs: set[SnapshotId] = field(default_factory=set)
    """logs of expired snapshots that must be written anew"""
    loose: set[str] = field(default_factory=set)
    """keys of snapshot files outside of history that hold it"""
    uses: dict[ManifestId, dict[NodeId, dict[bytes, ArrayNode]]] = field(default_factory=dict)
    """how snapshots of the history read the references in manifests, by encoding"""
    documents: dict[NodeId, dict[bytes, ArrayNode]] = field(default_factory=dict)
    tainted: set[str] = field(default_factory=set)
    """keys of manifests that hold references to go"""
    ranges: RowSet = field(default_factory=lambda: RowSet(RANGE_WIDTH))
    """bytes of chunk objects to go"""
    sources: set[str] = field(default_factory=set)
    """locations of virtual chunks"""
    chunks: int = 0

    def tainted_ids(self) -> set[ManifestId]:
        """Manifests in their usual place that hold references to go."""
        start = len(MANIFESTS)
        return {ManifestId.parse(key[start:]) for key in self.tainted if key.startswith(MANIFESTS)}


def encoding_digest(node: ArrayNode) -> bytes:
    """A digest of what the bytes of chunks mean."""
    document = document_of(node)
    names = ("data_type", "chunk_grid", "codecs", "fill_value")
    encoding = json.dumps([document.get(name) for name in names], sort_keys=True)
    return blake2b(encoding.encode(), digest_size=16).digest()


def find(context: Context, wanted: PurgeTarget, own: Collection[str] = ()) -> PurgeMatches:
    """Look through all of a repository, changing nothing; keys in `own` are passed over.

    Raises:
        NodeNotFoundError: no snapshot has, or had, a node at the path.
        InvalidInputError: the region does not fit the array.
    """
    storage = context.storage
    target, traces = _identified(storage, wanted)
    found = PurgeMatches(target, known_history(context), own=frozenset(own))
    if target.region is None:
        # The contents of a damaged snapshot are unknown.
        kept = (item.key for item in storage.list(OVERWRITTEN))
        found.loose.update(key for key in kept if key.startswith(DAMAGED))
    _look_at_snapshots(storage, found, traces)
    _look_at_manifests(storage, found)
    _look_at_logs(context, found)
    while True:
        count = len(found.affected)
        _add_naming(found)
        if context.generation.stores_parent:
            _add_descendants(found)
        if len(found.affected) == count:
            return found


def _identified(storage: Storage, wanted: PurgeTarget) -> tuple[PurgeTarget, set[str]]:
    """The target with the ids of its nodes, and keys of snapshots whose bytes hold its path."""
    nodes = set(wanted.nodes)
    traces: set[str] = set()
    for key, blob in snapshot_blobs(storage):
        listed = [n.id for n in decode_snapshot(blob, key=key).nodes if wanted.names(n.path)]
        nodes.update(listed)
        if wanted.region is None and not listed and holds_path(blob, wanted.path, key=key):
            traces.add(key)
    if not nodes and not traces:
        raise NodeNotFoundError(f"no snapshot has, or had, a node at {wanted.path!r}")
    return replace(wanted, nodes=frozenset(nodes)), traces


def known_history(context: Context) -> dict[SnapshotId, SnapshotEntry]:
    """Every snapshot that belongs to the repository."""
    match context.refs:
        case RepoObjectRefs() as refs:
            return {entry.id: entry for entry in refs.info().snapshots.entries()}
        case RefFileRefs() as refs:
            return _file_history(context, refs)
        case _:
            raise FormatError(
                "repositories of this generation must be upgraded before anything is purged",
                kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
            )


def _file_history(context: Context, refs: RefFileRefs) -> dict[SnapshotId, SnapshotEntry]:
    """What the refs lead to, as one state of the repository.

    Refs and snapshot files are read one after the other. Where something is missing and the
    refs have moved since, another process has rewritten the history in between: it is read again.
    """
    tips = _tips(refs)
    for _ in attempts(context.config.update_retries()):
        history = read_file_history(context.assets)
        there = [tip for tip in tips if tip in history.known]
        try:
            found = {one: known.entry for one, known in history.reachable(there).items()}
            if len(there) == len(tips) or (now := _tips(refs)) == tips:
                return found  # fsck reports refs to missing snapshots
        except SnapshotNotFoundError:
            if (now := _tips(refs)) == tips:
                raise
        tips = now
    raise InternalError("attempts ended without an error")


def _tips(refs: RefFileRefs) -> list[SnapshotId]:
    tips = [*refs.branches().values(), *refs.tags().values()]
    tips += [at for _, at in refs.deleted_tags() if at is not None]
    refs.require_current()  # an upgrade takes refs away, so that some may not be here
    return tips


# --- snapshots ---


def stored_snapshots(storage: Storage) -> Iterator[tuple[str, Snapshot]]:
    """Every snapshot file, also those that were put aside, by key.

    Raises:
        FormatError: one is damaged, so that its contents are unknown.
    """
    for key, blob in snapshot_blobs(storage):
        yield key, decode_snapshot(blob, key=key)


def snapshot_blobs(storage: Storage) -> Iterator[tuple[str, bytes]]:
    """The bytes of every snapshot file, by key."""
    yield from _blobs(storage, _keys(storage, SNAPSHOTS))


def keys_of_kind(storage: Storage, prefix: str) -> Iterator[str]:
    """Keys of files of a kind, in their place."""
    for item in storage.list(prefix):
        if ID_NAME.fullmatch(item.key[len(prefix) :]):
            yield item.key


def _keys(storage: Storage, prefix: str) -> Iterator[str]:
    """Keys of files of a kind, in their place and in the trash."""
    yield from keys_of_kind(storage, prefix)
    for item in storage.list(TRASH):
        folder, _, name = item.key.rpartition("/")
        if f"{folder.rpartition('/')[2]}/" == prefix and ID_NAME.fullmatch(name):
            yield item.key


def _blobs(storage: Storage, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for group in batched(keys, AT_ONCE):
        for key, blob in zip(group, fan_out(storage.get, group), strict=True):
            if blob is not None:  # else it went meanwhile
                yield key, blob


def _look_at_snapshots(storage: Storage, found: PurgeMatches, traces: Collection[str]) -> None:
    target = found.target
    for key, blob in snapshot_blobs(storage):
        if key in found.own:
            continue
        found.seen.add(key)
        snapshot = decode_snapshot(blob, key=key)
        held = [node for node in snapshot.nodes if node.id in target.nodes]
        if not held and (
            target.region is not None
            or not (key in traces or holds_ids(blob, target.nodes, key=key))
        ):
            continue
        found.paths.update(node.path for node in held)
        is_known = key.startswith(SNAPSHOTS) and snapshot.id in found.history
        if not is_known:
            found.loose.add(key)
        elif target.region is None:
            found.affected.add(snapshot.id)  # a region need not meet any chunk of it
        for node in held:
            if isinstance(node, ArrayNode):
                _note_array(found, node, is_known=is_known)


def _note_array(found: PurgeMatches, node: ArrayNode, *, is_known: bool) -> None:
    """Remember how an array is encoded and, if history knows the snapshot, its manifests."""
    if found.target.region is not None:
        _check_region(found.target, node)
    encoding = encoding_digest(node)
    found.documents.setdefault(node.id, {})[encoding] = node
    for ref in node.manifests if is_known else ():
        found.uses.setdefault(ref.id, {}).setdefault(node.id, {})[encoding] = node


def _check_region(target: PurgeTarget, node: ArrayNode) -> None:
    assert target.region is not None
    if len(target.region) > len(node.shape):
        raise InvalidInputError(
            f"{node.path!r} has {len(node.shape)} axes, the region {len(target.region)}",
            kind=ErrorKind.INVALID_SELECTION,
        )
    if array_layout(node) is None:
        raise InvalidInputError(
            f"the codecs of {node.path!r} are not known here, so that no part of a chunk can be "
            "erased; purge the whole array",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        )


# --- manifests ---


def _look_at_manifests(storage: Storage, found: PurgeMatches) -> None:
    keys = (key for key in _keys(storage, MANIFESTS) if key not in found.own)
    for key, blob in _blobs(storage, keys):
        manifest = decode_manifest(blob, key=key)
        for node_id in manifest.nodes():
            if node_id not in found.target.nodes:
                continue
            table = manifest.table(node_id)
            assert table is not None
            rows = _rows_to_go(found, manifest.id, node_id, table)
            # A table that no snapshot reads any more goes as a whole.
            is_stale = node_id not in found.uses.get(manifest.id, {})
            if rows.any() or is_stale:
                found.tainted.add(key)
                gone = table.take(rows)
                found.chunks += len(gone)
                found.ranges.add(native_ranges(gone))
                numbers = gone.location[gone.kind == ChunkType.virtual]
                found.sources.update(gone.locations[n] for n in np.unique(numbers).tolist())
    tainted = found.tainted_ids()
    for key, snapshot in stored_snapshots(storage):
        is_known = key.startswith(SNAPSHOTS) and snapshot.id in found.history
        if is_known and any(file.id in tainted for file in snapshot.manifest_files):
            found.affected.add(snapshot.id)
    found.affected.discard(INITIAL_SNAPSHOT_ID)


def _rows_to_go(
    found: PurgeMatches, manifest_id: ManifestId, node_id: NodeId, table: ChunkTable
) -> Mask:
    """The references of an array whose chunks have cells to erase."""
    if found.target.region is None:
        return np.ones(len(table), np.bool_)
    nodes = found.uses.get(manifest_id, {}).get(node_id) or found.documents.get(node_id, {})
    rows = np.zeros(len(table), np.bool_)
    for node in nodes.values():
        if len(node.shape) == table.ndim:
            rows |= found.target.meets(grid_of(node), table.coords)
    return rows


# --- logs ---


def mentions(log: TransactionLog, nodes: frozenset[NodeId]) -> bool:
    """Whether a log names one of some nodes."""
    moved = (move.node_id for move in log.moved_nodes)
    lists = (getattr(log, name) for name in ID_LISTS)
    return not nodes.isdisjoint(chain(*lists, log.updated_chunks, moved))


def _look_at_logs(context: Context, found: PurgeMatches) -> None:
    """Find the logs that name erased nodes."""
    if found.target.region is not None:
        return
    pruned = {one for entry in found.history.values() for one in entry.pruned_ancestor_tx_logs}
    wanted = [f"{LOGS}{one}" for one in sorted({*found.history, *pruned})]
    for key, blob in _blobs(context.storage, wanted):
        log = decode_log(blob, key=key)
        if not mentions(log, found.target.nodes):
            continue
        one = SnapshotId.parse(key[len(LOGS) :])
        (found.affected if one in found.history else found.logs).add(one)


def _add_descendants(found: PurgeMatches) -> None:
    """Descendants of a rewritten snapshot get new ids too, if files name their parents."""
    known: dict[SnapshotId, bool] = {}
    for one in found.history:
        line: list[SnapshotId] = []
        at: SnapshotId | None = one
        while at is not None and at not in known:
            line.append(at)
            if len(line) > len(found.history):
                raise FormatError("history runs in a circle", snapshot=at)
            entry = found.history.get(at)
            if entry is None:
                raise SnapshotNotFoundError("no such snapshot", snapshot=at)
            at = entry.parent_id
        above = known.get(at, False) if at is not None else False
        for each in reversed(line):
            above = above or each in found.affected
            known[each] = above
    found.affected.update(one for one, is_affected in known.items() if is_affected)


def _add_naming(found: PurgeMatches) -> None:
    """Snapshots whose metadata names one that gets a new id, as that of merges does."""
    names = {str(one) for one in found.affected}
    found.affected.update(
        one for one, entry in found.history.items() if _names_one(entry.metadata, names)
    )


def _names_one(value: object, names: Collection[str]) -> bool:
    match value:
        case str():
            return value in names
        case Mapping():
            return any(_names_one(each, names) for each in value.values())
        case list() | tuple():
            return any(_names_one(each, names) for each in value)
        case _:
            return False


def all_ranges(storage: Storage, objects: RowSet, without: Iterable[str] = ()) -> Iterator[
    tuple[str, NodeId, U8]
]:  # fmt: skip
    """The ranges of some objects that manifests refer to, by manifest and array."""
    skipped = set(without)
    keys = (key for key in _keys(storage, MANIFESTS) if key not in skipped)
    for key, blob in _blobs(storage, keys):
        for node_id, table in decode_manifest(blob, key=key).tables():
            rows = native_ranges(table)
            if len(rows):
                yield key, node_id, rows[objects.contains(rows[:, :12])]
