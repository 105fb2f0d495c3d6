"""Manifests of a large array, each written by a task of its own.

A task gets the references of the files that reach into one part of the split grid, writes the
manifest of that part, and returns its name and box. Whoever commits never has all references as
a table: where a part has all its chunks, not even their coordinates come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.refs import may_fit
from frazil.ids import ManifestId, NodeId
from frazil.ingestion.plans import Plan, Planned
from frazil.ingestion.records import Shape
from frazil.ingestion.sources import shown
from frazil.ingestion.tables import Part, part_of, table_of
from frazil.model.chunks import ChunkTable, Strings
from frazil.model.history import ManifestFile
from frazil.model.nodes import ArrayNode, Extents, ManifestRef
from frazil.model.splitting import automatic_sizes
from frazil.storage.assets import manifest_key
from frazil.transaction.changeset import ReadyManifests
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A part of the grid of an array, and what files have in it."""

    node_id: NodeId
    box: Extents
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A manifest that a task wrote."""

    ref: ManifestRef
    file: ManifestFile
    nbytes: int
    """of the chunks it refers to"""
    coords: npt.NDArray[np.uint32] | None
    """of its chunks; None where its box has them all"""


def cells(plan: Plan, array: Planned, node: ArrayNode, context: Context) -> Iterator[Cell]:
    """The parts of the grid that get a manifest each, by the rules of the repository."""
    parts = [part_of(plan, array, file) for file in array.files]
    if context.config.tells_splitting():
        sizes = context.config.split_sizes(node.path, node.dimension_names, node.grid)
    else:
        references = sum(len(part.references) for part in parts)
        box = tuple((0, count) for count in node.grid)
        sizes = automatic_sizes(node.grid, references, box, ())
    starts = np.array([part.start for part in parts], np.int64)
    ends = starts + np.array([_extent(part, len(node.grid)) for part in parts], np.int64)
    steps = [max(1, min(size, count)) for size, count in zip(sizes, node.grid, strict=True)]
    counts = [-(-count // step) for count, step in zip(node.grid, steps, strict=True)]
    for place in np.ndindex(*counts):
        box = tuple(
            (at * step, min((at + 1) * step, count))
            for at, step, count in zip(place, steps, node.grid, strict=True)
        )
        low = np.array([low for low, _ in box])
        high = np.array([high for _, high in box])
        met = np.flatnonzero(((starts < high) & (ends > low)).all(axis=1))
        if len(met):
            yield Cell(node.id, box, tuple(parts[number] for number in met.tolist()))


def _extent(part: Part, ndim: int) -> Shape:
    """Chunks of a part along each axis of the array."""
    own = dict(zip(part.axes, part.grid, strict=True))
    return tuple(own.get(axis, 1) for axis in range(ndim))


def write_cell(context: Context, cell: Cell) -> list[Written]:
    """Write the manifest of a part of the grid."""
    table = table_of(cell.parts, len(cell.box)).within(cell.box)
    return [_write(context, cell.node_id, part) for part in _fitting(table) if len(part)]


def _fitting(table: ChunkTable) -> Iterator[ChunkTable]:
    """The table, or halves of it where readers would refuse a manifest of that size."""
    if len(table) < 2 or may_fit(table):
        yield table
        return
    extents = table.extents
    axis = max(range(len(extents)), key=lambda n: extents[n][1] - extents[n][0])
    start, end = extents[axis]
    middle = (start + end) // 2
    for half in ((start, middle), (middle, end)):
        yield from _fitting(table.within((*extents[:axis], half, *extents[axis + 1 :])))


def _write(context: Context, node_id: NodeId, table: ChunkTable) -> Written:
    table = covered(context, table.compact())
    made = ManifestId.random()
    file = context.assets.save_manifest(made, {node_id: table})
    context.assets.make_durable([manifest_key(made)])
    extents = table.extents
    is_full = len(table) == prod(end - start for start, end in extents)
    return Written(
        ManifestRef(made, extents),
        file,
        int(table.length.sum()),
        None if is_full else table.coords,
    )


def covered(context: Context, table: ChunkTable) -> ChunkTable:
    """A table with its locations in stored form."""
    texts, is_covered = context.containers.check_many(table.locations)
    if not is_covered.all():
        bad = Strings.of(table.locations)[int((~is_covered).argmax())]
        raise InvalidInputError(
            "no virtual chunk container covers a location that references point to",
            kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            location=shown(bad),
        )
    return replace(table, locations=texts)


def united(written: Sequence[Written], ndim: int) -> ReadyManifests:
    """What a commit needs to know of the manifests of an array."""
    ordered = sorted(written, key=lambda each: each.ref.extents)
    found = [_coords(each) for each in ordered]
    coords = np.concatenate(found) if found else np.zeros((0, ndim), np.uint32)
    if ndim and len(coords) and not _is_ordered(found):
        coords = coords[np.lexsort(coords.T[::-1])]
    return ReadyManifests(
        tuple(each.ref for each in ordered), tuple(each.file for each in ordered), coords
    )


def _coords(written: Written) -> npt.NDArray[np.uint32]:
    if written.coords is not None:
        return written.coords
    extents = written.ref.extents
    axes = [np.arange(start, end, dtype=np.uint32) for start, end in extents]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([each.ravel() for each in grid], axis=1)


def _is_ordered(found: Sequence[npt.NDArray[np.uint32]]) -> bool:
    """Whether lists that ascend each ascend as one."""
    return all(
        tuple(before[-1].tolist()) < tuple(after[0].tolist()) for before, after in pairwise(found)
    )
