"""The order of a collection: every door that deletes garbage leads here.

Snapshots go first, for nobody can begin to use what no snapshot names. Then the refs are looked
at again, before manifests, logs and attribute files go, and once more before chunks do. Whatever
has come into use is spared.

Where a ref may be made to any snapshot file, snapshots are copied below `trash/` before they go.
Whoever makes a ref looks afterwards whether its snapshot is there, and the collection looks at
the refs after deleting: one of the two sees the other. If it is the collection, the copies are put
back and everything is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import filterfalse
from typing import Final

from frazil.commit.base import attempts
from frazil.commit.file_refs import FileRefs
from frazil.errors import ErrorKind, FrazilError, InternalError, SnapshotNotFoundError
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
from frazil.maintenance.garbage import (
    PHASES,
    Plan,
    counted,
    list_phases,
    look_again,
    plan_collection,
    settle,
    summary_of,
)
from frazil.maintenance.trash import batch_name, discard, put_aside, put_back
from frazil.maintenance.walk import WalkLimits
from frazil.model.values import GCSummary
from frazil.storage.assets import CHUNKS, LOGS, MANIFESTS, SNAPSHOTS
from frazil.storage.base import Listed, Storage, begin
from frazil.storage.local import LocalStorage
from frazil.transaction.context import Context

LONGEST_WRITE: Final = timedelta(days=1)
"""A file that is being written for longer than this has lost its writer."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """How garbage is removed: within which limits, and where to."""

    walk: WalkLimits = field(default_factory=WalkLimits)
    deleting: DeleteLimits = field(default_factory=DeleteLimits)
    batch: str | None = None
    """garbage is put aside in the trash under this name"""
    swept_before: datetime | None = None
    """what killed writers left before this time goes too"""
    attributes: Sequence[Listed] = ()
    """attribute files that go if no snapshot names them"""
    told: Told = nobody


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
        ConflictError: the repository is of another generation by now, or kept changing.
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
    attributes = old_attribute_files(context, cutoff)

    def plan() -> Plan:
        old = list_phases(context, cutoff, max_concurrent_listings)
        return plan_collection(context, old, walk).older(context.storage, cutoff)

    if dry_run:
        return collect_attribute_files(context, attributes, counted(plan()), dry_run=True)
    deleting = DeleteLimits(max_concurrent_deletes, max_consecutive_delete_failures)
    way = Way(walk, deleting, swept_before=cutoff, attributes=attributes)
    return collect(context, plan, way)


def collect(context: Context, plan: Callable[[], Plan], way: Way) -> GCSummary:
    """Remove what is garbage by a plan, which is made anew whenever the refs have overtaken it.

    Raises:
        StorageError: too many deletes in a row have failed.
        ConflictError: the repository is of another generation by now, or kept changing.
    """
    for _ in attempts(context.config.update_retries()):
        final = settle(context, plan(), way.walk)
        if final is None:
            continue
        run = _Run(context, way)
        try:
            if run.remove_snapshots(final):
                return run.remove_rest()
        finally:
            context.assets.forget()
    raise InternalError("attempts ended without an error", kind=ErrorKind.UNKNOWN)


class _Run:
    """One collection under way."""

    def __init__(self, context: Context, way: Way) -> None:
        self._context = context
        self._way = way
        self._reports: dict[str, DeleteReport] = {}
        self._skipped: list[str] = []
        refs = context.refs
        needs_copies = isinstance(refs, FileRefs) and refs.names_any_file
        self._copies = way.batch or (f"{batch_name()}-snapshots" if needs_copies else None)
        """batch of the trash from which snapshots can come back"""

    def remove_snapshots(self, plan: Plan) -> bool:
        """Remove snapshots; False when a new ref needs one, and all were put back."""
        self._remove(plan, SNAPSHOTS, self._copies)
        try:
            self._plan = look_again(self._context, plan, self._way.walk)
        except FrazilError as error:
            if self._copies is not None:
                put_back(self._context.storage, self._copies, SNAPSHOTS)
            if self._copies is None or not isinstance(error, SnapshotNotFoundError):
                raise
            return False
        return True

    def remove_rest(self) -> GCSummary:
        """Remove what only garbage referred to."""
        context, way = self._context, self._way
        if self._copies is not None and way.batch is None:
            self._reports["copies"] = discard(context.storage, self._copies)
        swept = begin(partial(sweep, context.place, way.swept_before))
        for prefix in (LOGS, MANIFESTS):
            self._remove(self._plan, prefix, way.batch)
        has_attributes = bool(way.attributes) and not self._has_failed
        if not self._has_failed:
            self._plan = look_again(context, self._plan, way.walk)
        self._remove(self._plan, CHUNKS, way.batch)
        swept.result()
        summary = summary_of(self._reports, self._skipped)
        if not has_attributes:
            return summary
        return collect_attribute_files(context, way.attributes, summary)

    @property
    def _has_failed(self) -> bool:
        return any(report.failed for report in self._reports.values())

    def _remove(self, plan: Plan, prefix: str, batch: str | None) -> None:
        """Remove objects of one kind, unless others, which may refer to them, would not go."""
        phase = PHASES[prefix]
        if self._has_failed:
            self._skipped.append(phase)
            return
        storage, way = self._context.storage, self._way
        [part] = [each for each in plan.garbage if each.prefix == prefix]
        report = (
            delete_objects(storage, part, way.deleting)
            if batch is None
            else put_aside(storage, part, batch, way.deleting)
        )
        self._reports[phase] = report
        if way.told is not nobody:
            way.told([*filterfalse(report.left.__contains__, part.keys())])


def sweep(storage: Storage, before: datetime | None) -> None:
    """Remove what killed writers left half written on a disk; listings do not show it."""
    if before is not None and isinstance(storage, LocalStorage):
        storage.remove_staging(min(before, datetime.now(UTC) - LONGEST_WRITE))
