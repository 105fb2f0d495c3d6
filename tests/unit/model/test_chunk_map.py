"""Cells of a map: which kinds of chunks they hold, how many, and how large."""

from __future__ import annotations

import pytest

from frazil.drawing.cells import map_axes
from frazil.ids import ChunkId
from frazil.model.chunk_map import KINDS, MIXED, stored_map
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, InlineRef, NativeRef, VirtualRef

INLINE, NATIVE, VIRTUAL = (
    KINDS[kind] for kind in (ChunkType.inline, ChunkType.native, ChunkType.virtual)
)
REFS: dict[tuple[int, ...], ChunkRef] = {
    (0, 0): InlineRef(b"abc"),
    (0, 1): NativeRef(ChunkId(bytes(12)), 0, 100),
    (1, 0): VirtualRef("s3://b/k", 0, 2**40),
    (1, 3): InlineRef(b""),
}


def test_each_cell_has_the_kind_and_the_bytes_of_its_chunk() -> None:
    found = stored_map(ChunkTable.from_refs(2, REFS.items()), map_axes((2, 4), 64))
    assert found["kind"] == [INLINE, NATIVE, 0, 0, VIRTUAL, 0, 0, INLINE]
    assert found["count"] == [1, 1, 0, 0, 1, 0, 0, 1]
    assert found["bytes"] == [3, 100, 0, 0, 2**40, 0, 0, 0]


def test_chunks_of_several_kinds_in_one_cell_are_a_mixture() -> None:
    found = stored_map(ChunkTable.from_refs(2, REFS.items()), map_axes((2, 4), 2))
    assert found["kind"] == [MIXED, 0, VIRTUAL, INLINE]
    assert found["count"] == [2, 0, 1, 1]
    assert found["bytes"] == [103, 0, 2**40, 0]
    found = stored_map(ChunkTable.from_refs(2, REFS.items()), map_axes((2, 4), 1))
    assert (found["kind"], found["count"]) == ([MIXED], [4])


def test_two_chunks_of_one_kind_are_no_mixture() -> None:
    refs = [((0,), InlineRef(b"a")), ((1,), InlineRef(b"b"))]
    found = stored_map(ChunkTable.from_refs(1, refs), map_axes((2,), 1))
    assert (found["kind"], found["count"], found["bytes"]) == ([INLINE], [2], [2])


def test_only_chunks_of_the_chosen_plane_count() -> None:
    refs = {(plane, *coords): ref for plane in range(3) for coords, ref in REFS.items()}
    del refs[(1, 0, 1)]
    table = ChunkTable.from_refs(3, refs.items())
    found = stored_map(table, map_axes((3, 2, 4), 64, 1, 2, {0: 1}))
    assert found["kind"] == [INLINE, 0, 0, 0, VIRTUAL, 0, 0, INLINE]
    assert sum(found["count"]) == 3


@pytest.mark.parametrize("grid", [(), (0,), (3, 0)])
def test_an_array_without_chunks_has_empty_cells_or_none(grid: tuple[int, ...]) -> None:
    axes = map_axes(grid, 64)
    found = stored_map(ChunkTable.empty(len(grid)), axes)
    assert found["kind"] == found["count"] == found["bytes"] == [0] * (axes.rows * axes.columns)


def test_a_scalar_is_one_cell() -> None:
    table = ChunkTable.from_refs(0, [((), InlineRef(b"x"))])
    assert stored_map(table, map_axes((), 64)) == {"count": [1], "bytes": [1], "kind": [INLINE]}
