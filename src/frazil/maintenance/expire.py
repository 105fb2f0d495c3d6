"""Expiry: old snapshots leave the history, their data stays until garbage collection.

With a repo object this is one rewrite of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from frazil.commit.base import MAIN
from frazil.commit.by_repo_object import Edit, RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.access import require_writable
from frazil.maintenance.expire_files import expire_by_files, plan_by_files
from frazil.maintenance.lineage import Mask, carried_marks, cut, ids_where, rows_of
from frazil.model.history import ExpirationRan, Micros, RepoInfo, to_micros
from frazil.model.snapshots import NO_PARENT
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Expiration:
    """What an expiry does: the snapshots it releases and the change of the repo object."""

    released: frozenset[SnapshotId]
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
    cutoff = to_micros(older_than)
    match context.refs:
        case RepoObjectRefs() as refs:
            done = _expire_by_repo_object(
                refs, cutoff, branches=delete_expired_branches, tags=delete_expired_tags
            )
        case FileRefs() as refs:
            done = expire_by_files(
                context, refs, cutoff, branches=delete_expired_branches, tags=delete_expired_tags
            )
        case _:
            raise InternalError("unknown way to keep refs")
    return {str(one) for one in done}


def _expire_by_repo_object(
    refs: RepoObjectRefs, cutoff: Micros, *, branches: bool, tags: bool
) -> frozenset[SnapshotId]:
    released: frozenset[SnapshotId] = frozenset()

    def change(info: RepoInfo) -> Edit:
        nonlocal released
        plan = plan_expiration(info, cutoff, branches=branches, tags=tags)
        released = plan.released
        return plan.edit

    refs.edit(change)
    return released


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """What an expiry would take out of the history."""

    released: frozenset[SnapshotId]
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def plan_expiry(
    context: Context,
    older_than: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
) -> ExpiryPlan:
    """Tell what `expire_snapshots` would do now, changing nothing.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()
    cutoff = to_micros(older_than)
    match context.refs:
        case RepoObjectRefs() as refs:
            info = refs.info()
            plan = plan_expiration(
                info, cutoff, branches=delete_expired_branches, tags=delete_expired_tags
            )
            expired = ids_where(info.snapshots, _is_expired(info, cutoff))
            branches, tags = _lost_refs(info.branches, expired), _lost_refs(info.tags, expired)
            released = plan.released
        case FileRefs() as refs:
            found = plan_by_files(
                context, refs, cutoff, branches=delete_expired_branches, tags=delete_expired_tags
            )
            released, branches, tags = found.released, found.branches, found.tags
        case _:
            raise InternalError("unknown way to keep refs")
    return ExpiryPlan(
        released,
        branches if delete_expired_branches else (),
        tags if delete_expired_tags else (),
    )


def _lost_refs(refs: Mapping[str, SnapshotId], expired: frozenset[SnapshotId]) -> tuple[str, ...]:
    return tuple(sorted(refs.keys() - _kept_refs(refs, expired).keys()))


def _is_expired(info: RepoInfo, cutoff: Micros) -> Mask:
    rows = info.snapshots.columns.rows
    is_old: Mask = (rows["parent"] != NO_PARENT) & (rows["flushed_at"] < max(cutoff, 0))
    return is_old


def plan_expiration(info: RepoInfo, cutoff: Micros, *, branches: bool, tags: bool) -> Expiration:
    """Work out an expiry; `branches` and `tags` tell whether expired ones are deleted."""
    table = info.snapshots
    is_expired = _is_expired(info, cutoff)
    protected = {info.branches[MAIN]} if MAIN in info.branches else set()
    if not branches:
        protected |= set(info.branches.values())
    if not tags:
        protected |= set(info.tags.values())
    gone = is_expired & ~rows_of(table, protected)
    expired = ids_where(table, is_expired) if branches or tags else frozenset()
    marked = table.with_metadata(carried_marks(table, gone))
    fields: dict[str, object] = {"snapshots": cut(marked, gone, to_root=True)}
    if branches:
        fields["branches"] = _kept_refs(info.branches, expired)
    if tags:
        fields["tags"] = _kept_refs(info.tags, expired)
        lost = info.tags.keys() - _kept_refs(info.tags, expired).keys()
        fields["deleted_tags"] = info.deleted_tags | lost
    return Expiration(ids_where(table, gone), Edit(ExpirationRan(), fields))


def _kept_refs(
    refs: Mapping[str, SnapshotId], expired: frozenset[SnapshotId]
) -> dict[str, SnapshotId]:
    return {name: target for name, target in refs.items() if name == MAIN or target not in expired}
