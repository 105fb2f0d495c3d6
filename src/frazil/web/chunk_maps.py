"""Chunks of an array as a picture: two axes of its grid, binned to what a screen can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.model.chunks import ChunkTable, ChunkType
from frazil.model.nodes import ArrayNode
from frazil.transaction.working import WorkingState
from frazil.web.settings import Limits

I64: TypeAlias = npt.NDArray[np.int64]
KINDS: Final = {ChunkType.inline: 1, ChunkType.native: 2, ChunkType.virtual: 3}
"""Numbers of kinds in a map; 0 is no chunk, 4 several kinds in one cell."""
MIXED: Final = 4


@dataclass(frozen=True, slots=True)
class MapAxes:
    """Which axes of a grid a map shows, and how many chunks one of its cells stands for."""

    y: int | None
    x: int | None
    rows: int
    columns: int
    bin_y: int
    bin_x: int
    fixed: Mapping[int, int]
    """chunk index along axes that are not shown; along others all chunks are put together"""
    total: int
    """chunks of the grid that one cell stands for at most"""


def map_axes(
    grid: Sequence[int],
    side: int,
    y: int | None = None,
    x: int | None = None,
    fixed: Mapping[int, int] | None = None,
) -> MapAxes:
    """Choose the axes of a map: those asked for, else the two with most chunks.

    Raises:
        InvalidInputError: there are no such axes.
    """
    most = sorted(range(len(grid)), key=lambda axis: (-grid[axis], axis))[:2]
    # The longer one goes across, as screens do; of two as long, the first goes down.
    order = most[::-1] if len(most) == 2 and grid[most[0]] > grid[most[1]] else most
    if len(grid) == 1:
        chosen_y, chosen_x = None, 0
    elif not grid:
        chosen_y, chosen_x = None, None
    else:
        chosen_x = order[1] if x is None else x
        chosen_y = (order[0] if order[0] != chosen_x else order[1]) if y is None else y
    for axis in (chosen_y, chosen_x):
        if axis is not None and not 0 <= axis < len(grid):
            raise InvalidInputError(f"the grid has no axis {axis}")
    if chosen_x is not None and chosen_x == chosen_y:
        raise InvalidInputError("a map needs two different axes")
    high = 1 if chosen_y is None else grid[chosen_y]
    wide = 1 if chosen_x is None else grid[chosen_x]
    bin_y, bin_x = max(1, ceil(high / side)), max(1, ceil(wide / side))
    kept = {
        axis: index
        for axis, index in (fixed or {}).items()
        if axis not in (chosen_y, chosen_x)
        and 0 <= axis < len(grid)
        and 0 <= index < max(grid[axis], 1)
    }
    depth = 1
    for axis, count in enumerate(grid):
        if axis not in (chosen_y, chosen_x) and axis not in kept:
            depth *= count
    rows, columns = ceil(high / bin_y), ceil(wide / bin_x)
    return MapAxes(
        chosen_y, chosen_x, rows, columns, bin_y, bin_x, kept, bin_y * bin_x * max(depth, 1)
    )


def place(coords: npt.NDArray[Any], axes: MapAxes) -> tuple[I64, npt.NDArray[np.bool_]]:
    """The cell of each chunk, and which chunks a map shows at all."""
    chosen = np.ones(len(coords), np.bool_)
    for axis, index in axes.fixed.items():
        chosen &= coords[:, axis] == index
    kept = coords[chosen].astype(np.int64)
    row = 0 if axes.y is None else kept[:, axes.y] // axes.bin_y
    column = 0 if axes.x is None else kept[:, axes.x] // axes.bin_x
    cells = np.zeros(len(kept), np.int64) + row * axes.columns + column
    inside = (cells >= 0) & (cells < axes.rows * axes.columns)
    chosen[np.flatnonzero(chosen)[~inside]] = False
    return cells[inside], chosen


def bounded_table(state: WorkingState, node: ArrayNode, limits: Limits) -> ChunkTable:
    """The references of an array, unless they are too many for a page.

    Raises:
        InvalidInputError: they are.
    """
    files = state.manifest_files
    count = sum(files[ref.id].num_chunk_refs for ref in node.manifests if ref.id in files)
    if count > limits.references:
        raise InvalidInputError(
            f"the manifests of {node.path!r} have {count:,} references; a page shows at most "
            f"{limits.references:,}"
        )
    return state.table(node)


def stored_map(table: ChunkTable, axes: MapAxes) -> dict[str, Any]:
    """Kind, number and bytes of the chunks of each cell, row by row."""
    cells, chosen = place(table.coords, axes)
    size = axes.rows * axes.columns
    count = np.bincount(cells, minlength=size)
    lengths = table.length[chosen].astype(np.float64)
    total = np.bincount(cells, weights=lengths, minlength=size)
    kinds = np.zeros(size, np.int64)
    for kind, number in KINDS.items():
        here = np.bincount(cells[table.kind[chosen] == kind], minlength=size) > 0
        kinds = np.where(here, np.where(kinds == 0, number, MIXED), kinds)
    return {
        "count": count.tolist(),
        "bytes": total.astype(np.int64).tolist(),
        "kind": kinds.tolist(),
    }


def written_map(
    written: Sequence[npt.NDArray[Any] | None], coords: npt.NDArray[Any], axes: MapAxes
) -> list[int]:
    """For each cell the newest commit, as its number, that wrote a chunk of it; -1 for none known.

    `written` has the chunks that each commit wrote, newest first; None: all of them.
    """
    size = axes.rows * axes.columns
    found = np.full(size, -1, np.int64)
    present = np.zeros(size, np.bool_)
    present[place(coords, axes)[0]] = True
    for number, chunks in enumerate(written):
        here = present if chunks is None else np.zeros(size, np.bool_)
        if chunks is not None and len(chunks):
            here[place(chunks, axes)[0]] = True
        found[here & (found < 0)] = number
        if (found >= 0).all():
            break
    return np.where(present, found, -1).tolist()  # type: ignore[no-any-return]


def changed_map(chunks: npt.NDArray[Any], axes: MapAxes) -> list[int]:
    """How many of some chunks lie in each cell."""
    cells, _ = place(chunks, axes)
    return np.bincount(cells, minlength=axes.rows * axes.columns).tolist()  # type: ignore[no-any-return]


def as_data(axes: MapAxes, node: ArrayNode) -> dict[str, Any]:
    """The axes of a map, for the page that draws it."""
    return {
        "rows": axes.rows,
        "columns": axes.columns,
        "y": axes.y,
        "x": axes.x,
        "bin": [axes.bin_y, axes.bin_x],
        "fixed": {str(axis): index for axis, index in axes.fixed.items()},
        "cell_chunks": axes.total,
        "grid": list(node.grid),
        "dims": dimension_names(node),
    }


def dimension_names(node: ArrayNode) -> list[str]:
    """Names of all axes; those without one get a number."""
    names = node.dimension_names or (None,) * len(node.shape)
    return [name or f"dim {axis}" for axis, name in enumerate(names)]
