"""Rules of the format checked by many tasks, with the findings as a DataFrame.

Each manifest is read by one task, which tells what it found and what the references need. The needs
meet the listing of the chunk objects, and what is not there is a finding too.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from frazil.errors import FormatError, InvalidInputError, RepositoryNotFoundError
from frazil.fsck.checking import (
    Uses,
    add_uses,
    damaged_statistics,
    read_history,
    spec_rules_of,
    wanted_snapshots,
)
from frazil.fsck.checking import (
    fsck as check,
)
from frazil.fsck.files import RepositoryFiles, open_anyway
from frazil.fsck.findings import REFERENCES, Code, Finding
from frazil.fsck.history import (
    CheckedHistory,
    SnapshotNode,
    check_commit,
    check_history,
    lone_history,
)
from frazil.fsck.manifest_rules import check_manifest_file, decode_chunks
from frazil.fsck.objects import SourceVersion, ask_source, object_finding, virtual_needs
from frazil.fsck.snapshot_rules import ManifestUse, uses_of
from frazil.ids import ManifestId, SnapshotId, crockford_many
from frazil.maintenance.id_sets import needed_objects
from frazil.model.chunks import ChunkTable
from frazil.spark import tasks, worker
from frazil.spark.location import RepositoryLocation
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.runner import SparkRunner, slots
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Batches, Options
from frazil.spark.upkeep.garbage import chunk_listing, items_frame, over_items, record_batch_of
from frazil.spark.upkeep.procedure import LONG, TEXT, ProcedureTarget, Row, columns, procedure
from frazil.statistics.files import Checksums, read_checksums
from frazil.storage.assets import CHUNKS
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FINDINGS: Final = columns(
    level=TEXT,
    code=TEXT,
    target=TEXT,
    path=TEXT,
    detail=TEXT,
    chunks=t.ArrayType(t.ArrayType(LONG)),
    references=LONG,
)
_NEEDS: Final = columns(target=TEXT, item=t.BinaryType(), end=LONG, references=LONG, path=TEXT)
Need: TypeAlias = tuple[str, bytes | None, int, int, str | None]
"""A row of those: without `item` a chunk object, else a pickled finding or source."""
NEIGHBOURS: Final = 32
"""Snapshots that follow each other and go to one task, which reads each parent once."""
_MAX_LONG: Final = 2**63 - 1


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
    target = tasks.target_of(url, options)
    context = _open(target.location)
    history, findings = read_history(context, RepositoryFiles(context.storage))
    refs = None if target.ref is None else [target.snapshot(target.location.open())]
    wanted = wanted_snapshots(history, refs, ancestors=True)
    findings += check_history(history, wanted)
    if deep:
        findings += damaged_statistics(read_checksums(context.place))
    walk = _Walk(target.location, spec_rules_of(context), deep=deep, virtual=virtual)
    return walk.run(spark or spark_session(), history, wanted, findings)


def verify(
    url: str,
    *,
    spark: SparkSession | None = None,
    all_history: bool = False,
    virtual: bool = False,
    options: Options | None = None,
) -> DataFrame:
    """Check that everything references need is there: the rules `REFERENCES` of `fsck`.

    Args:
        url: `URL[@version]`.
        spark: the session to use; the active or an embedded one by default.
        all_history: check everything that branches and tags lead to, not one version.
        virtual: also ask the sources of virtual chunks whether they are unchanged; they must be
            authorised by `options`.
        options: options of the data source, such as `storage.region`.

    Returns:
        A row for each object that is missing, short, damaged or changed, as `fsck` has them. No
        rows mean that all is well.
    """
    target = tasks.target_of(url, options)
    repository = target.location.open()
    if all_history:
        history, _ = read_history(
            context_of(repository), RepositoryFiles(context_of(repository).storage)
        )
    else:
        history = lone_history([SnapshotId.parse(target.snapshot(repository))])
    walk = _Walk(target.location, REFERENCES, virtual=virtual)
    return walk.run(spark or spark_session(), history, history.reached(history.refs.values()), [])


def _open(location: RepositoryLocation) -> Context:
    """The parts of a repository, also of one that cannot be opened."""
    try:
        return context_of(location.open())
    except (FormatError, RepositoryNotFoundError):
        return open_anyway(location.storage())


@lru_cache(maxsize=worker.REPOSITORIES)
def _context(location: RepositoryLocation) -> Context:
    """The same, kept between the tasks of a process."""
    return _open(location)


@lru_cache(maxsize=worker.REPOSITORIES)
def _checksums(location: RepositoryLocation, check: str) -> Checksums:
    """What is known of the stored bytes of chunks, kept for one check."""
    return read_checksums(_context(location).place)


def _rows(findings: Iterable[Finding]) -> Iterator[Row]:
    for each in findings:
        chunks = [list(index) for index in each.chunks]
        level = str(each.level)
        yield level, str(each.code), each.target, each.path, each.detail, chunks, each.references


def _table(findings: Iterable[Finding]) -> pa.Table:
    rows = [*_rows(findings)]
    values: Sequence[Sequence[Any]] = [*zip(*rows, strict=True)] if rows else [()] * len(FINDINGS)
    return pa.Table.from_batches([record_batch_of(values, arrow_schema(FINDINGS))])


@dataclass(frozen=True, slots=True)
class _Walk:
    """One check: the driver plans it and tasks do it."""

    location: RepositoryLocation
    rules: frozenset[Code]
    deep: bool = False
    virtual: bool = False
    check: str = field(default_factory=partial(secrets.token_hex, 8))
    """tells this check from others"""

    @property
    def whole(self) -> bool:
        """Whether there is more to check than references."""
        return not self.rules <= REFERENCES

    def run(
        self,
        spark: SparkSession,
        history: CheckedHistory,
        wanted: set[SnapshotId],
        findings: list[Finding],
    ) -> DataFrame:
        """Check some snapshots and everything below them; `findings` are those so far."""
        from pyspark.sql import functions as f

        uses = self._snapshots(spark, history.links(wanted), findings)
        needs = tasks.map_batches(items_frame(spark, [*uses.items()]), self.needs, _NEEDS)
        united = needs.groupBy("target", "item").agg(
            f.max("end").alias("end"),
            f.sum("references").alias("references"),
            f.min("path").alias("path"),
        )
        listing = chunk_listing(spark, partial(_context, self.location)).select("key", "size_bytes")
        met = united.join(listing, united["target"] == listing["key"], "left")
        is_bad = f.col("size_bytes").isNull() | (f.col("size_bytes") < f.col("end"))
        bad = met.where(f.col("item").isNotNull() | is_bad).drop("key")
        found = tasks.map_batches(bad, self.judge, FINDINGS)
        frame = spark.createDataFrame(_table(findings), FINDINGS)
        return (
            frame.unionByName(found)
            .where(f.col("code").isin([*map(str, self.rules)]))
            .dropDuplicates(["code", "target", "path", "detail"])
        )

    def _snapshots(
        self, spark: SparkSession, links: Sequence[SnapshotNode], findings: list[Finding]
    ) -> Uses:
        """Have tasks check snapshots; add to the findings and return how manifests are used."""
        size = max(1, min(NEIGHBOURS, -(-len(links) // slots(spark))))
        groups = [tuple(links[at : at + size]) for at in range(0, len(links), size)]
        united: Uses = {}
        for _, (found, uses) in SparkRunner(spark).run(self.commits, groups):
            findings += found
            for manifest_id, each in uses.items():
                united.setdefault(manifest_id, set()).update(each)
        return united

    # --- in tasks ---

    def commits(self, links: Sequence[SnapshotNode]) -> tuple[list[Finding], Uses]:
        """Check snapshots and logs that follow each other."""
        files = RepositoryFiles(_context(self.location).storage)
        found: list[Finding] = []
        uses: Uses = {}
        for link in links:
            checked = check_commit(files, link, whole=self.whole)
            found += checked.findings
            if checked.snapshot is not None:
                add_uses(uses, uses_of(checked.snapshot, documents=self.deep))
        return found, uses

    def needs(self, batches: Batches) -> Batches:
        """Check manifests; tell what was found and what their references need."""
        for manifest_id, uses in over_items(batches):
            rows = [*self._needs(_context(self.location), manifest_id, uses)]
            if rows:
                yield record_batch_of([*zip(*rows, strict=True)], arrow_schema(_NEEDS))

    def _needs(
        self, context: Context, manifest_id: ManifestId, uses: set[ManifestUse]
    ) -> Iterator[Need]:
        files = RepositoryFiles(context.storage)
        read = files.manifest(manifest_id)
        found = [*check_manifest_file(manifest_id, read, uses, context.containers)]
        if self.deep:
            sums = _checksums(self.location, self.check)
            done = decode_chunks(context, files, manifest_id, uses, sums, virtual=self.virtual)
            found += done.findings
        for finding in found:
            yield finding.target, _packed(finding), 0, 0, None
        if read is None or read.content is None:
            return
        paths = {use.node_id: use.path for use in uses}
        for node_id, table in read.content.tables():
            yield from _native(table, paths.get(node_id))
            for (location, checksum), end, count in virtual_needs(table) if self.virtual else ():
                source: SourceVersion = _expanded(context, location), checksum
                end = min(end, _MAX_LONG)
                yield source[0], _packed(source), end, count, paths.get(node_id)

    def judge(self, batches: Batches) -> Batches:
        """Findings from what was told, from chunk objects that are bad, and from sources."""
        for batch in batches:
            yield from _table(filter(None, map(self._judged, batch.to_pylist()))).to_batches()

    def _judged(self, row: Mapping[str, Any]) -> Finding | None:
        end, count, path = row["end"], row["references"], row["path"]
        if row["item"] is None:
            size = -1 if row["size_bytes"] is None else row["size_bytes"]
            return object_finding(row["target"], size, end, path, count)
        item: Finding | SourceVersion = pickle.loads(row["item"])  # our own tasks'
        if isinstance(item, Finding):
            return item
        return ask_source(_context(self.location), item, end, count, path)


def _packed(item: Finding | SourceVersion) -> bytes:
    return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)


def _native(table: ChunkTable, path: str | None) -> Iterator[Need]:
    """The chunk objects of an array in a manifest, a row for each."""
    ids, longest, counts = needed_objects([table])
    lengths = np.minimum(longest, np.uint64(_MAX_LONG)).tolist()
    for name, end, count in zip(crockford_many(ids), lengths, counts.tolist(), strict=True):
        yield CHUNKS + name, None, end, count, path


def _expanded(context: Context, location: str) -> str:
    """A location as a URL; one of a container that nobody has declared stays as it is."""
    try:
        return context.containers.expand(location)
    except InvalidInputError:
        return location


# --- in SQL ---


@procedure("rules of the format that are broken", FINDINGS, name="fsck")
def fsck_procedure(
    place: ProcedureTarget, all_history: bool = True, deep: bool = False, virtual: bool = False
) -> Iterable[Row]:
    """Findings of a whole repository, or of the version that the URL names."""
    refs = None if all_history else [place.snapshot()]
    report = check(place.repository, refs=refs, ancestors=all_history, deep=deep, virtual=virtual)
    return _rows(report.findings)
