"""Sets many virtual references from columns, and returns the references of an array as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ids import crockford
from frazil.model.chunks import ABSENT, NO_STRINGS, ChunkTable, ChunkType, StringPool
from frazil.model.nodes import ArrayNode
from frazil.model.strings import number_texts
from frazil.storage.virtual import checksum_of
from frazil.transaction.working import WorkingState

ChunkBatch: TypeAlias = tuple[
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint8],
    list[str],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    dict[int, bytes],
]
"""coordinates, kinds, paths, offsets, lengths, inline bytes by row"""


def set_virtual_columns(
    state: WorkingState,
    path: str,
    box: tuple[int, ...],
    locations: Sequence[str],
    offsets: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    *,
    validate: bool,
    first: tuple[int, ...] | None,
    checksum: str | datetime | None,
) -> list[tuple[int, ...]] | None:
    """Set a box of chunks, given in C order, to virtual references; "" skips a chunk.

    Returns the coordinates whose location no container covers, which are left alone.
    """
    state.require_editable()
    node = state.array(path)
    if not node.shape and all(size == 1 for size in box):
        box, first = (), ()  # the one chunk of a scalar, spelled as a grid of some dimensions
    first = first if first is not None else (0,) * len(box)
    n = int(np.prod(box, dtype=np.int64))
    offsets, lengths = offsets.ravel(), lengths.ravel()
    _check_shape(node, box, first, n, len(locations), len(offsets), len(lengths))
    number, distinct = number_texts(locations)
    texts, covered = state.context.containers.check_many(distinct, validate=validate)
    is_wanted = covered & (texts.sizes > 0)
    coords = _box_coords(box, first)
    chosen = slice(None) if is_wanted.all() else is_wanted[number]
    if not lengths[chosen].all():
        raise InvalidInputError(
            "zero-length chunks cannot be stored", kind=ErrorKind.ZERO_LENGTH_CHUNK
        )
    mark = checksum_of(checksum)
    places = coords[chosen]
    table = ChunkTable.virtual(
        places,
        number[chosen],
        texts,
        np.array(offsets[chosen]),  # copies: the caller may use the columns for something else
        np.array(lengths[chosen]),
        last_modified=mark if isinstance(mark, int) else 0,
        etag=np.zeros(len(places), np.int32) if isinstance(mark, str) else None,
        etags=StringPool.of([mark]) if isinstance(mark, str) else NO_STRINGS,
    )
    state.set_table(node, table)
    if covered.all():
        return None
    return [tuple(row) for row in coords[~covered[number]].tolist()]


def _check_shape(
    node: ArrayNode, box: tuple[int, ...], first: tuple[int, ...], n: int, *columns: int
) -> None:
    if any(length != n for length in columns):
        raise ValueError(f"a grid of {box} has {n} chunks, but the columns have {columns} entries")
    if len(first) != len(box) or len(box) != len(node.shape):
        raise ValueError(f"{node.path!r} has {len(node.shape)} dimensions, not {len(box)}")


def _box_coords(box: tuple[int, ...], first: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """Coordinates of the cells of a box, in C order."""
    if not box:
        return np.zeros((1, 0), np.uint32)
    axes = [np.arange(a, a + size, dtype=np.uint32) for a, size in zip(first, box, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))


def chunk_batches(state: WorkingState, node: ArrayNode, batch_size: int) -> Iterator[ChunkBatch]:
    """All references of an array, in order, so many at a time."""
    if batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    table = state.table(node)
    for start in range(0, len(table), batch_size):
        rows = np.arange(start, min(start + batch_size, len(table)), dtype=np.intp)
        yield _batch(state, table.take(rows))


def _batch(state: WorkingState, part: ChunkTable) -> ChunkBatch:
    expand = state.context.containers.expand
    used = np.unique(part.location[part.location != ABSENT])
    texts = {int(i): expand(part.locations[int(i)]) for i in used}
    paths, inline = [], {}
    offsets = part.offset.copy()
    for row, kind in enumerate(part.kind.tolist()):
        if kind == ChunkType.native:
            paths.append(crockford(part.chunk_id[row].tobytes()))
        elif kind == ChunkType.virtual:
            paths.append(texts[int(part.location[row])])
        else:
            paths.append("")
            at, size = int(part.offset[row]), int(part.length[row])
            inline[row] = bytes(part.inline_data[at : at + size])
            offsets[row] = 0
    return part.coords, part.kind, paths, offsets, part.length, inline
