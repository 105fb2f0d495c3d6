"""The change feed: the cells that each commit set, changed or let be missing, as Delta has it.

A cell is there when one of its variables has a value. So a commit inserts cells that were
missing, deletes those that are missing now, and updates others, which give two rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as t

from frazil.arrays import Mask
from frazil.errors import InvalidInputError, NotFoundError, invalid_option
from frazil.spark.location import NamedTarget, Pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.cells import broadcast_axes, read_cells
from frazil.spark.reading.changes import Differing, beginning
from frazil.spark.reading.columns import arrow_schema
from frazil.spark.reading.partitions import Region
from frazil.spark.reading.scan import CELLS, Column, Scan, make_scan
from frazil.spark.reading.stored import length_of, read_variable
from frazil.spark.stream.source import ChangeReader, ChangeScan, StreamPartition
from frazil.spark.worker import session_at

ABOUT: Final = (
    t.StructField("_change_type", t.StringType()),
    t.StructField("_commit_version", t.StringType()),
    t.StructField("_commit_timestamp", t.TimestampType()),
)
"""columns that tell about a change"""
_SAME, _INSERT, _DELETE, _UPDATE = range(4)


@dataclass(frozen=True, slots=True)
class FeedPart:
    """Some of the blocks that a commit changed."""

    piece: StreamPartition
    committed_at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class FeedScan:
    """What commits up to a snapshot changed, as rows that say how."""

    changes: ChangeScan

    @property
    def schema(self) -> t.StructType:
        """The columns of the table, and those about changes."""
        return t.StructType([*self.changes.schema.fields, *ABOUT])

    def parts(self) -> list[FeedPart]:
        """The blocks that commits changed."""
        changes = self.changes
        history = changes.target.location.open().ancestry(snapshot_id=changes.last)
        times = {commit.id: commit.written_at for commit in history}
        return [FeedPart(piece, times[piece.unit.snapshot]) for piece in changes.parts()]

    def read(self, part: FeedPart) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks."""
        changes, unit = self.changes, part.piece.unit
        reader = ChangeReader(changes.target, changes.request, changes.schema)
        layer = reader.layers(unit)[part.piece.which]
        changed = _Changes(layer.scan, self._before(unit.parent, layer.scan))
        schema = arrow_schema(self.schema)
        numbers = np.asarray(layer.numbers[part.piece.start : part.piece.stop]).tolist()
        for region in (each for n in numbers for each in layer.grid.regions(n, n + 1)):
            for word, batch in changed.rows(region):
                about = (word, unit.snapshot, part.committed_at)
                yield pa.RecordBatch.from_arrays(
                    [
                        *batch.columns,
                        *(
                            pa.repeat(pa.scalar(value, schema.field(own.name).type), len(batch))
                            for value, own in zip(about, ABOUT, strict=True)
                        ),
                    ],
                    schema=schema,
                )

    def _before(self, parent: str | None, scan: Scan) -> Scan | Pinned | None:
        """The table before a commit; only its place when it was another one."""
        if parent is None:
            return None
        changes = self.changes
        pinned = Pinned(changes.target.location, parent)
        try:
            found = make_scan(
                session_at(pinned), changes.target, pinned, changes.request, changes.schema
            )
        except (NotFoundError, InvalidInputError):
            return pinned  # it has other variables
        is_same = [axis.name for axis in found.axes] == [axis.name for axis in scan.axes]
        return found if is_same else pinned


@dataclass(eq=False)
class _Changes:
    """Finds out what became of the cells of regions."""

    scan: Scan
    before: Scan | Pinned | None
    _last: tuple[object, npt.NDArray[np.int8]] | None = field(default=None)

    def rows(self, region: Region) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Batches of a region, each with the kind of change that its rows are."""
        for word, kind in (("insert", _INSERT), ("update_postimage", _UPDATE)):
            for batch in read_cells(self.scan, region, partial(self._are, kind)):
                yield word, batch
        old = self._clipped(region)
        if old is None or not isinstance(self.before, Scan):
            return
        for word, kind in (("update_preimage", _UPDATE), ("delete", _DELETE)):
            for batch in read_cells(self.before, old, partial(self._are, kind)):
                yield word, batch

    def _are(self, kind: int, region: Region) -> Mask:
        return np.asarray(self._kinds(region) == kind)

    def _kinds(self, region: Region) -> npt.NDArray[np.int8]:
        """What became of each cell of a region."""
        key = tuple(
            (each.start, each.stop) if isinstance(each, slice) else each.tobytes()
            for each in region
        )
        if self._last is None or self._last[0] != key:
            self._last = (key, self._found(region))
        return self._last[1]

    def _found(self, region: Region) -> npt.NDArray[np.int8]:
        is_now = _present(self.scan, region)
        was = np.zeros(is_now.shape, bool)
        old, differs = self._clipped(region), None
        if old is not None and isinstance(self.before, Scan):
            was[tuple(slice(0, length_of(each)) for each in old)] = _present(self.before, old)
        if self.before is not None:
            pinned = self.before.pinned if isinstance(self.before, Scan) else self.before
            differs = Differing(self.scan, pinned)(region)
        found = np.where(is_now, np.where(was, _UPDATE, _INSERT), np.where(was, _DELETE, _SAME))
        return (found if differs is None else np.where(differs, found, _SAME)).astype(np.int8)

    def _clipped(self, region: Region) -> Region | None:
        """What of a region was there before."""
        if not isinstance(self.before, Scan):
            return None
        found = tuple(
            slice(each.start, min(each.stop, size))
            if isinstance(each, slice)
            else each[each < size]
            for each, size in zip(region, self.before.shape, strict=True)
        )
        return found if all(length_of(each) > 0 for each in found) else None


def _present(scan: Scan, region: Region) -> Mask:
    """Which cells of a region have a value in one of the variables."""
    shape = tuple(map(length_of, region))
    found = np.zeros(shape, bool)
    for column in scan.data_columns():
        found |= np.broadcast_to(_has_value(scan, column, region), shape)
    return found


def _has_value(scan: Scan, column: Column, region: Region) -> Mask:
    assert column.variable is not None
    assert column.decoder is not None
    places = tuple(region[axis] for axis in column.axes)
    values = read_variable(scan.pinned, column.variable, column.decoder, places)
    decoded = broadcast_axes(values, column, len(region))
    found = np.ones(decoded.values.shape, bool)
    if decoded.values.dtype.kind in "fc":
        found &= ~np.isnan(decoded.values)
    return found if decoded.missing is None else found & ~decoded.missing


def make_feed(
    target: NamedTarget, request: ReadRequest, scan: Scan, asked: t.StructType | None
) -> FeedScan:
    """The feed that `readChangeFeed` asks for.

    Raises:
        InvalidInputError: options do not go with it.
    """
    if beginning(request) is None:
        raise invalid_option(
            "'readChangeFeed' needs to know since when: startingVersion, startingTimestamp or "
            "start-snapshot-id"
        )
    if request.layout != CELLS or request.skip_changes:
        raise invalid_option("'readChangeFeed' is for rows of cells, all changes of them")
    if asked is not None:
        raise invalid_option("'readChangeFeed' takes no schema; 'columns' chooses columns")
    plain = replace(request, change_feed=False)
    return FeedScan(ChangeScan(target, plain, scan.schema, scan.pinned.snapshot_id))
