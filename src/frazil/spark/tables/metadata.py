"""Metadata tables: `load_references("URL#snapshots")` and the like.

Columns have Iceberg's names where they fit. Tables that grow with the number of chunks are cut
into parts by manifest and made as columns; the others are rows of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from frazil.errors import invalid_option, unsuitable
from frazil.ids import ManifestId, NodeId, SnapshotId, crockford_many
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned, open_pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.changes import beginning, starts_after
from frazil.spark.reading.columns import arrow_schema, row_batch, struct
from frazil.spark.tables import repo_tables
from frazil.spark.tables.repo_tables import counts_by_kind, reachable_snapshots
from frazil.spark.tuning import BATCH_ROWS, METADATA_PARTITIONS, METADATA_ROWS
from frazil.spark.worker import session_at as session_at
from frazil.spelling import meant, unknown
from frazil.storage.assets import CHUNKS as CHUNK_PREFIX
from frazil.storage.assets import manifest_key
from frazil.transaction.opened import context_of

CHUNKS: Final = struct(
    "node_path string, chunk_index array<long>, kind string, location string, offset long, "
    "length long, etag string, last_modified timestamp, manifest string"
)
MANIFESTS: Final = struct(
    "path string, length long, node_path string, extents_start array<long>, "
    "extents_end array<long>, chunk_refs_count long, native_count long, virtual_count long, "
    "inline_count long, referenced_bytes long"
)
_KINDS: Final = (None, "native", "virtual", "inline")
"""Words for the numbers of `ChunkType`. An array of them would import pandas at once."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """A table made of rows by one task."""

    schema: t.StructType
    rows: Callable[[Repository, TableScan], Iterable[tuple[Any, ...]]]

    def batches_of(self, scan: TableScan, _: tuple[ManifestPart, ...]) -> Iterator[pa.RecordBatch]:
        """All rows."""
        rows = iter(self.rows(scan.target.location.open(), scan))
        while held := list(islice(rows, METADATA_ROWS)):
            yield row_batch(held, arrow_schema(self.schema))


@dataclass(frozen=True, slots=True)
class PartTable:
    """A table whose parts are made as columns by many tasks."""

    schema: t.StructType
    find: Callable[[Repository, Session], list[ManifestPart]]
    batches: Callable[[Session, ManifestPart], Iterator[pa.RecordBatch]]

    def batches_of(
        self, scan: TableScan, parts: tuple[ManifestPart, ...]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some parts."""
        for each in parts:
            yield from self.batches(session_at(scan.pinned), each)


@dataclass(frozen=True, slots=True, eq=False)
class TableScan:
    """What to read of which table."""

    name: str
    target: NamedTarget
    pinned: Pinned
    start: str | None
    end: str
    grouped: tuple[tuple[ManifestPart, ...], ...]
    schema: t.StructType
    """the chosen columns"""

    def parts(self) -> tuple[tuple[ManifestPart, ...], ...]:
        """What tasks read; one empty part where one task makes all rows."""
        return self.grouped

    def read(self, part: tuple[ManifestPart, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        table = TABLES[self.name]
        chosen = arrow_schema(self.schema)
        for batch in table.batches_of(self, part):
            picked = batch.select([_own(name, batch.schema.names) for name in chosen.names])
            yield pa.RecordBatch.from_arrays(picked.columns, schema=chosen)


# --- chunks and manifests ---


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """The references of one array in one manifest."""

    path: str
    node_id: NodeId
    manifest_id: ManifestId
    size_bytes: int


def parts_of_snapshot(_: Repository, session: Session) -> list[ManifestPart]:
    """The parts that a snapshot is made of."""
    files = session.state.manifest_files
    return [
        ManifestPart(node.path, node.id, ref.id, files[ref.id].size_bytes if ref.id in files else 0)
        for node in session.state.arrays()
        for ref in node.manifests
    ]


def parts_of_history(repository: Repository, _: Session) -> list[ManifestPart]:
    """The parts of everything that a branch or a tag leads to, each once."""
    found: dict[tuple[NodeId, ManifestId], ManifestPart] = {}
    for info in reachable_snapshots(repository):
        snapshot = context_of(repository).assets.snapshot(SnapshotId.parse(info.id))
        sizes = {file.id: file.size_bytes for file in snapshot.manifest_files}
        for node in snapshot.nodes:
            for ref in node.manifests if isinstance(node, ArrayNode) else ():
                part = ManifestPart(node.path, node.id, ref.id, sizes.get(ref.id, 0))
                found.setdefault((node.id, ref.id), part)
    return list(found.values())


def in_partitions(parts: list[ManifestPart]) -> list[tuple[ManifestPart, ...]]:
    """Parts put together into not too many partitions; those of one manifest stay neighbours."""
    if not parts:
        return []
    ordered = sorted(parts, key=lambda part: (part.manifest_id, part.path))
    per = -(-len(ordered) // METADATA_PARTITIONS)
    return [tuple(ordered[at : at + per]) for at in range(0, len(ordered), per)]


def load_references(session: Session, part: ManifestPart) -> ChunkTable | None:
    """The references of a part."""
    return session.state.context.assets.manifest(part.manifest_id, part.size_bytes).table(
        part.node_id
    )


def chunk_record_batches(session: Session, part: ManifestPart) -> Iterator[pa.RecordBatch]:
    """The chunks of a part."""
    table = load_references(session, part)
    if table is None:
        return
    expand = session.state.context.containers.expand
    locations = pa.array([expand(location) for location in table.locations], pa.string())
    etags = pa.array(list(table.etags), pa.string())
    for start in range(0, len(table), BATCH_ROWS):
        yield _chunk_batch(table.take(slice(start, start + BATCH_ROWS)), part, locations, etags)


def _chunk_batch(
    table: ChunkTable, part: ManifestPart, locations: pa.Array, etags: pa.Array
) -> pa.RecordBatch:
    n = len(table)
    schema = arrow_schema(CHUNKS)
    is_inline = table.kind == ChunkType.inline
    times = table.last_modified.astype(np.int64) * 1_000_000
    arrays = [
        pa.repeat(part.path, n),
        _index_lists(table.coords, schema.field("chunk_index").type),
        pa.array(_KINDS).take(pa.array(table.kind.astype(np.int64))),
        _locations(table, locations),
        pa.array(table.offset.astype(np.int64), mask=is_inline),
        pa.array(table.length.astype(np.int64)),
        etags.take(pa.array(table.etag, mask=np.asarray(table.etag < 0))),
        pa.array(times.view("M8[us]"), mask=np.asarray(table.last_modified == 0)).cast(
            pa.timestamp("us", tz="UTC")
        ),
        pa.repeat(manifest_key(part.manifest_id), n),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _locations(table: ChunkTable, locations: pa.Array) -> pa.Array:
    """Where bytes are: a key of the repository, an external file, or None for inline chunks."""
    is_native = table.kind == ChunkType.native
    virtual = locations.take(pa.array(table.location, mask=np.asarray(table.location < 0)))
    if not is_native.any():
        return virtual
    names = crockford_many(np.ascontiguousarray(table.chunk_id[is_native]))
    keys = pa.array([CHUNK_PREFIX + name for name in names], pa.string())
    if is_native.all():
        return keys
    places = np.cumsum(is_native) - 1
    native = keys.take(pa.array(places, mask=~is_native))
    return pc.coalesce(native, virtual)


def _index_lists(coords: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Rows of numbers as an array of lists."""
    n, width = coords.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * width, pa.int32())
    flat = pa.array(np.ascontiguousarray(coords).reshape(-1).astype(np.int64))
    return pa.ListArray.from_arrays(offsets, flat, type=kind)


def manifest_batches(session: Session, part: ManifestPart) -> Iterator[pa.RecordBatch]:
    """One row for a part."""
    table = load_references(session, part)
    if table is None:
        return
    row = (
        manifest_key(part.manifest_id),
        part.size_bytes,
        part.path,
        [low for low, _ in table.extents],
        [high for _, high in table.extents],
        len(table),
        *counts_by_kind(table),
        int(table.length.sum()),
    )
    yield row_batch([row], arrow_schema(MANIFESTS))


# --- all tables ---


TABLES: Final[dict[str, RowTable | PartTable]] = {
    "snapshots": RowTable(repo_tables.SNAPSHOTS, lambda r, _: repo_tables.snapshot_rows(r)),
    "refs": RowTable(repo_tables.REFS, lambda r, _: repo_tables.ref_rows(r)),
    "history": RowTable(
        repo_tables.HISTORY, lambda r, s: repo_tables.history_rows(r, s.target.branch)
    ),
    "ops_log": RowTable(repo_tables.OPS_LOG, lambda r, _: repo_tables.ops_log_rows(r)),
    "nodes": RowTable(repo_tables.NODES, lambda _, s: repo_tables.node_rows(session_at(s.pinned))),
    "arrays": RowTable(
        repo_tables.ARRAYS, lambda _, s: repo_tables.array_rows(session_at(s.pinned))
    ),
    "storage": RowTable(repo_tables.STORAGE, lambda r, _: repo_tables.storage_rows(r)),
    "virtual_files": RowTable(
        repo_tables.VIRTUAL_FILES, lambda _, s: repo_tables.virtual_file_rows(session_at(s.pinned))
    ),
    "changes": RowTable(
        repo_tables.CHANGES,
        lambda r, s: repo_tables.change_rows(r, s.start, s.end),
    ),
    "manifests": PartTable(MANIFESTS, parts_of_snapshot, manifest_batches),
    "chunks": PartTable(CHUNKS, parts_of_snapshot, chunk_record_batches),
    "all_chunks": PartTable(CHUNKS, parts_of_history, chunk_record_batches),
}


def make_table_scan(
    repository: Repository,
    target: NamedTarget,
    request: ReadRequest,
    asked: t.StructType | None = None,
) -> TableScan:
    """Work out what a user asked for.

    Raises:
        InvalidInputError: there is no such table or column.
    """
    name = target.table or ""
    table = TABLES.get(name)
    if table is None:
        raise invalid_option(
            f"{unknown('metadata table', name, TABLES)}; write %23 for a # of the path"
        )
    if name != "changes" and (option := beginning(request)) is not None:
        raise invalid_option(
            f"option {option!r} has no meaning for the table {name!r}: it is about changes"
        )
    pinned = target.pin(repository)
    end = pinned.snapshot_id
    if request.end_snapshot is not None:
        end = repository.resolve(request.end_snapshot)
    grouped: tuple[tuple[ManifestPart, ...], ...] = ((),)
    if isinstance(table, PartTable):
        found = table.find(repository, open_pinned(pinned, repository))
        grouped = tuple(in_partitions(found))
    start = starts_after(repository, request, end)
    schema = _projected(table.schema, request.columns, asked)
    return TableScan(name, target, pinned, start, end, grouped, schema)


def _projected(
    schema: t.StructType, columns: tuple[str, ...] | None, asked: t.StructType | None
) -> t.StructType:
    names = columns if asked is None else tuple(field.name for field in asked.fields)
    if names is None:
        return schema
    by_name = {field.name: field for field in schema.fields}
    found = [_own(name, by_name) for name in names]
    if asked is None:
        return t.StructType([by_name[name] for name in found])
    for field, own in zip(asked.fields, found, strict=True):
        kind = by_name[own].dataType
        if field.dataType != kind:
            raise unsuitable(
                f"column {field.name!r} is {kind.simpleString()}, not "
                f"{field.dataType.simpleString()}"
            )
    return asked


def _own(name: str, names: Collection[str]) -> str:
    """The column of a table that a name means."""
    found = meant(name, names)
    if found is None:
        raise unsuitable(unknown("column", name, names))
    return found
