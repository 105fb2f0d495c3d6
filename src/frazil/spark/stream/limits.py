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

    HAS_LIMITS = True
except ImportError:  # Spark 4.1 reads all there is
    HAS_LIMITS = False

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
    is_whole: bool
    """whether micro-batches may be cut only between steps of the first dimension"""

    @property
    def block_bytes(self) -> int:
        """Decoded bytes of a block."""
        return max(self.grid.cells * self.scan.cell_bytes, 1)

    def cut(self, start: int, stop: int, *, at_least_one: bool) -> int:
        """Where to end a micro-batch that begins at a block and may go to another."""
        least = start + int(at_least_one)
        if stop >= len(self.numbers):
            return len(self.numbers)
        if not self.is_whole:
            return max(stop, least)
        step = max(math.prod(self.grid.counts[1:]), 1)
        before = self._begin(self.numbers[stop] // step * step)
        if before >= least:
            return before
        return self._begin((self.numbers[start] // step + 1) * step) if at_least_one else start

    def _begin(self, number: int) -> int:
        """The place of the first block with this number or a later one."""
        return bisect_left(self.numbers, number)


class Budget:
    """How much more a micro-batch may take."""

    def __init__(self, kind: str | None, left: int) -> None:
        self._kind = kind
        self._left = left
        self._is_first = True

    @classmethod
    def of(cls, limit: object) -> Budget:
        """The budget that Spark's limit means."""
        if HAS_LIMITS and isinstance(limit, ReadMaxFiles):
            return cls("blocks", limit.max_files)
        if HAS_LIMITS and isinstance(limit, ReadMaxRows):
            return cls("rows", limit.max_rows)
        if HAS_LIMITS and isinstance(limit, ReadMaxBytes):
            return cls("bytes", limit.max_bytes)
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
