"""Upkeep of repositories with very many chunks: listings and references meet as DataFrames.

Executors list objects and read manifests; the driver settles what needs one hand, such as the
commit, and what must happen in order, such as deletes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from frazil.errors import invalid_option
from frazil.ids import ALPHABET, crockford_many
from frazil.maintenance.candidates import PHASES, of_objects, unused_attribute_files
from frazil.maintenance.collecting import CollectionOptions, carry_out
from frazil.maintenance.deleting import DeleteLimits, OnDeleted, safe_cutoff
from frazil.maintenance.garbage import CollectionPlan, plan_collection
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.listing import Objects, list_older, measured, parse_names
from frazil.maintenance.walk import WalkLimits, chunks_by, manifests_of
from frazil.model.history import ManifestFile, to_micros
from frazil.model.values import GCSummary
from frazil.spark import tasks
from frazil.spark.location import RepositoryLocation
from frazil.spark.reading.columns import arrow_schema, row_batch
from frazil.spark.runner import SparkRunner, items_frame, over_items, slots
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Batches, Options
from frazil.spark.upkeep.procedure import LONG, TEXT, columns
from frazil.spark.upkeep.verbs import as_time
from frazil.storage.assets import CHUNKS
from frazil.storage.base import Storage
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND: Final = 1_000_000
_KINDS: Final = {"key": TEXT, "size_bytes": LONG, "created_us": LONG}
_LISTED: Final = columns(**_KINDS)
_KEYS: Final = pa.schema([("key", pa.string())])
_INVENTORY: Final = {
    "key": ("key", "path"),
    "size_bytes": ("size_bytes", "size", "length"),
    "created_at": ("created_at", "last_modified", "last_modified_date", "modificationtime"),
}
"""Columns of inventories, by the names that stores and tools give them."""


# --- frames ---


def chunk_listing(spark: SparkSession, location: RepositoryLocation) -> DataFrame:
    """The chunk objects of a repository: `key`, `size_bytes`, `created_us` (the store's clock)."""

    def work(batches: Batches) -> Batches:
        storage = context_of(location.open()).storage
        for batch in batches:
            for number in batch.column(0).to_pylist():
                after = ALPHABET[number + 1] if number + 1 < len(ALPHABET) else "~"
                found = storage.list_between(CHUNKS, ALPHABET[number], after)
                rows = [(item.key, item.size_bytes, to_micros(item.created_at)) for item in found]
                yield row_batch(rows, arrow_schema(_LISTED))

    # Ids are random, so that each first letter is an equal part of them.
    letters = spark.range(0, len(ALPHABET), 1, min(len(ALPHABET), slots(spark)))
    return tasks.map_batches(letters, work, _LISTED)


def inventory_listing(inventory: DataFrame) -> DataFrame:
    """The same from an inventory that the caller gave.

    It must have a column with keys or locations (`key` or `path`), one with sizes (`size_bytes`,
    `size` or `length`) and one with times (`created_at`, `last_modified`, `modificationTime`).
    """
    from pyspark.sql import functions as f

    by_name = {name.lower(): name for name in inventory.columns}
    chosen = {}
    for wanted, spellings in _INVENTORY.items():
        found = next((by_name[name] for name in spellings if name in by_name), None)
        if found is None:
            raise invalid_option(
                f"the inventory has no column {' or '.join(map(repr, spellings))} (it has "
                f"{', '.join(inventory.columns)})"
            )
        chosen[wanted] = f.col(f"`{found}`")
    pattern = f"({CHUNKS}[{ALPHABET}]{{19}}[0G])$"
    frame = inventory.select(
        f.regexp_extract(chosen["key"], pattern, 1).alias("key"),
        chosen["size_bytes"].cast("long").alias("size_bytes"),
        f.unix_micros(chosen["created_at"].cast("timestamp")).alias("created_us"),
    )
    return frame.where("key != ''")


# --- garbage ---


@dataclass(frozen=True, slots=True, eq=False)
class Garbage:
    """What a collection would delete."""

    frame: DataFrame
    """`key`, `size_bytes`, `created_at`, `age_seconds`, `reason`"""
    context: Context
    plan: CollectionPlan
    """all but chunks"""
    older_than: datetime
    chunks: DataFrame
    """chunk objects: `key`, `size_bytes`, `created_us`"""
    from_inventory: bool = False
    """whether chunk objects and their times come from an inventory that the caller gave"""

    def collected(self) -> GarbagePlan:
        """The plan with the chunks, brought to the driver."""
        rows = tasks.collect(self.chunks.select("key", "size_bytes"))
        names = [key[len(CHUNKS) :] for key in rows.column("key").to_pylist()]
        sizes = np.array(rows.column("size_bytes").to_pylist(), np.uint64)
        chunks = Objects(CHUNKS, parse_names(names), sizes)
        if self.from_inventory:
            # Only the clock of the store tells ages: what came back from the trash is young too.
            chunks = measured(self.context.storage, CHUNKS, chunks.ids, self.older_than)
        garbage = (*self.plan.garbage[:-1], chunks)
        attributes = tuple(unused_attribute_files(self.context, self.older_than))
        plan = replace(self.plan, garbage=garbage, attributes=attributes)
        return GarbagePlan.of(self.context, plan, self.older_than, "full")


def find_garbage(
    url: str,
    older_than: datetime | str,
    *,
    spark: SparkSession | None = None,
    inventory: DataFrame | None = None,
    options: Options | None = None,
    unsafe_minimum_age: timedelta | None = None,
) -> Garbage:
    """Find objects that no branch or tag needs and that were written before a time.

    Args:
        url: the repository.
        older_than: a time before the beginning of every session that may still commit; ages are
            by the clock of the store.
        spark: the session to use; the active or an embedded one by default.
        inventory: a list of the chunk objects, instead of listing them; see `inventory_listing`.
            The store is asked for the age of each before it is deleted.
        options: options of the data source, such as `storage.region`.
        unsafe_minimum_age: how old an object must be in any case, instead of a day.
    """
    from pyspark.sql import functions as f

    chosen = spark or spark_session()
    target = tasks.target_of(url, options)
    if target.ref is not None:
        raise invalid_option("garbage is that of a whole repository: leave out the version")
    repository = target.location.open()
    context, limits = context_of(repository), WalkLimits()
    asked = as_time(older_than, datetime.now(UTC))
    cutoff = safe_cutoff(context.place, asked, unsafe_minimum_age)
    storage = context.storage
    small = [list_older(storage, prefix, cutoff) for prefix in PHASES if prefix != CHUNKS]
    plan = plan_collection(context, of_objects((*small, Objects.none(CHUNKS))), limits)
    files = manifests_of(context.assets, plan.kept, limits).values()
    if inventory is None:
        listing = chunk_listing(chosen, target.location)
    else:
        listing = inventory_listing(inventory)
    # Some stores drop the fraction of a second, so an object may be that much younger.
    aged = listing.where(f.col("created_us") + SECOND <= to_micros(cutoff))
    live = _live_chunks(chosen, target.location, files)
    chunks = aged.join(live, "key", "left_anti").dropDuplicates(["key"])
    frame = _described(chosen, storage, plan, chunks)
    return Garbage(frame, context, plan, cutoff, chunks, from_inventory=inventory is not None)


def _described(
    spark: SparkSession, storage: Storage, plan: CollectionPlan, chunks: DataFrame
) -> DataFrame:
    """The garbage as a table for people."""
    from pyspark.sql import functions as f

    now = to_micros(datetime.now(UTC))
    rows = [
        (item.key, item.size_bytes, to_micros(item.created_at), PHASES[part.prefix])
        for part in plan.garbage
        for item in storage.each(storage.head, part.keys())
        if item is not None
    ]
    metadata = spark.createDataFrame(rows, columns(**_KINDS, phase=TEXT))
    united = metadata.unionByName(chunks.withColumn("phase", f.lit(PHASES[CHUNKS])))
    return united.select(
        "key",
        "size_bytes",
        f.timestamp_micros("created_us").alias("created_at"),
        ((f.lit(now) - f.col("created_us")) / SECOND).cast("long").alias("age_seconds"),
        f.concat(f.lit("no snapshot needs it: "), "phase").alias("reason"),
    )


def _live_chunks(
    spark: SparkSession, location: RepositoryLocation, files: Iterable[ManifestFile]
) -> DataFrame:
    """The keys of chunk objects that manifests refer to; they may repeat."""

    def work(batches: Batches) -> Batches:
        assets = context_of(location.open()).assets
        for _, manifest_id in over_items(batches):
            ids = np.unique(assets.fresh_native_chunks(manifest_id), axis=0)
            yield row_batch([(CHUNKS + name,) for name in crockford_many(ids)], _KEYS)

    return tasks.map_batches(items_frame(spark, [file.id for file in files]), work, "key string")


def collect_garbage(
    url: str,
    older_than: datetime | str,
    *,
    dry_run: bool = True,
    spark: SparkSession | None = None,
    inventory: DataFrame | None = None,
    options: Options | None = None,
    max_concurrent_deletes: int = 10,
    unsafe_minimum_age: timedelta | None = None,
    on_deleted: OnDeleted | None = None,
) -> GCSummary:
    """Delete what `find_garbage` finds, or count it; `on_deleted` gets the keys.

    What is published meanwhile is looked through before anything is deleted, and objects go in
    the order in which they refer to each other.
    """
    chosen = spark or spark_session()
    found = find_garbage(
        url,
        older_than,
        spark=chosen,
        inventory=inventory,
        options=options,
        unsafe_minimum_age=unsafe_minimum_age,
    )
    plan = found.collected()
    if dry_run:
        if on_deleted is not None:
            on_deleted([*plan.keys()])
        return plan.summary
    way = CollectionOptions(
        deleting=DeleteLimits(max_concurrent_deletes),
        find_chunks=chunks_by(SparkRunner(chosen), found.context),
        on_deleted=on_deleted,
    )
    return carry_out(found.context, plan, way, unsafe_minimum_age=unsafe_minimum_age)[0]
