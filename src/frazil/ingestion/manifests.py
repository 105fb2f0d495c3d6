"""Manifests of a large array, each written by a task of its own.

A task gets the references of the files that reach into one part of the split grid, writes the
manifest of that part, and returns its name and box. The process that commits never has all
references as a table: where a part has all its chunks, not even their coordinates come back.
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
from frazil.ingestion.encoding import encoded_dtype
from frazil.ingestion.plans import IngestPlan, PlannedArray
from frazil.ingestion.records import FileReferences, FileVariable, Shape
from frazil.ingestion.sources import display_url
from frazil.masking import MaskedRecord
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, StringPool
from frazil.model.history import ManifestFile
from frazil.model.lookup import ascending_order
from frazil.model.nodes import ArrayNode, Extents, ManifestRef
from frazil.model.splitting import automatic_sizes
from frazil.storage.assets import manifest_key
from frazil.transaction.changeset import ReadyManifests
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilePart(MaskedRecord):
    """What one file gives to an array, ready to be put into a table."""

    references: FileReferences
    grid: Shape
    axes: tuple[int, ...]
    """which axes of the array those of the file are"""
    start: Shape
    """the chunk where it begins"""
    url: str
    checksum: str | int | None


def part_of(plan: IngestPlan, array: PlannedArray, file: int) -> FilePart:
    """The part that a file gives to an array of references."""
    scan = plan.scans[file]
    variable = scan[array.name]
    assert variable.references is not None
    if array.split:
        variable = split_rows(variable, array.split)
    assert variable.references is not None
    start = plan.start(array, file)
    return FilePart(
        variable.references,
        variable.grid,
        tuple(range(len(array.dims) - len(variable.dims), len(array.dims))),
        tuple(at // size for at, size in zip(start, array.chunks, strict=True)),
        scan.url,
        scan.identity.checksum,
    )


def split_rows(variable: FileVariable, rows: int) -> FileVariable:
    """The same uncompressed variable in chunks of fewer rows."""
    refs = variable.references
    assert refs is not None
    if variable.chunks[0] == rows:
        return variable
    line = prod(variable.shape[1:]) * encoded_dtype(variable.encoding).itemsize
    each = variable.chunks[0] // rows
    total = -(-variable.shape[0] // rows)
    index = (refs.index[:, None] * each + np.arange(each)).ravel()
    offset = (
        refs.offset[:, None] + np.arange(each, dtype=np.uint64) * np.uint64(rows * line)
    ).ravel()
    kept = index < total
    made = FileReferences(
        index[kept],
        offset[kept],
        np.full(int(kept.sum()), rows * line, np.uint64),
        np.repeat(refs.location, each)[kept],
        refs.locations,
        refs.inline,
        refs.marks,
    )
    return replace(variable, chunks=(rows, *variable.chunks[1:]), references=made)


def table_of(parts: Sequence[FilePart], ndim: int) -> ChunkTable:
    """The references of an array from those of its files."""
    sizes = [len(part.references) for part in parts]
    total = sum(sizes)
    coords = np.zeros((total, ndim), np.uint32)
    numbers = np.empty(total, np.int32)
    locations: list[str] = []
    marks: list[str | int | None] = []
    at = 0
    for part, size in zip(parts, sizes, strict=True):
        _place(coords[at : at + size], part)
        refs = part.references
        numbers[at : at + size] = np.where(
            refs.location < 0, ABSENT, refs.location + len(locations)
        )
        locations += refs.locations
        own = refs.marks or (None,) * len(refs.locations)
        pairs = zip(refs.locations, own, strict=True)
        marks += [part.checksum if each == part.url else mark for each, mark in pairs]
        at += size
    none = np.zeros(0, np.uint64)
    offset = np.concatenate([none, *(part.references.offset for part in parts)])
    length = np.concatenate([none, *(part.references.length for part in parts)])
    made = _table(coords, numbers, locations, marks, offset, length)
    made = _with_inline(made, parts, sizes)
    keep = made.length > 0
    if not keep.all():
        made = made.take(keep)
    order = ascending_order(made.coords)
    return made if order is None else made.take(order)


def _table(
    coords: npt.NDArray[np.uint32],
    numbers: npt.NDArray[np.int32],
    locations: Sequence[str],
    marks: Sequence[str | int | None],
    offset: npt.NDArray[np.uint64],
    length: npt.NDArray[np.uint64],
) -> ChunkTable:
    number, pool = StringPool.distinct(locations)
    spread = np.append(number, np.int32(ABSENT))[numbers] if len(locations) else numbers
    texts = [mark if isinstance(mark, str) else "" for mark in marks]
    etag = None
    tags = StringPool.of([])
    if any(texts):
        tag, tags = StringPool.distinct(texts)
        has_tag = np.array([bool(text) for text in texts])
        by_location = np.where(has_tag, tag, ABSENT).astype(np.int32)
        etag = np.append(by_location, np.int32(ABSENT))[numbers]
    times = np.array([mark if isinstance(mark, int) else 0 for mark in marks], np.uint32)
    return ChunkTable.virtual(
        coords,
        spread.astype(np.int32, copy=False),
        pool,
        offset,
        length,
        last_modified=np.append(times, np.uint32(0))[numbers],
        etag=etag,
        etags=tags,
    )


def _place(coords: npt.NDArray[np.uint32], part: FilePart) -> None:
    """Fill in the coordinates of the chunks of a part."""
    coords[:] = np.array(part.start, np.uint32)
    if not part.axes or not len(coords):
        return
    inner = np.unravel_index(part.references.index, part.grid)
    for axis, values in zip(part.axes, inner, strict=True):
        coords[:, axis] += values.astype(np.uint32)


def _with_inline(table: ChunkTable, parts: Sequence[FilePart], sizes: Sequence[int]) -> ChunkTable:
    """Mark chunks whose bytes came along."""
    is_inline = table.location == ABSENT
    if not is_inline.any():
        return table
    kind = np.where(is_inline, np.uint8(ChunkType.inline), np.uint8(ChunkType.virtual))
    offset, before, at = table.offset.copy(), 0, 0
    for part, size in zip(parts, sizes, strict=True):
        rows = slice(at, at + size)
        offset[rows] += np.where(is_inline[rows], np.uint64(before), np.uint64(0))
        before += len(part.references.inline)
        at += size
    data = b"".join(part.references.inline for part in parts)
    return replace(table, kind=kind, offset=offset, inline_data=data)


@dataclass(frozen=True, slots=True, eq=False)
class ManifestCell:
    """A part of the grid of an array, and what files have in it."""

    node_id: NodeId
    box: Extents
    parts: tuple[FilePart, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WrittenManifest:
    """A manifest that a task wrote."""

    ref: ManifestRef
    file: ManifestFile
    nbytes: int
    """of the chunks it refers to"""
    coords: npt.NDArray[np.uint32] | None
    """of its chunks; None where its box has them all"""


def cells(
    plan: IngestPlan, array: PlannedArray, node: ArrayNode, context: Context
) -> Iterator[ManifestCell]:
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
            yield ManifestCell(node.id, box, tuple(parts[number] for number in met.tolist()))


def _extent(part: FilePart, ndim: int) -> Shape:
    """Chunks of a part along each axis of the array."""
    own = dict(zip(part.axes, part.grid, strict=True))
    return tuple(own.get(axis, 1) for axis in range(ndim))


def write_cell(context: Context, cell: ManifestCell) -> list[WrittenManifest]:
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


def _write(context: Context, node_id: NodeId, table: ChunkTable) -> WrittenManifest:
    table = covered(context, table.compact())
    made = ManifestId.random()
    file = context.assets.save_manifest(made, {node_id: table})
    context.assets.make_durable([manifest_key(made)])
    extents = table.extents
    is_full = len(table) == prod(end - start for start, end in extents)
    return WrittenManifest(
        ManifestRef(made, extents),
        file,
        int(table.length.sum()),
        None if is_full else table.coords,
    )


def covered(context: Context, table: ChunkTable) -> ChunkTable:
    """A table with its locations in stored form."""
    texts, is_covered = context.containers.check_many(table.locations)
    if not is_covered.all():
        bad = StringPool.of(table.locations)[int((~is_covered).argmax())]
        raise InvalidInputError(
            "no virtual chunk container covers a location that references point to",
            kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            location=display_url(bad),
        )
    return replace(table, locations=texts)


def merged_manifests(written: Sequence[WrittenManifest], ndim: int) -> ReadyManifests:
    """What a commit needs to know of the manifests of an array."""
    ordered = sorted(written, key=lambda each: each.ref.extents)
    found = [_coords(each) for each in ordered]
    coords = np.concatenate(found) if found else np.zeros((0, ndim), np.uint32)
    if ndim and len(coords) and not _is_ordered(found):
        coords = coords[np.lexsort(coords.T[::-1])]
    return ReadyManifests(
        tuple(each.ref for each in ordered), tuple(each.file for each in ordered), coords
    )


def _coords(written: WrittenManifest) -> npt.NDArray[np.uint32]:
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
