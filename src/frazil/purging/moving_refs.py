"""Refs and history go over to the snapshots that an erasure has written anew."""

from __future__ import annotations

from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.repo_object import Edit
from frazil.errors import ConflictError, InternalError
from frazil.ids import SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.model.history import RepoInfo, SnapshotTable, UpdateType
from frazil.purging.finding import PurgeMatches, keys_of_kind, known_history
from frazil.purging.rewriting import Rewriter
from frazil.storage.assets import SNAPSHOTS
from frazil.transaction.context import Context


def move_refs(context: Context, found: PurgeMatches, rewriter: Rewriter) -> bool:
    """Replace old snapshots in refs and history; False if others have changed something meanwhile.

    With a repo object all of it is replaced at once or nothing is; refs in files of their own go
    over one by one.
    """
    match context.refs:
        case RepoObjectRefs() as refs:
            return _swap_repo_object(refs, found, rewriter)
        case RefFileRefs() as refs:
            return _swap_files(context, refs, found, rewriter)
        case _:
            raise InternalError("unknown way to keep refs")


def _swap_repo_object(refs: RepoObjectRefs, found: PurgeMatches, rewriter: Rewriter) -> bool:
    """Replace snapshots in the repo object; False if it lists some that were not examined."""
    is_done = False

    def change(info: RepoInfo) -> Edit | None:
        nonlocal is_done
        is_done = False
        known = {*found.history, *rewriter.ids.values()}
        if any(one not in known for one in info.snapshots):
            return None
        is_done = True
        if not any(one in rewriter.ids for one in info.snapshots) and not any(
            log in rewriter.ids
            for entry in info.snapshots.entries()
            for log in entry.pruned_ancestor_tx_logs
        ):
            return None
        entries = [rewriter.entry(entry) for entry in info.snapshots.entries()]
        ids = rewriter.ids
        return Edit(
            UpdateType.GCRan(),
            {
                "snapshots": SnapshotTable.of(entries, info.snapshots.codec),
                "branches": {name: ids.get(at, at) for name, at in info.branches.items()},
                "tags": {name: ids.get(at, at) for name, at in info.tags.items()},
            },
        )

    refs.edit(change)
    return is_done


def _swap_files(
    context: Context, refs: RefFileRefs, found: PurgeMatches, rewriter: Rewriter
) -> bool:
    """Move each ref to the snapshot that replaces its own; False when one has moved meanwhile.

    An expiry at the same time rewrites old snapshots and then checks whether refs have moved. We
    move refs and then check the snapshots. So at least one of the two notices the other.
    """
    try:
        for name, at in refs.branches().items():
            if at in rewriter.ids:
                refs.reset_branch(name, rewriter.ids[at], at)
        for name, target in [*refs.tags().items(), *refs.deleted_tags()]:
            if target is not None and target in rewriter.ids:
                refs.move_tag(name, rewriter.ids[target], target)
    except ConflictError:
        return False
    files = read_file_history(context.assets).known
    rewriter.follow({one: files[one].entry for one in rewriter.ids if one in files})
    return is_known(context, found, rewriter)


def is_known(context: Context, found: PurgeMatches, rewriter: Rewriter) -> bool:
    """Whether all of history was looked at, and all snapshot files beside it."""
    known = {*found.history, *rewriter.ids.values()}
    if not all(one in known for one in known_history(context)):
        return False
    if not isinstance(context.refs, RefFileRefs):
        return True
    keys = keys_of_kind(context.storage, SNAPSHOTS)
    return all(key in found.seen or key in rewriter.written for key in keys)


def ref_targets(refs: RefFileRefs) -> set[SnapshotId]:
    """Snapshots that refs point to, deleted tags included."""
    deleted = {target for _, target in refs.deleted_tags() if target is not None}
    return refs.present_roots() | deleted
