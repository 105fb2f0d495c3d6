"""Every rule of the format checked by many tasks, with the findings as a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as t

from frazil.errors import FormatError, RepositoryNotFoundError
from frazil.fsck.checking import (
    NATIVE_CODES,
    SOURCE_CODES,
    Uses,
    check_snapshot,
    read_history,
    rules_of,
    wanted_snapshots,
)
from frazil.fsck.checking import (
    fsck as check,
)
from frazil.fsck.decoding import decode_chunks
from frazil.fsck.files import Files
from frazil.fsck.findings import RULES, Code, Finding
from frazil.fsck.history import Link, check_history
from frazil.fsck.manifest_rules import check_manifest_file
from frazil.fsck.place import open_anyway
from frazil.fsck.snapshot_rules import Use
from frazil.ids import ManifestId
from frazil.spark import tasks, worker
from frazil.spark.location import Location
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.runner import slots
from frazil.spark.sessions import session as spark_session
from frazil.spark.tables.chunk_tables import Part
from frazil.spark.tasks import Batches, Options
from frazil.spark.upkeep.garbage import batch_of, items_frame, over_items
from frazil.spark.upkeep.procedure import Place, Row, procedure
from frazil.spark.upkeep.verifying import object_findings
from frazil.storage.assets import CHUNKS, MANIFESTS
from frazil.transaction.context import Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FINDINGS: Final = t.StructType(
    [
        t.StructField("level", t.StringType()),
        t.StructField("code", t.StringType()),
        t.StructField("target", t.StringType()),
        t.StructField("path", t.StringType()),
        t.StructField("detail", t.StringType()),
        t.StructField("chunks", t.ArrayType(t.ArrayType(t.LongType()))),
        t.StructField("references", t.LongType()),
    ]
)
_FINDINGS: Final = arrow_schema(FINDINGS)
_ANSWERS: Final = "item binary"
_ANSWERS_SCHEMA: Final = pa.schema([("item", pa.binary())])
NEIGHBOURS: Final = 32
"""Snapshots that follow each other and go to one task, which reads each parent once."""


def fsck(
    url: str,
    *,
    spark: SparkSession | None = None,
    deep: bool = False,
    virtual: bool = False,
    options: Options | None = None,
) -> DataFrame:
    """Check that a repository keeps every rule of the format.

    Args:
        url: the repository, or `URL@version` for the history of one version.
        spark: the session to use; the active or an embedded one by default.
        deep: decode every chunk.
        virtual: also ask the sources of virtual chunks whether they are unchanged; they must be
            authorised by `options`.
        options: options of the data source, such as `storage.region`.

    Returns:
        A row for each finding: `level` (error, warning, note), `code`, `target`, `path`,
        `detail`, `chunks` (some of those concerned) and `references`. No rows mean that all is
        well.
    """
    chosen = spark or spark_session()
    target = tasks.target_of(url, options)
    location = target.location
    context = _open(location)
    history, findings = read_history(context)
    refs = None if target.ref is None else [target.snapshot(location.open())]
    wanted = wanted_snapshots(history, refs, ancestors=True)
    findings += check_history(history, wanted)
    uses = _snapshots(chosen, location, history.links(wanted), findings, deep=deep)
    found = chosen.createDataFrame(_table(findings), FINDINGS).unionByName(
        _manifests(chosen, location, uses, deep=deep, virtual=virtual)
    )
    if not history.is_known:
        return found
    objects = object_findings(chosen, location, _parts(uses), virtual=virtual)
    found = found.unionByName(_coded(objects)).dropDuplicates(["code", "target", "path", "detail"])
    return found.where(found["code"].isin([*map(str, rules_of(context))]))


def _open(location: Location) -> Context:
    """The parts of a repository, also of one that cannot be opened."""
    try:
        return location.open().context
    except (FormatError, RepositoryNotFoundError):
        return open_anyway(location.storage())


@lru_cache(maxsize=worker.REPOSITORIES)
def _context(location: Location) -> Context:
    """The same, kept between the tasks of a process."""
    return _open(location)


def _rows(findings: Iterable[Finding]) -> Iterator[Row]:
    for each in findings:
        chunks = [list(index) for index in each.chunks]
        level = str(each.level)
        yield level, str(each.code), each.target, each.path, each.detail, chunks, each.references


def _table(findings: Iterable[Finding]) -> pa.Table:
    rows = [*_rows(findings)]
    columns: Sequence[Sequence[Any]] = [*zip(*rows, strict=True)] if rows else [()] * len(FINDINGS)
    return pa.Table.from_batches([batch_of(columns, _FINDINGS)], _FINDINGS)


# --- snapshots and logs ---


def _snapshots(
    spark: SparkSession,
    location: Location,
    links: Sequence[Link],
    findings: list[Finding],
    *,
    deep: bool,
) -> Uses:
    """Have tasks check snapshots; add to the findings and return how manifests are used."""

    def work(batches: Batches) -> Batches:
        files = Files(_context(location).storage)
        for group in over_items(batches):
            found: list[Finding] = []
            uses: Uses = {}
            for link in group:
                answer = check_snapshot(files, link, deep=deep)
                found += answer.findings
                for manifest_id, use in answer.uses:
                    uses.setdefault(manifest_id, set()).add(use)
            packed = pickle.dumps((found, uses), pickle.HIGHEST_PROTOCOL)
            yield batch_of([[packed]], _ANSWERS_SCHEMA)

    size = max(1, min(NEIGHBOURS, -(-len(links) // slots(spark))))
    groups = [tuple(links[at : at + size]) for at in range(0, len(links), size)]
    answers = tasks.collect(tasks.map_batches(items_frame(spark, groups), work, _ANSWERS))
    united: Uses = {}
    for item in answers.column("item").to_pylist():
        told, uses = pickle.loads(item)  # our own tasks'
        findings += told
        for manifest_id, each in uses.items():
            united.setdefault(manifest_id, set()).update(each)
    return united


# --- manifests ---


def _manifests(
    spark: SparkSession, location: Location, uses: Uses, *, deep: bool, virtual: bool
) -> DataFrame:
    def work(batches: Batches) -> Batches:
        context = _context(location)
        for manifest_id, users in over_items(batches):
            found = _manifest(context, manifest_id, users, deep=deep, virtual=virtual)
            yield from _table(found).to_batches()

    items = [*uses.items()]
    return tasks.map_batches(items_frame(spark, items), work, FINDINGS)


def _manifest(
    context: Context, manifest_id: ManifestId, uses: set[Use], *, deep: bool, virtual: bool
) -> list[Finding]:
    files = Files(context.storage)
    read = files.manifest(manifest_id)
    found = [*check_manifest_file(manifest_id, read, uses, context.containers)]
    if deep:
        found += decode_chunks(context, files, manifest_id, uses, virtual=virtual).findings
    return found


# --- objects ---


def _parts(uses: Uses) -> list[Part]:
    return [
        Part(use.path, use.node_id, manifest_id, max(0, use.size_bytes))
        for manifest_id, users in uses.items()
        for use in {use.node_id: use for use in users}.values()
    ]


def _coded(objects: DataFrame) -> DataFrame:
    """What `verify` finds, by the names of rules; damaged manifests are told already."""
    from pyspark.sql import functions as f

    def coded(codes: dict[Any, Code]) -> Any:  # noqa: ANN401  (a column)
        chosen = f.when(f.lit(False), "")
        for trouble, code in codes.items():
            chosen = chosen.when(f.col("trouble") == str(trouble), str(code))
        return chosen.otherwise(str(Code.SOURCE_UNREADABLE))

    def levelled(code: Any) -> Any:  # noqa: ANN401 - a column
        chosen = f.when(f.lit(False), "")
        for each, rule in RULES.items():
            chosen = chosen.when(code == str(each), str(rule.level))
        return chosen

    is_native = f.col("target").startswith(CHUNKS)
    code = f.when(is_native, coded(NATIVE_CODES)).otherwise(coded(SOURCE_CODES))
    told = objects.where(~f.col("target").startswith(MANIFESTS)).withColumn("code", code)
    kind = FINDINGS["chunks"].dataType
    return told.select(
        levelled(f.col("code")).alias("level"),
        "code",
        "target",
        "path",
        "detail",
        f.array().cast(kind).alias("chunks"),
        "references",
    )


# --- in SQL ---


@procedure("rules of the format that are broken", FINDINGS, name="fsck")
def fsck_procedure(
    place: Place, all_history: bool = True, deep: bool = False, virtual: bool = False
) -> Iterable[Row]:
    """Findings of a whole repository, or of the version that the URL names."""
    refs = None if all_history else [place.snapshot()]
    report = check(place.repository, refs=refs, ancestors=all_history, deep=deep, virtual=virtual)
    return _rows(report.findings)
