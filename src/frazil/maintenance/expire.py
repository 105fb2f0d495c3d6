"""Expiry: old snapshots leave the history, their data stays until garbage collection.

With a repo object this is one rewrite of it. Where snapshot files name their parents, the oldest
snapshot that stays in each ref's history is rewritten in place, under the same id, as a child of
the root. Files that only expired snapshots need can be deleted with them: the candidates are what
expired snapshots refer to, found without a listing, minus what any other snapshot refers to. Files
younger than the minimum age of all deletions stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from frazil.arrays import Mask
from frazil.commit.base import attempts
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import Expired, ExpiryLimit, FileRefs
from frazil.commit.repo_object import Edit
from frazil.errors import ConflictError, InternalError, RefNotFoundError
from frazil.formats.snapshot import decode_snapshot
from frazil.ids import MAIN, SnapshotId
from frazil.maintenance.candidates import of_snapshots
from frazil.maintenance.collecting import CollectionOptions, carry_out
from frazil.maintenance.deleting import DeleteLimits, deletable_before
from frazil.maintenance.file_history import FileHistory, KnownSnapshot, read_file_history
from frazil.maintenance.garbage import counted, plan_collection
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.lineage import carried_marks, drop_snapshots, ids_where, mask_of
from frazil.maintenance.listing import END_OF_TIME
from frazil.maintenance.walk import FindChunks, WalkLimits, native_chunks
from frazil.model.history import Metadata, Micros, RepoInfo, UpdateType, to_micros
from frazil.model.marks import merged_marks, with_marks
from frazil.model.snapshots import NO_PARENT
from frazil.model.values import GCSummary
from frazil.storage.assets import snapshot_key
from frazil.storage.base import Fetched
from frazil.tip import require_writable
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class RefExpiration:
    """What an expiry does to the history of one ref."""

    is_expired: bool
    """the ref itself points to an expired snapshot"""
    released: frozenset[SnapshotId] = frozenset()
    adopted: SnapshotId | None = None
    """the snapshot that becomes a child of the root"""
    root: SnapshotId | None = None
    metadata: Metadata = field(default_factory=dict)
    """of the adopted one, with the marks of expired commits, so that their work is not repeated"""


def expire_by_files(
    context: Context, refs: FileRefs, limit: ExpiryLimit, *, branches: bool, tags: bool
) -> Expired:
    """Expire the history of every ref: tags, then branches, by name; tell what was released."""
    at_once = refs.expire_at_once(limit, branches=branches, tags=tags)
    if at_once is not None:
        context.assets.forget()
        return at_once
    done = _Released()
    for _ in attempts(context.config.update_retries()):
        tips = refs.tags(), refs.branches()
        cutoff = _expire_refs(context, refs, *tips, limit, done, branches=branches, tags=tags)
        # An erasure may have moved refs to snapshots that it made of the history of before.
        if not _moved(tips[0], refs.tags()) and not _moved(tips[1], refs.branches()):
            break
    refs.require_online()  # an upgrade takes refs away, and there was nothing left to expire
    return Expired(
        frozenset(done.snapshots), cutoff, tuple(sorted(done.branches)), tuple(sorted(done.tags))
    )


@dataclass(frozen=True, slots=True)
class _Released:
    """What an expiry has done so far."""

    snapshots: set[SnapshotId] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)


def _moved(before: Mapping[str, SnapshotId], now: Mapping[str, SnapshotId]) -> bool:
    """Whether a ref leads elsewhere; those that have gone or are new do not count."""
    return any(now.get(name, tip) != tip for name, tip in before.items())


def _expire_refs(
    context: Context,
    refs: FileRefs,
    by_tag: Mapping[str, SnapshotId],
    by_branch: Mapping[str, SnapshotId],
    limit: ExpiryLimit,
    done: _Released,
    *,
    branches: bool,
    tags: bool,
) -> Micros:
    """Expire the history of refs as they were read; tell the time that it went by."""
    history = read_file_history(context.assets)
    cutoff = limit.cutoff(_branch_times(history, by_branch))
    for name, _, plan in plan_refs(history, by_tag, cutoff):
        _rewrite(context, plan)
        done.snapshots.update(plan.released)
        if plan.is_expired and tags:
            refs.delete_tag(name)
            done.tags.add(name)
    for name, tip, plan in plan_refs(history, by_branch, cutoff):
        _rewrite(context, plan)
        done.snapshots.update(plan.released)
        if plan.is_expired and branches and name != MAIN:
            # A commit since then has made the branch young again.
            with suppress(ConflictError, RefNotFoundError):
                refs.delete_branch(name, tip)
                done.branches.add(name)
    return cutoff


def _branch_times(
    history: FileHistory, by_branch: Mapping[str, SnapshotId]
) -> Iterator[Iterator[Micros]]:
    """When the snapshots of each branch, but for its root, were written, newest first."""
    for tip in by_branch.values():
        yield (entry.flushed_at for entry in history.ancestry(tip) if entry.parent_id is not None)


def plan_by_files(
    context: Context, refs: FileRefs, limit: ExpiryLimit, *, branches: bool, tags: bool
) -> Expired:
    """Tell what that would do now, changing nothing."""
    at_once = refs.expire_at_once(limit, branches=branches, tags=tags, dry_run=True)
    if at_once is not None:
        return at_once
    history = read_file_history(context.assets)
    branch_tips = refs.branches()
    cutoff = limit.cutoff(_branch_times(history, branch_tips))
    by_tag = list(plan_refs(history, refs.tags(), cutoff))
    by_branch = list(plan_refs(history, branch_tips, cutoff))
    return Expired(
        frozenset(one for _, _, ref in by_tag + by_branch for one in ref.released),
        cutoff,
        tuple(name for name, _, ref in by_branch if branches and ref.is_expired and name != MAIN),
        tuple(name for name, _, ref in by_tag if tags and ref.is_expired),
    )


def plan_refs(
    history: FileHistory, refs: Mapping[str, SnapshotId], cutoff: Micros
) -> Iterator[tuple[str, SnapshotId, RefExpiration]]:
    """Work out the expiry of refs one after the other, each seeing the history of those before."""
    for name, tip in sorted(refs.items()):
        plan = plan_ref(history, tip, cutoff)
        yield name, tip, plan
        if plan.adopted is not None:
            known = history[plan.adopted]
            entry = replace(known.entry, parent_id=plan.root, metadata=plan.metadata)
            history.known[plan.adopted] = KnownSnapshot(entry, known.manifest_files)


def plan_ref(history: FileHistory, tip: SnapshotId, cutoff: Micros) -> RefExpiration:
    """Work out the expiry of one ref."""
    lineage = list(history.ancestry(tip))
    is_expired = lineage[0].flushed_at < cutoff
    young = [at for at, entry in enumerate(lineage) if entry.flushed_at >= cutoff]
    oldest = young[-1] if young else 0
    root = len(lineage) - 1
    if oldest >= root - 1:
        return RefExpiration(is_expired)
    # An expired tip counts as released, although its ref keeps it.
    first = 0 if is_expired else oldest + 1
    return RefExpiration(
        is_expired,
        frozenset(entry.id for entry in lineage[first:root]),
        lineage[oldest].id,
        lineage[root].id,
        with_marks(
            lineage[oldest].metadata, merged_marks(e.metadata for e in lineage[oldest + 1 :])
        ),
    )


def _rewrite(context: Context, plan: RefExpiration) -> None:
    if plan.adopted is not None:
        adopt(context, plan.adopted, plan.root, plan.metadata)


def adopt(
    context: Context, snapshot_id: SnapshotId, parent_id: SnapshotId | None, metadata: Metadata
) -> None:
    """Let a snapshot be the child of another one, unless its file is gone by now.

    Raises:
        ConflictError: the repository was upgraded meanwhile.
    """
    key = snapshot_key(snapshot_id)
    for _ in attempts(context.config.update_retries()):
        found = context.storage.fetch(key)
        if not isinstance(found, Fetched):
            return
        old = decode_snapshot(found.data, key=key, of=snapshot_id)
        new = replace(old, parent_id=parent_id, metadata=metadata)
        context.refs.require_online()
        if new == old or context.assets.replace_snapshot(new, found.version):
            context.storage.make_durable([key])
            return


@dataclass(frozen=True, slots=True)
class Expiration:
    """What an expiry does: what it takes out of the history, and the change of the repo object."""

    released: frozenset[SnapshotId]
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    edit: Edit


def expire(
    context: Context,
    older_than: datetime,
    *,
    retain_last: int = 1,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    dry_run: bool = False,
) -> Expired:
    """Release the snapshots written before a time from the history.

    Roots, the last `retain_last` of each branch, the tip of main and, unless they are to be
    deleted, the targets of other refs stay. `dry_run` only reports what would be done now.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()
    if not dry_run:
        require_writable(context, "expire snapshots")
    limit = ExpiryLimit(to_micros(older_than), retain_last)
    branches, tags = delete_expired_branches, delete_expired_tags
    match context.refs:
        case RepoObjectRefs() as refs:
            return _by_repo_object(refs, limit, branches=branches, tags=tags, dry_run=dry_run)
        case FileRefs() as refs:
            run = plan_by_files if dry_run else expire_by_files
            return run(context, refs, limit, branches=branches, tags=tags)
        case _:
            raise InternalError("unknown way to keep refs")


def _by_repo_object(
    refs: RepoObjectRefs, limit: ExpiryLimit, *, branches: bool, tags: bool, dry_run: bool
) -> Expired:
    found = Expired(frozenset(), limit.before)

    def change(info: RepoInfo) -> Edit:
        nonlocal found
        table = info.snapshots
        cutoff = limit.cutoff(
            map(table.flushed_at, _without_root(table.ancestry(tip)))
            for tip in info.branches.values()
        )
        plan = plan_expiration(info, cutoff, branches=branches, tags=tags)
        found = Expired(plan.released, cutoff, plan.branches, plan.tags)
        return plan.edit

    if dry_run:
        change(refs.info())
    else:
        refs.edit(change)
    return found


def _without_root(lineage: Iterator[SnapshotId]) -> Iterator[SnapshotId]:
    """A history, newest first, without its root, which stays anyway."""
    return (newer for newer, _ in pairwise(lineage))


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
    gone = is_expired & ~mask_of(table, protected)
    expired = ids_where(table, is_expired) if branches or tags else frozenset()
    lost_branches = _lost_refs(info.branches, expired) if branches else ()
    lost_tags = _lost_refs(info.tags, expired) if tags else ()
    marked = table.with_metadata(carried_marks(table, gone))
    fields: dict[str, object] = {"snapshots": drop_snapshots(marked, gone, to_root=True)}
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

    expired: Expired
    files: GCSummary
    """what was deleted with them"""


def expire_with_files(
    context: Context,
    older_than: datetime,
    *,
    retain_last: int = 1,
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
    done = expire(
        context,
        older_than,
        retain_last=retain_last,
        delete_expired_branches=delete_expired_branches,
        delete_expired_tags=delete_expired_tags,
        dry_run=dry_run,
    )
    found = of_snapshots(context, done.released, cutoff, limits, find_chunks)
    plan = plan_collection(context, found, limits, find_chunks, done if dry_run else None)
    if dry_run:
        return ExpiredWithFiles(done, counted(plan))
    way = CollectionOptions(limits, deleting or DeleteLimits(), find_chunks=find_chunks)
    made = GarbagePlan.of(context, plan, cutoff, "incremental")
    return ExpiredWithFiles(
        done, carry_out(context, made, way, unsafe_minimum_age=unsafe_minimum_age)[0]
    )
