"""What kinds of chunks lie in the cells of a map."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from frazil.drawing.cells import MapAxes, cells_of_chunks
from frazil.model.chunks import ChunkTable, ChunkType

KINDS: Final = {ChunkType.inline: 1, ChunkType.native: 2, ChunkType.virtual: 3}
"""Numbers of kinds in a map; 0 is no chunk, 4 several kinds in one cell."""
MIXED: Final = 4


def stored_map(table: ChunkTable, axes: MapAxes) -> dict[str, Any]:
    """Kind, number and bytes of the chunks of each cell, row by row."""
    cells, chosen = cells_of_chunks(table.coords, axes)
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
