"""`frazil.spark.ingest`: files of other formats into a repository, scanned and copied by Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from frazil.ingestion.ingest import branch_of
from frazil.ingestion.ingest import ingest as ingest_here
from frazil.ingestion.reports import IngestReport, Progress
from frazil.ingestion.request import Files, IngestOptions
from frazil.spark.options.table import STORAGE
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import target_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ingest(
    files: Files,
    url: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[IngestOptions],
) -> IngestReport:
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
