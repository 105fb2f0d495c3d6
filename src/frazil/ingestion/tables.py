"""From the chunks of files to the chunk table of an array: columns in, columns out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.ingestion.encoding import dtype_of
from frazil.ingestion.plans import Plan, Planned
from frazil.ingestion.records import References, Shape, Variable
from frazil.model.chunks import ABSENT, ChunkTable, ChunkType, Strings
from frazil.model.lookup import ascending_order


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one file gives to an array, ready to be put into a table."""

    references: References
    grid: Shape
    axes: tuple[int, ...]
    """which axes of the array those of the file are"""
    start: Shape
    """the chunk where it begins"""
    url: str
    checksum: str | int | None


def part_of(plan: Plan, array: Planned, file: int) -> Part:
    """The part that a file gives to an array of references."""
    scan = plan.scans[file]
    variable = scan[array.name]
    assert variable.references is not None
    if array.split:
        variable = cut(variable, array.split)
    assert variable.references is not None
    start = plan.start(array, file)
    return Part(
        variable.references,
        variable.grid,
        tuple(array.dims.index(dim) for dim in variable.dims),
        tuple(at // size for at, size in zip(start, array.chunks, strict=True)),
        scan.url,
        scan.identity.checksum,
    )


def cut(variable: Variable, rows: int) -> Variable:
    """The same uncompressed variable in chunks of fewer rows."""
    refs = variable.references
    assert refs is not None
    if variable.chunks[0] == rows:
        return variable
    line = prod(variable.shape[1:]) * dtype_of(variable.encoding).itemsize
    each = variable.chunks[0] // rows
    total = -(-variable.shape[0] // rows)
    index = (refs.index[:, None] * each + np.arange(each)).ravel()
    offset = (
        refs.offset[:, None] + np.arange(each, dtype=np.uint64) * np.uint64(rows * line)
    ).ravel()
    kept = index < total
    made = References(
        index[kept],
        offset[kept],
        np.full(int(kept.sum()), rows * line, np.uint64),
        np.repeat(refs.location, each)[kept],
        refs.locations,
        refs.inline,
    )
    return replace(variable, chunks=(rows, *variable.chunks[1:]), references=made)


def table_of(parts: Sequence[Part], ndim: int) -> ChunkTable:
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
        marks += [part.checksum if each == part.url else None for each in refs.locations]
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
    number, pool = Strings.distinct(locations)
    spread = np.append(number, np.int32(ABSENT))[numbers] if len(locations) else numbers
    texts = [mark if isinstance(mark, str) else "" for mark in marks]
    etag = None
    tags = Strings.of([])
    if any(texts):
        tag, tags = Strings.distinct(texts)
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


def _place(coords: npt.NDArray[np.uint32], part: Part) -> None:
    """Fill in the coordinates of the chunks of a part."""
    coords[:] = np.array(part.start, np.uint32)
    if not part.axes or not len(coords):
        return
    inner = np.unravel_index(part.references.index, part.grid)
    for axis, values in zip(part.axes, inner, strict=True):
        coords[:, axis] += values.astype(np.uint32)


def _with_inline(table: ChunkTable, parts: Sequence[Part], sizes: Sequence[int]) -> ChunkTable:
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
