"""`readStream`: the rows, or chunks, that each commit of a branch changed.

An offset is a snapshot and how many of its blocks are read, -1 for all. A stream begins with the
whole of the newest snapshot, unless an option names a snapshot or time to start after. Cells are
compared with the previous snapshot, so that only rows come that differ. Where commits in between
have expired, all blocks are compared, as it is not known which ones these commits changed.

Micro-batches of cells end between steps of the first dimension. A table that they are appended to
needs all labels of the other dimensions in the first batch, so a step is never cut, however small
the limit is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.arrays import I64
from frazil.errors import InvalidInputError, NotFoundError, invalid_option, unsuitable
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.merging.graph import follows_expired
from frazil.repository import Repository
from frazil.spark.location import NamedTarget, Pinned, reachable_target
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.cells import read_cells
from frazil.spark.reading.changes import (
    Differing,
    beginning,
    changed_blocks,
    starts_after,
    starts_latest,
)
from frazil.spark.reading.chunk_rows import ChunkScan, make_chunk_scan, read_chunk_rows
from frazil.spark.reading.partitions import BlockGrid, plan_blocks
from frazil.spark.reading.scan import AGGREGATES, CHUNKS, LINES, Scan, make_scan
from frazil.spark.tuning import SPLIT_BYTES
from frazil.spark.worker import session_at
from frazil.transaction.opened import context_of

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1 reads all there is

    class ReadLimit:  # type: ignore[no-redef]  # in place of the import
        """What newer Sparks have."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # in place of the import
        """What newer Sparks have."""


Offset: TypeAlias = dict[str, Any]

ALL: Final = -1
BEGINNING: Final[Offset] = {"snapshot": "", "pos": 0, "full": False}
"""The same at every start, since Spark does not record it; the end offset says what it means."""


@dataclass(frozen=True, slots=True)
class StreamUnit:
    """A commit to read the changes of, or a snapshot to read whole."""

    snapshot: str
    parent: str | None
    is_full: bool
    is_cut: bool = False
    """commits between the two have expired"""

    def offset(self, pos: int) -> Offset:
        """How far a stream is that has read some blocks of it."""
        offset = {"snapshot": self.snapshot, "pos": pos, "full": self.is_full}
        return {**offset, "cut": True} if self.is_cut and pos != ALL else offset


@dataclass(frozen=True, slots=True)
class StreamPartition:
    """A partition: some of the blocks of one variable's, or the table's, grid."""

    unit: StreamUnit
    which: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class StreamLayer:
    """The blocks of a unit in one grid."""

    scan: Scan
    grid: BlockGrid
    numbers: I64 | range
    chunks: ChunkScan | None
    """what has the scan, when rows are chunks"""

    @property
    def block_bytes(self) -> int:
        """Decoded bytes of a block."""
        return max(self.grid.cells * self.scan.cell_bytes, 1)

    def cut(self, start: int, stop: int, *, at_least_one: bool) -> int:
        """Where to end a micro-batch that begins at a block and may go to another."""
        least = start + int(at_least_one)
        if stop >= len(self.numbers):
            return len(self.numbers)
        if self.chunks is not None:
            return max(stop, least)  # only cells must be cut between steps
        step = max(math.prod(self.grid.counts[1:]), 1)
        before = bisect_left(self.numbers, self.numbers[stop] // step * step)
        if before >= least:
            return before
        after = (self.numbers[start] // step + 1) * step
        return bisect_left(self.numbers, after) if at_least_one else start


class Budget:
    """How much more a micro-batch may take."""

    def __init__(self, kind: str | None, left: int) -> None:
        self._kind = kind
        self._left = left
        self._is_first = True

    @classmethod
    def of(cls, limit: object) -> Budget:
        """The budget that Spark's limit means."""
        for kind, name in (("blocks", "max_files"), ("rows", "max_rows"), ("bytes", "max_bytes")):
            if (most := getattr(limit, name, None)) is not None:
                return cls(kind, most)
        return cls(None, 0)

    def take(self, layers: list[StreamLayer], first: int) -> int:
        """How many blocks of a unit, from some number on, fit in."""
        taken = passed = 0
        for layer in layers:
            count = max(len(layer.numbers) - max(first - passed, 0), 0)
            passed += len(layer.numbers)
            if self._kind is None or not count:
                taken += count
                continue
            cost = {"blocks": 1, "rows": layer.grid.cells, "bytes": layer.block_bytes}[self._kind]
            start = len(layer.numbers) - count
            # Something at least, or a small limit would stop the stream for ever.
            stop = layer.cut(start, start + self._left // cost, at_least_one=self._is_first)
            fits = stop - start
            self._is_first = False
            self._left = max(self._left - fits * cost, 0)
            taken += fits
            if fits < count:
                break
        return taken


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what commits changed."""

    def __init__(self, target: NamedTarget, request: ReadRequest, schema: StructType) -> None:
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
        request = self.request
        for value, limit in (
            (request.max_chunks, ReadMaxFiles),
            (request.max_rows, ReadMaxRows),
            (request.max_bytes, ReadMaxBytes),
        ):
            if value is not None:
                return limit(value)
        return ReadAllAvailable()

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
        if begin["snapshot"] == "" and beginning(self.request) is None:
            begin = {"snapshot": last, "pos": 0, "full": True}
        elif begin["snapshot"] == "" and starts_latest(self.request):
            return {"snapshot": last, "pos": ALL, "full": False}
        budget = Budget.of(limit)
        reached = begin
        for unit, first in self._units(repository, begin, last):
            layers = self.layers(unit)
            count = sum(len(layer.numbers) for layer in layers)
            taken = budget.take(layers, first)
            if first + taken < count:
                return unit.offset(first + taken)
            reached = unit.offset(ALL)
            if unit.is_full:
                break  # changes follow in the next micro-batch
        return reached

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The blocks between two offsets."""
        repository = self._open()
        if end["full"] and (start["snapshot"] in ("", end["snapshot"])):
            first = start["pos"] if start["snapshot"] else 0
            unit = StreamUnit(end["snapshot"], None, True)
            return self._pieces(unit, first, end["pos"]) if first != ALL else []
        if start["snapshot"] == "" and starts_latest(self.request):
            return []
        found: list[InputPartition] = []
        for unit, first in self._units(repository, start, end["snapshot"]):
            stop = end["pos"] if unit.snapshot == end["snapshot"] else ALL
            if stop != ALL and unit.is_cut != end.get("cut", False):
                raise self._lost(start)  # its blocks were counted before the others expired
            found += self._pieces(unit, first, stop)
        return found

    def commit(self, end: Offset) -> None:
        """Nothing is kept for offsets that were read."""

    def stop(self) -> None:
        """Nothing is held."""

    def _open(self) -> Repository:
        return self.target.location.open()

    def _tip(self, repository: Repository) -> str:
        return repository.lookup_branch(self.target.branch)

    def _units(
        self, repository: Repository, start: Offset, last: str
    ) -> list[tuple[StreamUnit, int]]:
        """What lies between an offset and a snapshot, oldest first, with the blocks read of it."""
        units: list[tuple[StreamUnit, int]] = []
        before = None if start["snapshot"] else starts_after(repository, self.request, last)
        context = context_of(repository)
        for commit in context.refs.ancestry(SnapshotId.parse(last)):
            id, parent = str(commit.id), None if commit.parent_id is None else str(commit.parent_id)
            if id == start["snapshot"]:
                if start["pos"] != ALL:
                    is_full, is_cut = bool(start["full"]), bool(start.get("cut", False))
                    unit = StreamUnit(id, None if is_full else parent, is_full, is_cut)
                    units.append((unit, start["pos"]))
                return units[::-1]
            if id == before:
                return units[::-1]
            if commit.id != INITIAL_SNAPSHOT_ID:
                is_cut = follows_expired(context, commit)
                units.append((StreamUnit(id, parent, False, is_cut), 0))
        if start["snapshot"]:
            raise self._lost(start)
        return units[::-1]

    def _lost(self, start: Offset) -> InvalidInputError:
        return unsuitable(
            f"the stream has read up to snapshot {start['snapshot']}, which is not in the "
            f"history of branch {self.target.branch!r} any more"
        )

    def _pieces(self, unit: StreamUnit, first: int, end: int) -> list[InputPartition]:
        """Partitions for some blocks of a unit."""
        found: list[InputPartition] = []
        passed = 0
        for which, layer in enumerate(self.layers(unit)):
            count = len(layer.numbers)
            start = max(first - passed, 0)
            stop = count if end == ALL else min(max(end - passed, 0), count)
            per = max(SPLIT_BYTES // layer.block_bytes, 1)
            found += [
                InputPartition(StreamPartition(unit, which, at, min(at + per, stop)))
                for at in range(start, stop, per)
            ]
            passed += count
        return found

    # --- both ---

    def layers(self, unit: StreamUnit) -> list[StreamLayer]:
        """The blocks to read of a unit; none where the table is not there."""
        pinned = Pinned(self.target.location, unit.snapshot)
        owner = session_at(pinned)
        given = owner, self.target, pinned, self.request, self.schema
        chunks: ChunkScan | None = None
        try:
            if self.request.layout == CHUNKS:
                chunks = make_chunk_scan(*given)
                pairs = list(zip(chunks.scans, chunks.grids, strict=True))
            else:
                scan = make_scan(*given)
                pairs = [(scan, plan_blocks(scan, scan.data_columns()))]
        except NotFoundError:
            return []
        is_everywhere = unit.is_full or unit.is_cut
        return [
            StreamLayer(
                scan,
                grid,
                range(grid.total) if is_everywhere else changed_blocks(owner, scan, grid),
                chunks,
            )
            for scan, grid in pairs
        ]

    # --- tasks ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks."""
        piece: StreamPartition | None = partition.value
        if piece is None:
            return
        unit = piece.unit
        layer = self.layers(unit)[piece.which]
        keep = None
        if not unit.is_full and unit.parent is not None:
            before = Pinned(self.target.location, unit.parent)
            keep = Differing(layer.scan, before, self.request.skip_changes)
        for number in np.asarray(layer.numbers[piece.start : piece.stop]).tolist():
            if layer.chunks is not None:
                yield from read_chunk_rows(layer.chunks, piece.which, number, number + 1)
                continue
            for region in layer.grid.regions(number, number + 1):
                yield from read_cells(layer.scan, region, keep)


@dataclass(frozen=True, slots=True, eq=False)
class ChangeScan:
    """What commits up to a snapshot changed, to be read once: a row for each change of a cell."""

    target: NamedTarget
    request: ReadRequest
    schema: StructType
    last: str

    def _reader(self) -> ChangeReader:
        return ChangeReader(self.target, self.request, self.schema)

    def parts(self) -> list[StreamPartition]:
        """The blocks that commits changed."""
        end = {"snapshot": self.last, "pos": ALL, "full": False}
        return [each.value for each in self._reader().partitions(dict(BEGINNING), end)]

    def read(self, part: StreamPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks."""
        return self._reader().read(InputPartition(part))


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
    """Refuse options that rows of changes do not go with."""
    if request.layout in (LINES, AGGREGATES):
        raise invalid_option(f"changes are rows of cells or of chunks, not layout={request.layout}")
    if request.layout == CHUNKS and request.skip_changes:
        raise invalid_option("'skipChangeCommits' is for rows of cells, not of chunks")
    beginning(request)
