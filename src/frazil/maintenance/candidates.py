"""What may be garbage. It is found before the refs are read, so that new objects are never in it.

A full collection lists everything. An incremental one looks at what expired snapshots referred to,
and lists neither chunks nor manifests. The repo object says which ones have expired: it keeps
the ids of pruned ancestors for their transaction logs, and its backups hold the history from before
each expiry. Where snapshot files name their parents there is no such list, and the folder of
snapshots, one file a commit, is listed. Uploads of sessions that never committed are in no
snapshot: only a full collection finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from frazil.arrays import U8
from frazil.commit.base import OVERWRITTEN
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import InternalError
from frazil.formats.repo_info import decode_repo_info
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.file_history import FileHistory, read_file_history
from frazil.maintenance.id_sets import RowSet, id_rows
from frazil.maintenance.lineage import ids_where, pruned_logs, reachable
from frazil.maintenance.listing import Objects, list_candidates, list_older, measured
from frazil.maintenance.walk import FindChunks, WalkLimits, manifests_of
from frazil.model.history import ManifestFile, RepoInfo, UpdateType
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS, Assets
from frazil.storage.base import Listed, Storage
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

PHASES: Final = {
    SNAPSHOTS: "snapshots",
    LOGS: "transaction_logs",
    MANIFESTS: "manifests",
    CHUNKS: "chunks",
}
"""What is deleted, in order; each may refer to what comes after it."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Objects that are garbage unless a ref needs them."""

    snapshots: Objects
    logs: Objects
    manifests: Objects
    chunks: Callable[[Objects], Objects]
    """finds the chunk objects, given the manifests that are garbage"""
    old_snapshots: U8
    """files of snapshots that are old, candidates or not; young ones are needed"""
    history: FileHistory | None = None
    """where it has been read already"""


def of_objects(garbage: tuple[Objects, ...]) -> Candidates:
    """Objects that are known, phase by phase."""
    snapshots, logs, manifests, chunks = garbage
    return Candidates(snapshots, logs, manifests, lambda _: chunks, snapshots.ids)


def of_everything(context: Context, cutoff: datetime, at_once: int | None = None) -> Candidates:
    """Everything that may be old enough to be deleted."""

    def old(prefix: str) -> Objects:
        # Which snapshots are in use depends on their age, so it must be known first.
        look = list_older if prefix == SNAPSHOTS else list_candidates
        return look(context.storage, prefix, cutoff)

    if at_once == 1:
        return of_objects(tuple(map(old, PHASES)))
    return of_objects(tuple(fan_out(old, tuple(PHASES))))


def of_snapshots(
    context: Context,
    snapshots: Iterable[SnapshotId],
    cutoff: datetime,
    limits: WalkLimits,
    find_chunks: FindChunks,
) -> Candidates:
    """Everything that some snapshots refer to and that is old."""
    dead = measured(context.storage, SNAPSHOTS, id_rows(sorted(snapshots)), cutoff)
    return _needed_by(context.assets, dead, cutoff, limits, find_chunks)


def _needed_by(
    assets: Assets,
    dead: Objects,
    cutoff: datetime,
    limits: WalkLimits,
    find_chunks: FindChunks,
    old_snapshots: U8 | None = None,
    history: FileHistory | None = None,
) -> Candidates:
    storage = assets.storage
    lost = manifests_of(assets, [SnapshotId(row.tobytes()) for row in dead.ids], limits)
    manifests = measured(storage, MANIFESTS, id_rows(sorted(lost)), cutoff)
    is_old = RowSet()
    is_old.add(manifests.ids)

    def chunks(garbage: Objects) -> Objects:
        """Chunk objects that garbage refers to; a pack stays for one chunk."""
        gone = [lost[ManifestId(row.tobytes())] for row in garbage.ids]
        if not gone:
            return Objects.none(CHUNKS)
        # A manifest that is too young to be deleted may belong to an open session, which still
        # needs its chunks.
        rows = id_rows(lost)
        young = [lost[ManifestId(row.tobytes())] for row in rows[~is_old.contains(rows)]]
        found = find_chunks(assets, gone, limits).rows()
        used = find_chunks(assets, _present(storage, young), limits)
        return measured(storage, CHUNKS, found[~used.contains(found)], cutoff)

    logs = measured(storage, LOGS, dead.ids, cutoff)
    old = dead.ids if old_snapshots is None else old_snapshots
    return Candidates(dead, logs, manifests, chunks, old, history)


def _present(storage: Storage, files: list[ManifestFile]) -> list[ManifestFile]:
    """The manifests whose files exist."""
    found = fan_out(storage.head, [f"{MANIFESTS}{file.id}" for file in files])
    return [file for file, item in zip(files, found, strict=True) if item is not None]


# --- what has expired ---


def of_expired(
    context: Context,
    cutoff: datetime,
    limits: WalkLimits,
    find_chunks: FindChunks,
    snapshots: Iterable[SnapshotId] | None = None,
) -> Candidates:
    """What expired snapshots left behind.

    `snapshots` are those to look at; by default all that are known to have expired, and those
    that no branch or tag leads to.
    """
    chosen = None if snapshots is None else frozenset(snapshots)
    match context.refs:
        case RepoObjectRefs() as refs:
            dead = _expired(context.storage, refs.info(), chosen)
            return of_snapshots(context, dead, cutoff, limits, find_chunks)
        case FileRefs() as refs:
            history = read_file_history(context.assets, limits.max_snapshots_in_memory)
            idle = history.known.keys() - history.reachable(refs.present_roots()).keys()
            old = measured(context.storage, SNAPSHOTS, id_rows(sorted(idle)), cutoff)
            others = RowSet()
            others.add_ids(() if chosen is None else idle - chosen)
            return _needed_by(
                context.assets, old.without(others), cutoff, limits, find_chunks, old.ids, history
            )
        case _:
            raise InternalError("unknown way to keep refs")


def _expired(
    storage: Storage, info: RepoInfo, chosen: frozenset[SnapshotId] | None
) -> set[SnapshotId]:
    """Snapshots that left the history, or that no ref leads to, and whose files may be there."""
    table = info.snapshots
    tips = [*info.branches.values(), *info.tags.values()]
    idle = ids_where(table, ~reachable(table, tips))
    if chosen is not None:
        return {one for one in chosen if one in idle or one not in table}
    found = {*idle, *(one for one in pruned_logs(table) if one not in table)}
    log = info.latest_updates
    names = [
        log[at + 1].backup_path if at + 1 < len(log) else info.repo_before_updates
        for at in range(len(log))
        if isinstance(log[at].kind, UpdateType.ExpirationRan)
    ]
    for name in filter(None, names):
        blob = storage.get(OVERWRITTEN + name)
        if blob is not None:  # backups may be cleaned away
            before = decode_repo_info(blob, key=OVERWRITTEN + name).snapshots
            found.update(one for one in before if one not in table)
    return found


# --- attribute files ---


def unused_attribute_files(context: Context, cutoff: datetime) -> list[Listed]:
    """Old attribute files, which generations before spec 1 have, that no snapshot names."""
    assets, refs = context.assets, context.refs
    old = [item for item in assets.attribute_files() if item.created_at < cutoff]
    if not old or not isinstance(refs, FileRefs):
        return []
    used = assets.attribute_files_of(read_file_history(assets).reachable(refs.present_roots()))
    return [item for item in old if item.key not in used]
