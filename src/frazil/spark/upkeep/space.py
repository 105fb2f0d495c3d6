"""Where the bytes of a repository are, as a DataFrame, and small chunks compacted by tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.bulk.pack import Choice
from frazil.errors import invalid_option
from frazil.maintenance.compaction import MIN_DEAD_SHARE, Compaction
from frazil.progress import Tell
from frazil.spark import tasks
from frazil.spark.reading.read import read
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def storage(
    url: str,
    by: str = "array",
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
) -> DataFrame:
    """How much is stored by `array` of a version, by `snapshot` or by `branch`.

    Columns: the name (`node_path`, `snapshot_id` or `branch`), `chunks`, `native_bytes`,
    `inline_bytes`, `virtual_bytes`. Bytes that several references of a row share count once.
    """
    chosen = spark or spark_session()
    given = dict(options or {})
    if by == "array":
        return _summed(read(f"{url}#chunks", spark=chosen, **given), "node_path")
    if by not in ("snapshot", "branch"):
        raise invalid_option(f"by must be array, snapshot or branch, not {by!r}")
    repository = tasks.target_of(url, options).location.open()
    name = "snapshot_id" if by == "snapshot" else "branch"
    rows: set[tuple[str, str]] = set()
    for branch in sorted(repository.list_branches()):
        for info in repository.ancestry(branch=branch):
            for file in repository.list_manifest_files(info.id):
                owner = info.id if by == "snapshot" else branch
                rows.add((owner, f"manifests/{file.id}"))
    owners = chosen.createDataFrame(sorted(rows), f"{name} string, manifest string")
    chunks = read(f"{url}#all_chunks", spark=chosen, **given)
    return _summed(chunks.join(owners, "manifest"), name)


def _summed(chunks: DataFrame, name: str) -> DataFrame:
    from pyspark.sql import functions as f

    counts = chunks.groupBy(name).agg(f.count("*").alias("chunks"))
    inline = chunks.where("kind = 'inline'").select(name, "kind", "length")
    objects = chunks.where("kind != 'inline'").select(name, "kind", "location", "offset", "length")
    sizes = objects.distinct().select(name, "kind", "length").unionAll(inline)
    totals = sizes.groupBy(name).agg(
        *(
            f.coalesce(f.sum(f.when(f.col("kind") == kind, f.col("length"))), f.lit(0)).alias(
                f"{kind}_bytes"
            )
            for kind in ("native", "inline", "virtual")
        )
    )
    return counts.join(totals, name)


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
    progress: Tell | None = None,
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
