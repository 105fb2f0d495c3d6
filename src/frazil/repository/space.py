"""`repo.space`: disk usage, expiry, garbage collection, compaction and erasure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from frazil.async_twins import async_items, async_twin
from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.history import to_datetime
from frazil.model.values import BasicConflictSolver, GCSummary, VersionSelection
from frazil.operations import Effect, verb
from frazil.repository.reports import CollectionReport, ExpiryReport, ManifestsReport, Namespace

if TYPE_CHECKING:
    from frazil.bulk.pack import Packing
    from frazil.maintenance.compaction import Compaction
    from frazil.maintenance.garbage_plan import GarbagePlan
    from frazil.maintenance.sharing import Shares, UsageBy
    from frazil.maintenance.space import SnapshotUsage
    from frazil.maintenance.trash import TrashBatch
    from frazil.progress import Tell
    from frazil.purging.records import PurgeReport
    from frazil.run import Runner


class Space(Namespace):
    """Disk usage, and how to free space."""

    # --- looking ---

    @verb(Effect.READS)
    def shares(self, by: UsageBy = "array", *, older_than: datetime | None = None) -> Shares:
        """Bytes that each array, snapshot or branch refers to, alone and shared with others.

        With `older_than` also what expiry of snapshots before that time would free.
        """
        from frazil.maintenance.sharing import shares

        return shares(self._context, by, older_than=older_than)

    @verb(Effect.READS)
    def growth(self) -> Iterator[SnapshotUsage]:
        """What each snapshot of the repository added, in the order in which they were made."""
        from frazil.maintenance.space import growth

        return growth(self._context)

    # --- writing anew ---

    @verb(Effect.CHANGES)
    def compact(
        self,
        branch: str = "main",
        path: str = "/",
        *,
        packing: Packing | bool | None = True,
        min_dead_share: float = 0.3,
        message: str = "compact chunks",
        metadata: dict[str, Any] | None = None,
        dry_run: bool = False,
        runner: Runner | None = None,
        progress: Tell | None = None,
    ) -> Compaction:
        """Put small chunks together into larger objects, in a commit; nothing is decoded.

        It is one commit, or none if there is nothing to do; where others change the same chunks
        meanwhile, their change stays. Old snapshots keep the old objects: expiry and garbage
        collection free their space.

        Args:
            branch: the branch whose chunks are looked at.
            path: an array, or a group above some.
            packing: how large the objects become.
            min_dead_share: write packs anew of which at least this share is unused.
            message: of the commit.
            metadata: of the commit.
            dry_run: only tell what would be done.
            runner: what has others copy chunks, such as tasks of Spark.
            progress: is called with the progress so far.

        Raises:
            NodeNotFoundError: there is no node at `path`.
        """
        from frazil.maintenance.compaction import compact_chunks

        session = self._repository.tip(branch).writable_session()
        done = compact_chunks(
            session.state,
            path,
            packing=packing,
            min_dead_share=min_dead_share,
            dry_run=dry_run,
            runner=runner,
            progress=progress,
        )
        if dry_run or not done.chunks:
            return done
        facts = metadata
        if runner is not None:
            counts = {"rewritten-chunks": done.chunks, "rewritten-bytes": done.bytes_rewritten}
            facts = {**(metadata or {}), **counts, **runner.facts()}
        theirs = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs)
        return replace(done, snapshot_id=session.commit(message, facts, rebase_with=theirs))

    @verb(Effect.CHANGES)
    def rewrite_manifests(
        self, branch: str = "main", *, message: str = "rewrite manifests", dry_run: bool = False
    ) -> ManifestsReport:
        """Build the manifests of a branch anew by the present configuration, in a commit."""
        repository, previous = self._repository, self._repository.lookup_branch(branch)
        old = tuple(repository.list_manifest_files(previous))
        if dry_run:
            return ManifestsReport(branch, previous, None, old)
        made = repository.rewrite_manifests(message, branch=branch)
        new = tuple(repository.list_manifest_files(made))
        return ManifestsReport(branch, previous, made, old, new)

    # --- expiry ---

    @verb(Effect.DELETES)
    def expire(
        self,
        older_than: datetime,
        *,
        retain_last: int = 1,
        delete_branches: bool = False,
        delete_tags: bool = False,
        delete_files: bool = False,
        max_concurrent_deletes: int = 10,
        unsafe_minimum_age: timedelta | None = None,
        dry_run: bool = False,
        runner: Runner | None = None,
    ) -> ExpiryReport:
        """Release old snapshots from the history; garbage collection then frees their space.

        Args:
            older_than: snapshots written before this time go.
            retain_last: so many snapshots of each branch stay.
            delete_branches: delete branches whose tip is expired.
            delete_tags: delete tags of expired snapshots.
            delete_files: delete the files that only they need at once, if they are a day old.
            max_concurrent_deletes: requests to the storage at one time.
            unsafe_minimum_age: how old files must be to be deleted, instead of a day.
            dry_run: only tell what would be done.
            runner: what has others read manifests, such as tasks of Spark.
        """
        from frazil.maintenance.deleting import DeleteLimits
        from frazil.maintenance.expire import expire, expire_with_files
        from frazil.maintenance.walk import chunks_by

        self._context.generation.require_expiry()
        if retain_last < 1:
            raise InvalidInputError("retain_last must be at least 1", kind=ErrorKind.INVALID_OPTION)
        lost = {"delete_expired_branches": delete_branches, "delete_expired_tags": delete_tags}
        files = GCSummary()
        if delete_files:
            with_files = expire_with_files(
                self._context,
                older_than,
                retain_last=retain_last,
                **lost,
                dry_run=dry_run,
                unsafe_minimum_age=self._age_floor(unsafe_minimum_age),
                find_chunks=chunks_by(runner, self._context),
                deleting=DeleteLimits(max_concurrent_deletes),
            )
            done, files = with_files.expired, with_files.files
        else:
            done = expire(
                self._context, older_than, retain_last=retain_last, **lost, dry_run=dry_run
            )
        released = tuple(sorted(map(str, done.released)))
        cutoff = min(older_than, to_datetime(done.cutoff))
        return ExpiryReport(cutoff, released, done.branches, done.tags, files)

    # --- garbage ---

    @verb(Effect.DELETES)
    def collect_garbage(
        self,
        older_than: datetime,
        *,
        incremental: bool = False,
        quarantine: bool = False,
        save_plan: str | None = None,
        plan: GarbagePlan | None = None,
        max_concurrent_deletes: int = 10,
        unsafe_minimum_age: timedelta | None = None,
        dry_run: bool = False,
        runner: Runner | None = None,
    ) -> CollectionReport:
        """Delete files that no branch or tag needs and that are old enough.

        What an open session has written is garbage until it is committed: choose a time before the
        beginning of every session that may still commit. What is younger than a day by the clock of
        the store is never deleted, unless `unsafe_minimum_age` says so. A saved plan is checked
        again before anything is deleted.

        Args:
            older_than: files written before this time go; that of the plan, if there is one.
            incremental: only what expired snapshots left, without listing chunks.
            quarantine: put it below trash/ instead of deleting it.
            save_plan: write the plan to a file, as JSON.
            plan: use a saved plan instead of a new one.
            max_concurrent_deletes: requests to the storage at one time.
            unsafe_minimum_age: how old files must be to be deleted, instead of a day.
            dry_run: only tell what would be done.
            runner: what has others read manifests, such as tasks of Spark.
        """
        from frazil.maintenance.collecting import CollectionOptions, carry_out
        from frazil.maintenance.deleting import DeleteLimits
        from frazil.maintenance.garbage_plan import plan_garbage
        from frazil.maintenance.walk import chunks_by

        age, find = self._age_floor(unsafe_minimum_age), chunks_by(runner, self._context)
        made = plan or plan_garbage(
            self._context,
            older_than,
            how="incremental" if incremental else "full",
            unsafe_minimum_age=age,
            find_chunks=find,
        )
        if save_plan is not None:
            made.save(save_plan)
        keys, summary, batch = [*made.keys()] if dry_run else [], made.summary, None
        if not dry_run:
            deleting = DeleteLimits(max_concurrent_deletes)
            way = CollectionOptions(
                deleting=deleting, quarantine=quarantine, find_chunks=find, on_deleted=keys.extend
            )
            summary, batch = carry_out(self._context, made, way, unsafe_minimum_age=age)
        url = self._context.storage.url.rstrip("/")
        files = tuple(f"{url}/{key}" for key in sorted(keys))
        return CollectionReport(made.older_than, made.how, summary, batch, files)

    @verb(Effect.READS)
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
        from frazil.maintenance.garbage_plan import plan_garbage

        id_of = self._context.refs.snapshot_id
        return plan_garbage(
            self._context,
            older_than,
            how="incremental" if incremental else "full",
            snapshots=None if snapshots is None else [id_of(each) for each in snapshots],
            unsafe_minimum_age=self._age_floor(unsafe_minimum_age),
        )

    @verb(Effect.DELETES)
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
        from frazil.maintenance.collecting import CollectionOptions, carry_out

        return carry_out(
            self._context,
            plan,
            CollectionOptions(quarantine=quarantine),
            unsafe_minimum_age=self._age_floor(unsafe_minimum_age),
        )[0]

    @verb(Effect.READS)
    def list_trash(self) -> list[TrashBatch]:
        """List what collections put aside, oldest first."""
        from frazil.maintenance.trash import list_trash

        return list_trash(self._context.place)

    @verb(Effect.CHANGES)
    def restore_trash(self, batch: str | None = None, *, dry_run: bool = False) -> TrashBatch:
        """Put back what was put aside: one batch, or all."""
        from frazil.maintenance.trash import restore_trash

        return restore_trash(self._context, batch, dry_run=dry_run)

    @verb(Effect.DELETES)
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
        from frazil.maintenance.trash import empty_trash

        return empty_trash(
            self._context,
            older_than,
            batch,
            dry_run=dry_run,
            unsafe_minimum_age=self._age_floor(unsafe_minimum_age),
        )

    # --- erasure ---

    @verb(Effect.DELETES)
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
            confirm: the path again, as a guard against accidents.
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
        from frazil.purging.purge import purge

        return purge(
            self._context,
            path,
            region,
            confirm=confirm,
            dry_run=dry_run,
            delete_backups=delete_backups,
            unsafe_minimum_age=self._age_floor(unsafe_minimum_age),
        )

    shares_async = async_twin(shares)
    growth_async = async_items(growth)
    compact_async = async_twin(compact)
    rewrite_manifests_async = async_twin(rewrite_manifests)
    expire_async = async_twin(expire)
    collect_garbage_async = async_twin(collect_garbage)
    plan_garbage_async = async_twin(plan_garbage)
    collect_planned_async = async_twin(collect_planned)
    list_trash_async = async_twin(list_trash)
    restore_trash_async = async_twin(restore_trash)
    empty_trash_async = async_twin(empty_trash)
    purge_async = async_twin(purge)
