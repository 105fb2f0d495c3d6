"""Chunk tables for tests: every kind of reference, made from a number."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from frazil.ids import ChunkId
from frazil.model.chunks import (
    ChunkRef,
    ChunkTable,
    InlineRef,
    NativeRef,
    VirtualRef,
)
from frazil.model.nodes import Coordinates

NOTHING = np.zeros((0, 2), np.uint32)
BIG = 2**32 - 1

References = dict[Coordinates, ChunkRef]


def table_of(refs: References, ndim: int = 2) -> ChunkTable:
    return ChunkTable.from_refs(ndim, refs.items())


def dropping(*coords: Coordinates) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.array(coords, np.uint32).reshape(len(coords), 2)


def kinds(seed: int) -> ChunkRef:
    """A reference whose every field depends on the seed."""
    match seed % 4:
        case 0:
            return NativeRef(ChunkId(seed.to_bytes(12, "big")), seed, seed + 1)
        case 1:
            return VirtualRef(f"s3://bucket/{seed % 7}", seed, 5, f"tag-{seed % 3}")
        case 2:
            return VirtualRef(f"s3://bücket/{seed % 5}", seed, 5, seed)
        case _:
            return InlineRef(b"x" * (seed % 11))


chunk_refs = st.integers(0, 10**6).map(kinds)
axis = st.one_of(st.integers(0, 4), st.integers(0, BIG))
tables = st.dictionaries(st.tuples(axis, axis), chunk_refs, max_size=20)
small_tables = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), chunk_refs, max_size=16
)

CELLS = list(product(range(8), range(8)))
full_tables = st.dictionaries(st.sampled_from(CELLS), chunk_refs, min_size=34, max_size=64)
