"""How an array gets other chunks: which blocks to read, and whether a shuffle is needed; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from frazil.arrays import Shape
from frazil.bulk.grid import ArrayLayout, Grid, GridAxis, array_layout, regular_grid
from frazil.errors import invalid_option, unsuitable
from frazil.formats.zarr_meta import with_checksum
from frazil.ingestion.encoding import native_codecs
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode
from frazil.spark.tuning import (
    COST_SAMPLE,
    DIRECT_COST,
    LEAST_TASKS,
    MEMORY_SHARE,
    RECHUNK_BYTES,
)
from frazil.spelling import listed, meant, nearest

ChunkRequest: TypeAlias = Mapping[str, int] | Sequence[int]
SliceBox: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class RechunkPlan:
    """How one array gets other chunks."""

    path: str
    document: bytes
    """the new `zarr.json`"""
    shape: Shape
    chunks: Shape
    block: Shape
    """elements that a task reads at a time"""
    item_bytes: int
    needs_shuffle: bool = False

    @property
    def blocks(self) -> Shape:
        """Number of blocks along each axis."""
        return part_counts(self.shape, self.block)

    @property
    def grid(self) -> Shape:
        """Number of target chunks along each axis."""
        return part_counts(self.shape, self.chunks)

    @property
    def size_bytes(self) -> int:
        """Of all elements."""
        return prod(self.shape) * self.item_bytes

    def box(self, number: int) -> SliceBox:
        """The elements of a block."""
        at = np.unravel_index(number, self.blocks) if self.blocks else ()
        return tuple(
            slice(int(i) * part, min((int(i) + 1) * part, n))
            for i, part, n in zip(at, self.block, self.shape, strict=True)
        )


def part_counts(shape: Shape, parts: Shape) -> Shape:
    """Number of parts along each axis."""
    return tuple(-(-n // part) for n, part in zip(shape, parts, strict=True))


def plan_array(
    node: ArrayNode,
    chunks: ChunkRequest,
    compressor: str | None,
    limit: int,
    *,
    checksum: bool = False,
) -> RechunkPlan:
    """Work out how an array gets other chunks with `limit` bytes for each task.

    Raises:
        InvalidInputError: the chunks make no sense for it, or are too large.
    """
    layout = array_layout(node)
    if layout is None:
        raise unsuitable(f"array {node.path!r} has codecs or a data type that only zarr knows")
    wanted = _wanted(layout, node.path, chunks)
    item = max(1, layout.chain.dtype.itemsize)
    if prod(wanted) * item * MEMORY_SHARE > limit:
        raise invalid_option(
            f"chunks of {wanted} of {node.path!r} have {prod(wanted) * item:,} bytes, a task needs "
            f"{MEMORY_SHARE} times that, and max_memory is {limit:,}"
        )
    document = _document(node, layout, wanted, compressor, checksum=checksum)
    room = max(1, limit // MEMORY_SHARE // item)
    grid = layout.inner_grid
    block = grown(layout.shape, wanted, grid, room, RECHUNK_BYTES // item)
    plan = RechunkPlan(node.path, document, layout.shape, wanted, block, item)
    if read_cost(grid, block) <= DIRECT_COST:
        return plan
    # Every source chunk once: blocks of them, longest where the target chunks are.
    pieces = own_chunks(grid)
    by_target = regular_grid(layout.shape, wanted)
    block = grown(layout.shape, pieces, by_target, room, RECHUNK_BYTES // item)
    return replace(plan, block=block, needs_shuffle=True)


def own_chunks(grid: Grid) -> Shape:
    """The lengths of the chunks of a grid; the longest where they differ."""
    return tuple(max(axis.sizes) for axis in grid)


def grown(shape: Shape, steps: Shape, grid: Grid, room: int, handy: int) -> Shape:
    """A block of whole steps of at most `room` elements that is cheap to read from a grid."""
    lengths = [max(1, min(step, n)) for step, n in zip(steps, shape, strict=True)]

    def longer(axis: int) -> list[int]:
        made = lengths.copy()
        whole = -(-shape[axis] // steps[axis]) * steps[axis]
        made[axis] = min(max(made[axis], steps[axis]) * 2, whole)
        return made if made[axis] > lengths[axis] and prod(made) <= room else []

    while True:
        costs = [axis_cost(axis, part) for axis, part in zip(grid, lengths, strict=True)]
        order = sorted(range(len(costs)), key=lambda axis: -costs[axis])
        better = next((made for axis in order if costs[axis] > 1 and (made := longer(axis))), None)
        if better is None:
            break
        lengths = better
    enough = min(handy, room, prod(shape) // LEAST_TASKS)
    for axis in reversed(range(len(shape))):
        while (made := longer(axis)) and prod(made) <= enough:
            lengths = made
    return tuple(lengths)


def read_cost(grid: Grid, block: Shape) -> float:
    """How often an element of a grid is decoded, on average, when blocks are read."""
    return prod(axis_cost(axis, part) for axis, part in zip(grid, block, strict=True))


def axis_cost(axis: GridAxis, part: int) -> float:
    """The same along one axis."""
    if not axis.length:
        return 1.0
    count = min(-(-axis.length // part), COST_SAMPLE)
    starts = np.arange(count, dtype=np.int64) * part
    stops = np.minimum(starts + part, axis.length)
    last = axis.chunk_of(stops - 1)
    ends = np.minimum(axis.start_of(last) + axis.size_of(last), axis.length)
    touched = int((ends - axis.start_of(axis.chunk_of(starts))).sum())
    return touched / int(stops[-1])


def _wanted(layout: ArrayLayout, path: str, chunks: ChunkRequest) -> Shape:
    """The chunk shape that was asked for."""
    shape = layout.shape
    if isinstance(chunks, Mapping):
        dims = layout.dimension_names or (None,) * len(shape)
        known = [dim for dim in dims if dim]
        wanted: dict[str, int] = {}
        for dim, length in chunks.items():
            found = meant(dim, known)
            if found is None:
                raise invalid_option(
                    f"array {path!r} has no dimension {dim!r}{nearest(dim, known)} "
                    f"(it has {listed(known)})"
                )
            wanted[found] = length
        own = own_chunks(layout.inner_grid)
        lengths = [wanted.get(dim or "", n) for dim, n in zip(dims, own, strict=True)]
    else:
        lengths = list(chunks)
    if len(lengths) != len(shape):
        raise invalid_option(
            f"chunks have {len(lengths)} axes, and array {path!r} has {len(shape)}"
        )
    if any(length == 0 or length < -1 for length in lengths):
        raise invalid_option(
            f"chunks must be positive, or -1 for a whole axis, not {tuple(lengths)}"
        )
    return tuple(
        max(1, n) if length == -1 else int(length) for length, n in zip(lengths, shape, strict=True)
    )


def _document(
    node: ArrayNode, layout: ArrayLayout, chunks: Shape, compressor: str | None, *, checksum: bool
) -> bytes:
    """The `zarr.json` of the array in its new chunks."""
    document = document_of(node)
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    codecs = document["codecs"]
    if layout.chain.shards is not None:
        codecs = codecs[0]["configuration"]["codecs"]
    if compressor is not None:
        try:
            codecs = native_codecs(layout.chain.dtype, compressor)
        except ValueError as error:
            raise invalid_option(f"unknown compressor {compressor!r}: {error}") from None
    document["codecs"] = with_checksum(codecs) if checksum else codecs
    return json.dumps(document).encode()
