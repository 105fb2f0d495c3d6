"""Garbage collection: objects that nothing refers to and that are old (format reference 7.3).

Candidates are listed before the refs are read, so an object that is written while a collection
runs is never one. What is published meanwhile is looked through before anything is deleted.
Objects go in the order in which they refer to each other, lest a crash leave a reference to
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import filterfalse
from typing import Final, TypeAlias

from frazil.commit.base import attempts
from frazil.commit.by_repo_object import Edit, RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import ErrorKind, InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.access import require_writable
from frazil.maintenance.ages import safe_cutoff
from frazil.maintenance.attribute_files import collect_attribute_files, old_attribute_files
from frazil.maintenance.deleting import (
    DeleteLimits,
    DeleteReport,
    Told,
    delete_objects,
    nobody,
)
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.lineage import cut, ids_where, pruned_logs, reachable, rows_of, table_ids
from frazil.maintenance.listing import Objects, list_candidates, list_older
from frazil.maintenance.walk import WalkLimits, manifests_of, native_chunks
from frazil.model.history import GCRan, ManifestFile, RepoInfo
from frazil.model.values import GCSummary
from frazil.session.context import Context
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage, begin, fan_out
from frazil.storage.local import LocalStorage

PHASES: Final = {
    SNAPSHOTS: "snapshots",
    LOGS: "transaction_logs",
    MANIFESTS: "manifests",
    CHUNKS: "chunks",
}
"""What is deleted, in order; each may refer to what comes after it."""
FindChunks: TypeAlias = Callable[[Storage, Iterable[ManifestFile], WalkLimits], RowSet]
"""Tells which chunk objects some manifests refer to."""
Remove: TypeAlias = Callable[[Storage, Objects, DeleteLimits], DeleteReport]
"""Makes objects disappear: deletes them, or puts them elsewhere."""
LONGEST_WRITE: Final = timedelta(days=1)
"""A file that is being written for longer than this has lost its writer."""


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

    def sparing(self, live: Live) -> Plan:
        """The plan without objects that are in use after all."""
        spared = tuple(part.without(live.ids[part.prefix]) for part in self.garbage)
        return replace(self, garbage=spared)

    def older(self, storage: Storage, cutoff: datetime) -> Plan:
        """The plan without objects that turn out to be too young."""
        return replace(self, garbage=tuple(one.older(storage, cutoff) for one in self.garbage))


def garbage_collect(
    context: Context,
    delete_object_older_than: datetime,
    *,
    dry_run: bool = False,
    unsafe_minimum_age: timedelta | None = None,
    max_snapshots_in_memory: int = 50,
    max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
    max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
    max_concurrent_manifest_fetches: int = 500,
    max_concurrent_deletes: int = 10,
    max_consecutive_delete_failures: int = 50,
    max_concurrent_listings: int | None = None,
) -> GCSummary:
    """Delete objects that no branch or tag needs and that were written before a time.

    What a session has written is garbage until it is committed, so nothing younger than a day, by
    the clock of the store, is deleted, whatever the time. `unsafe_minimum_age` is another age;
    with zero the time alone counts, which then must be earlier than the beginning of every
    session that is still open.

    Raises:
        StorageError: too many deletes in a row have failed.
    """
    require_writable(context, "collect garbage")
    cutoff = safe_cutoff(
        context.place, delete_object_older_than, unsafe_minimum_age, dry_run=dry_run
    )
    walk = WalkLimits(
        max_snapshots_in_memory,
        max_compressed_manifest_mem_bytes,
        max_decoded_manifest_mem_bytes,
        max_concurrent_manifest_fetches,
    )
    deleting = DeleteLimits(max_concurrent_deletes, max_consecutive_delete_failures)
    for _ in attempts(context.config.update_retries()):
        attributes = old_attribute_files(context, cutoff)
        old = list_phases(context, cutoff, max_concurrent_listings)
        plan = plan_collection(context, old, walk).older(context.storage, cutoff)
        if dry_run:
            return collect_attribute_files(context, attributes, counted(plan), dry_run=True)
        final = settle(context, plan, walk)
        if final is not None:
            swept = begin(partial(sweep, context.place, cutoff))
            summary = apply_plan(context, final, deleting)
            swept.result()
            return collect_attribute_files(context, attributes, summary)
    raise InternalError("attempts ended without an error", kind=ErrorKind.UNKNOWN)


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
    known = history.reachable(refs.roots())
    files = {file.id: file for one in known.values() for file in one.manifest_files}
    live = _live(context, known, (), files.values(), limits, find_chunks)
    return Plan(frozenset(known), frozenset(), old).sparing(live)


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


# --- applying ---


def settle(context: Context, plan: Plan, limits: WalkLimits) -> Plan | None:
    """Take dropped snapshots out of the history, and spare what was published meanwhile.

    None means that something new needs a dropped snapshot, so that a new plan is needed.
    """
    match context.refs:
        case RepoObjectRefs() as refs:
            return _settle_repo_object(context, refs, plan, limits)
        case FileRefs() as refs:
            tips = refs.roots() - plan.kept
            if not tips:
                return plan
            known = read_file_history(context.storage).reachable(tips)
            files = {file.id: file for one in known.values() for file in one.manifest_files}
            return plan.sparing(_live(context, known, (), files.values(), limits))
        case _:
            raise InternalError("unknown way to keep refs")


def _settle_repo_object(
    context: Context, refs: RepoObjectRefs, plan: Plan, limits: WalkLimits
) -> Plan | None:
    settled: RepoInfo | None = None

    def change(info: RepoInfo) -> Edit | None:
        nonlocal settled
        settled = None
        fresh = info.snapshots.keys() - plan.kept - plan.dropped
        needed = {info.snapshots.parent_of(one) for one in fresh}.union(_tips(info))
        if not needed.isdisjoint(plan.dropped):
            return None
        settled = info
        gone = rows_of(info.snapshots, plan.dropped)
        return Edit(GCRan(), {"snapshots": cut(info.snapshots, gone, to_root=False)})

    refs.edit(change)
    if settled is None:
        return None
    fresh = settled.snapshots.keys() - plan.kept - plan.dropped
    if not fresh:
        return plan
    logs = [log for one in fresh for log in settled.snapshots[one].pruned_ancestor_tx_logs]
    files = manifests_of(context.storage, fresh, limits).values()
    return plan.sparing(_live(context, fresh, logs, files, limits))


def apply_plan(
    context: Context,
    plan: Plan,
    limits: DeleteLimits,
    remove: Remove = delete_objects,
    told: Told = nobody,
) -> GCSummary:
    """Delete phase by phase; a failure in one leaves the following ones to another day."""
    reports: dict[str, DeleteReport] = {}
    skipped: list[str] = []
    has_failed = False
    try:
        for part in plan.garbage:
            phase = PHASES[part.prefix]
            if has_failed:
                skipped.append(phase)
                continue
            reports[phase] = remove(context.storage, part, limits)
            if told is not nobody:
                told([*filterfalse(reports[phase].left.__contains__, part.keys())])
            has_failed = reports[phase].failed > 0
    finally:
        context.assets.forget()
    return _summary(reports, skipped)


def sweep(storage: Storage, cutoff: datetime) -> None:
    """Remove what killed writers left half written on a disk; listings do not show it."""
    if isinstance(storage, LocalStorage):
        storage.remove_staging(min(cutoff, datetime.now(UTC) - LONGEST_WRITE))


def counted(plan: Plan) -> GCSummary:
    """What a plan would delete."""
    return _summary(
        {PHASES[part.prefix]: DeleteReport(len(part), part.size_bytes) for part in plan.garbage},
        [],
    )


def _summary(reports: dict[str, DeleteReport], skipped: list[str]) -> GCSummary:
    total = DeleteReport()
    for report in reports.values():
        total.bytes += report.bytes
        total.failed += report.failed
        total.throttled += report.throttled
        for message in report.errors:
            total.record_error(message)
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
