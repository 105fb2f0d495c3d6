"""Expiry: old snapshots leave the history, their data stays until garbage collection.

With a repo object this is one rewrite of it. What only expired snapshots need can go with them:
what they refer to is a short list of candidates, found without a listing, and what any other
snapshot refers to is taken off it. What is younger than the floor of all deletions stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.commit.base import MAIN
from frazil.commit.by_repo_object import Edit, RepoObjectRefs
from frazil.commit.file_refs import Expired, FileRefs
from frazil.errors import InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.ages import deletable_before
from frazil.maintenance.candidates import of_snapshots
from frazil.maintenance.collecting import Way, carry_out
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.expire_files import expire_by_files, plan_by_files
from frazil.maintenance.garbage import counted, plan_collection
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.lineage import Mask, carried_marks, cut, ids_where, rows_of
from frazil.maintenance.listing import END_OF_TIME
from frazil.maintenance.walk import FindChunks, WalkLimits, native_chunks
from frazil.model.history import Micros, RepoInfo, UpdateType, to_micros
from frazil.model.snapshots import NO_PARENT
from frazil.model.values import GCSummary
from frazil.tip import require_writable
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Expiration:
    """What an expiry does: what it takes out of the history, and the change of the repo object."""

    released: frozenset[SnapshotId]
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    edit: Edit


def expire_snapshots(
    context: Context,
    older_than: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
) -> set[str]:
    """Release the snapshots written before a time from the history; return their ids.

    Roots, the tip of main and, unless they are to be deleted, the targets of other refs stay.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()
    require_writable(context, "expire snapshots")
    done = _expire(context, older_than, delete_expired_branches, delete_expired_tags, dry_run=False)
    return set(map(str, done.released))


def plan_expiry(
    context: Context,
    older_than: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
) -> Expired:
    """Tell what `expire_snapshots` would do now, changing nothing.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()
    return _expire(context, older_than, delete_expired_branches, delete_expired_tags, dry_run=True)


def _expire(
    context: Context, older_than: datetime, branches: bool, tags: bool, *, dry_run: bool
) -> Expired:
    cutoff = to_micros(older_than)
    match context.refs:
        case RepoObjectRefs() as refs:
            return _by_repo_object(refs, cutoff, branches=branches, tags=tags, dry_run=dry_run)
        case FileRefs() as refs:
            run = plan_by_files if dry_run else expire_by_files
            return run(context, refs, cutoff, branches=branches, tags=tags)
        case _:
            raise InternalError("unknown way to keep refs")


def _by_repo_object(
    refs: RepoObjectRefs, cutoff: Micros, *, branches: bool, tags: bool, dry_run: bool
) -> Expired:
    found = Expired(frozenset())

    def change(info: RepoInfo) -> Edit:
        nonlocal found
        plan = plan_expiration(info, cutoff, branches=branches, tags=tags)
        found = Expired(plan.released, plan.branches, plan.tags)
        return plan.edit

    if dry_run:
        change(refs.info())
    else:
        refs.edit(change)
    return found


def _lost_refs(refs: Mapping[str, SnapshotId], expired: frozenset[SnapshotId]) -> tuple[str, ...]:
    return tuple(sorted(n for n, target in refs.items() if n != MAIN and target in expired))


def plan_expiration(info: RepoInfo, cutoff: Micros, *, branches: bool, tags: bool) -> Expiration:
    """Work out an expiry; `branches` and `tags` tell whether expired ones are deleted."""
    table = info.snapshots
    rows = table.columns.rows
    is_expired: Mask = (rows["parent"] != NO_PARENT) & (rows["flushed_at"] < max(cutoff, 0))
    protected = {info.branches[MAIN]} if MAIN in info.branches else set()
    if not branches:
        protected |= set(info.branches.values())
    if not tags:
        protected |= set(info.tags.values())
    gone = is_expired & ~rows_of(table, protected)
    expired = ids_where(table, is_expired) if branches or tags else frozenset()
    lost_branches = _lost_refs(info.branches, expired) if branches else ()
    lost_tags = _lost_refs(info.tags, expired) if tags else ()
    marked = table.with_metadata(carried_marks(table, gone))
    fields: dict[str, object] = {"snapshots": cut(marked, gone, to_root=True)}
    if branches:
        fields["branches"] = _without(info.branches, lost_branches)
    if tags:
        fields["tags"] = _without(info.tags, lost_tags)
        fields["deleted_tags"] = info.deleted_tags | set(lost_tags)
    edit = Edit(UpdateType.ExpirationRan(), fields)
    return Expiration(ids_where(table, gone), lost_branches, lost_tags, edit)


def _without(refs: Mapping[str, SnapshotId], lost: tuple[str, ...]) -> dict[str, SnapshotId]:
    return {name: target for name, target in refs.items() if name not in lost}


# --- files that only expired snapshots need ---


@dataclass(frozen=True, slots=True)
class ExpiredWithFiles:
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
) -> ExpiredWithFiles:
    """Release the snapshots written before a time, and delete the files that only they need.

    Files younger than a day by the clock of the store, or than `unsafe_minimum_age`, stay until a
    garbage collection finds them. `find_chunks` tells what manifests refer to.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()  # before the clock of the store is asked for
    limits = WalkLimits()
    cutoff = deletable_before(context.place, unsafe_minimum_age, dry_run=dry_run) or END_OF_TIME
    lost = {
        "delete_expired_branches": delete_expired_branches,
        "delete_expired_tags": delete_expired_tags,
    }
    after = plan_expiry(context, older_than, **lost) if dry_run else None
    gone = (
        after.released
        if after
        else {SnapshotId.parse(one) for one in expire_snapshots(context, older_than, **lost)}
    )
    released = frozenset(map(str, gone))
    found = of_snapshots(context, gone, cutoff, limits, find_chunks)
    plan = plan_collection(context, found, limits, find_chunks, after)
    if dry_run:
        return ExpiredWithFiles(released, counted(plan))
    way = Way(limits, deleting or DeleteLimits(), find_chunks=find_chunks)
    made = GarbagePlan.of(context, plan, cutoff, "incremental")
    return ExpiredWithFiles(
        released, carry_out(context, made, way, unsafe_minimum_age=unsafe_minimum_age)[0]
    )
