"""Statistics of chunks on Spark: tasks read and measure chunks, the driver stores the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.progress import Tell
from frazil.spark import tasks
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Options
from frazil.statistics.analyzing import Analysis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def analyze(
    url: str,
    path: str = "/",
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    options: Options | None = None,
    progress: Tell | None = None,
) -> Analysis:
    """`Repository.audit.analyze` for the version at `URL[@version]`, with tasks that read chunks.

    `spark` is the session to use, the active or an embedded one by default; `options` are those of
    the data source, such as `storage.region`.

    Raises:
        NodeNotFoundError: there is no node at `path`.
    """
    target = tasks.target_of(url, options)
    repository = target.location.open()
    return repository.audit.analyze(
        target.snapshot(repository),
        path,
        dry_run=dry_run,
        runner=SparkRunner(spark),
        progress=progress,
    )
