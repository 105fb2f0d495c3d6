"""Garbage that expired snapshots left, found without listing chunks or manifests.

What the expired snapshots referred to, minus what the others refer to, is garbage. Which ones have
expired is told by the repo object: it keeps the ids of pruned ancestors for their transaction
logs, and its backups hold the history from before each expiry. Where snapshot files name their
parents nobody keeps such a list, and the folder of snapshots, one file a commit, is listed.
Uploads of sessions that never committed are in no snapshot: only a full collection finds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import numpy as np

from frazil.commit.base import OVERWRITTEN
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import InternalError
from frazil.formats.repo_info import decode_repo_info
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.garbage import Plan
from frazil.maintenance.id_sets import U8, RowSet, id_rows
from frazil.maintenance.lineage import cut, ids_where, pruned_logs, reachable, rows_of
from frazil.maintenance.listing import Objects, is_older
from frazil.maintenance.reading import portions
from frazil.maintenance.walk import WalkLimits, manifests_of, native_chunks
from frazil.model.history import ExpirationRan, ManifestFile, RepoInfo
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage, fan_out
from frazil.storage.local import LocalStorage
from frazil.transaction.context import Context

HEADS_AT_ONCE: Final = 4096
END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


def plan_incremental(
    context: Context,
    cutoff: datetime,
    limits: WalkLimits | None = None,
    snapshots: Iterable[SnapshotId] | None = None,
) -> Plan:
    """Work out what expired snapshots left behind, changing nothing.

    `snapshots` are those to look at; by default all that are known to have expired, and those
    that no branch or tag leads to.
    """
    limits = limits or WalkLimits()
    chosen = None if snapshots is None else frozenset(snapshots)
    match context.refs:
        case RepoObjectRefs() as refs:
            return _by_repo_object(context, refs.info(), cutoff, limits, chosen)
        case FileRefs() as refs:
            return _by_files(context, refs, cutoff, limits, chosen)
        case _:
            raise InternalError("unknown way to keep refs")


def _by_repo_object(
    context: Context,
    info: RepoInfo,
    cutoff: datetime,
    limits: WalkLimits,
    chosen: frozenset[SnapshotId] | None,
) -> Plan:
    table = info.snapshots
    idle = ids_where(table, ~reachable(table, [*info.branches.values(), *info.tags.values()]))
    candidates = (
        idle | _expired(context.storage, info)
        if chosen is None
        else {one for one in chosen if one in idle or one not in table}
    )
    dead = measured(context.storage, SNAPSHOTS, id_rows(sorted(candidates)), cutoff)
    dead_ids = {SnapshotId(row.tobytes()) for row in dead.ids}
    dropped = frozenset(dead_ids & idle)
    kept = frozenset(table.keys() - dropped)
    logs = pruned_logs(cut(table, rows_of(table, dropped), to_root=False))
    return _plan(context.storage, cutoff, limits, dead, kept, dropped, logs)


def _by_files(
    context: Context,
    refs: FileRefs,
    cutoff: datetime,
    limits: WalkLimits,
    chosen: frozenset[SnapshotId] | None,
) -> Plan:
    history = read_file_history(context.storage, limits.max_snapshots_in_memory)
    roots = refs.present_roots()
    idle = sorted(history.known.keys() - history.reachable(roots).keys())
    old = measured(context.storage, SNAPSHOTS, id_rows(idle), cutoff)
    known = history.kept(roots, old.ids)
    others = RowSet()
    others.add_ids(known if chosen is None else history.known.keys() - (chosen - known.keys()))
    dead = old.without(others)
    return _plan(context.storage, cutoff, limits, dead, frozenset(known), frozenset(), ())


def _expired(storage: Storage, info: RepoInfo) -> set[SnapshotId]:
    """Snapshots that left the history and whose files may still be there."""
    table = info.snapshots
    found = {one for one in pruned_logs(table) if one not in table}
    log = info.latest_updates
    names = [
        log[at + 1].backup_path if at + 1 < len(log) else info.repo_before_updates
        for at in range(len(log))
        if isinstance(log[at].kind, ExpirationRan)
    ]
    for name in filter(None, names):
        blob = storage.get(OVERWRITTEN + name)
        if blob is not None:  # backups may be cleaned away
            before = decode_repo_info(blob, key=OVERWRITTEN + name).snapshots
            found.update(one for one in before if one not in table)
    return found


def _plan(
    storage: Storage,
    cutoff: datetime,
    limits: WalkLimits,
    dead: Objects,
    kept: frozenset[SnapshotId],
    dropped: frozenset[SnapshotId],
    logs: Iterable[SnapshotId],
) -> Plan:
    """What some snapshots referred to and those that are kept do not."""
    live_logs = RowSet()
    live_logs.add_ids(kept)
    live_logs.add_ids(logs)
    old_logs = dead.ids[~live_logs.contains(dead.ids)] if len(dead) else dead.ids
    lost = manifests_of(storage, [SnapshotId(row.tobytes()) for row in dead.ids], limits)
    live = manifests_of(storage, kept, limits) if lost else {}
    manifests = measured(storage, MANIFESTS, id_rows(sorted(lost.keys() - live.keys())), cutoff)
    chunks = _chunks(storage, cutoff, limits, manifests, lost, live)
    garbage = (dead, measured(storage, LOGS, old_logs, cutoff), manifests, chunks)
    return Plan(kept, dropped, garbage)


def _chunks(
    storage: Storage,
    cutoff: datetime,
    limits: WalkLimits,
    manifests: Objects,
    lost: dict[ManifestId, ManifestFile],
    live: dict[ManifestId, ManifestFile],
) -> Objects:
    """Chunk objects that only manifests refer to which will go; a pack stays for one chunk."""
    gone = [lost[ManifestId(row.tobytes())] for row in manifests.ids]
    if not gone:
        return Objects(CHUNKS, np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64))
    named = native_chunks(storage, gone, limits).rows()
    # A manifest that is too young to go may be somebody's, who will refer to its chunks again.
    stay = [file for one, file in lost.items() if one not in live and file not in set(gone)]
    used = native_chunks(storage, [*live.values(), *_present(storage, stay)], limits)
    return measured(storage, CHUNKS, named[~used.contains(named)], cutoff)


def _present(storage: Storage, files: list[ManifestFile]) -> list[ManifestFile]:
    """Those of some manifests whose files are there."""
    found = fan_out(storage.head, [f"{MANIFESTS}{file.id}" for file in files])
    return [file for file, item in zip(files, found, strict=True) if item is not None]


def measured(storage: Storage, prefix: str, ids: U8, cutoff: datetime | None) -> Objects:
    """Those of some objects that are there and were written before a time, with their sizes."""
    cutoff = cutoff or END_OF_TIME
    objects = Objects(prefix, ids, np.zeros(len(ids), np.uint64), is_measured=False)
    if not len(ids) or isinstance(storage, LocalStorage):
        return objects.older(storage, cutoff)
    sizes: list[int] = []
    rows: list[int] = []
    for group in portions(enumerate(objects.keys()), HEADS_AT_ONCE):
        found = fan_out(lambda item: storage.head(item[1]), group)
        for (row, _), item in zip(group, found, strict=True):
            if item is not None and is_older(item.created_at, cutoff):
                rows.append(row)
                sizes.append(item.size_bytes)
    return Objects(prefix, ids[rows], np.array(sizes, np.uint64))
