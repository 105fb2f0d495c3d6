"""Where the bytes of a repository are, and how they are freed: plans, quarantine, erasure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from frazil.maintenance import collecting, garbage_plan, sharing, space, trash
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.sharing import By, Shares
from frazil.maintenance.space import SnapshotUsage
from frazil.maintenance.trash import TrashBatch
from frazil.model.values import GCSummary
from frazil.purging import purge
from frazil.purging.records import PurgeReport
from frazil.repository.handle import Handle


class Space(Handle):
    """What takes room, and what need not."""

    # --- looking ---

    def storage_shares(self, by: By = "array", *, older_than: datetime | None = None) -> Shares:
        """What each array, snapshot or branch refers to, alone and with others.

        With `older_than` also what expiry of snapshots before that time would free.
        """
        return sharing.shares(self.context, by, older_than=older_than)

    def growth(self) -> Iterator[SnapshotUsage]:
        """What each snapshot of the repository added, in the order in which they were made."""
        return space.growth(self.context)

    # --- garbage ---

    def plan_garbage(
        self,
        older_than: datetime,
        *,
        incremental: bool = False,
        snapshots: Iterable[str] | None = None,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GarbagePlan:
        """What a collection would delete, as a plan to print, to save and to carry out.

        An incremental one looks at what expired snapshots (all, or `snapshots`) referred to and
        lists neither chunks nor manifests; uploads that were never committed are left to a full
        one. Nothing younger than a day, or than `unsafe_minimum_age`, is planned.
        """
        chosen = None if snapshots is None else [self.id_of(one) for one in snapshots]
        return garbage_plan.make_plan(
            self.context,
            older_than,
            how="incremental" if incremental else "full",
            snapshots=chosen,
            unsafe_minimum_age=self.age_floor(unsafe_minimum_age),
        )

    def collect_planned(
        self,
        plan: GarbagePlan,
        *,
        quarantine: bool = False,
        unsafe_minimum_age: timedelta | None = None,
    ) -> GCSummary:
        """Delete what is still garbage of a plan, or put it aside below `trash/`.

        What is younger than a day by the clock of the store, or than `unsafe_minimum_age`, stays.

        Raises:
            InvalidInputError: the plan is that of another repository.
        """
        self.require_writable()
        return collecting.carry_out(
            self.context,
            plan,
            collecting.Way(quarantine=quarantine),
            unsafe_minimum_age=self.age_floor(unsafe_minimum_age),
        )[0]

    def list_trash(self) -> list[TrashBatch]:
        """What collections put aside, oldest first."""
        return trash.list_trash(self.context.storage)

    def restore_trash(self, batch: str | None = None, *, dry_run: bool = False) -> TrashBatch:
        """Put back what a collection put aside, or what all did."""
        self.require_writable()
        return trash.restore_trash(self.context, batch, dry_run=dry_run)

    def empty_trash(
        self,
        older_than: datetime,
        batch: str | None = None,
        *,
        dry_run: bool = False,
        unsafe_minimum_age: timedelta | None = None,
    ) -> TrashBatch:
        """Delete for good what was put aside before a time, and at least a day ago.

        `unsafe_minimum_age` is another age.
        """
        self.require_writable()
        return trash.empty_trash(
            self.context,
            older_than,
            batch,
            dry_run=dry_run,
            unsafe_minimum_age=self.age_floor(unsafe_minimum_age),
        )

    # --- erasure ---

    def purge(
        self,
        path: str,
        region: Sequence[slice | tuple[int, int | None]] | None = None,
        *,
        confirm: str | None = None,
        dry_run: bool = False,
        delete_backups: bool = False,
        unsafe_minimum_age: timedelta | None = None,
    ) -> PurgeReport:
        """Erase a node, or a region of an array, from all of history; it cannot be undone.

        Every snapshot that holds it is written anew under another id; branches, tags and history
        go over to those. Chunk objects are deleted, or overwritten where other chunks share them.
        The report tells what was found when everything was looked through again.

        Args:
            path: of an array or a group, now or at any time before.
            region: cells of the array, as slices; None for the whole node.
            confirm: the path again, so that nobody does this by accident.
            dry_run: only tell what would be erased.
            delete_backups: also delete backups of the repo object, and with them the older part
                of the operations log; they name old snapshots and hold no values. One of the
                object as it is after all this stays.
            unsafe_minimum_age: how old files must be to be erased, instead of a day by the clock
                of the store.

        Raises:
            InvalidInputError: `confirm` is not the path, or the region does not fit.
            SessionStateError: a file that holds it is too young.
            NodeNotFoundError: no snapshot has, or had, a node there.
        """
        if not dry_run:
            self.require_writable()
        return purge.purge(
            self.context,
            path,
            region,
            confirm=confirm,
            dry_run=dry_run,
            delete_backups=delete_backups,
            unsafe_minimum_age=self.age_floor(unsafe_minimum_age),
        )
