"""Carrying out a collection: every way to delete garbage leads here.

Snapshots go first: once no snapshot names an object, no new work can refer to it. Then the refs are
looked at again, before manifests, logs and attribute files go, and once more before chunks do.
Whatever has come into use is spared.

In repositories where a ref can be made to any snapshot file, snapshots are copied below `trash/`
before they are deleted. A writer that makes a ref checks afterwards that its snapshot exists; the
collection reads the refs after deleting. So at least one of the two notices the other. If the
collection does, it puts the copies back and plans again. While copies exist, no purge may run, as
it would miss them, and nothing else may restore them; the collection keeps both away.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import filterfalse
from typing import Final

from frazil.commit.base import attempts
from frazil.commit.file_refs import FileRefs
from frazil.errors import (
    ErrorKind,
    FrazilError,
    InternalError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from frazil.maintenance.at_work import TrashWork, WorkNote, at_work
from frazil.maintenance.candidates import PHASES, of_objects, unused_attribute_files
from frazil.maintenance.chunk_statistics import forget_collected
from frazil.maintenance.deleting import (
    DeleteLimits,
    DeleteReport,
    OnDeleted,
    deletable_before,
    delete_objects,
)
from frazil.maintenance.garbage import (
    CollectionPlan,
    deletion_summary,
    look_again,
    plan_collection,
    settle,
)
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import Objects, measured
from frazil.maintenance.trash import batch_name, copy_aside, discard, put_aside, put_back
from frazil.maintenance.walk import FindChunks, WalkLimits, native_chunks
from frazil.model.values import GCSummary
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.pool import start_in_pool
from frazil.tip import require_writable
from frazil.transaction.context import Context

LONGEST_WRITE: Final = timedelta(days=1)
"""A file that is being written for longer than this has lost its writer."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectionOptions:
    """How garbage is removed: limits, and whether it goes to the trash."""

    walk: WalkLimits = field(default_factory=WalkLimits)
    deleting: DeleteLimits = field(default_factory=DeleteLimits)
    quarantine: bool = False
    """it is put aside below `trash/`"""
    find_chunks: FindChunks = native_chunks
    """tells what manifests refer to, where a new plan is needed"""
    on_deleted: OnDeleted | None = None
    """gets the keys of what was deleted"""


def carry_out(
    context: Context,
    plan: GarbagePlan,
    way: CollectionOptions | None = None,
    *,
    unsafe_minimum_age: timedelta | None = None,
) -> tuple[GCSummary, str | None]:
    """Delete what is still garbage of a plan, or put it aside; then also tell the batch's name.

    What is younger than a day by the clock of the store, or than `unsafe_minimum_age`, stays
    even if the plan names it. What is garbage is worked out again whenever refs have changed since
    the plan.

    Raises:
        InvalidInputError: the plan is that of another repository.
        StorageError: too many deletes in a row have failed.
        ConflictError: the repository is of another generation by now, or kept changing; or
            garbage is to be put aside, if only for a while, while another process erases data or
            restores garbage.
    """
    require_writable(context, "collect garbage")
    if plan.url != context.storage.url:
        raise InvalidInputError(
            f"the plan was made for {plan.url}, not for {context.storage.url}",
            kind=ErrorKind.INVALID_OPTION,
        )
    way = way or CollectionOptions()
    made, candidates, cutoff = plan.made, plan.garbage, plan.older_than
    limit = deletable_before(context.place, unsafe_minimum_age)
    if limit is not None and cutoff > limit:
        # Made with another minimum age, or by a machine whose clock is ahead.
        made, cutoff = None, limit
        candidates = tuple(
            measured(context.storage, part.prefix, part.ids, limit) for part in candidates
        )
    batch = batch_name() if way.quarantine else None
    copies = batch or (f"{batch_name()}-snapshots" if _needs_copies(context) else None)
    with ExitStack() as stack:
        note = stack.enter_context(at_work(context.place, TrashWork.MOVING)) if copies else None
        fewer = _without_restored(context, candidates, cutoff) if _needs_copies(context) else None
        if fewer is not None:
            made, candidates = None, fewer
        for _ in attempts(context.config.update_retries()):
            # A plan that knows what was kept needs only a look at what was published since.
            chosen, made = made, None
            if chosen is None:
                found = of_objects(candidates)
                chosen = plan_collection(context, found, way.walk, way.find_chunks)
            final = settle(context, chosen, way.walk)
            if final is None:
                continue
            run = _Run(context, way, batch, copies, cutoff, note)
            try:
                if run.remove_snapshots(final):
                    return run.remove_rest(is_full=plan.how == "full"), batch
            finally:
                context.assets.forget()
    raise InternalError("attempts ended without an error", kind=ErrorKind.UNKNOWN)


def _needs_copies(context: Context) -> bool:
    """Whether a ref may be made to any snapshot file, so that one may have to come back."""
    return isinstance(context.refs, FileRefs) and context.refs.names_any_file


def _without_restored(
    context: Context, candidates: tuple[Objects, ...], cutoff: datetime
) -> tuple[Objects, ...] | None:
    """Candidates without snapshots that came back from the trash since the plan: they are young.

    None if there are no such snapshots.
    """
    snapshots, *rest = candidates
    assert snapshots.prefix == SNAPSHOTS
    still = measured(context.storage, SNAPSHOTS, snapshots.ids, cutoff)
    return None if len(still) == len(snapshots) else (still, *rest)


class _Run:
    """One collection under way."""

    def __init__(
        self,
        context: Context,
        way: CollectionOptions,
        batch: str | None,
        copies: str | None,
        cutoff: datetime,
        note: WorkNote | None,
    ) -> None:
        self._context = context
        self._way = way
        self._batch = batch
        self._cutoff = cutoff
        self._reports: dict[str, DeleteReport] = {}
        self._skipped: list[str] = []
        self._copies = copies
        """batch of the trash from which snapshots can come back"""
        self._note = note
        """keeps others away where something is copied to the trash"""

    def remove_snapshots(self, plan: CollectionPlan) -> bool:
        """Remove snapshots; False when a new ref needs one, and all were put back."""
        self._remove(plan, SNAPSHOTS, self._copies)
        try:
            self._plan = look_again(self._context, plan, self._way.walk)
        except FrazilError as error:
            if self._copies is not None:
                put_back(self._context, self._copies, SNAPSHOTS, keeps_copies=self._has_failed)
            if self._copies is None or not isinstance(error, SnapshotNotFoundError):
                raise
            return False
        return True

    def remove_rest(self, *, is_full: bool) -> GCSummary:
        """Remove what only garbage referred to."""
        context = self._context
        if self._copies is not None and self._batch is None and not self._has_failed:
            # A request that failed may still arrive, and delete what has got a ref by then.
            self._reports["copies"] = discard(context.place, self._copies)
        swept = start_in_pool(partial(sweep, context.place, self._cutoff))
        for prefix in (LOGS, MANIFESTS):
            self._remove(self._plan, prefix, self._batch)
        attributes = is_full and not self._has_failed
        if not self._has_failed:
            self._plan = look_again(context, self._plan, self._way.walk)
        self._remove(self._plan, CHUNKS, self._batch)
        swept.result()
        if attributes:
            self._remove_attributes()
        self._forget_statistics(is_full=is_full)
        return deletion_summary(self._reports, self._skipped)

    def _forget_statistics(self, *, is_full: bool) -> None:
        """Drop statistics of chunks that are gone; only a full collection may list chunks."""
        if self._has_failed:
            return
        gone = RowSet()
        gone.add(self._plan.garbage[-1].ids)
        if is_full or len(gone):
            forget_collected(self._context, None if is_full else gone, self._cutoff)

    def _remove_attributes(self) -> None:
        place, unused = self._context.place, unused_attribute_files(self._context, self._cutoff)
        if not unused:
            return
        keys, failed = [item.key for item in unused], dict[str, str]()
        if self._batch is not None:
            assert self._note is not None
            self._note.hold()
            troubles = copy_aside(place, keys, self._batch)
            failed = {key: why for key, why in zip(keys, troubles, strict=True) if why}
        failed |= place.delete_many([key for key in keys if key not in failed]).failed
        gone = [item.size_bytes for item in unused if item.key not in failed]
        report = DeleteReport(len(gone), sum(gone), len(failed))
        for message in failed.values():
            report.record_error(message)
        self._reports["attributes"] = report

    @property
    def _has_failed(self) -> bool:
        return any(report.failed for report in self._reports.values())

    def _remove(self, plan: CollectionPlan, prefix: str, batch: str | None) -> None:
        """Remove objects of one kind, unless some that may refer to them are left."""
        phase = PHASES[prefix]
        if self._has_failed:
            self._skipped.append(phase)
            return
        if self._note is not None:
            self._note.hold()
        context, way = self._context, self._way
        [part] = [each for each in plan.garbage if each.prefix == prefix]
        if batch is None:
            report = delete_objects(context.storage, part, way.deleting)
        else:
            assert self._note is not None
            report = put_aside(context, part, batch, way.deleting, self._note)
        self._reports[phase] = report
        if way.on_deleted is not None:
            way.on_deleted([*filterfalse(report.left.__contains__, part.keys())])


def sweep(storage: Storage, before: datetime) -> None:
    """Remove what killed writers left half written on a disk; listings do not show it."""
    if isinstance(storage, LocalStorage):
        storage.remove_staging(min(before, datetime.now(UTC) - LONGEST_WRITE))
