"""What references need of the objects they point into, as columns: how long each must be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.maintenance.id_sets import ID_WIDTH, U8
from frazil.model.chunks import ChunkTable, ChunkType

U64: TypeAlias = npt.NDArray[np.uint64]
MAX_END: Final = np.uint64(2**64 - 1)


def native_needs(table: ChunkTable) -> tuple[U8, U64]:
    """The objects of the native references of a table, and the end of each range."""
    rows = table.kind == ChunkType.native
    return table.chunk_id[rows], range_ends(table.offset[rows], table.length[rows])


def range_ends(offset: U64, length: U64) -> U64:
    """Ends of ranges; a sum that does not fit is longer than any object."""
    ends = offset + length
    return np.where(ends < offset, MAX_END, ends)


def needed_objects(tables: Iterable[ChunkTable]) -> tuple[U8, U64, npt.NDArray[np.int64]]:
    """Objects by id, ascending: how long each must be, and how many references name it."""
    parts = [
        (np.zeros((0, ID_WIDTH), np.uint8), np.zeros(0, np.uint64)),
        *map(native_needs, tables),
    ]
    ids, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    names = np.ascontiguousarray(ids).view(f"S{ID_WIDTH}").ravel()
    known, places, counts = np.unique(names, return_inverse=True, return_counts=True)
    longest = np.zeros(len(known), np.uint64)
    np.maximum.at(longest, places, ends)
    return known.view(np.uint8).reshape(-1, ID_WIDTH), longest, counts
