"""A table of a query as it is read: by tasks of Spark or where it is planned, at which cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from frazil.spark.query import here
from frazil.spark.query.costs import Cost, cost_of
from frazil.spark.query.tables import OpenTable
from frazil.spark.reading.answering import Answered
from frazil.spark.reading.partitions import plan_blocks, rows_of
from frazil.spark.reading.read import read
from frazil.spark.reading.runs import Runs
from frazil.spark.reading.scan import Scan
from frazil.spark.reading.skipping import without_hopeless

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class Reading:
    """How one table of a query is read."""

    table: OpenTable
    options: dict[str, str]
    layout: str = "cells"
    is_here: bool = False
    """whether it is read where the query is planned"""
    is_one_row: bool = False
    """whether there is nothing left to add, so that the aggregates are the answer"""
    is_apart: bool = False
    """whether labels of one axis need not meet those of another"""
    pushed: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """what Spark does, and why"""
    rows: int = 0
    """that Spark gets at most"""
    answered: Answered | None = None
    """the blocks to read, and what statistics tell of others"""

    @property
    def schema(self) -> t.StructType:
        """The columns that Spark gets."""
        if self.layout == "aggregates":
            return self.table.aggregate_scan(self.options).schema
        return self.table.schema(self.options)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The table as a DataFrame."""
        if not self.is_here:
            given: dict[str, Any] = {**self.table.reading, **self.options}
            return read(self.table.path, spark=spark, **given)
        assert self.answered is not None
        if self.layout == "aggregates":
            plan = self.table.aggregate_scan(self.options)
            # From one partition Spark groups without a shuffle.
            rows = (
                here.read_labels_here(plan)
                if self.is_apart
                else here.read_aggregates_here(plan, self.answered)
            )
            return spark.createDataFrame(rows, plan.schema).coalesce(1)
        scan = self.table.scan(self.options)
        return spark.createDataFrame(here.read_cells_here(scan, self.answered.grid), scan.schema)

    def row(self) -> pa.Table:
        """The one row, where the aggregates are the answer."""
        assert self.answered is not None
        return here.read_one_row_here(self.table.aggregate_scan(self.options), self.answered)

    def shape_of(self, spark: SparkSession) -> DataFrame:
        """The same without rows where these would be read at once, for Spark to plan with."""
        return spark.createDataFrame([], self.schema) if self.is_here else self.frame(spark)

    def measure(self, spark: SparkSession) -> Reading:
        """Find out how much is to be read, and so who reads it."""
        limit = here.limit_of(spark)
        if self.layout == "aggregates":
            plan = self.table.aggregate_scan(self.options)
            own = plan.scan
            self.answered = here.answered_here(plan)
            self.rows = here.kept_rows(plan, self.answered.grid, apart=self.is_apart)
        else:
            own = self.table.scan(self.options)
            grid = without_hopeless(own, plan_blocks(own, own.data_columns()))
            self.answered = Answered(grid)
            self.rows = rows_of(own, grid)
        size = here.bytes_to_read(own, self.answered.grid)
        most = here.MOST_ROWS * (4 if self.layout == "aggregates" else 1)
        is_free = self.is_one_row and not size and self.answered.grid.total <= 1
        is_small = bool(limit) and size <= limit and self.rows <= most
        self.is_here = self.is_apart or is_free or is_small
        self.is_one_row = self.is_one_row and self.is_here
        return self

    @property
    def is_answered(self) -> bool:
        """Whether statistics tell some of what is asked."""
        return self.answered is not None and self.answered.held is not None

    def cost(self) -> Cost:
        """What is read."""
        assert self.answered is not None
        own = (
            self.table.aggregate_scan(self.options).scan
            if self.layout == "aggregates"
            else self.table.scan(self.options)
        )
        return cost_of(own, replace(self.answered.grid, chosen=None), self.answered.grid)


def first_cells(scan: Scan, chosen: Mapping[int, Runs], wanted: int) -> dict[int, Runs]:
    """Places along axes that have enough cells between them, in as few chunks as will do."""
    places = {axis: chosen.get(axis, Runs.one(0, size)) for axis, size in enumerate(scan.shape)}
    if not places or not all(places.values()):
        return {}
    block = plan_blocks(scan, scan.data_columns()).block
    counts = {}
    for axis, each in places.items():
        first = int(each.starts[0]) // block[axis] * block[axis]
        counts[axis] = (each & Runs.one(first, first + block[axis])).count
    for axis in reversed(places):  # more chunks, until there are enough cells
        others = math.prod(n for a, n in counts.items() if a != axis)
        if others * counts[axis] >= wanted:
            break
        counts[axis] = min(places[axis].count, -(-wanted // others))
    for axis in places:  # and fewer of a chunk, where that is more than enough
        others = math.prod(n for a, n in counts.items() if a != axis)
        counts[axis] = max(1, min(counts[axis], -(-wanted // others)))
    return {axis: places[axis].first(count) for axis, count in counts.items()}
