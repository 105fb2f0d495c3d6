"""What the maps of chunks on the explorer's pages show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.drawing.cells import MapAxes, cells_of_chunks
from frazil.errors import InvalidInputError
from frazil.model.chunks import ChunkTable
from frazil.model.nodes import ArrayNode
from frazil.transaction.working import WorkingState
from frazil.web.settings import RequestLimits


def bounded_table(state: WorkingState, node: ArrayNode, limits: RequestLimits) -> ChunkTable:
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


def written_map(
    written: Sequence[npt.NDArray[Any] | None], coords: npt.NDArray[Any], axes: MapAxes
) -> list[int]:
    """For each cell the newest commit, as its number, that wrote a chunk of it; -1 for none known.

    `written` has the chunks that each commit wrote, newest first; None: all of them.
    """
    size = axes.rows * axes.columns
    found = np.full(size, -1, np.int64)
    present = np.zeros(size, np.bool_)
    present[cells_of_chunks(coords, axes)[0]] = True
    for number, chunks in enumerate(written):
        here = present if chunks is None else np.zeros(size, np.bool_)
        if chunks is not None and len(chunks):
            here[cells_of_chunks(chunks, axes)[0]] = True
        found[here & (found < 0)] = number
        if (found >= 0).all():
            break
    # For mypy: numpy calls it Any.
    return np.where(present, found, -1).tolist()  # type: ignore[no-any-return]


def changed_map(chunks: npt.NDArray[Any], axes: MapAxes) -> list[int]:
    """How many of some chunks lie in each cell."""
    cells, _ = cells_of_chunks(chunks, axes)
    # For mypy: numpy calls it Any.
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
