"""Metadata tables: `load("URL#snapshots")` and the like.

Columns have Iceberg's names where they fit. Tables that grow with the number of chunks are cut
into parts by manifest and made as columns; the others are rows of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t

from frazil.errors import invalid_option, unsuitable
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.location import Pinned, Target, open_pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.changes import beginning, starts_after
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.tables import chunk_tables, repo_tables
from frazil.spark.tables.chunk_tables import Part
from frazil.spark.worker import session as session_at
from frazil.spelling import meant, unknown

ROWS: Final = 8192
CHANGES: Final = "changes"


@dataclass(frozen=True, slots=True)
class RowTable:
    """A table made of rows by one task."""

    schema: t.StructType
    rows: Callable[[Repository, TableScan], Iterable[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class PartTable:
    """A table whose parts are made as columns by many tasks."""

    schema: t.StructType
    parts: Callable[[Repository, Session], list[Part]]
    batches: Callable[[Session, Part], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, eq=False)
class TableScan:
    """What to read of which table."""

    name: str
    target: Target
    pinned: Pinned
    start: str | None
    end: str
    parts: tuple[Any, ...]
    schema: t.StructType
    """the chosen columns"""


TABLES: Final[dict[str, RowTable | PartTable]] = {
    "snapshots": RowTable(repo_tables.SNAPSHOTS, lambda r, _: repo_tables.snapshots(r)),
    "refs": RowTable(repo_tables.REFS, lambda r, _: repo_tables.refs(r)),
    "history": RowTable(repo_tables.HISTORY, lambda r, s: repo_tables.history(r, s.target.branch)),
    "ops_log": RowTable(repo_tables.OPS_LOG, lambda r, _: repo_tables.ops_log(r)),
    "nodes": RowTable(repo_tables.NODES, lambda _, s: repo_tables.nodes(session_at(s.pinned))),
    "arrays": RowTable(repo_tables.ARRAYS, lambda _, s: repo_tables.arrays(session_at(s.pinned))),
    "storage": RowTable(repo_tables.STORAGE, lambda r, _: repo_tables.storage(r)),
    "virtual_files": RowTable(
        repo_tables.VIRTUAL_FILES, lambda _, s: repo_tables.virtual_files(session_at(s.pinned))
    ),
    CHANGES: RowTable(
        repo_tables.CHANGES,
        lambda r, s: repo_tables.changes(r, s.start, s.end),
    ),
    "manifests": PartTable(
        chunk_tables.MANIFESTS, chunk_tables.parts_of_snapshot, chunk_tables.manifest_batches
    ),
    "chunks": PartTable(
        chunk_tables.CHUNKS, chunk_tables.parts_of_snapshot, chunk_tables.chunk_batches
    ),
    "all_chunks": PartTable(
        chunk_tables.CHUNKS, chunk_tables.parts_of_history, chunk_tables.chunk_batches
    ),
}


def make_table_scan(
    repository: Repository, target: Target, request: ReadRequest, asked: t.StructType | None = None
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
    if name != CHANGES and (option := beginning(request)) is not None:
        raise invalid_option(
            f"option {option!r} has no meaning for the table {name!r}: it is about changes"
        )
    pinned = target.pin(repository)
    end = _snapshot(repository, request.end_snapshot) or pinned.snapshot_id
    parts: tuple[Any, ...] = (None,)
    if isinstance(table, PartTable):
        parts = tuple(
            chunk_tables.grouped(table.parts(repository, open_pinned(pinned, repository)))
        )
    return TableScan(
        name,
        target,
        pinned,
        starts_after(repository, request, end),
        end,
        # A part is never None: that is what Spark makes of a table without parts.
        tuple((part,) for part in parts),
        _projected(table.schema, request.columns, asked),
    )


def _snapshot(repository: Repository, text: str | None) -> str | None:
    return None if text is None else repository.resolve(text)


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


def read_table(scan: TableScan, part: tuple[Any]) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a table."""
    table = TABLES[scan.name]
    chosen = arrow_schema(scan.schema)
    names = chosen.names
    if isinstance(table, PartTable):
        session = session_at(scan.pinned)
        found: Iterator[pa.RecordBatch] = (
            batch for each in part[0] for batch in table.batches(session, each)
        )
    else:
        rows = table.rows(scan.target.location.open(), scan)
        found = row_batches(rows, table.schema)
    for batch in found:
        picked = batch.select([_own(name, batch.schema.names) for name in names])
        yield pa.RecordBatch.from_arrays(picked.columns, schema=chosen)


def row_batches(rows: Iterable[tuple[Any, ...]], schema: t.StructType) -> Iterator[pa.RecordBatch]:
    """Rows as batches."""
    wanted = arrow_schema(schema)
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == ROWS:
            yield _batch(held, wanted)
            held = []
    if held:
        yield _batch(held, wanted)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
