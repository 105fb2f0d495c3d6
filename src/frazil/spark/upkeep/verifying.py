"""Whether everything that references need is there, and where the bytes are, as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from frazil.errors import ErrorKind, FormatError, InvalidInputError, StorageError
from frazil.formats.manifest import Manifest, decode_manifest
from frazil.ids import ManifestId, crockford_many
from frazil.maintenance.needs import NativeNeeds, native_needs, virtual_needs
from frazil.maintenance.reading import manifest_blob
from frazil.maintenance.verifying import Trouble, ask_source
from frazil.model.chunks import ChunkTable
from frazil.spark import tasks, worker
from frazil.spark.location import Location, open_pinned
from frazil.spark.options.parsing import invalid_option
from frazil.spark.reading.read import read
from frazil.spark.sessions import session as spark_session
from frazil.spark.tables import chunk_tables
from frazil.spark.tables.chunk_tables import Part
from frazil.spark.tasks import Batches, Options
from frazil.spark.upkeep.garbage import batch_of, chunk_listing, items_frame, over_items
from frazil.storage.assets import CHUNKS, manifest_key
from frazil.storage.base import Storage
from frazil.transaction.context import Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NATIVE: Final = "native"
VIRTUAL: Final = "virtual"
_NEEDS: Final = (
    "kind string, target string, end long, references long, path string, etag string, "
    "modified long, detail string"
)
_NEEDS_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("target", pa.string()),
        ("end", pa.int64()),
        ("references", pa.int64()),
        ("path", pa.string()),
        ("etag", pa.string()),
        ("modified", pa.int64()),
        ("detail", pa.string()),
    ]
)
_FINDINGS: Final = "trouble string, target string, detail string, references long, path string"
_FINDINGS_SCHEMA: Final = pa.schema(
    [
        ("trouble", pa.string()),
        ("target", pa.string()),
        ("detail", pa.string()),
        ("references", pa.int64()),
        ("path", pa.string()),
    ]
)
_MAX_LONG: Final = 2**63 - 1


# --- verification ---


def verify(
    url: str,
    *,
    spark: SparkSession | None = None,
    all_history: bool = False,
    virtual: bool = False,
    options: Options | None = None,
) -> DataFrame:
    """Check that every object that references name exists, with enough bytes.

    Args:
        url: `URL[@version]`.
        spark: the session to use; the active or an embedded one by default.
        all_history: check everything that branches and tags lead to, not one version.
        virtual: also ask the sources of virtual chunks whether they are unchanged; they must be
            authorised by `options`.
        options: options of the data source, such as `storage.region`.

    Returns:
        A row for each object that is not as it should be: `trouble` (missing, short, damaged,
        changed, unreadable, unauthorized), `target`, `detail`, `references`, and the `path` of
        an array that needs it. No rows mean that all is well.
    """
    chosen = spark or spark_session()
    target = tasks.target_of(url, options)
    location = target.location
    repository = location.open()
    session = open_pinned(target.pin(repository), repository)
    find = chunk_tables.parts_of_history if all_history else chunk_tables.parts_of_snapshot
    return object_findings(chosen, location, find(repository, session), virtual=virtual)


def object_findings(
    spark: SparkSession, location: Location, parts: list[Part], *, virtual: bool
) -> DataFrame:
    """What is wrong with the objects that references of some arrays need; see `verify`."""
    from pyspark.sql import functions as f

    needs = tasks.map_batches(
        items_frame(spark, chunk_tables.grouped(parts)),
        lambda batches: _needs(location, batches),
        _NEEDS,
    )
    told = needs.where(~f.col("kind").isin(NATIVE, VIRTUAL)).select(
        f.col("kind").alias("trouble"), "target", "detail", "references", "path"
    )
    found = told.dropDuplicates(["trouble", "target"]).unionByName(
        _native_findings(needs, chunk_listing(spark, location))
    )
    return found.unionByName(_virtual_findings(needs, location)) if virtual else found


def _needs(location: Location, batches: Batches) -> Batches:
    """What the references of manifests need, a row for each object."""
    context = worker.repository(location).context
    # Straight from the storage: what a cache holds may be gone there.
    load = lru_cache(maxsize=1)(partial(_load, context.storage))
    for parts in over_items(batches):
        rows = [row for part in parts for row in _part_needs(context, load, part)]
        if rows:
            yield batch_of([*zip(*rows, strict=True)], _NEEDS_SCHEMA)


def _load(storage: Storage, manifest_id: ManifestId) -> Manifest:
    return decode_manifest(manifest_blob(storage, manifest_id), key=manifest_key(manifest_id))


def _part_needs(
    context: Context, load: Callable[[ManifestId], Manifest], part: Part
) -> Iterator[tuple[Any, ...]]:
    key = manifest_key(part.manifest_id)
    try:
        table = load(part.manifest_id).table(part.node_id)
        # Packed locations are read when they are asked for, and may be damaged too.
        sources = [] if table is None else [*virtual_needs(table)]
    except FormatError as error:
        yield Trouble.DAMAGED, key, 0, 1, part.path, None, None, str(error)
        return
    except StorageError as error:
        if error.kind != ErrorKind.OBJECT_NOT_FOUND:
            raise
        yield Trouble.MISSING, key, 0, 1, part.path, None, None, ""
        return
    if table is None:
        return
    yield from _native_rows(table, part.path)
    for (place, checksum), end, count in sources:
        etag = checksum if isinstance(checksum, str) else None
        time = checksum if isinstance(checksum, int) else None
        end = min(end, _MAX_LONG)
        yield VIRTUAL, _expanded(context, place), end, count, part.path, etag, time, None


def _expanded(context: Context, location: str) -> str:
    """A location as a URL; one of a container that nobody has declared stays as it is."""
    try:
        return context.containers.expand(location)
    except InvalidInputError:
        return location


def _native_rows(table: ChunkTable, path: str) -> Iterator[tuple[Any, ...]]:
    ids, ends = native_needs(table)
    if not len(ids):
        return
    needs = NativeNeeds()
    needs.add(ids, ends)
    known, longest = needs.rows()
    _, counts = np.unique(np.ascontiguousarray(ids).view("S12").ravel(), return_counts=True)
    lengths = np.minimum(longest, np.uint64(_MAX_LONG)).tolist()
    for name, end, count in zip(crockford_many(known), lengths, counts.tolist(), strict=True):
        yield NATIVE, CHUNKS + name, end, count, path, None, None, None


def _native_findings(needs: DataFrame, listing: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    wanted = (
        needs.where(f.col("kind") == NATIVE)
        .groupBy("target")
        .agg(
            f.max("end").alias("end"),
            f.sum("references").alias("references"),
            f.min("path").alias("path"),
        )
    )
    met = wanted.join(listing, wanted["target"] == listing["key"], "left")
    bad = met.where(f.col("size_bytes").isNull() | (f.col("size_bytes") < f.col("end")))
    has = f.concat(f.lit("it has "), "size_bytes", f.lit(" bytes, "), "end", f.lit(" are needed"))
    is_missing = f.col("size_bytes").isNull()
    return bad.select(
        f.when(is_missing, str(Trouble.MISSING)).otherwise(str(Trouble.SHORT)).alias("trouble"),
        "target",
        f.when(is_missing, "").otherwise(has).alias("detail"),
        "references",
        "path",
    )


def _virtual_findings(needs: DataFrame, location: Location) -> DataFrame:
    from pyspark.sql import functions as f

    wanted = (
        needs.where(f.col("kind") == VIRTUAL)
        .groupBy("target", "etag", "modified")
        .agg(
            f.max("end").alias("end"),
            f.sum("references").alias("references"),
            f.min("path").alias("path"),
        )
    )

    def ask(batches: Batches) -> Batches:
        context = worker.repository(location).context
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                checksum = row["etag"] if row["etag"] is not None else row["modified"]
                source = (row["target"], checksum)
                finding = ask_source(context, source, row["end"], row["references"])
                if finding is not None:
                    facts = (finding.detail, finding.references, row["path"])
                    rows.append((str(finding.trouble), finding.target, *facts))
            if rows:
                yield batch_of([*zip(*rows, strict=True)], _FINDINGS_SCHEMA)

    return tasks.map_batches(wanted, ask, _FINDINGS)


# --- where the bytes are ---


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

    Raises:
        InvalidInputError: `by` is something else.
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
