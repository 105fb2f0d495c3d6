"""How much of what changed a micro-batch takes, and where it may end.

Micro-batches of cells end between steps of the first dimension. Who appends them to a table needs
all labels of the other dimensions in the first of them, so a step is never cut, however small the
limit is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.changes import Numbers
from frazil.spark.reading.chunk_rows import ChunkScan
from frazil.spark.reading.partitions import BlockGrid
from frazil.spark.reading.scan import Scan

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

    class ReadLimit:  # type: ignore[no-redef]
        """What newer Sparks have."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """What newer Sparks have."""


__all__ = ["Budget", "Layer", "ReadLimit", "SupportsTriggerAvailableNow", "limit_of"]


def limit_of(request: ReadRequest) -> ReadLimit:
    """How large micro-batches may be."""
    for value, limit in (
        (request.max_chunks, ReadMaxFiles),
        (request.max_rows, ReadMaxRows),
        (request.max_bytes, ReadMaxBytes),
    ):
        if value is not None:
            return limit(value)
    return ReadAllAvailable()


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The blocks of a unit in one grid."""

    scan: Scan
    grid: BlockGrid
    numbers: Numbers | range
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

    def take(self, layers: list[Layer], first: int) -> int:
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
