"""What is garbage: candidates that nothing refers to.

`collecting` deletes it, and looks here again at what is published meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain

import numpy as np

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import Expired, FileRefs, no_roots
from frazil.commit.repo_object import Edit, require_online
from frazil.errors import InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.candidates import PHASES, Candidates
from frazil.maintenance.deleting import DeleteReport
from frazil.maintenance.file_history import FileHistory, read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.lineage import (
    drop_snapshots,
    ids_where,
    mask_of,
    pruned_logs,
    table_ids,
    with_ancestors,
)
from frazil.maintenance.listing import Objects
from frazil.maintenance.walk import FindChunks, WalkLimits, manifests_of, native_chunks
from frazil.model.history import ManifestFile, RepoInfo, SnapshotTable, UpdateType
from frazil.model.values import GCSummary
from frazil.storage.assets import Assets
from frazil.storage.base import Listed, Storage
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True, eq=False)
class CollectionPlan:
    """What a collection deletes."""

    kept: frozenset[SnapshotId]
    dropped: frozenset[SnapshotId]
    """snapshots that leave the repo object"""
    garbage: tuple[Objects, ...]
    """in the order of deletion"""
    attributes: tuple[Listed, ...] = ()
    """attribute files of generations before spec 1; they are looked for again in the end"""
    seen: SnapshotTable | None = None
    """the snapshots of the repo object that was looked at last"""

    def older(self, storage: Storage, cutoff: datetime) -> CollectionPlan:
        """The plan without objects that turn out to be too young."""
        return replace(self, garbage=tuple(one.older(storage, cutoff) for one in self.garbage))


# --- planning ---


@dataclass(frozen=True, slots=True, eq=False)
class _Needed:
    """What the refs need, and young snapshots."""

    snapshots: frozenset[SnapshotId]
    files: Callable[[], Iterable[ManifestFile]]
    logs: tuple[SnapshotId, ...] = ()
    """logs of others"""


def plan_collection(
    context: Context,
    found: Candidates,
    limits: WalkLimits,
    find_chunks: FindChunks = native_chunks,
    after: Expired | None = None,
) -> CollectionPlan:
    """Work out what is garbage, changing nothing; `find_chunks` tells what manifests refer to.

    With `after` it is what would be garbage once snapshots have expired.
    """
    snapshots, dropped = found.snapshots, frozenset[SnapshotId]()
    match context.refs:
        case RepoObjectRefs() as refs:
            info = refs.info() if after is None else _expired(refs.info(), after)
            needed, dropped = _needed_by_repo_object(context, info, found, limits)
        case FileRefs() as refs:
            history = found.history
            if history is None:
                history = read_file_history(context.assets, limits.max_snapshots_in_memory)
            needed = _needed_by_files(history, refs, found, after)
            # A new ref to a snapshot that is still there must find its ancestors too, also when a
            # collection was killed half way.
            snapshots = snapshots.sorted_by(history.newest_first)
        case _:
            raise InternalError("unknown way to keep refs")
    first = _unnamed((snapshots, found.logs, found.manifests), needed)
    chunks = _unused(context.assets, found.chunks(first[-1]), needed, limits, find_chunks)
    return CollectionPlan(needed.snapshots, dropped, (*first, chunks))


def _needed_by_repo_object(
    context: Context, info: RepoInfo, found: Candidates, limits: WalkLimits
) -> tuple[_Needed, frozenset[SnapshotId]]:
    """A snapshot without ref goes when its file is old; a young one may be a running job's.

    The ancestors of a young one stay too: a branch may be made of it, and needs its history.
    """
    if not _tips(info):
        raise no_roots()
    table = info.snapshots
    old = RowSet()
    old.add(found.snapshots.ids)
    young = np.flatnonzero(~old.contains(table_ids(table))).tolist()
    gone = ~with_ancestors(table, chain(map(table.row, _tips(info)), young))
    logs = tuple(pruned_logs(drop_snapshots(table, gone, to_root=False)))
    return _of_snapshots(context, ids_where(table, ~gone), logs, limits), ids_where(table, gone)


def _of_snapshots(
    context: Context,
    snapshots: frozenset[SnapshotId],
    logs: tuple[SnapshotId, ...],
    limits: WalkLimits,
) -> _Needed:
    files = cache(lambda: tuple(manifests_of(context.assets, snapshots, limits).values()))
    return _Needed(snapshots, files, logs)


def _needed_by_files(
    history: FileHistory, refs: FileRefs, found: Candidates, after: Expired | None
) -> _Needed:
    roots = refs.present_roots()
    if after is not None:
        roots = {
            *(at for name, at in refs.branches().items() if name not in after.branches),
            *(at for name, at in refs.tags().items() if name not in after.tags),
        }
    known = history.kept(roots, found.old_snapshots)
    if after is not None:
        # Expired tips count as released, although refs keep them.
        old = {SnapshotId(row.tobytes()) for row in found.snapshots.ids}
        known = {one: known[one] for one in known.keys() - ((after.released & old) - roots)}
    files = {file.id: file for one in known.values() for file in one.manifest_files}
    return _Needed(frozenset(known), files.values)


def _expired(info: RepoInfo, after: Expired) -> RepoInfo:
    """The repo object as an expiry would leave it."""
    gone = mask_of(info.snapshots, after.released)
    return replace(
        info,
        snapshots=drop_snapshots(info.snapshots, gone, to_root=True),
        branches={name: at for name, at in info.branches.items() if name not in after.branches},
        tags={name: at for name, at in info.tags.items() if name not in after.tags},
    )


def _tips(info: RepoInfo) -> list[SnapshotId]:
    return [*info.branches.values(), *info.tags.values()]


def _unnamed(parts: tuple[Objects, ...], needed: _Needed) -> tuple[Objects, ...]:
    """The snapshots, logs and manifests that are not needed."""
    snapshots, logs, manifests = RowSet(), RowSet(), RowSet()
    snapshots.add_ids(needed.snapshots)
    logs.add(snapshots.rows())
    logs.add_ids(needed.logs)
    if len(parts[2]):
        manifests.add_ids(file.id for file in needed.files())
    return tuple(
        part.without(used) for part, used in zip(parts, (snapshots, logs, manifests), strict=True)
    )


def _unused(
    assets: Assets, chunks: Objects, needed: _Needed, limits: WalkLimits, find: FindChunks
) -> Objects:
    """The chunk objects that are not needed."""
    return chunks.without(find(assets, needed.files(), limits)) if len(chunks) else chunks


# --- looking again ---


def settle(context: Context, plan: CollectionPlan, limits: WalkLimits) -> CollectionPlan | None:
    """Take dropped snapshots out of the history, and spare what was published meanwhile.

    None means that something new needs a dropped snapshot, so that a new plan is needed.
    """
    if isinstance(context.refs, RepoObjectRefs):
        if not _drop(context.refs, plan):
            return None
        return look_again(context, replace(plan, dropped=frozenset()), limits)
    return look_again(context, plan, limits)


def _drop(refs: RepoObjectRefs, plan: CollectionPlan) -> bool:
    """Take snapshots out of the repo object; False when something new needs one of them."""
    is_done = False

    def change(info: RepoInfo) -> Edit | None:
        nonlocal is_done
        fresh = info.snapshots.keys() - plan.kept - plan.dropped
        needed = {info.snapshots.parent_of(one) for one in fresh}.union(_tips(info))
        is_done = needed.isdisjoint(plan.dropped)
        if not is_done:
            return None
        gone = mask_of(info.snapshots, plan.dropped)
        return Edit(
            UpdateType.GCRan(),
            {"snapshots": drop_snapshots(info.snapshots, gone, to_root=False)},
        )

    refs.edit(change)
    return is_done


def look_again(context: Context, plan: CollectionPlan, limits: WalkLimits) -> CollectionPlan:
    """The plan without what has come into use since it was made, by the refs in storage now.

    Raises:
        ConflictError: the repository is of another generation by now.
        ReadOnlyError: it takes no changes any more.
        SnapshotNotFoundError: a ref leads to a snapshot that is not there.
    """
    match context.refs:
        case RepoObjectRefs() as refs:
            info = refs.info()
            require_online(info)
            table = info.snapshots
            if table is plan.seen:
                return plan
            fresh = frozenset(table.keys() - plan.kept)
            logs = tuple(log for one in fresh for log in table[one].pruned_ancestor_tx_logs)
            plan = replace(plan, seen=table)
            needed = _of_snapshots(context, fresh, logs, limits)
        case FileRefs() as refs:
            known = FileHistory(context.assets).since(refs.present_roots() - plan.kept, plan.kept)
            files = {file.id: file for one in known.values() for file in one.manifest_files}
            needed = _Needed(frozenset(known), files.values)
        case _:
            raise InternalError("unknown way to keep refs")
    if not needed.snapshots:
        return plan
    chunks = _unused(context.assets, plan.garbage[-1], needed, limits, native_chunks)
    garbage = (*_unnamed(plan.garbage[:-1], needed), chunks)
    return replace(plan, garbage=garbage, kept=plan.kept | needed.snapshots)


# --- counting ---


def counted(plan: CollectionPlan) -> GCSummary:
    """What a plan would delete."""
    reports = {
        PHASES[part.prefix]: DeleteReport(len(part), part.size_bytes) for part in plan.garbage
    }
    reports["attributes"] = DeleteReport(
        len(plan.attributes), sum(item.size_bytes for item in plan.attributes)
    )
    return deletion_summary(reports, [])


def deletion_summary(reports: dict[str, DeleteReport], skipped: list[str]) -> GCSummary:
    """What became of the objects of all phases."""
    total = DeleteReport()
    for report in reports.values():
        total.add(report)
    counts = {
        f"{phase}_deleted": reports[phase].objects if phase in reports else 0
        for phase in (*PHASES.values(), "attributes")
    }
    return GCSummary(
        bytes_deleted=total.bytes,
        objects_failed_to_delete=total.failed,
        throttled_batches=total.throttled,
        delete_errors=total.errors,
        skipped_phases=skipped,
        **counts,
    )
