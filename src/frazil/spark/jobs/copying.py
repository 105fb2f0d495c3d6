"""Ingests, clones, exports, imports and upgrades by URL, with the copying done by Spark's tasks.

The work itself is in `frazil.ingestion`, `frazil.transfer` and `frazil.upgrading`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from frazil.errors import invalid_option
from frazil.ingestion import reports
from frazil.ingestion.pipeline import branch_of
from frazil.ingestion.pipeline import ingest as ingest_here
from frazil.ingestion.request import Files, IngestOptions
from frazil.progress import Tell
from frazil.run import JobReport
from frazil.spark import tasks
from frazil.spark.location import open_pinned
from frazil.spark.options.table import STORAGE
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Options, target_of
from frazil.transfer import cloning, zarr_export, zarr_import
from frazil.upgrade import upgrade_older as upgrade_here
from frazil.upgrading.source import ChunkMode, UpgradeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def clone(
    url: str,
    target: str,
    *,
    spark: SparkSession | None = None,
    all_history: bool = False,
    message: str | None = None,
    options: Options | None = None,
    target_options: Options | None = None,
    progress: Tell | None = None,
) -> JobReport:
    """Copy one version of a repository, or all of it, as `frazil.clone` does.

    Args:
        url: `URL[@version]`; without a version for `all_history`.
        target: an empty place.
        spark: the session to use; the active or an embedded one by default.
        all_history: copy all branches, tags and snapshots.
        message: of the commit, when one version is copied.
        options: options of the data source for `url`, such as `storage.region`.
        target_options: the same for `target`.
        progress: is called with the current step and the progress so far.
    """
    source = target_of(url, options)
    goal = target_of(target, target_options).location.storage()
    if all_history and source.ref is not None:
        raise invalid_option("the whole history has no version: leave it out of the URL")
    repository = source.location.open()
    chosen = repository if all_history else open_pinned(source.pin(repository), repository)
    return cloning.clone(
        chosen, goal, message=message, runner=SparkRunner(spark), progress=progress
    )


def export(
    url: str,
    path: str,
    *,
    spark: SparkSession | None = None,
    group: str | None = None,
    overwrite: bool = False,
    options: Options | None = None,
    path_options: Options | None = None,
    progress: Tell | None = None,
) -> JobReport:
    """Copy one version of a repository to a plain Zarr v3 store, as `frazil.export` does.

    `url` is `URL[@version]`; `options` are those of the data source for it, such as
    `storage.region`, and `path_options` those for `path`.
    """
    source = target_of(url, options)
    goal = target_of(path, path_options).location.storage()
    repository = source.location.open()
    return zarr_export.export(
        open_pinned(source.pin(repository), repository),
        goal,
        group=group if group is not None else source.node,
        overwrite=overwrite,
        runner=SparkRunner(spark),
        progress=progress,
    )


def import_zarr(
    store: str,
    url: str,
    *,
    spark: SparkSession | None = None,
    group: str | None = None,
    branch: str | None = None,
    message: str | None = None,
    store_options: Options | None = None,
    options: Options | None = None,
    progress: Tell | None = None,
) -> JobReport:
    """Copy a plain Zarr store into a repository, in one commit, as `frazil.import_zarr` does.

    `url` is `URL[@branch]`; `options` are those of the data source for it, such as
    `storage.region`, and `store_options` those for `store`.
    """
    goal = target_of(url, options)
    return zarr_import.import_zarr(
        target_of(store, store_options).location.storage(),
        goal.location.storage(),
        group=group if group is not None else goal.node,
        branch=goal.branch if branch is None else branch,
        message=message,
        runner=SparkRunner(spark),
        progress=progress,
    )


def ingest(
    files: Files,
    url: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Tell | None = None,
    **options: Unpack[IngestOptions],
) -> reports.IngestReport:
    """Take files into a repository in one commit, by reference or by copy; see `frazil.ingest`.

    Args:
        files: paths, URLs and patterns (`data/*.nc`).
        url: the repository, which is made when there is none, and a branch: `URL@branch`.
        spark: the session to use; the active or an embedded one by default.
        master: where that one is to run.
        progress: called now and then with how far it is.
        options: how to do it; see `IngestOptions`.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then,
            and the error has the whole report as `report`.
    """
    reached = {STORAGE + name: v for name, v in (options.get("storage_options") or {}).items()}
    target = target_of(url, reached)
    options["branch"] = branch_of(None if target.ref is None else target.branch, options)
    storage, runner = target.location.storage(), SparkRunner(spark, master)
    return ingest_here(files, storage, runner=runner, progress=progress, **options)


def upgrade_older(
    url: str,
    *,
    spark: SparkSession | None = None,
    to: int = 2,
    mode: str = ChunkMode.LINK,
    dry_run: bool = False,
    options: Options | None = None,
    progress: Tell | None = None,
) -> UpgradeReport:
    """Upgrade a repository of G1, G2 or G3 as `frazil.upgrade_older` does.

    Chunk objects are linked or copied by executors; all else is done by the driver.

    Args:
        url: the repository, without a version.
        spark: the session to use; the active or an embedded one by default.
        to: the spec version, 1 or 2.
        mode: what becomes of chunk objects of G1 and G2: `link`, `copy` or `virtual`.
        dry_run: only tell what would be done.
        options: options of the data source, such as `storage.region`.
        progress: is called with the current step and the progress so far.

    Raises:
        InvalidInputError: the URL has a version, or tasks cannot reach the place.
        SessionStateError: the repository is not from before spec version 1.
    """
    target = tasks.target_of(url, options)
    if target.ref is not None:
        raise invalid_option("a repository is upgraded as a whole: leave the version out")
    return upgrade_here(
        target.location.open(),
        to=to,
        mode=mode,
        dry_run=dry_run,
        runner=SparkRunner(spark),
        progress=progress,
    )
