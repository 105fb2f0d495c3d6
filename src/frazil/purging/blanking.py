"""Chunks without the cells of a region: dropped where nothing is left, else written anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from frazil.bulk.grid import Grid
from frazil.bulk.layout import Layout, array_layout
from frazil.ids import NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, overlay
from frazil.model.nodes import ArrayNode, Coordinates
from frazil.purging.finding import encoding_of
from frazil.purging.records import Target
from frazil.storage.base import ahead
from frazil.transaction.working import WorkingState

Key: TypeAlias = tuple[ChunkRef, Coordinates, bytes]
AT_ONCE: Final = 8
"""Chunks in memory at a time."""


@dataclass(slots=True, eq=False)
class Blanker:
    """Blanks a region of chunks; what several snapshots share is written once."""

    state: WorkingState
    """to read chunks and to store them"""
    target: Target
    done: dict[Key, ChunkRef | None] = field(default_factory=dict)
    dropped: int = 0
    blanked: int = 0

    def blank(self, node: ArrayNode, table: ChunkTable) -> ChunkTable:
        """The references of an array, as they are without the region."""
        layout = array_layout(node)
        assert layout is not None  # refused before
        encoding = encoding_of(node)
        rows = np.flatnonzero(self.target.meets(layout.grid, table.coords)).tolist()
        keys = [(table.ref(row), tuple(table.coords[row].tolist()), encoding) for row in rows]
        fresh = [key for key in dict.fromkeys(keys) if key not in self.done]
        made = ahead(lambda key: self._blank_one(layout, key), fresh, AT_ONCE)
        for key, ref in zip(fresh, made, strict=True):
            self.done[key] = ref
            if ref is not None:  # somebody may have built upon it since, and need no other
                self.done[ref, key[1], encoding] = ref
        changed = [(key[1], ref) for key in keys if (ref := self.done[key]) is not None]
        gone = [key[1] for key in keys if self.done[key] is None]
        self.dropped += len(gone)
        self.blanked += len(changed)
        changes = ChunkTable.from_refs(table.ndim, changed)
        return overlay(table, changes, np.array(gone, np.uint32).reshape(-1, table.ndim))

    def _blank_one(self, layout: Layout, key: Key) -> ChunkRef | None:
        """A chunk without the region; None where nothing is left of it."""
        ref, coords, _ = key
        starts, sizes = _box(layout.grid, coords)
        inner = tuple(
            slice(max(0, start - first), size if stop is None else min(size, stop - first))
            for (start, stop), first, size in zip(
                self.target.region or (), starts, sizes, strict=False
            )
        )
        whole = all(part == slice(0, size) for part, size in zip(inner, sizes, strict=False))
        if whole:
            return None
        chain = layout.chain
        old = self.state.context.read_chunk(ref)
        cells = np.array(chain.decode(old, tuple(sizes)), chain.dtype)
        cells[inner] = chain.fill_value
        if chain.is_fill(cells):
            return None
        data = chain.encode(np.ascontiguousarray(cells))
        return None if data is None else self.state.payload(data)


def _box(grid: Grid, coords: Coordinates) -> tuple[list[int], list[int]]:
    """First cell and length of a chunk along each axis."""
    places = [np.array([one], np.int64) for one in coords]
    starts = [int(axis.start_of(at)[0]) for axis, at in zip(grid, places, strict=True)]
    sizes = [int(axis.size_of(at)[0]) for axis, at in zip(grid, places, strict=True)]
    return starts, sizes


def documents_of(nodes: dict[NodeId, ArrayNode]) -> tuple[tuple[NodeId, bytes], ...]:
    """How some arrays are encoded, as a key."""
    return tuple(sorted((one, encoding_of(node)) for one, node in nodes.items()))
