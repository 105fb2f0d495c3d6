"""Small reads, done where the query is planned: Spark gets a small table instead of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from frazil import texts
from frazil.spark.reading.aggregating import AggregateScan, read_aggregates
from frazil.spark.reading.cells import Kept, columns_of, narrow, read_cells
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.reading.partitions import REGION_CELLS, BlockGrid, plan_blocks
from frazil.spark.reading.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING: Final = "spark.frazil.sql.localBytes"
"""The setting of Spark with the decoded bytes up to which reads are done here; 0 for never."""
LOCAL_BYTES: Final = 64 << 20
MOST_ROWS: Final = 1 << 18
"""Rows that are made here at most: many rows are better made by many tasks."""
_THREADS: Final = min(8, os.cpu_count() or 2)


def limit_of(spark: SparkSession) -> int:
    """How many decoded bytes may be read here."""
    written = spark.conf.get(SETTING, None)
    if written is None:
        return LOCAL_BYTES
    return 0 if written.strip() in ("0", "") else int(texts.size(written))


def bytes_to_read(scan: Scan, grid: BlockGrid) -> int:
    """Decoded bytes of the blocks that a scan looks into; labels do not count."""
    return grid.total * grid.cells * scan.cell_bytes if scan.data_columns() else 0


def rows_of(scan: Scan, grid: BlockGrid) -> int:
    """Cells of these blocks."""
    return grid.total * grid.cells


def read_cells_here(scan: Scan) -> pa.Table:
    """The cells of a scan."""
    grid = plan_blocks(scan, scan.data_columns())
    kept = Kept()
    limit = REGION_CELLS if scan.is_separable else 1
    batches = [
        batch
        for region in grid.regions(0, grid.total, limit)
        for batch in read_cells(scan, region, kept=kept)
    ]
    return pa.Table.from_batches(batches, arrow_schema(scan.schema))


def read_aggregates_here(plan: AggregateScan) -> pa.Table:
    """The rows of a scan with aggregates, computed in threads."""
    grid = whole_grid(plan) or plan.grid
    count = min(grid.total, _THREADS)
    cuts = [grid.total * n // max(count, 1) for n in range(count + 1)]

    def work(number: int) -> list[pa.RecordBatch]:
        return [*read_aggregates(plan, grid, cuts[number], cuts[number + 1])]

    if count <= 1:
        found = [work(number) for number in range(count)]
    else:
        with ThreadPoolExecutor(count, "frazil-sql") as pool:
            found = [*pool.map(work, range(count))]
    batches = [batch for each in found for batch in each]
    return pa.Table.from_batches(batches, arrow_schema(plan.schema))


def read_one_row_here(plan: AggregateScan) -> pa.Table:
    """The aggregates of all cells in one row, also when there are none."""
    grid = whole_grid(plan) or plan.grid
    schema = arrow_schema(plan.schema)
    found = pa.Table.from_batches([*read_aggregates(plan, grid, 0, grid.total)], schema)
    if len(found):
        return found
    counts = ("count(",)
    row = {name: 0 if name.startswith(counts) else None for name in schema.names}
    return pa.Table.from_pylist([row], schema)


def whole_grid(plan: AggregateScan) -> BlockGrid | None:
    """One block for all, where no data are read and each axis is chosen from alone."""
    scan = plan.scan
    if scan.data_columns() or not scan.is_separable or 0 in scan.shape:
        return None
    return BlockGrid(scan.shape, scan.shape, tuple(range(1) for _ in scan.shape))


def kept_rows(plan: AggregateScan, grid: BlockGrid) -> int:
    """How many rows aggregates can have at most."""
    sizes = [min(len(grid.blocks[axis]) * grid.block[axis], grid.shape[axis]) for axis in plan.kept]
    return int(np.prod(sizes, dtype=np.int64))


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
    from dataclasses import replace

    own = replace(scan, columns=(scan.values[name],))
    grid = plan_blocks(own, own.data_columns())
    for region in grid.regions(0, min(grid.total, 1), 1):
        cut = narrow(own, region)
        if cut is None or 0 in cut.shape:
            continue
        decoded = columns_of(own, cut)[0]
        values = decoded.values.astype(np.float64)
        yield values if decoded.missing is None else values[~decoded.missing]
