"""Statistics of the chunks of a column, for skipping chunks and for answering aggregates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.bulk.grid import array_layout
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.tuning import KNOWN_CHUNKS
from frazil.spark.worker import session_at
from frazil.statistics.files import read_index
from frazil.statistics.lookup import Summaries, summarized
from frazil.statistics.records import decoding_of

T = TypeVar("T", bound=np.generic)


def chunk_counts(column: Column) -> tuple[int, ...]:
    """The number of chunks of a variable along its axes."""
    assert column.variable is not None
    pairs = zip(column.variable.shape, column.variable.chunks, strict=True)
    return tuple(-(-length // size) for length, size in pairs)


def look_up(
    scan: Scan, column: Column, numbers: Sequence[I64], *, is_written: bool = False
) -> Summaries | None:
    """What is known of chunks at the crossings of numbers along each axis, in row order.

    None: nothing can be known; with `is_written`, or nothing is but of chunks never written.
    """
    variable, decoder = column.variable, column.decoder
    if variable is None or decoder is None or variable.letters or not variable.shape:
        return None
    if math.prod(map(len, numbers)) > KNOWN_CHUNKS:
        return None
    state = session_at(scan.pinned).state
    node = state.array(variable.path)
    layout = array_layout(node)
    decoding = decoding_of(node, decoder)
    if layout is None or decoding is None or layout.chunks != variable.chunks:
        return None
    index = read_index(state.context.place, decoding.id)
    if is_written and not len(index.keys):
        return None
    coords = np.stack(np.meshgrid(*numbers, indexing="ij"), axis=-1).reshape(-1, len(numbers))
    return summarized(state, node, coords, decoding, index)


def among_axes(values: npt.NDArray[T], column: Column, ndim: int) -> npt.NDArray[T]:
    """Numbers along a variable's own axes as ones along those of the table, 1 long elsewhere."""
    lengths = dict(zip(column.axes, values.shape, strict=True))
    ordered = values.transpose(np.argsort(column.axes))
    return ordered.reshape([lengths.get(axis, 1) for axis in range(ndim)])
