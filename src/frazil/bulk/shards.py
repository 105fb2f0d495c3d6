"""Inner chunks of shards as chunks: their references are ranges of those of the shards."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Shape
from frazil.bulk.chain import MISSING as NOT_HELD
from frazil.bulk.chain import Sharding
from frazil.bulk.fetch import MISSING, ChunkReferences, check_length, fetch_into, find_chunks
from frazil.bulk.grid import Grid
from frazil.bulk.tuning import SHARD_ENTRIES
from frazil.errors import FormatError
from frazil.model.nodes import ArrayNode
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.working import WorkingState


@dataclass(eq=False)
class ShardFinder:
    """Finds inner chunks, and keeps the indices of the shards it has seen."""

    state: WorkingState
    node: ArrayNode
    shards: Sharding
    grid: Grid
    """of the shards"""
    changes: ChangeSet | None = None
    origin: I64 | None = None
    """coordinates of the first shard of the grid, if it is not at the origin of the array"""
    has_any: bool = False
    """whether any shard was found"""
    _known: dict[Shape, npt.NDArray[np.uint64]] = field(default_factory=dict)
    _cached: int = 0

    def __call__(self, coords: I64) -> ChunkReferences:
        """Look up inner chunks by their coordinates in the whole array."""
        inner = np.array(self.shards.inner_shape, np.int64)
        first = coords * inner
        shard = np.empty_like(coords)
        local = np.empty_like(coords)
        sizes = np.empty_like(coords)
        for axis, grid in enumerate(self.grid):
            shard[:, axis] = grid.chunk_of(first[:, axis])
            local[:, axis] = (first[:, axis] - grid.start_of(shard[:, axis])) // inner[axis]
            sizes[:, axis] = grid.size_of(shard[:, axis]) // inner[axis]
        number = np.zeros(len(coords), np.int64)
        for axis in range(coords.shape[1]):
            number = number * sizes[:, axis] + local[:, axis]
        distinct, inverse = np.unique(shard, axis=0, return_inverse=True)
        return self._inner(distinct, inverse.reshape(-1), number)

    def _inner(self, shards: I64, inverse: npt.NDArray[np.intp], number: I64) -> ChunkReferences:
        wanted = shards if self.origin is None else shards + self.origin
        refs = find_chunks(self.state, self.node, wanted, self.changes)
        self.has_any |= bool((refs.kind != MISSING).any())
        indices = self._indices(shards, refs)
        offset = np.zeros(len(number), np.int64)
        length = np.zeros(len(number), np.int64)
        held = refs.kind[inverse] != MISSING
        order = np.argsort(inverse, kind="stable")
        bounds = np.searchsorted(inverse[order], np.arange(len(shards) + 1)).tolist()
        for which, index in enumerate(indices):
            if index is None:
                continue
            rows = order[bounds[which] : bounds[which + 1]]
            places = index[number[rows]]
            here = places[:, 0] != NOT_HELD
            held[rows] &= here
            # What is missing counts as empty: sums of lengths must not meet its marks.
            offset[rows] = np.where(here, places[:, 0], 0).astype(np.int64)
            length[rows] = np.where(here, places[:, 1], 0).astype(np.int64)
        found = refs.part(inverse, offset, length)
        found.kind[~held] = MISSING
        found.length[~held] = 0
        return found

    def _indices(self, shards: I64, refs: ChunkReferences) -> list[npt.NDArray[np.uint64] | None]:
        """The index of each shard that exists."""
        keys = [tuple(row) for row in shards.tolist()]
        shapes = [
            tuple(
                int(axis.size_of(np.array([c]))[0]) for axis, c in zip(self.grid, key, strict=True)
            )
            for key in keys
        ]
        wanted = [
            n for n, key in enumerate(keys) if refs.kind[n] != MISSING and key not in self._known
        ]
        if wanted:
            self._load(wanted, keys, shapes, refs)
        found = [
            self._known.get(key) if refs.kind[n] != MISSING else None for n, key in enumerate(keys)
        ]
        if self._cached > SHARD_ENTRIES:
            self._known, self._cached = {}, 0
        return found

    def _load(
        self, wanted: list[int], keys: list[Shape], shapes: list[Shape], refs: ChunkReferences
    ) -> None:
        lengths = refs.length.tolist()
        spans = []
        for n in wanted:
            try:
                check_length(lengths[n], self.shards.limit(shapes[n]))
                spans.append(self.shards.index_span(shapes[n], lengths[n]))
            except FormatError as error:
                error.of_chunk(*refs.chunk(n))
                raise
        start = np.array([span[0] for span in spans], np.int64)
        size = np.array([span[1] - span[0] for span in spans], np.int64)
        ends = np.cumsum(size)
        memory = memoryview(bytearray(int(ends[-1])))
        fetch_into(self.state, refs.part(np.array(wanted), start, size), memory, ends - size)
        for n, end, count in zip(wanted, ends.tolist(), size.tolist(), strict=True):
            try:
                index = self.shards.decode_index(memory[end - count : end], shapes[n], lengths[n])
            except FormatError as error:
                error.of_chunk(*refs.chunk(n))
                raise
            self._known[keys[n]] = index
            self._cached += len(index)
