"""Where the chunks of an HDF5 dataset are, and whether that can be believed.

The index of the chunks is read in two ways: references list it, and the library searches it when
it reads values. In a damaged index a search may miss what the list has, and the library then takes
the fill value. Such a file is refused: neither answer is known to be right.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import h5py
import numpy as np
from h5py._objects import phil

from frazil.ingestion.hdf_files import HdfItem
from frazil.ingestion.records import Array, FileReferences, FileVariable, ObstacleError
from frazil.ingestion.sources import bad_file


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """What the index of a dataset says, one row per chunk that was written."""

    places: Array
    """in the grid of chunks, one column per dimension"""
    columns: Array
    """the offset in the file, the length, and a mask of filters that were skipped"""


def read_chunk_index(name: str, found: HdfItem) -> ChunkIndex | None:
    """The index of a dataset; None for one without chunks.

    Raises:
        InvalidInputError: it is damaged.
    """
    dataset = found.item
    if dataset.chunks is None:
        return None
    rows: list[tuple[int, int, int]] = []
    starts: list[tuple[int, ...]] = []

    def take(stored: Any) -> None:  # noqa: ANN401  (h5py's own record)
        starts.append(stored.chunk_offset)
        rows.append((stored.byte_offset, stored.size, stored.filter_mask))

    dataset.id.chunk_iter(take)
    firsts = np.array(starts, np.uint64).reshape(len(starts), dataset.ndim)
    if why := _damage(dataset, firsts):
        raise bad_file(f"the index of the chunks of {name!r} is damaged: {why}", found.url)
    places = firsts.astype(np.int64) // np.array(dataset.chunks)
    return ChunkIndex(places, np.array(rows, np.uint64).reshape(len(rows), 3))


def _damage(dataset: h5py.Dataset, firsts: Array) -> str | None:
    """What is wrong with the index, given where the chunks begin that it lists."""
    if len(firsts) != dataset.id.get_num_chunks():
        return "it cannot be read"
    if (firsts >= np.array(dataset.shape, np.uint64)).any():
        return "it has a chunk beyond the shape"
    in_order = firsts[np.lexsort(firsts.T[::-1])]
    if (in_order[1:] == in_order[:-1]).all(axis=1).any():
        return "two chunks have the same place"
    if not _are_found(dataset, firsts):
        return "HDF5 does not find all chunks that it lists"
    return None


def chunk_references(made: FileVariable, found: HdfItem, index: ChunkIndex) -> FileReferences:
    """References to the chunks of a dataset."""
    dataset = found.item
    lengths = zip(dataset.shape, made.shape, dataset.chunks, strict=True)
    if any(stored < shown and stored % chunk for stored, shown, chunk in lengths):
        raise ObstacleError("it is shorter than its dimension, and ends inside a chunk")
    offsets, sizes, skipped = index.columns.T
    if skipped.any():
        raise ObstacleError(
            "some of its chunks skipped a filter when they were written, which references cannot"
            " express"
        )
    numbers = np.ravel_multi_index(tuple(index.places.T), made.grid)
    _require_filtered_edges(found, index.places, sizes)
    return FileReferences.of_file(found.url, numbers, offsets, sizes)


# --- searching ---


def _are_found(dataset: h5py.Dataset, starts: Array) -> bool:
    """Whether the library finds chunks when it searches for them, by where they begin."""
    size_of = _search()
    if size_of is None:
        return all(_can_be_read(dataset, start) for start in starts.tolist())
    size = ctypes.c_uint64()
    number, answer = dataset.id.id, ctypes.addressof(size)
    first, step = starts.ctypes.data, starts.strides[0]
    with phil:  # the lock of h5py, without which the library must not be called
        return all(
            size_of(number, at, answer) >= 0 and size.value
            for at in range(first, first + step * len(starts), step)
        )


@cache
def _search() -> Callable[[int, int, int], int] | None:
    """The function of the library that searches for a chunk and reads nothing of it.

    h5py has no name for it: its `get_chunk_info_by_coord` goes through the list. None where the
    library is a part of h5py that shows no names.
    """
    try:
        found = ctypes.PyDLL(h5py.h5d.__file__).H5Dget_chunk_storage_size
    except (OSError, AttributeError):
        return None
    found.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    found.restype = ctypes.c_int
    return found


def _can_be_read(dataset: h5py.Dataset, start: list[int]) -> bool:
    try:
        dataset.id.read_direct_chunk(tuple(start))
    except (OSError, RuntimeError, ValueError):
        return False
    return True


# --- edges ---


def _require_filtered_edges(found: HdfItem, coords: Array, lengths: Array) -> None:
    """Refuse datasets whose chunks at the edges, which go beyond the shape, skip all filters.

    h5py does not tell. Such chunks are as long as their values, which others are by chance, or if
    the filters only shuffle: then some are read both ways.
    """
    dataset = found.item
    shape, chunks = np.array(dataset.shape), np.array(dataset.chunks)
    is_edge = ((coords + 1) * chunks > shape).any(axis=1)
    width = dataset.dtype.itemsize
    if not dataset._filters or (lengths[is_edge] != int(np.prod(chunks)) * width).any():
        return
    for start in (coords[is_edge] * chunks).tolist():
        raw = dataset.id.read_direct_chunk(tuple(start))[1]
        if np.frombuffer(raw, "u1").reshape(width, -1).T.tobytes() == raw:
            continue  # shuffled or not, it is the same
        ends = np.minimum(shape, start + chunks).tolist()
        region = tuple(slice(*each) for each in zip(start, ends, strict=True))
        inside = tuple(slice(0, part.stop - part.start) for part in region)
        values = np.frombuffer(raw, dataset.dtype).reshape(dataset.chunks)[inside]
        if values.tobytes() == np.asarray(dataset[region]).tobytes():
            raise ObstacleError("its chunks at the edges skipped the filters")
        return
