"""Compaction of chunks on Spark: tasks copy small chunks into packs, the driver commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from frazil.bulk.pack import Choice, Packing
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.maintenance import compaction
from frazil.maintenance.compaction import MIN_DEAD_SHARE, Compaction, repack
from frazil.model.chunks import ChunkTable
from frazil.run import Progress, by_size, commit_job
from frazil.spark import tasks, worker
from frazil.spark.location import Location
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Options
from frazil.transaction.working import WorkingState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_PACKS: Final = 4
"""Packs that one item of work fills."""


def compact_chunks(
    url: str,
    path: str = "/",
    *,
    spark: SparkSession | None = None,
    branch: str | None = None,
    packing: Choice = True,
    min_dead_share: float = MIN_DEAD_SHARE,
    dry_run: bool = False,
    message: str = "compact chunks",
    options: Options | None = None,
    progress: Progress | None = None,
) -> Compaction:
    """Put the small chunks of an array, or of all arrays below a group, into packs.

    Args:
        url: `URL[@branch]`.
        path: the array or group.
        spark: the session to use; the active or an embedded one by default.
        branch: the branch to commit to; that of the URL, or `main`, by default.
        packing: which chunks to pack, and how large packs get; as configured by default.
        min_dead_share: packs of which at least this share is unused are written anew.
        dry_run: only tell what would be done.
        message: of the commit.
        options: options of the data source, such as `storage.region`.
        progress: is told what is being done and how far it is.

    Raises:
        NodeNotFoundError: there is no node at `path`.
        RebaseFailedError: somebody else has changed the chunks meanwhile.
    """
    chosen = spark or spark_session()
    target = tasks.target_of(url, options)
    repository = target.location.open()
    writing = repository.tip(target.branch if branch is None else branch).writable_session()

    def copy(
        tables: Mapping[str, ChunkTable], packing: Packing
    ) -> Iterator[tuple[str, ChunkTable]]:
        items = [
            (name, table.take(slice(part.start, part.stop)).compact())
            for name, table in tables.items()
            for part in by_size(table.length.tolist(), TASK_PACKS * packing.max_object)
        ]
        work = Repacked(target.location, packing)
        for count, (number, table) in enumerate(SparkRunner(chosen).run(work, items), 1):
            yield items[number][0], table
            if progress is not None:
                progress("packs", count, len(items))

    done = compaction.compact_chunks(
        writing.state,
        path,
        packing=packing,
        min_dead_share=min_dead_share,
        dry_run=dry_run,
        copy=copy,
    )
    if dry_run or not done.chunks:
        return done
    facts = {"rewritten-chunks": done.chunks, "rewritten-bytes": done.bytes_rewritten}
    made = commit_job(writing, "compact", message, {**facts, **tasks.application(chosen)})
    return replace(done, snapshot_id=made)


@dataclass(frozen=True, slots=True)
class Repacked:
    """Copies chunks into packs."""

    location: Location
    packing: Packing

    def __call__(self, item: tuple[str, ChunkTable]) -> ChunkTable:
        """Copy some chunks of an array, and tell where they are."""
        state = WorkingState(worker.repository(self.location).context, INITIAL_SNAPSHOT_ID)
        return repack(state, item[1], self.packing)
