"""Upgrades of repositories from before spec 1 whose many chunk objects tasks link or copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from frazil.errors import invalid_option
from frazil.run import Progress, by_size, run_told
from frazil.spark import tasks
from frazil.spark.location import Location
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Options
from frazil.upgrading.chunks import Move, Transfer, move_chunks, mover
from frazil.upgrading.records import ChunkMode, UpgradeReport
from frazil.upgrading.source import Source
from frazil.upgrading.upgrade import upgrade as run_upgrade

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES: Final = 256 << 20
TASK_CHUNKS: Final = 2048
"""Chunk objects that one item of work deals with, unless they are larger than that."""


def upgrade_older(
    url: str,
    *,
    spark: SparkSession | None = None,
    to: int = 2,
    mode: str = ChunkMode.LINK,
    dry_run: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
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
        progress: is told what is being done and how far it is.

    Raises:
        InvalidInputError: the URL has a version, or tasks cannot reach the place.
        SessionStateError: the repository is not from before spec version 1.
    """
    target = tasks.target_of(url, options)
    if target.ref is not None:
        raise invalid_option("a repository is upgraded as a whole: leave the version out")
    location = target.location

    def make_move(source: Source, how: ChunkMode) -> Move:
        if source.files.storage is not source.place:
            return mover(source, how)  # the other storage is known to the state file alone
        runner, work = SparkRunner(spark), partial(_move, location, how)

        def move(transfers: Sequence[Transfer]) -> None:
            sizes = [1 if how is ChunkMode.LINK else each.size_bytes for each in transfers]
            parts = by_size(sizes, TASK_BYTES, TASK_CHUNKS)
            items = [[transfers[number] for number in part] for part in parts]
            counts = [len(item) for item in items]
            for _ in run_told(runner, work, items, progress, "chunks", counts=counts):
                pass

        return move

    return run_upgrade(
        location.open().context, to=to, mode=mode, dry_run=dry_run, make_move=make_move
    )


def _move(location: Location, mode: ChunkMode, transfers: Sequence[Transfer]) -> None:
    """Link or copy some chunk objects, in a task."""
    storage = location.storage()
    move_chunks(storage, storage, mode, transfers)
