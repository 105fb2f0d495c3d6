"""Files that only expired snapshots need: found without a listing, deleted with the expiry.

What released snapshots refer to is a short list of candidates; what any other snapshot refers to
is taken off it. What is younger than the floor of all deletions stays for a garbage collection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.ids import SnapshotId
from frazil.maintenance.ages import deletable_before
from frazil.maintenance.collecting import Way, collect
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.expire import ExpiryPlan, expire_snapshots, plan_expiry
from frazil.maintenance.garbage import (
    PHASES,
    FindChunks,
    Plan,
    counted,
    plan_collection,
)
from frazil.maintenance.id_sets import U8, RowSet, id_rows
from frazil.maintenance.incremental import measured
from frazil.maintenance.lineage import cut, pruned_logs, rows_of
from frazil.maintenance.listing import Objects
from frazil.maintenance.walk import WalkLimits, manifests_of, native_chunks
from frazil.model.values import GCSummary
from frazil.storage.assets import LOGS
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry did, or would do."""

    released: frozenset[str]
    """ids of snapshots"""
    files: GCSummary
    """what was deleted with them"""


def expire_with_files(
    context: Context,
    older_than: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    dry_run: bool = False,
    unsafe_minimum_age: timedelta | None = None,
    find_chunks: FindChunks = native_chunks,
    deleting: DeleteLimits | None = None,
) -> Expired:
    """Release the snapshots written before a time, and delete the files that only they need.

    Files younger than a day by the clock of the store, or than `unsafe_minimum_age`, stay until a
    garbage collection finds them. `find_chunks` tells what manifests refer to.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()  # before the clock of the store is asked for
    limits = WalkLimits()
    cutoff = deletable_before(context.place, unsafe_minimum_age, dry_run=dry_run)
    lost = {
        "delete_expired_branches": delete_expired_branches,
        "delete_expired_tags": delete_expired_tags,
    }
    planned = plan_expiry(context, older_than, **lost)
    candidates = tuple(
        measured(context.storage, part.prefix, part.ids, cutoff)
        for part in _needed_by(context, planned.released, limits, find_chunks)
    )
    if dry_run:
        plan = _without_kept(context, planned, candidates, limits, find_chunks)
        return Expired(frozenset(map(str, planned.released)), counted(plan))
    released = frozenset(expire_snapshots(context, older_than, **lost))
    done = collect(
        context,
        lambda: plan_collection(context, candidates, limits, find_chunks),
        Way(limits, deleting or DeleteLimits()),
    )
    return Expired(released, done)


def _needed_by(
    context: Context,
    snapshots: Iterable[SnapshotId],
    limits: WalkLimits,
    find_chunks: FindChunks,
) -> tuple[Objects, ...]:
    """Everything that some snapshots need, phase by phase."""
    own = id_rows(snapshots)
    files = manifests_of(context.storage, snapshots, limits)
    chunks = find_chunks(context.storage, files.values(), limits)
    found: tuple[U8, ...] = (own, own, id_rows(files), chunks.rows())
    return tuple(
        Objects(prefix, ids, np.zeros(len(ids), np.uint64))
        for prefix, ids in zip(PHASES, found, strict=True)
    )


def _without_kept(
    context: Context,
    planned: ExpiryPlan,
    candidates: tuple[Objects, ...],
    limits: WalkLimits,
    find_chunks: FindChunks,
) -> Plan:
    """The plan there would be once the snapshots were released."""
    # Where files name their parents, expired tips count as released although refs keep them.
    kept = (_known(context) - planned.released) | _tips_after(context, planned)
    needed = _needed_by(context, kept, limits, find_chunks)
    spared = []
    for candidate, other in zip(candidates, needed, strict=True):
        live = RowSet()
        live.add(other.ids)
        if candidate.prefix == LOGS:
            live.add_ids(_logs_after(context, planned))
        spared.append(candidate.without(live))
    return Plan(kept, planned.released - kept, tuple(spared))


def _logs_after(context: Context, planned: ExpiryPlan) -> Iterable[SnapshotId]:
    """Logs of released snapshots that those which follow them take over."""
    if not isinstance(context.refs, RepoObjectRefs):
        return ()
    table = context.refs.info().snapshots
    return pruned_logs(cut(table, rows_of(table, planned.released), to_root=True))


def _tips_after(context: Context, planned: ExpiryPlan) -> set[SnapshotId]:
    """The targets of refs that an expiry leaves."""
    branches, tags = context.refs.branches(), context.refs.tags()
    kept = [at for name, at in branches.items() if name not in planned.branches]
    return {*kept, *(at for name, at in tags.items() if name not in planned.tags)}


def _known(context: Context) -> frozenset[SnapshotId]:
    """All snapshots of the history."""
    if isinstance(context.refs, RepoObjectRefs):
        return frozenset(context.refs.info().snapshots)
    tips = {*context.refs.branches().values(), *context.refs.tags().values()}
    return frozenset(entry.id for tip in tips for entry in context.refs.ancestry(tip))
