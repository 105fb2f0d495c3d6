"""A table of a query as it is read: by tasks of Spark or where it is planned, at which cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from frazil.masking import MaskedRecord
from frazil.spark.options.table import ReadRequest
from frazil.spark.query import here
from frazil.spark.query.classes import Terms, find_classes
from frazil.spark.query.costs import Cost, cost_of
from frazil.spark.query.tables import OpenTable
from frazil.spark.reading.answering import Answered
from frazil.spark.reading.partitions import plan_blocks, rows_of
from frazil.spark.reading.read import read
from frazil.spark.reading.reducing import LabelClasses
from frazil.spark.reading.runs import Runs
from frazil.spark.reading.scan import Scan
from frazil.spark.reading.skipping import without_excluded
from frazil.spark.tuning import LOCAL_AGGREGATES, LOCAL_ROWS, MANY_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True, repr=False)
class Reading(MaskedRecord):
    """How one table of a query is read."""

    table: OpenTable
    request: ReadRequest
    layout: str = "cells"
    is_here: bool = False
    """whether it is read where the query is planned"""
    is_one_row: bool = False
    """whether the aggregates are the whole answer, in one row"""
    is_apart: bool = False
    """whether axes are read one by one, without crossing their labels"""
    pushed: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """what Spark does, and why"""
    rows: int = 0
    """that Spark gets at most"""
    terms: Terms = field(default_factory=dict)
    """expressions of the query on labels, to find labels with equal results"""
    classes: dict[int, LabelClasses] = field(default_factory=dict)
    """labels with equal results, by axis"""
    answered: Answered | None = None
    """the blocks to read, and what statistics tell of others"""

    @property
    def schema(self) -> t.StructType:
        """The columns that Spark gets."""
        if self.layout == "aggregates":
            return self.table.aggregate_scan(self.request).schema
        return self.table.schema(self.request)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The table as a DataFrame."""
        if not self.is_here:
            given: dict[str, Any] = {**self.table.source_options(self.request)}
            return read(self.table.path, spark=spark, **given)
        assert self.answered is not None
        if self.layout == "aggregates":
            plan = replace(self.table.aggregate_scan(self.request), classes=self.classes)
            # From one partition Spark groups without a shuffle.
            rows = (
                here.read_labels_here(plan)
                if self.is_apart
                else here.read_aggregates_here(plan, self.answered)
            )
            return spark.createDataFrame(rows, plan.schema).coalesce(1)
        scan = self.table.scan(self.request)
        return spark.createDataFrame(here.read_cells_here(scan, self.answered.grid), scan.schema)

    def row(self) -> pa.Table:
        """The one row, where the aggregates are the answer."""
        assert self.answered is not None
        return here.read_one_row_here(self.table.aggregate_scan(self.request), self.answered)

    def shape_of(self, spark: SparkSession) -> DataFrame:
        """The same without rows where these would be read at once, for Spark to plan with."""
        return spark.createDataFrame([], self.schema) if self.is_here else self.frame(spark)

    def measure(self, spark: SparkSession, alias: str = "") -> Reading:
        """Find out how much is to be read, and so whether this process or Spark reads it.

        `alias` is what the query calls the table.
        """
        limit = here.limit_of(spark)
        if self.layout == "aggregates":
            return self._measure_aggregates(limit, spark, alias)
        own = self.table.scan(self.request)
        grid = without_excluded(own, plan_blocks(own, own.data_columns()))
        self.answered = Answered(grid)
        self.rows = rows_of(own, grid)
        size = here.bytes_to_read(own, grid)
        self.is_here = 0 < limit >= size and self.rows <= LOCAL_ROWS
        return self

    def _measure_aggregates(self, limit: int, spark: SparkSession, alias: str) -> Reading:
        plan = self.table.aggregate_scan(self.request)
        self.answered = here.answered_here(plan)
        grid = self.answered.grid
        size = here.bytes_to_read(plan.scan, grid)
        is_small = 0 < limit >= size
        self.rows = merged_rows = here.kept_rows(plan, grid, apart=self.is_apart)
        if is_small and self.terms and self.rows >= MANY_ROWS:
            self.classes = find_classes(plan.scan, self.terms, spark, alias)
            merged_rows = here.kept_rows(replace(plan, classes=self.classes), grid)
        is_free = self.is_one_row and not size and grid.total <= 1
        is_small = is_small and merged_rows <= LOCAL_AGGREGATES
        self.is_here = self.is_apart or is_free or is_small
        self.is_one_row = self.is_one_row and self.is_here
        self.rows = merged_rows if self.is_here else self.rows
        return self

    @property
    def is_answered(self) -> bool:
        """Whether statistics tell some of what is asked."""
        return self.answered is not None and self.answered.held is not None

    def cost(self) -> Cost:
        """What is read."""
        assert self.answered is not None
        own = (
            self.table.aggregate_scan(self.request).scan
            if self.layout == "aggregates"
            else self.table.scan(self.request)
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
