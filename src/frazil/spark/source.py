"""The Spark data source: `spark.read.format("frazil").load("URL[@version][#table]")`.

The classes here are wiring: what a read means is worked out in `scan`, how it is cut up in
`partitions`, and what tasks do in `cells` and `chunk_rows`. There is no `pushFilters` on purpose:
Spark would share the filters of one query with every other query on the same DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)

from frazil.errors import unsuitable
from frazil.spark.errors import noted

# Spark imports this module to find the source whatever format is asked for, and starts a new
# Python for each plan: what only some of them need is imported where it is used.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from frazil.session import Session
    from frazil.spark.location import Pinned, Target
    from frazil.spark.options.table import ReadRequest
    from frazil.spark.reading.aggregating import AggregateScan
    from frazil.spark.reading.chunk_rows import ChunkScan
    from frazil.spark.reading.partitions import BlockGrid
    from frazil.spark.reading.scan import Scan
    from frazil.spark.stream.source import ChangeScan
    from frazil.spark.tables.metadata import TableScan

    Plan: TypeAlias = Scan | ChunkScan | AggregateScan | ChangeScan | TableScan


class FrazilSource(DataSource):
    """Reads and writes Icechunk repositories."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._plan: Plan | None = None
        self._asked: ReadRequest | None = None

    @classmethod
    def name(cls) -> str:
        """The word after `format`."""
        return "frazil"

    def schema(self) -> StructType:
        """The columns of the table; the snapshot that is read is fixed here."""
        with noted():
            self._plan = self._planned(None)
        _keep_imports()
        return self._plan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the table; with a schema of the user's, only of its columns."""
        from frazil.spark.options.parsing import require_use
        from frazil.spark.options.table import Use
        from frazil.spark.reading.changes import require_beginning

        with noted():
            # A plan is there when Spark asked us for the schema, and it is ours then.
            plan = self._plan if self._plan is not None else self._planned(schema)
            require_use(self.options, Use.READ)  # the schema is the same for streams
            require_beginning(self._request())
            return reader_of(plan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of a DataFrame."""
        from frazil.spark.writing.sink import batch_sink

        with noted():
            return batch_sink(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A writer of micro-batches."""
        from frazil.spark.writing.sink import stream_sink

        with noted():
            return stream_sink(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of what changes."""
        from frazil.spark.options.parsing import require_use
        from frazil.spark.options.table import Use
        from frazil.spark.stream.source import stream_reader

        with noted():
            require_use(self.options, Use.STREAM_READ)
            return stream_reader(self._request(), schema)

    def _request(self) -> ReadRequest:
        from frazil.spark.options.parsing import parse_request
        from frazil.spark.options.table import ReadRequest, Use

        if self._asked is None:
            self._asked = parse_request(ReadRequest, self.options, Use.READ | Use.STREAM_READ)
        return self._asked

    def _planned(self, asked: StructType | None) -> Plan:
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
    from frazil.spark.worker import keep

    keep()


def plan_read(target: Target, request: ReadRequest, asked: StructType | None = None) -> Plan:
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
    scan = _plan_scan(open_pinned(pinned, repository), target, pinned, request, asked)
    if beginning(request) is None:
        return scan
    from frazil.spark.stream.source import ChangeScan, require_rows_of_changes

    require_rows_of_changes(request)
    return ChangeScan(target, request, pinned.snapshot_id, scan.schema)


def _plan_scan(
    session: Session, target: Target, pinned: Pinned, request: ReadRequest, asked: StructType | None
) -> Scan | ChunkScan | AggregateScan:
    from frazil.spark.reading.scan import AGGREGATES, CHUNKS, make_scan

    if request.layout == AGGREGATES:
        from frazil.spark.reading.aggregating import make_aggregate_scan

        if asked is not None:
            raise unsuitable("layout=aggregates takes no schema; `columns` and `aggregates` say it")
        return make_aggregate_scan(session, target, pinned, request)

    if request.layout == CHUNKS:
        from frazil.spark.reading.chunk_rows import make_chunk_scan

        return make_chunk_scan(session, target, pinned, request, asked)
    from frazil.spark.reading.partitions import require_labels

    scan = make_scan(session, target, pinned, request, asked)
    require_labels(scan)
    return scan


def reader_of(plan: Plan) -> DataSourceReader:
    """The reader for a plan."""
    from frazil.spark.reading.partitions import plan_blocks
    from frazil.spark.reading.scan import Scan

    if isinstance(plan, Scan):
        return RegionReader(plan, plan_blocks(plan, plan.data_columns()))
    from frazil.spark.reading.chunk_rows import ChunkScan
    from frazil.spark.tables.metadata import TableScan

    if isinstance(plan, ChunkScan):
        return ChunkReader(plan)
    from frazil.spark.reading.aggregating import AggregateScan

    if isinstance(plan, AggregateScan):
        return AggregateReader(plan)
    return TableReader(plan) if isinstance(plan, TableScan) else plan.reader()


class RegionReader(DataSourceReader):
    """Reads the cells or lines of a scan."""

    def __init__(self, scan: Scan, grid: BlockGrid) -> None:
        self.scan = scan  # plain records with the snapshot's id: they pickle, and pin one state
        self.grid = grid

    def partitions(self) -> list[InputPartition]:
        """Ranges of blocks."""
        from frazil.spark.reading.partitions import plan_ranges

        with noted():
            ranges = plan_ranges(self.scan, self.grid, self.scan.cell_bytes)
        _keep_imports()
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range of blocks."""
        from frazil.spark.reading.cells import Kept, read_cells, read_lines
        from frazil.spark.reading.partitions import REGION_CELLS
        from frazil.spark.reading.scan import LINES

        if partition.value is None:  # Spark makes one of these when there are no partitions
            return
        kept = Kept()
        # Blocks that a condition across axes leaves nothing of are seen one by one.
        limit = REGION_CELLS if self.scan.is_separable else 1
        start, stop = partition.value
        with noted():
            for region in self.grid.regions(start, stop, limit):
                if self.scan.layout == LINES:
                    yield from read_lines(self.scan, region)
                else:
                    yield from read_cells(self.scan, region, kept=kept)


class ChunkReader(DataSourceReader):
    """Reads chunks, a row each."""

    def __init__(self, scan: ChunkScan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """Ranges of chunks of one variable."""
        with noted():
            return [InputPartition(each) for each in self.scan.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range of chunks."""
        from frazil.spark.reading.chunk_rows import read_chunks

        if partition.value is not None:
            with noted():
                yield from read_chunks(self.scan, *partition.value)


class AggregateReader(DataSourceReader):
    """Reads values reduced over dimensions."""

    def __init__(self, scan: AggregateScan) -> None:
        self.scan = scan
        self.grid = scan.grid()

    def partitions(self) -> list[InputPartition]:
        """Ranges of blocks."""
        with noted():
            ranges = self.scan.ranges(self.grid)
        _keep_imports()
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range of blocks."""
        from frazil.spark.reading.aggregating import read_aggregates

        if partition.value is not None:
            with noted():
                yield from read_aggregates(self.scan, self.grid, *partition.value)


class TableReader(DataSourceReader):
    """Reads a metadata table."""

    def __init__(self, scan: TableScan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """Parts of the table."""
        return [InputPartition(part) for part in self.scan.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        from frazil.spark.tables.metadata import read_table

        if partition.value is not None:
            with noted():
                yield from read_table(self.scan, partition.value)
