"""Chunks of an array as a picture: two axes of its grid, binned to what a screen can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.drawing.markup import Html, escaped, joined_html
from frazil.errors import InvalidInputError

SIDE: Final = 64
"""Cells of a map in a notebook, along either axis."""
_WIDTH: Final = 480
_CELL: Final = range(4, 17)


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


def cells_of_chunks(coords: npt.NDArray[Any], axes: MapAxes) -> tuple[I64, npt.NDArray[np.bool_]]:
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


def cell_map(
    axes: MapAxes,
    colours: Sequence[str | None],
    names: tuple[str, str] = ("", ""),
    legend: Mapping[str, str] | None = None,
) -> Html:
    """A map as SVG: a square for each cell, empty where there is no colour.

    `names` are those of the axes that go down and across; `legend` has the meaning of colours.
    """
    side = min(max(_WIDTH // max(axes.columns, 1), _CELL.start), _CELL.stop - 1)
    high, wide = axes.rows * side, axes.columns * side
    squares = [
        f'<rect x="{begin * side}" y="{row * side}" width="{length * side}" height="{side}" '
        f'fill="{colour}"/>'
        for row in range(axes.rows)
        for begin, length, colour in _runs(colours[row * axes.columns : (row + 1) * axes.columns])
        if colour is not None
    ]
    lines = [f"M0 {n * side}H{wide}" for n in range(axes.rows + 1)]
    lines += [f"M{n * side} 0V{high}" for n in range(axes.columns + 1)]
    grid = f'<path d="{"".join(lines)}" stroke="#8886" stroke-width="1" fill="none"/>'
    picture = Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + 2}" height="{high + 2}" '
        f'viewBox="-1 -1 {wide + 2} {high + 2}" role="img">{"".join(squares)}{grid}</svg>'
    )
    return joined_html([Html(f"<div>{picture}</div>"), _caption(axes, names, legend or {})])


def _runs(colours: Sequence[str | None]) -> list[tuple[int, int, str | None]]:
    """Cells side by side of one colour: where they begin, how many they are."""
    found: list[tuple[int, int, str | None]] = []
    begin = 0
    for colour, cells in groupby(colours):
        length = sum(1 for _ in cells)
        found.append((begin, length, colour))
        begin += length
    return found


def _caption(axes: MapAxes, names: tuple[str, str], legend: Mapping[str, str]) -> Html:
    down, across = names
    parts = []
    if axes.y is not None and down:
        parts.append(f"down: {down}")
    if axes.x is not None and across:
        parts.append(f"across: {across}")
    if axes.total > 1:
        parts.append(f"a square is up to {axes.total:,} chunks")
    keys = [
        Html(
            f'<span style="display: inline-block; width: 10px; height: 10px; '
            f'background: {colour}"></span> {escaped(meaning)}'
        )
        for colour, meaning in legend.items()
    ]
    words = [*keys, *([escaped(", ".join(parts))] if parts else [])]
    return Html(f'<div style="opacity: 0.8; font-size: 90%">{" &nbsp; ".join(words)}</div>')
