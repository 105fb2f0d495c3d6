"""Small reads, done where the query is planned: Spark gets a small table instead of a job."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from frazil import texts
from frazil.spark.query.views import is_remote
from frazil.spark.reading.aggregating import AggregateScan, given, read_aggregates, reduce_all
from frazil.spark.reading.answering import Answered
from frazil.spark.reading.axis_masks import full_runs
from frazil.spark.reading.cells import (
    LabelCache,
    NarrowedRegion,
    columns_of,
    flattened,
    narrow_region,
    read_cells,
)
from frazil.spark.reading.columns import arrow_schema, cast
from frazil.spark.reading.partitions import BlockGrid, plan_blocks
from frazil.spark.reading.reducing import countable
from frazil.spark.reading.runs import require_few
from frazil.spark.reading.scan import Scan
from frazil.spark.reading.stored import Places, first_of, length_of
from frazil.spark.tuning import EMBEDDED_BYTES, HELD_BYTES, LOCAL_BYTES, REGION_CELLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

SETTING: Final = "spark.frazil.sql.localBytes"
"""The setting of Spark with the decoded bytes up to which reads are done here; 0 for never."""
_EMBEDDED: Final = re.compile(r"local(\[[^]]*\])?")
"""not local-cluster, whose tasks run in processes of their own"""
_THREADS: Final = min(8, os.cpu_count() or 2)
"""of one interpreter; more were never tried"""


def limit_of(spark: SparkSession) -> int:
    """How many decoded bytes may be read here."""
    written = spark.conf.get(SETTING, None)
    if written is None:
        return EMBEDDED_BYTES if is_embedded(spark) else LOCAL_BYTES
    return 0 if written.strip() in ("0", "") else int(texts.size(written))


def is_embedded(spark: SparkSession) -> bool:
    """Whether tasks of a session run in threads of its own Java, and so on this machine."""
    if is_remote(spark):
        return False
    return _EMBEDDED.fullmatch(str(spark.sparkContext.master)) is not None


def bytes_to_read(scan: Scan, grid: BlockGrid) -> int:
    """Decoded bytes of the blocks that a scan looks into; labels do not count."""
    return grid.total * grid.cells * scan.cell_bytes if scan.data_columns() else 0


def read_cells_here(scan: Scan, grid: BlockGrid) -> pa.Table:
    """The cells of a scan, in the blocks of a grid."""
    kept = LabelCache()
    limit = REGION_CELLS if scan.is_separable else 1
    batches = [
        batch
        for region in grid.regions(0, grid.total, limit)
        for batch in read_cells(scan, region, kept=kept)
    ]
    return pa.Table.from_batches(batches, arrow_schema(scan.schema))


def read_aggregates_here(plan: AggregateScan, answered: Answered) -> pa.Table:
    """The rows of a scan with aggregates, computed in threads where statistics do not tell them."""
    grid = answered.grid
    found = _in_threads(
        plan.scan, grid, lambda start, stop: [*read_aggregates(plan, grid, start, stop)]
    )
    batches = [batch for each in found for batch in each]
    if answered.held is not None:
        batches += given(plan, [answered.held.merged(plan.kept, plan.classes)])
    return pa.Table.from_batches(batches, arrow_schema(plan.schema))


def _in_threads(scan: Scan, grid: BlockGrid, work: Callable[[int, int], T]) -> list[T]:
    """What is found in ranges of blocks, all of them together."""
    room = HELD_BYTES // max(grid.cells * scan.cell_bytes, 1)
    count = min(grid.total, _THREADS, max(room, 1))
    cuts = [grid.total * n // max(count, 1) for n in range(count + 1)]
    if count <= 1:
        return [*map(work, cuts[:-1], cuts[1:])]
    with ThreadPoolExecutor(count, "frazil-sql") as pool:
        return [*pool.map(work, cuts[:-1], cuts[1:])]


def read_one_row_here(plan: AggregateScan, answered: Answered) -> pa.Table:
    """The aggregates of all cells in one row, also when there are none."""
    grid = answered.grid
    schema = arrow_schema(plan.schema)
    found = [*_in_threads(plan.scan, grid, partial(reduce_all, plan, grid)), answered.held]
    parts = [part for part in found if part is not None]
    if parts:
        for other in parts[1:]:
            parts[0].add(other)
        return pa.Table.from_batches([*given(plan, parts[:1])], schema)
    counts = ("count(",)
    row = {name: 0 if name.startswith(counts) else None for name in schema.names}
    return pa.Table.from_pylist([row], schema)


def answered_here(plan: AggregateScan) -> Answered:
    """What statistics tell; one block for all, where no data are read and axes are chosen apart."""
    scan = plan.scan
    if scan.data_columns() or not scan.is_separable or 0 in scan.shape:
        return plan.answered()
    return Answered(BlockGrid(scan.shape, scan.shape, tuple(range(1) for _ in scan.shape)))


def kept_rows(plan: AggregateScan, grid: BlockGrid, *, apart: bool = False) -> int:
    """How many rows aggregates can have at most; `apart` when labels of axes need not meet."""
    sizes = [
        min(
            len(grid.blocks[axis]) * grid.block[axis],
            grid.shape[axis] if axis not in plan.classes else plan.classes[axis].count,
        )
        for axis in plan.kept
    ]
    return max(sizes, default=0) if apart else math.prod(sizes)


def read_labels_here(plan: AggregateScan) -> pa.Table:
    """The labels of each axis that are left, side by side, and the number of cells in one row.

    Axes are not crossed: where one has fewer labels than another, its last one is repeated. That
    is enough for extremes and for distinct labels.
    """
    scan, schema = plan.scan, arrow_schema(plan.schema)
    chosen = [full_runs(scan, scan.condition, axis) for axis in range(len(scan.axes))]
    places: list[Places] = [
        slice(0, size) if runs is None else runs.places()
        for size, runs in zip(scan.shape, chosen, strict=True)
    ]
    if not all(map(length_of, places)):
        return schema.empty_table()
    size = max(length_of(places[axis]) for axis in plan.kept)
    require_few(size)
    arrays: list[pa.Array] = []
    for column in scan.columns[: plan.labels]:
        region = tuple(
            each if axis in column.axes else first_of(each) for axis, each in enumerate(places)
        )
        shape = tuple(map(length_of, region))
        (values,) = columns_of(replace(scan, columns=(column,)), NarrowedRegion(region, None))
        labels = flattened(values, shape, tuple(slice(0, n) for n in shape), None)
        taken = labels.take(pa.array(np.minimum(np.arange(size), len(labels) - 1)))
        arrays.append(cast(column.name, taken, schema.field(len(arrays)).type))
    rows = np.zeros(size, np.int64)
    rows[0] = countable(map(length_of, places))
    return pa.Table.from_arrays([*arrays, pa.array(rows)], schema=schema)


def mean_near(scan: Scan, name: str) -> float:
    """A number of the size of a variable's values: the mean of the first that are found."""
    for values in _first_values(scan, name):
        finite = values[np.isfinite(values)]
        if finite.size:
            return float(finite.mean())
    return 0.0


def _first_values(
    scan: Scan, name: str
) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    own = replace(scan, columns=(scan.values[name],))
    grid = plan_blocks(own, own.data_columns())
    for region in grid.regions(0, min(grid.total, 1), 1):
        cut = narrow_region(own, region)
        if cut is None or 0 in cut.shape:
            continue
        decoded = columns_of(own, cut)[0]
        values = decoded.values.astype(np.float64)
        yield values if decoded.missing is None else values[~decoded.missing]
