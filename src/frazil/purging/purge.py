"""Erasing an array, a group or a region of an array from every snapshot that ever held it.

Snapshots without it are written under new ids, then refs and history go over to those in one step
(or ref by ref where each has a file), and only then bytes are destroyed. A writer that works on an
old snapshot cannot commit any more: its branch has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from frazil.commit.base import OVERWRITTEN, attempts
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.repo_object import Edit
from frazil.errors import (
    ErrorKind,
    FrazilError,
    InternalError,
    InvalidInputError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.formats.legacy.names import METADATA_FOLDERS
from frazil.ids import SnapshotId, crockford_many, node_path
from frazil.maintenance.at_work import TrashWork, WorkNote, at_work
from frazil.maintenance.chunk_statistics import forget_erased, left_to_tell
from frazil.maintenance.deleting import DeleteLimits, deletable_before, delete_keys, require_old
from frazil.maintenance.id_sets import ID_WIDTH, RowSet, id_rows
from frazil.maintenance.listing import Objects
from frazil.maintenance.trash import TRASH, batch_name, put_aside, put_back
from frazil.masking import shown_url
from frazil.model.history import UpdateType
from frazil.purging import erasing
from frazil.purging.erasing import Erasure
from frazil.purging.finding import (
    PurgeMatches,
    all_ranges,
    find,
    snapshot_blobs,
    stored_snapshots,
)
from frazil.purging.moving_refs import is_known, move_refs, ref_targets
from frazil.purging.records import PurgeReport, PurgeTarget, Verification, parse_region
from frazil.purging.rewriting import Rewriter
from frazil.purging.snapshot_bytes import holds_ids
from frazil.storage.assets import CHUNKS, SNAPSHOTS, log_key, snapshot_key
from frazil.storage.base import Storage
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.pool import fan_out
from frazil.tip import require_writable
from frazil.transaction.context import Context

SHOWN_NAMES: Final = 100
"""Names that a report lists."""
LEFT_BY_UPGRADES: Final = (
    PRESERVED,
    *METADATA_FOLDERS,
)
"""Folders of files that the cleanup after an upgrade deletes."""


def purge(
    context: Context,
    path: str,
    region: Sequence[slice | tuple[int, int | None]] | None = None,
    *,
    confirm: str | None = None,
    dry_run: bool = False,
    delete_backups: bool = False,
    unsafe_minimum_age: timedelta | None = None,
) -> PurgeReport:
    """Erase a node, or a region of an array, from all of history; a dry run tells what it is.

    Raises:
        InvalidInputError: `confirm` is not the path again, or the region does not fit.
        NodeNotFoundError: no snapshot has, or had, a node there.
        SessionStateError: an upgrade has left files that hold it as well, or a file that holds
            it is younger than a day by the clock of the store, or than `unsafe_minimum_age`.
        ConflictError: another process is restoring from the trash at the same time.
    """
    wanted = PurgeTarget(node_path("/" + path.strip("/")), parse_region(region))
    if not dry_run:
        require_writable(context, "purge")
        if confirm is None or node_path("/" + confirm.strip("/")) != wanted.path:
            raise InvalidInputError(
                f"this cannot be undone: to purge {wanted.path!r} from all history pass "
                f"confirm={wanted.path!r}",
                kind=ErrorKind.NOT_CONFIRMED,
            )
        _require_cleaned(context.storage)
    if dry_run:
        found = find(context, wanted)
        return _report_of(context, found, _plan(context, found), None)
    limit = deletable_before(context.place, unsafe_minimum_age)
    with at_work(context.place, TrashWork.ERASING) as note:
        return _purge(context, wanted, limit, note, delete_backups=delete_backups)


def _purge(
    context: Context,
    wanted: PurgeTarget,
    limit: datetime | None,
    note: WorkNote,
    *,
    delete_backups: bool,
) -> PurgeReport:
    found = find(context, wanted)
    rewriter = Rewriter.of(context, found)
    for _ in attempts(context.config.update_retries()):
        found = _rewrite(context, found, rewriter, limit)
        plan = _plan(context, found)
        batch = f"{batch_name()}-purge"
        note.hold()
        if _is_settled(context, found, rewriter, batch, note):
            break
    report = _report_of(context, found, plan, rewriter)
    rewriter.require_written()  # once more: a collection may have run at that very moment
    _destroy(context, found, plan, rewriter, batch, delete_backups=delete_backups)
    note.hold()  # fails if another job took this one for dead: it may have copied erased bytes
    if isinstance(context.refs, RepoObjectRefs):
        # The newest backup is what repair begins with, and must name snapshots that exist.
        context.refs.edit(lambda _: Edit(UpdateType.GCRan(), {}))
    return replace(
        report,
        applied=True,
        backups_deleted=delete_backups,
        verification=_verify(context, found, plan),
    )


def _require_cleaned(storage: Storage) -> None:
    """Refuse where files of an older generation are left, which are not looked into."""
    for folder in LEFT_BY_UPGRADES:
        if next(iter(storage.list(folder)), None) is not None:
            raise SessionStateError(
                f"an upgrade has left files of an older generation below {folder!r}, which may "
                "hold what shall be erased; clean up after the upgrade first",
                kind=ErrorKind.NOT_ALLOWED,
            )


def _require_old(
    context: Context, found: PurgeMatches, plan: Erasure, limit: datetime | None
) -> None:
    """Refuse to erase what an open session may still be writing."""
    if limit is None:
        return
    keys = [
        *(CHUNKS + name for name in crockford_many(plan.deleted)),
        *map(erasing.chunk_object_key, plan.overwritten),
        *(key for key in found.loose if not key.startswith(TRASH)),
    ]
    there = fan_out(context.storage.head, keys)
    require_old([item for item in there if item is not None], limit, "purge")


def _plan(context: Context, found: PurgeMatches) -> Erasure:
    return erasing.plan_erasure(context.storage, found, found.tainted)


def _report_of(
    context: Context, found: PurgeMatches, plan: Erasure, rewriter: Rewriter | None
) -> PurgeReport:
    """What an erasure comes to."""
    storage = context.storage
    renamed: dict[str, str | None] = {str(one): None for one in sorted(found.affected)}
    if rewriter is not None:
        pairs = sorted(rewriter.ids.items())
        renamed = {str(old): str(new) for old, new in pairs if old not in found.logs}
    shared = {node_id: str(node_id) for node_id in plan.shared}
    if shared:
        for _, snapshot in stored_snapshots(storage):
            shared.update((n.id, n.path) for n in snapshot.nodes if n.id in shared)
    return PurgeReport(
        path=found.target.path,
        region=found.target.region,
        applied=False,
        paths=tuple(sorted(found.paths)),
        snapshots=renamed,
        loose_snapshots=len(found.loose),
        manifests_deleted=len(found.tainted),
        chunks_dropped=found.chunks if rewriter is None else rewriter.blanker.dropped,
        chunks_blanked=0 if rewriter is None else rewriter.blanker.blanked,
        objects_deleted=len(plan.deleted),
        objects_overwritten=len(plan.overwritten),
        bytes_erased=plan.bytes_erased,
        virtual_sources=tuple(map(shown_url, sorted(found.sources)[:SHOWN_NAMES])),
        still_referenced=tuple(sorted(shared.values())),
        backups=sum(1 for _ in storage.list(OVERWRITTEN)),
    )


# --- history ---


def _rewrite(
    context: Context, found: PurgeMatches, rewriter: Rewriter, limit: datetime | None
) -> PurgeMatches:
    """Write what is left, and let refs and history go over to it, whatever others do meanwhile.

    Raises:
        SessionStateError: a file that is to be erased is too young. With a repo object nothing
            has changed then; refs in files of their own may have gone over one by one.
    """
    for attempt in attempts(context.config.update_retries()):
        try:
            _require_old(context, found, _plan(context, found), limit)
        except SessionStateError as error:
            if attempt and isinstance(context.refs, RefFileRefs):
                error.add_note("some refs have gone over to a history without it; run it again")
            raise
        rewriter.write(found)
        rewriter.require_written()
        if move_refs(context, found, rewriter):
            return found
        # Another process has committed: only its new files have to be searched.
        found = _joined(found, find(context, found.target, rewriter.written))
        rewriter.target = rewriter.blanker.target = found.target
    raise InternalError("attempts ended without an error")


def _joined(old: PurgeMatches, new: PurgeMatches) -> PurgeMatches:
    new.paths |= old.paths
    new.loose |= old.loose
    new.seen |= old.seen
    new.tainted |= old.tainted
    new.sources |= old.sources
    new.ranges.add(old.ranges.rows())
    new.target = replace(new.target, nodes=new.target.nodes | old.target.nodes)
    return new


# --- bytes ---


def _is_settled(
    context: Context, found: PurgeMatches, rewriter: Rewriter, batch: str, note: WorkNote
) -> bool:
    """Check again before bytes are erased; False if a ref leads to an old snapshot again.

    Where a ref may be made to any snapshot file, the old ones are put aside before, under the name
    of a batch: a writer that makes a ref checks whether its snapshot is there, and this looks at
    the refs, so that one of the two sees the other.
    """
    if not isinstance(context.refs, RefFileRefs):
        context.refs.require_online()
        return is_known(context, found, rewriter)
    loose = (key[len(SNAPSHOTS) :] for key in found.loose if key.startswith(SNAPSHOTS))
    old = {*(one for one in rewriter.ids if one in found.history), *map(SnapshotId.parse, loose)}
    ids = id_rows(sorted(old))
    objects = Objects(SNAPSHOTS, ids, np.zeros(len(ids), np.uint64))
    report = put_aside(context, objects, batch, DeleteLimits(), note)
    try:
        if report.failed:
            raise StorageError(f"a snapshot would not go: {report.errors[0]}")
        if old.isdisjoint(ref_targets(context.refs)) and is_known(context, found, rewriter):
            return True
    except FrazilError as error:
        put_back(context, batch, SNAPSHOTS)
        if not isinstance(error, SnapshotNotFoundError):
            raise
    else:
        put_back(context, batch, SNAPSHOTS)
    return False


def _destroy(
    context: Context,
    found: PurgeMatches,
    plan: Erasure,
    rewriter: Rewriter,
    batch: str,
    *,
    delete_backups: bool,
) -> None:
    """Destroy bytes first and the files that name them last, so that a crash can be made good."""
    storage = context.storage
    erasing.erase(storage, plan)
    forget_erased(context, found.ranges, sources=bool(found.sources))
    delete_keys(storage, sorted(found.tainted))
    delete_keys(storage, [log_key(one) for one in rewriter.ids])
    delete_keys(storage, [snapshot_key(one) for one in rewriter.ids])
    delete_keys(storage, sorted(found.loose))
    delete_keys(storage, [item.key for item in storage.list(f"{TRASH}{batch}/")])
    if delete_backups:
        delete_keys(storage, [item.key for item in storage.list(OVERWRITTEN)])
    context.assets.forget()


def _verify(context: Context, found: PurgeMatches, plan: Erasure) -> Verification:
    """Look through everything again."""
    storage, target = context.storage, found.target
    left: list[str] = []
    count = 0
    for key, blob in snapshot_blobs(storage):
        count += 1
        if target.region is None and holds_ids(blob, target.nodes, key=key):
            left.append(f"{key} has {target.path}")
        if key in found.loose:
            left.append(f"{key} still exists")
    objects = RowSet()
    objects.add(found.ranges.rows()[:, :ID_WIDTH])
    manifests: set[str] = set()
    allowed = set(plan.shared)
    for key, node_id, rows in all_ranges(storage, objects):
        manifests.add(key)
        if len(rows) and node_id not in allowed and found.ranges.contains(rows).any():
            left.append(f"{key} refers to erased bytes")
    left += [f"{key} still exists" for key in found.tainted if storage.head(key) is not None]
    left += [f"{key} tells of erased values" for key in left_to_tell(context, found.ranges)]
    checked, there = erasing.leftovers(storage, plan)
    return Verification(
        snapshots=count,
        manifests=len(manifests),
        objects=checked,
        leftovers=tuple([*left, *there][:SHOWN_NAMES]),
        unnamed_objects=erasing.unnamed_objects(storage),
    )
