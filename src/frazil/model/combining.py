"""Chunk tables put together: united, or changed by the references of another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.arrays import U32, Rows
from frazil.errors import ErrorKind, InternalError
from frazil.model.chunks import COLUMNS, ChunkTable, ChunkType
from frazil.model.lookup import ABSENT, ascending_order, is_ascending
from frazil.model.nodes import Coordinates
from frazil.model.strings import merge_pools
from frazil.model.tuning import FEW_CHANGES


def concat(tables: Sequence[ChunkTable], ndim: int) -> ChunkTable:
    """Unite tables with distinct coordinates into one, in order."""
    tables = sorted(
        (table for table in tables if len(table)), key=lambda table: table.coords[0].tolist()
    )
    if not tables:
        return ChunkTable.empty(ndim)
    if len(tables) == 1:
        return tables[0]
    joined = _join(tables)
    order = ascending_order(joined.coords)
    if order is None:
        return joined
    joined = joined.take(order)
    if not is_ascending(joined.coords):
        raise InternalError("two references for one chunk", kind=ErrorKind.INCONSISTENT_MANIFESTS)
    return joined


def _join(tables: Sequence[ChunkTable]) -> ChunkTable:
    """Put tables one after the other, in the order given."""
    columns, texts = _common(tables)
    texts |= {name: np.concatenate([each[name] for each in columns]) for name in COLUMNS}
    return ChunkTable(**texts)


def _common(tables: Sequence[ChunkTable]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The columns of tables once they share texts and inline bytes, and those fields."""
    locations, location_numbers = merge_pools([table.locations for table in tables])
    etags, etag_numbers = merge_pools([table.etags for table in tables])
    found, moved = [], 0
    for table, new_locations, new_etags in zip(tables, location_numbers, etag_numbers, strict=True):
        columns = {name: getattr(table, name) for name in COLUMNS}
        for name, numbers in (("location", new_locations), ("etag", new_etags)):
            if numbers is not None:
                columns[name] = np.append(numbers, np.int32(ABSENT))[columns[name]]
        if moved and table.inline_data:
            is_inline = table.kind == ChunkType.inline
            columns["offset"] = table.offset + is_inline * np.uint64(moved)
        moved += len(table.inline_data)
        found.append(columns)
    data = b"".join([table.inline_data for table in tables])
    return found, {"locations": locations, "etags": etags, "inline_data": data}


def overlay(base: ChunkTable, changes: ChunkTable, dropped: U32) -> ChunkTable:
    """`base` without the rows at the coordinates of `changes` and `dropped`, plus `changes`."""
    if not len(base):
        return changes
    if len(changes) + len(dropped) <= FEW_CHANGES:
        return _edited(base, changes, dropped)
    replaced = base.find_many(changes.coords)
    gone = base.find_many(dropped)
    gone = gone[gone >= 0]
    if not len(gone) and (replaced >= 0).all():
        return _replace_rows(base, changes, replaced)
    keep = np.ones(len(base), bool)
    keep[gone] = False
    keep[replaced[replaced >= 0]] = False
    return concat([base if keep.all() else base.take(keep), changes], base.ndim)


def _edited(base: ChunkTable, changes: ChunkTable, dropped: U32) -> ChunkTable:
    """Do what `overlay` does for a few changes, without an index of the base."""
    edits: dict[Coordinates, int] = dict.fromkeys(map(tuple, dropped.tolist()), ABSENT)
    edits.update((tuple(coords), row) for row, coords in enumerate(changes.coords.tolist()))
    known, at, count = range(len(base)), 0, len(base) + len(changes)
    cuts: list[tuple[int, slice]] = []  # 0 for rows of the base, 1 for changes
    for coords, row in sorted(edits.items()):
        place = bisect_left(known, coords, at, key=lambda n: tuple(base.coords[n].tolist()))
        if place > at:
            cuts.append((0, slice(at, place)))
        if row != ABSENT:
            cuts.append((1, slice(row, row + 1)))
        is_known = place < len(base) and tuple(base.coords[place].tolist()) == coords
        count -= is_known
        at = place + is_known
    cuts.append((0, slice(at, None)))
    columns, texts = _common([base, changes])
    texts |= {name: _spliced([each[name] for each in columns], cuts, count) for name in COLUMNS}
    made = ChunkTable(**texts)
    # Bytes of replaced chunks would pile up where one table follows from the last, again and again.
    is_inline = made.kind == ChunkType.inline if made.inline_data else None
    if is_inline is not None and 2 * int(made.length[is_inline].sum()) < len(made.inline_data):
        return made.compact()
    return made


def _spliced(
    sources: Sequence[npt.NDArray[Any]], cuts: Sequence[tuple[int, slice]], count: int
) -> npt.NDArray[Any]:
    old, new = sources
    if old.strides[0] == 0 and (new == old[:1]).all():
        return np.broadcast_to(old[0], (count, *old.shape[1:]))
    return np.concatenate([sources[which][rows] for which, rows in cuts])


def _replace_rows(base: ChunkTable, changes: ChunkTable, rows: Rows) -> ChunkTable:
    """`base` with the references of some rows exchanged, the order staying the same."""
    if not len(rows):
        return base
    joined = _join([base, changes])
    columns = {}
    for name in COLUMNS:
        column = getattr(joined, name)
        column[rows] = column[len(base) :]
        columns[name] = column[: len(base)]
    return replace(joined, **columns)
