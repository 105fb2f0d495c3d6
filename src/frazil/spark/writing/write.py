"""`frazil.spark.write`: a DataFrame into arrays, every chunk once, in one commit.

Rows are placed on executors, shuffled so that those of one chunk meet in one task, and encoded
and stored there. The driver gets references only, as columns, and commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from frazil.cf.decoding import Values
from frazil.errors import invalid_option, unsuitable
from frazil.run import JobReport
from frazil.spark.location import NamedTarget, reachable_target
from frazil.spark.options.parsing import parse_request
from frazil.spark.options.table import PROPERTY, OptionUse, WriteRequest
from frazil.spark.options.written import as_text, spelled, storage_texts
from frazil.spark.tasks import answers_of, application, collect, map_batches
from frazil.spark.writing.chunk_writer import ChunkRows, ChunkWriter, WrittenChunks
from frazil.spark.writing.commit import commit_write, txn_of
from frazil.spark.writing.placing import chunks_and_cells, distinct, place_rows
from frazil.spark.writing.plan import ChunkGroup, TableAxis, WritePlan
from frazil.spark.writing.planner import plan_write

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHUNK: Final = "__chunk"
CELL: Final = "__cell"
ROW: Final = "__row"
_AS_JSON: Final = frozenset({"coords", "attributes", "codecs"})


def write(
    df: DataFrame,
    url: str,
    *,
    mode: str = "append",
    storage_options: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401  (those of the data source)
) -> JobReport:
    """Write a DataFrame with a row for each cell into arrays, in one commit.

    Columns are dimensions, by whose labels rows are placed, and variables. Arrays that are there
    keep their types, chunks and CF encoding; others are made. With `mode="append"` cells are set
    and, along `append_dim`, added; with `mode="overwrite"` the table is replaced, or only the
    `region` or what `replaceWhere` chooses. Rows go through one shuffle for each chunk shape.

    Args:
        df: the rows; a DataFrame that is not always the same should be cached before.
        url: `URL[@branch][#/group]`.
        mode: `append` or `overwrite`.
        storage_options: arguments of the storage, such as `region`.
        properties: metadata of the commit.
        options: options of the data source with `_` for `-`, such as `dims=["time", "lat"]`,
            `chunks={"time": 24}`, `append_dim="time"`, `message="…"`.

    Raises:
        InvalidInputError: rows, schema or options do not fit; nothing is committed.
        ConflictError: others changed the same meanwhile; nothing is committed.
    """
    if mode not in ("append", "overwrite"):
        raise invalid_option(f"mode is {mode!r}: it must be append or overwrite")
    given = {"path": url, **storage_texts(storage_options)}
    given |= {PROPERTY + name: v for name, v in (properties or {}).items()}
    given |= {spelled(k): _text(k, v) for k, v in options.items() if v is not None}
    request = parse_request(WriteRequest, given, OptionUse.WRITE)
    return write_frame(df, reachable_target(request), request, overwrite=mode == "overwrite")


def write_frame(
    df: DataFrame,
    target: NamedTarget,
    request: WriteRequest,
    *,
    overwrite: bool = False,
    base: str | None = None,
    relied: tuple[str, ...] = (),
) -> JobReport:
    """The same for options that are read already.

    Args:
        df: the rows.
        target: the group to write, on a branch.
        request: how to write.
        overwrite: whether what is there is replaced.
        base: the snapshot that the rows were made from; the newest one by default.
        relied: paths of arrays that the rows were made from: it is a conflict when others have
            changed them since.
    """
    txn = txn_of(request)
    plan = plan_write(target, request, df.schema, overwrite=overwrite, base=base)
    if plan is None:
        return JobReport(None, ())
    plan = replace(plan, relied=relied)
    if txn is not None and txn.is_in(plan.pinned.location.open(), plan.branch):
        return JobReport(None, tuple(array.path for array in plan.arrays))
    if not plan.is_resolved:
        plan = plan.resolve({a.name: _labels(df, a) for a in plan.axes if a.grows})
    written: list[WrittenChunks] = []
    for group in plan.groups:
        written += _written(df, plan, group)
    return commit_write(plan, written, txn=txn, facts=application(df.sparkSession))


def _text(name: str, value: object) -> str:
    if name in _AS_JSON and not isinstance(value, str):
        return json.dumps(value, default=_plain)
    return as_text(value)


def _plain(value: Any) -> object:  # noqa: ANN401  (numpy, pandas, dates)
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return np.datetime_as_string(value).tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _labels(df: DataFrame, axis: TableAxis) -> Values:
    """The labels that rows have along an axis, as they are stored."""
    assert axis.encoder is not None
    # Distinct first, on executors: one label of each comes to the driver.
    column = collect(df.select(_column(axis.name)).distinct()).column(0)
    if column.null_count:
        raise unsuitable(f"column {axis.name!r} has NULL, which is no coordinate")
    return distinct(axis.encoder.encode(column))


def _column(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def _written(df: DataFrame, plan: WritePlan, group: ChunkGroup) -> list[WrittenChunks]:
    """Store the chunks of a group of arrays."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    names = [plan.arrays[number].name for number in group.arrays]
    is_ordered = plan.request.duplicates != "error"
    given = [*(axis.name for axis in plan.axes), *names]
    # PySpark takes the names of what it maps for expressions, in which dots and backquotes count.
    chosen = [_column(name).alias(f"c{n}") for n, name in enumerate(given)]
    if is_ordered:
        given.append(ROW)
        chosen.append(f.monotonically_increasing_id().alias(ROW))
    numbers = [CHUNK, CELL, *([ROW] if is_ordered else [])]
    schema = t.StructType(
        [t.StructField(name, t.LongType()) for name in numbers]
        + [t.StructField(f"v{n}", df.schema[name].dataType) for n, name in enumerate(names)]
    )

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        grid = plan.arrays[group.arrays[0]].grid
        for each in batches:
            batch = each.rename_columns(given)
            where = place_rows(plan, batch).places
            chunk, cell = chunks_and_cells(group, grid, where, batch.num_rows)
            columns = [pa.array(chunk), pa.array(cell)]
            columns += [batch.column(ROW)] if is_ordered else []
            columns += [batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=schema.fieldNames())

    def stored(batches: Iterator[pa.RecordBatch]) -> Iterator[WrittenChunks]:
        return ChunkWriter(plan, group).write(_rows(plan, group, batch) for batch in batches)

    count = plan.request.write_partitions
    frame = map_batches(df.select(*chosen), placed, schema)
    keys = [CHUNK, ROW] if is_ordered else [CHUNK]
    moved = frame.repartition(CHUNK) if count is None else frame.repartition(count, CHUNK)
    return [*answers_of(moved.sortWithinPartitions(*keys), stored)]


def _rows(plan: WritePlan, group: ChunkGroup, batch: pa.RecordBatch) -> ChunkRows:
    first = batch.num_columns - len(group.arrays)
    values = tuple(
        plan.arrays[number].encoder.encode(batch.column(first + n))
        for n, number in enumerate(group.arrays)
    )
    return ChunkRows(
        batch.column(0).to_numpy(zero_copy_only=False),
        batch.column(1).to_numpy(zero_copy_only=False),
        values,
    )
