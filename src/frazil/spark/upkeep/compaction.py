"""Compaction of chunks on Spark: tasks copy small chunks into packs, the driver commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bulk.pack import Choice
from frazil.maintenance.compaction import MIN_DEAD_SHARE, Compaction
from frazil.run import Progress
from frazil.spark import tasks
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """`Repository.space.compact` for the repository at `URL[@branch]`, with tasks that copy chunks.

    `spark` is the session to use, the active or an embedded one by default; `options` are those of
    the data source, such as `storage.region`.

    Raises:
        NodeNotFoundError: there is no node at `path`.
    """
    target = tasks.target_of(url, options)
    return target.location.open().space.compact(
        target.branch if branch is None else branch,
        path,
        packing=packing,
        min_dead_share=min_dead_share,
        message=message,
        metadata={"frazil.job": "compact"},
        dry_run=dry_run,
        runner=SparkRunner(spark),
        progress=progress,
    )
