"""`readStream`: the rows, or chunks, that each commit of a branch changed.

An offset is a snapshot and how many of its blocks are read, -1 for all. A stream begins with the
whole of the newest snapshot, unless it is told after which snapshot or time changes count. Cells
are compared with the snapshot before, so that only rows come that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.errors import NotFoundError, invalid_option, unsuitable
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.repository import Repository
from frazil.spark.location import Pinned, Target, reachable_target
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.cells import read_cells
from frazil.spark.reading.changes import (
    Differing,
    beginning,
    changed_blocks,
    starts_after,
    starts_latest,
)
from frazil.spark.reading.chunk_rows import ChunkScan, make_chunk_scan, read_chunks
from frazil.spark.reading.partitions import SPLIT_BYTES, plan_blocks
from frazil.spark.reading.scan import AGGREGATES, CHUNKS, LINES, make_scan
from frazil.spark.stream.limits import (
    Budget,
    Layer,
    ReadLimit,
    SupportsTriggerAvailableNow,
    limit_of,
)
from frazil.spark.worker import session

Offset: TypeAlias = dict[str, Any]

ALL: Final = -1
BEGINNING: Final[Offset] = {"snapshot": "", "pos": 0, "full": False}
"""The same at every start, since Spark does not record it: what it means is seen by the end."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A commit to read the changes of, or a snapshot to read whole."""

    snapshot: str
    parent: str | None
    is_full: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A partition: some of the blocks of one variable's, or the table's, grid."""

    unit: Unit
    which: int
    start: int
    stop: int


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what commits changed."""

    def __init__(self, target: Target, request: ReadRequest, schema: StructType) -> None:
        self.target = target
        self.request = request
        self.schema = schema
        self._last: str | None = None

    # --- the driver ---

    def initialOffset(self) -> Offset:
        """Where a new stream begins."""
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say about the size of micro-batches."""
        return limit_of(self.request)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and nothing that comes later."""
        self._last = self._tip(self._open())

    def reportLatestOffset(self) -> Offset | None:
        """The end of the branch."""
        return {"snapshot": self._tip(self._open()), "pos": ALL, "full": False}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        """How far the next micro-batch goes."""
        repository = self._open()
        last = self._last or self._tip(repository)
        begin = dict(BEGINNING) if start is None else start
        if begin["snapshot"] == "" and self._starts_full():
            begin = {"snapshot": last, "pos": 0, "full": True}
        elif begin["snapshot"] == "" and self._starts_at_the_end():
            return {"snapshot": last, "pos": ALL, "full": False}
        budget = Budget.of(limit)
        reached = begin
        for unit, first in self._units(repository, begin, last):
            layers = self._layers(unit)
            count = sum(len(layer.numbers) for layer in layers)
            taken = budget.take(layers, first)
            if first + taken < count:
                return {"snapshot": unit.snapshot, "pos": first + taken, "full": unit.is_full}
            reached = {"snapshot": unit.snapshot, "pos": ALL, "full": unit.is_full}
            if unit.is_full:
                break  # changes follow in the next micro-batch
        return reached

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The blocks between two offsets."""
        repository = self._open()
        if end["full"] and (start["snapshot"] in ("", end["snapshot"])):
            first = start["pos"] if start["snapshot"] else 0
            unit = Unit(end["snapshot"], None, True)
            return self._pieces(unit, first, end["pos"]) if first != ALL else []
        if start["snapshot"] == "" and self._starts_at_the_end():
            return []
        found: list[InputPartition] = []
        for unit, first in self._units(repository, start, end["snapshot"]):
            is_last = unit.snapshot == end["snapshot"]
            found += self._pieces(unit, first, end["pos"] if is_last else ALL)
        return found

    def commit(self, end: Offset) -> None:
        """Nothing is kept for offsets that were read."""

    def stop(self) -> None:
        """Nothing is held."""

    def _open(self) -> Repository:
        return self.target.location.open()

    def _tip(self, repository: Repository) -> str:
        return repository.lookup_branch(self.target.branch)

    def _starts_full(self) -> bool:
        return beginning(self.request) is None

    def _starts_at_the_end(self) -> bool:
        return starts_latest(self.request)

    def _units(self, repository: Repository, start: Offset, last: str) -> list[tuple[Unit, int]]:
        """What lies between an offset and a snapshot, oldest first, with the blocks read of it."""
        units: list[tuple[Unit, int]] = []
        before = None if start["snapshot"] else starts_after(repository, self.request, last)
        for commit in repository.ancestry(snapshot_id=last):
            if commit.id == start["snapshot"]:
                if start["pos"] != ALL:
                    parent = None if start["full"] else commit.parent_id
                    units.append((Unit(commit.id, parent, bool(start["full"])), start["pos"]))
                return units[::-1]
            if commit.id == before:
                return units[::-1]
            if commit.id != str(INITIAL_SNAPSHOT_ID):
                units.append((Unit(commit.id, commit.parent_id, False), 0))
        if start["snapshot"]:
            raise unsuitable(
                f"the stream has read up to snapshot {start['snapshot']}, which is not in the "
                f"history of branch {self.target.branch!r} any more"
            )
        return units[::-1]

    def _pieces(self, unit: Unit, first: int, end: int) -> list[InputPartition]:
        """Partitions for some blocks of a unit."""
        found: list[InputPartition] = []
        passed = 0
        for which, layer in enumerate(self._layers(unit)):
            count = len(layer.numbers)
            start = max(first - passed, 0)
            stop = count if end == ALL else min(max(end - passed, 0), count)
            per = max(SPLIT_BYTES // layer.block_bytes, 1)
            found += [
                InputPartition(Piece(unit, which, at, min(at + per, stop)))
                for at in range(start, stop, per)
            ]
            passed += count
        return found

    # --- both ---

    def _layers(self, unit: Unit) -> list[Layer]:
        """The blocks to read of a unit; none where the table is not there."""
        pinned = Pinned(self.target.location, unit.snapshot)
        owner = session(pinned)
        try:
            is_chunks = self.request.layout == CHUNKS
            if is_chunks:
                chunks = make_chunk_scan(owner, self.target, pinned, self.request, self.schema)
                pairs = list(zip(chunks.scans, chunks.grids, strict=True))
            else:
                scan = make_scan(owner, self.target, pinned, self.request, self.schema)
                pairs = [(scan, plan_blocks(scan, scan.data_columns()))]
        except NotFoundError:
            return []
        return [
            Layer(
                scan,
                grid,
                range(grid.total) if unit.is_full else changed_blocks(owner, scan, grid),
                is_whole=not is_chunks,
            )
            for scan, grid in pairs
        ]

    # --- tasks ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks."""
        piece: Piece | None = partition.value
        if piece is None:
            return
        unit = piece.unit
        layer = self._layers(unit)[piece.which]
        chosen = layer.numbers[piece.start : piece.stop]
        if self.request.layout == CHUNKS:
            pinned = Pinned(self.target.location, unit.snapshot)
            scan: ChunkScan = make_chunk_scan(
                session(pinned), self.target, pinned, self.request, self.schema
            )
            for number in np.asarray(chosen).tolist():
                yield from read_chunks(scan, piece.which, number, number + 1)
            return
        keep = None
        if not unit.is_full and unit.parent is not None:
            before = Pinned(self.target.location, unit.parent)
            keep = Differing(layer.scan, before, self.request.skip_changes)
        for number in np.asarray(chosen).tolist():
            for region in layer.grid.regions(number, number + 1):
                yield from read_cells(layer.scan, region, keep)


@dataclass(frozen=True, slots=True, eq=False)
class ChangeScan:
    """What changed up to a snapshot, to be read once."""

    target: Target
    request: ReadRequest
    last: str
    schema: StructType

    def reader(self) -> ChangedRows:
        """The reader of the changes."""
        return ChangedRows(ChangeReader(self.target, self.request, self.schema), self.last)


class ChangedRows(DataSourceReader):
    """Reads what the commits up to one changed, once: a row for each change of a cell."""

    def __init__(self, changes: ChangeReader, last: str) -> None:
        self.changes = changes
        self.last = last

    def partitions(self) -> list[InputPartition]:
        """The blocks that commits changed."""
        end = {"snapshot": self.last, "pos": ALL, "full": False}
        return self.changes.partitions(dict(BEGINNING), end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks."""
        return self.changes.read(partition)


def stream_reader(request: ReadRequest, schema: StructType) -> ChangeReader:
    """The reader of a stream.

    Raises:
        InvalidInputError: an option does not go with streams.
    """
    target = reachable_target(request)
    if target.table is not None:
        raise invalid_option(f"metadata tables such as {target.table!r} are no streams")
    _ = target.branch  # only a branch changes
    require_rows_of_changes(request)
    return ChangeReader(target, request, schema)


def require_rows_of_changes(request: ReadRequest) -> None:
    """Refuse options that rows of changes do not go with.

    Raises:
        InvalidInputError: there is one.
    """
    if request.layout in (LINES, AGGREGATES):
        raise invalid_option(f"changes are rows of cells or of chunks, not layout={request.layout}")
    if request.layout == CHUNKS and request.skip_changes:
        raise invalid_option("'skipChangeCommits' is for rows of cells, not of chunks")
    beginning(request)
