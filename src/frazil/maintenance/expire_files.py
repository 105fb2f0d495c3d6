"""Expiry where snapshot files name their parents.

In each ref's history the oldest snapshot that stays is rewritten in place, under the same id,
as a child of the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from frazil.commit.base import MAIN, attempts
from frazil.commit.file_refs import Expired, FileRefs
from frazil.errors import ConflictError, RefNotFoundError
from frazil.formats.snapshot import decode_snapshot
from frazil.ids import SnapshotId
from frazil.maintenance.file_history import FileHistory, Known, read_file_history
from frazil.model.history import Metadata, Micros
from frazil.model.marks import united, with_marks
from frazil.storage.assets import snapshot_key
from frazil.storage.base import Fetched
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
    """of the adopted one, with the marks of those between: their work stays done"""


def expire_by_files(
    context: Context, refs: FileRefs, cutoff: Micros, *, branches: bool, tags: bool
) -> Expired:
    """Expire the history of every ref: tags, then branches, by name; tell what was released."""
    at_once = refs.expire_at_once(cutoff, branches=branches, tags=tags)
    if at_once is not None:
        context.assets.forget()
        return at_once
    released: set[SnapshotId] = set()
    for _ in attempts(context.config.update_retries()):
        tips = refs.tags(), refs.branches()
        released |= _expire_refs(context, refs, *tips, cutoff, branches=branches, tags=tags)
        # An erasure may have moved refs to snapshots that it made of the history of before.
        if not _moved(tips[0], refs.tags()) and not _moved(tips[1], refs.branches()):
            break
    return Expired(frozenset(released))


def _moved(before: Mapping[str, SnapshotId], now: Mapping[str, SnapshotId]) -> bool:
    """Whether a ref leads elsewhere; those that have gone or are new do not count."""
    return any(now.get(name, tip) != tip for name, tip in before.items())


def _expire_refs(
    context: Context,
    refs: FileRefs,
    by_tag: Mapping[str, SnapshotId],
    by_branch: Mapping[str, SnapshotId],
    cutoff: Micros,
    *,
    branches: bool,
    tags: bool,
) -> set[SnapshotId]:
    history = read_file_history(context.storage)
    released: set[SnapshotId] = set()
    for name, _, plan in plan_refs(history, by_tag, cutoff):
        _rewrite(context, plan)
        released |= plan.released
        if plan.is_expired and tags:
            refs.delete_tag(name)
    for name, tip, plan in plan_refs(history, by_branch, cutoff):
        _rewrite(context, plan)
        released |= plan.released
        if plan.is_expired and branches and name != MAIN:
            # A commit since then has made the branch young again.
            with suppress(ConflictError, RefNotFoundError):
                refs.delete_branch(name, tip)
    return released


def plan_by_files(
    context: Context, refs: FileRefs, cutoff: Micros, *, branches: bool, tags: bool
) -> Expired:
    """Tell what that would do now, changing nothing."""
    at_once = refs.expire_at_once(cutoff, branches=branches, tags=tags, dry_run=True)
    if at_once is not None:
        return at_once
    history = read_file_history(context.storage)
    by_tag = list(plan_refs(history, refs.tags(), cutoff))
    by_branch = list(plan_refs(history, refs.branches(), cutoff))
    return Expired(
        frozenset(one for _, _, ref in by_tag + by_branch for one in ref.released),
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
            history.known[plan.adopted] = Known(entry, known.manifest_files)


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
        with_marks(lineage[oldest].metadata, united(e.metadata for e in lineage[oldest + 1 :])),
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
        old = decode_snapshot(found.data, key=key)
        new = replace(old, parent_id=parent_id, metadata=metadata)
        context.refs.require_online()
        if new == old or context.assets.replace_snapshot(new, found.version):
            context.storage.make_durable([key])
            return
