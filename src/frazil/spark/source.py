"""The Spark data source: `spark.read.format("frazil").load("URL[@version][#table]")`.

The classes here are wiring: what a read means is worked out in `scan`, how it is cut up in
`partitions`, and what tasks do in `cells` and `chunk_rows`. There is no `pushFilters` on purpose:
Spark would share the filters of one query with every other query on the same DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)

from frazil.errors import unsuitable
from frazil.spark.errors import mark_task_errors

# Spark imports this module to find the source whatever format is asked for, and starts a new
# Python for each plan: what only some of them need is imported where it is used.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from frazil.spark.location import NamedTarget
    from frazil.spark.options.table import ReadRequest
    from frazil.spark.reading.aggregating import AggregateScan
    from frazil.spark.reading.scan import Scan


class PartitionedTable(Protocol):
    """A table that is read in parts; both go to tasks by pickling."""

    def parts(self) -> Sequence[Any]:
        """What partitions are made of."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401  (one of its own)
        """The rows of one of them."""


class ReadPlan(PartitionedTable, Protocol):
    """What a read means."""

    @property
    def schema(self) -> StructType:
        """Its columns."""


class FrazilSource(DataSource):
    """Reads and writes Icechunk repositories."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._plan: Scan | AggregateScan | ReadPlan | None = None
        self._asked: ReadRequest | None = None

    @classmethod
    def name(cls) -> str:
        """The word after `format`."""
        return "frazil"

    def schema(self) -> StructType:
        """The columns of the table; the snapshot that is read is fixed here."""
        with mark_task_errors():
            self._plan = self._planned(None)
        _keep_imports()
        return self._plan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table; with a schema of the user's, only of its columns."""
        from frazil.spark.options.parsing import require_use
        from frazil.spark.options.table import OptionUse
        from frazil.spark.reading.changes import require_beginning

        with mark_task_errors():
            # A plan is there when Spark asked us for the schema, and it is ours then.
            plan = self._plan if self._plan is not None else self._planned(schema)
            require_use(self.options, OptionUse.READ)  # the schema is the same for streams
            require_beginning(self._request())
            return reader_of(plan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of a DataFrame."""
        from frazil.spark.writing.sink import BatchSink

        with mark_task_errors():
            return BatchSink(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A writer of micro-batches."""
        from frazil.spark.writing.sink import StreamSink

        with mark_task_errors():
            return StreamSink(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of what changes."""
        from frazil.spark.options.parsing import require_use
        from frazil.spark.options.table import OptionUse
        from frazil.spark.stream.source import stream_reader

        with mark_task_errors():
            require_use(self.options, OptionUse.STREAM_READ)
            return stream_reader(self._request(), schema)

    def _request(self) -> ReadRequest:
        from frazil.spark.options.parsing import parse_request
        from frazil.spark.options.table import OptionUse, ReadRequest

        if self._asked is None:
            self._asked = parse_request(
                ReadRequest, self.options, OptionUse.READ | OptionUse.STREAM_READ
            )
        return self._asked

    def _planned(self, asked: StructType | None) -> Scan | AggregateScan | ReadPlan:
        from frazil.errors import invalid_option
        from frazil.spark.location import reachable_target

        if "location" in self.options:  # only CREATE TABLE puts it there
            raise invalid_option(
                "Spark's catalog does not keep the options of a table, so that it could not be "
                "read later: CREATE TEMPORARY VIEW … USING frazil OPTIONS (path 'URL'), or create "
                "the table with columns and no options, and SELECT … WITH (path = 'URL')"
            )
        return plan_read(reachable_target(self._request()), self._request(), asked)


class IcechunkSource(FrazilSource):
    """The same under the name of the format."""

    @classmethod
    def name(cls) -> str:
        """The word after `format`."""
        return "icechunk"


def _keep_imports() -> None:
    from frazil.spark.worker import freeze_imports

    freeze_imports()


def plan_read(
    target: NamedTarget, request: ReadRequest, asked: StructType | None = None
) -> Scan | AggregateScan | ReadPlan:
    """Work out what a read means, opening the repository to see what is there now."""
    from frazil.spark.location import open_pinned
    from frazil.spark.reading.changes import beginning

    repository = target.location.open()
    if target.table is not None:
        from frazil.spark.tables.metadata import make_table_scan

        return make_table_scan(repository, target, request, asked)
    pinned = target.pin(repository)
    if request.end_snapshot is not None:
        pinned = replace(pinned, snapshot_id=repository.resolve(request.end_snapshot))
    from frazil.spark.reading.scan import AGGREGATES, CHUNKS, Scan, make_scan

    session = open_pinned(pinned, repository)
    scan: Scan | AggregateScan | ReadPlan
    if request.layout == AGGREGATES:
        from frazil.spark.reading.aggregating import make_aggregate_scan

        if asked is not None:
            raise unsuitable("layout=aggregates takes no schema; `columns` and `aggregates` say it")
        scan = make_aggregate_scan(session, target, pinned, request)
    elif request.layout == CHUNKS:
        from frazil.spark.reading.chunk_rows import make_chunk_scan

        scan = make_chunk_scan(session, target, pinned, request, asked)
    else:
        from frazil.spark.reading.partitions import require_labels

        scan = make_scan(session, target, pinned, request, asked)
        require_labels(scan)
    if request.change_feed:
        from frazil.spark.stream.feed import make_feed

        if not isinstance(scan, Scan):
            raise unsuitable("'readChangeFeed' is for rows of cells")
        return make_feed(target, request, scan, asked)
    if beginning(request) is None:
        return scan
    from frazil.spark.stream.source import ChangeScan, require_rows_of_changes

    require_rows_of_changes(request)
    return ChangeScan(target, request, scan.schema, pinned.snapshot_id)


def reader_of(plan: Scan | AggregateScan | ReadPlan) -> DataSourceReader:
    """The reader for a plan."""
    from frazil.spark.reading.aggregating import AggregateParts, AggregateScan
    from frazil.spark.reading.scan import Scan

    # Tasks get the blocks that were chosen here: by the time they look, statistics may be others.
    if isinstance(plan, AggregateScan):
        return PlanReader(AggregateParts(plan, plan.answered()))
    if not isinstance(plan, Scan):
        return PlanReader(plan)
    from frazil.spark.reading.cells import Regions
    from frazil.spark.reading.partitions import plan_blocks
    from frazil.spark.reading.skipping import without_excluded

    return PlanReader(Regions(plan, without_excluded(plan, plan_blocks(plan, plan.data_columns()))))


class PlanReader(DataSourceReader):
    """Reads what a plan says, part by part."""

    def __init__(self, plan: PartitionedTable) -> None:
        self.plan = plan  # plain records with the snapshot's id: they pickle, and pin one state

    def partitions(self) -> list[InputPartition]:
        """The parts of the table."""
        with mark_task_errors():
            parts = self.plan.parts()
        _keep_imports()
        return [InputPartition(each) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if partition.value is not None:  # Spark makes one of these when there are no partitions
            with mark_task_errors():
                yield from self.plan.read(partition.value)
