"""Compaction of chunks on Spark: tasks copy small chunks into packs, the driver commits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from frazil.bulk.pack import Choice, Packing, chosen_packing
from frazil.ids import INITIAL_SNAPSHOT_ID, node_path
from frazil.maintenance.compaction import (
    MIN_DEAD_SHARE,
    Compaction,
    arrays_below,
    count_objects,
    estimate,
    plan_rows,
    repack,
)
from frazil.model.chunks import ChunkTable, concat
from frazil.spark import tasks, worker
from frazil.spark.location import Location
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Options, Progress
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
    state = writing.state
    wanted = chosen_packing(packing, default=True) or Packing()
    done = Compaction()
    items: list[tuple[str, ChunkTable]] = []
    for node in arrays_below(state, node_path(path)):
        table = state.table(node)
        plan = plan_rows(state.context.storage, table, wanted, min_dead_share)
        if not len(plan.rows):
            continue
        rows = table.take(plan.rows)
        size = int(rows.length.sum())
        made = estimate(rows, wanted) if dry_run else 0
        done += Compaction(1, len(rows), plan.objects, made, size, plan.dead_bytes)
        parts = tasks.by_size(rows.length.tolist(), TASK_PACKS * wanted.max_object)
        items += [(node.path, rows.take(slice(part.start, part.stop)).compact()) for part in parts]
    if dry_run or not items:
        return done
    placed: dict[str, list[ChunkTable]] = {}
    tell = progress or (lambda *_: None)
    for count, (number, table) in enumerate(
        SparkRunner(chosen).run(Repacked(target.location, wanted), items), 1
    ):
        placed.setdefault(items[number][0], []).append(table)
        tell("packs", count, len(items))
    objects = 0
    for name, tables in placed.items():
        node = state.array(name)
        table = concat(tables, len(node.shape))
        objects += count_objects(table)
        state.set_table(node, table)
    facts = {"rewritten-chunks": done.chunks, "rewritten-bytes": done.bytes_rewritten}
    snapshot = tasks.commit_job(chosen, writing, "compact", message, facts)
    return replace(done, objects_after=objects, snapshot_id=snapshot)


@dataclass(frozen=True, slots=True)
class Repacked:
    """Copies chunks into packs."""

    location: Location
    packing: Packing

    def __call__(self, item: tuple[str, ChunkTable]) -> ChunkTable:
        """Copy some chunks of an array, and tell where they are."""
        state = WorkingState(worker.repository(self.location).context, INITIAL_SNAPSHOT_ID)
        return repack(state, item[1], self.packing)
