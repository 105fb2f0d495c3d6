"""What is garbage: objects that nothing refers to and that are old.

Candidates are listed before the refs are read, so an object that is written while a collection
runs is never one. `collecting` deletes them, and looks here again at what is published meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from frazil.commit.by_repo_object import Edit, RepoObjectRefs, require_online
from frazil.commit.file_refs import FileRefs, no_roots
from frazil.errors import InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.deleting import (
    DeleteReport,
)
from frazil.maintenance.file_history import FileHistory, read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.lineage import cut, ids_where, pruned_logs, reachable, rows_of, table_ids
from frazil.maintenance.listing import Objects, list_candidates, list_older
from frazil.maintenance.walk import WalkLimits, manifests_of, native_chunks
from frazil.model.history import GCRan, ManifestFile, RepoInfo, SnapshotTable
from frazil.model.values import GCSummary
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage, fan_out
from frazil.transaction.context import Context

PHASES: Final = {
    SNAPSHOTS: "snapshots",
    LOGS: "transaction_logs",
    MANIFESTS: "manifests",
    CHUNKS: "chunks",
}
"""What is deleted, in order; each may refer to what comes after it."""
FindChunks: TypeAlias = Callable[[Storage, Iterable[ManifestFile], WalkLimits], RowSet]
"""Tells which chunk objects some manifests refer to."""


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """Objects that are in use, by prefix."""

    ids: dict[str, RowSet]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a collection deletes."""

    kept: frozenset[SnapshotId]
    dropped: frozenset[SnapshotId]
    """snapshots that leave the repo object"""
    garbage: tuple[Objects, ...]
    """in the order of deletion"""
    seen: SnapshotTable | None = None
    """the snapshots of the repo object that was looked at last"""

    def sparing(self, live: Live, kept: Iterable[SnapshotId] = ()) -> Plan:
        """The plan without objects that are in use after all, by snapshots that are `kept`."""
        spared = tuple(part.without(live.ids[part.prefix]) for part in self.garbage)
        return replace(self, garbage=spared, kept=self.kept.union(kept))

    def older(self, storage: Storage, cutoff: datetime) -> Plan:
        """The plan without objects that turn out to be too young."""
        return replace(self, garbage=tuple(one.older(storage, cutoff) for one in self.garbage))


def list_phases(
    context: Context, cutoff: datetime, at_once: int | None = None
) -> tuple[Objects, ...]:
    """Everything that may be old enough to be deleted, phase by phase."""

    def old(prefix: str) -> Objects:
        # Which snapshots are in use depends on their age, so it must be known first.
        look = list_older if prefix == SNAPSHOTS else list_candidates
        return look(context.storage, prefix, cutoff)

    if at_once == 1:
        return tuple(map(old, PHASES))
    return tuple(fan_out(old, tuple(PHASES)))


# --- planning ---


def plan_collection(
    context: Context,
    old: tuple[Objects, ...],
    limits: WalkLimits,
    find_chunks: FindChunks = native_chunks,
) -> Plan:
    """Work out what is garbage, changing nothing; `find_chunks` tells what manifests refer to."""
    match context.refs:
        case RepoObjectRefs() as refs:
            return _plan_by_repo_object(context, refs.info(), old, limits, find_chunks)
        case FileRefs() as refs:
            return _plan_by_files(context, refs, old, limits, find_chunks)
        case _:
            raise InternalError("unknown way to keep refs")


def _plan_by_repo_object(
    context: Context,
    info: RepoInfo,
    old: tuple[Objects, ...],
    limits: WalkLimits,
    find_chunks: FindChunks,
) -> Plan:
    """A snapshot without ref goes when its file is old; a young one may be a running job's."""
    if not _tips(info):
        raise no_roots()
    table = info.snapshots
    old_snapshots = RowSet()
    old_snapshots.add(old[0].ids)
    needed = reachable(table, _tips(info))
    gone = ~needed & old_snapshots.contains(table_ids(table))
    kept = ids_where(table, ~gone)
    files = manifests_of(context.storage, kept, limits).values()
    logs = pruned_logs(cut(table, gone, to_root=False))
    live = _live(context, kept, logs, files, limits, find_chunks)
    return Plan(kept, ids_where(table, gone), old).sparing(live)


def _plan_by_files(
    context: Context,
    refs: FileRefs,
    old: tuple[Objects, ...],
    limits: WalkLimits,
    find_chunks: FindChunks,
) -> Plan:
    history = read_file_history(context.storage, limits.max_snapshots_in_memory)
    known = history.kept(refs.present_roots(), old[0].ids)
    files = {file.id: file for one in known.values() for file in one.manifest_files}
    live = _live(context, known, (), files.values(), limits, find_chunks)
    # Whoever points a ref to a snapshot that is still there finds its ancestors too, also when a
    # collection was killed half way.
    snapshots = old[0].sorted_by(history.newest_first)
    return Plan(frozenset(known), frozenset(), (snapshots, *old[1:])).sparing(live)


def _tips(info: RepoInfo) -> list[SnapshotId]:
    return [*info.branches.values(), *info.tags.values()]


def _live(
    context: Context,
    snapshots: Iterable[SnapshotId],
    logs: Iterable[SnapshotId],
    files: Iterable[ManifestFile],
    limits: WalkLimits,
    find_chunks: FindChunks = native_chunks,
) -> Live:
    """Everything that snapshots need, given their manifests."""
    files = tuple(files)
    snapshot_set, log_set, manifest_set = RowSet(), RowSet(), RowSet()
    snapshot_set.add_ids(snapshots)
    log_set.add(snapshot_set.rows())
    log_set.add_ids(logs)
    manifest_set.add_ids(file.id for file in files)
    chunk_set = find_chunks(context.storage, files, limits)
    sets = (snapshot_set, log_set, manifest_set, chunk_set)
    return Live(dict(zip(PHASES, sets, strict=True)))


# --- looking again ---


def settle(context: Context, plan: Plan, limits: WalkLimits) -> Plan | None:
    """Take dropped snapshots out of the history, and spare what was published meanwhile.

    None means that something new needs a dropped snapshot, so that a new plan is needed.
    """
    if isinstance(context.refs, RepoObjectRefs):
        if not _drop(context.refs, plan):
            return None
        return look_again(context, replace(plan, dropped=frozenset()), limits)
    return look_again(context, plan, limits)


def _drop(refs: RepoObjectRefs, plan: Plan) -> bool:
    """Take snapshots out of the repo object; False when something new needs one of them."""
    is_done = False

    def change(info: RepoInfo) -> Edit | None:
        nonlocal is_done
        fresh = info.snapshots.keys() - plan.kept - plan.dropped
        needed = {info.snapshots.parent_of(one) for one in fresh}.union(_tips(info))
        is_done = needed.isdisjoint(plan.dropped)
        if not is_done:
            return None
        gone = rows_of(info.snapshots, plan.dropped)
        return Edit(GCRan(), {"snapshots": cut(info.snapshots, gone, to_root=False)})

    refs.edit(change)
    return is_done


def look_again(context: Context, plan: Plan, limits: WalkLimits) -> Plan:
    """The plan without what has come into use since it was made, by the refs in storage now.

    Raises:
        ConflictError: the repository is of another generation by now.
        ReadOnlyError: it takes no changes any more.
        SnapshotNotFoundError: a ref leads to a snapshot that is not there.
    """
    match context.refs:
        case RepoObjectRefs() as refs:
            return _look_at_repo_object(context, refs, plan, limits)
        case FileRefs() as refs:
            tips = refs.present_roots() - plan.kept
            if not tips:
                return plan
            known = FileHistory(context.storage).since(tips, plan.kept)
            files = {file.id: file for one in known.values() for file in one.manifest_files}
            return plan.sparing(_live(context, known, (), files.values(), limits), known)
        case _:
            raise InternalError("unknown way to keep refs")


def _look_at_repo_object(
    context: Context, refs: RepoObjectRefs, plan: Plan, limits: WalkLimits
) -> Plan:
    info = refs.info()
    require_online(info)
    table = info.snapshots
    if table is plan.seen:
        return plan
    fresh = table.keys() - plan.kept
    plan = replace(plan, seen=table)
    if not fresh:
        return plan
    logs = [log for one in fresh for log in table[one].pruned_ancestor_tx_logs]
    files = manifests_of(context.storage, fresh, limits).values()
    return plan.sparing(_live(context, fresh, logs, files, limits), fresh)


# --- counting ---


def counted(plan: Plan) -> GCSummary:
    """What a plan would delete."""
    return summary_of(
        {PHASES[part.prefix]: DeleteReport(len(part), part.size_bytes) for part in plan.garbage},
        [],
    )


def summary_of(reports: dict[str, DeleteReport], skipped: list[str]) -> GCSummary:
    total = DeleteReport()
    for report in reports.values():
        total.add(report)
    counts = {
        f"{phase}_deleted": reports[phase].objects if phase in reports else 0
        for phase in PHASES.values()
    }
    return GCSummary(
        bytes_deleted=total.bytes,
        objects_failed_to_delete=total.failed,
        throttled_batches=total.throttled,
        delete_errors=total.errors,
        skipped_phases=skipped,
        **counts,
    )
