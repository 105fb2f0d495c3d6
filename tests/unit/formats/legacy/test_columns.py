"""References gathered one by one are the table that the model makes of them."""

from __future__ import annotations

import pytest

from frazil.errors import FormatError
from frazil.formats.legacy.columns import ManifestBuilder, TableBuilder
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.names import numbered_node
from frazil.ids import ChunkId, NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import rows_of


def test_references_of_other_ranks_are_kept_apart() -> None:
    payload = {"Inline": b"T"}
    keys = [(3, (0, 0)), (3, (5, 0)), (3, (0,)), (3, (1, 1)), (3, ())]
    found = decode_manifest(
        pack_message([0, {}, dict.fromkeys(keys, payload)]),
        key="manifests/x",
        generation=LegacyGeneration.G3,
    )
    node = numbered_node(3)
    assert found.num_refs == 5
    assert [coords for coords, _ in rows_of(found.tables[node])] == [(0, 0), (1, 1), (5, 0)]
    strays = [[coords for coords, _ in rows_of(table)] for table in found.strays[node]]
    assert sorted(strays) == [[()], [(0,)]]
    assert [*found.tables] == [node]


KEY = "manifests/x"
FAR = VirtualRef("s3://b/f", 4, 5)
MIXED: list[tuple[tuple[int, ...], ChunkRef]] = [
    ((2, 0), VirtualRef("s3://b/f", 4, 5, "etag")),
    ((0, 1), InlineRef(b"first")),
    ((1, 7), NativeRef(ChunkId(bytes(range(12))), 2**40, 9)),
    ((0, 0), InlineRef(b"")),
    ((2, 1), VirtualRef("s3://b/g", 0, 1, 1_700_000_000)),
    ((0, 2), InlineRef(b"second")),
    ((3, 0), FAR),
]


def built(refs: list[tuple[tuple[int, ...], ChunkRef]], ndim: int) -> ChunkTable:
    builder = TableBuilder()
    for coords, ref in refs:
        add(builder, coords, ref)
    assert len(builder) == len(refs)
    return builder.finish(ndim, key=KEY)


def add(builder: TableBuilder, coords: tuple[int, ...], ref: ChunkRef) -> None:
    match ref:
        case NativeRef(id, offset, length):
            builder.native(coords, bytes(id), offset, length)
        case InlineRef(data):
            builder.inline(coords, data)
        case VirtualRef(location, offset, length, checksum):
            builder.virtual(coords, location, offset, length, checksum)


def test_references_come_in_order_whatever_order_they_were_added_in() -> None:
    assert rows_of(built(MIXED, 2)) == sorted(MIXED, key=lambda row: row[0])


def test_a_location_of_many_references_is_kept_once() -> None:
    found = built([((n,), FAR) for n in range(5)], 1)
    assert list(found.locations) == ["s3://b/f"]
    assert rows_of(found) == [((n,), FAR) for n in range(5)]


def test_a_time_of_zero_is_no_checksum() -> None:
    found = built([((0,), VirtualRef("s3://b/f", 4, 5, 0))], 1)
    assert rows_of(found) == [((0,), FAR)]


def test_tables_without_rows_and_without_axes() -> None:
    assert rows_of(built([], 3)) == []
    assert built([], 3).ndim == 3
    assert rows_of(built([((), InlineRef(b"x"))], 0)) == [((), InlineRef(b"x"))]


@pytest.mark.parametrize("coords", [(0, 0), (5, 5)])
def test_two_references_for_one_chunk_are_told_with_the_file(coords: tuple[int, ...]) -> None:
    refs = [((0, 0), InlineRef(b"")), ((5, 5), InlineRef(b"")), ((3, 1), InlineRef(b""))]
    with pytest.raises(FormatError, match="two references for one chunk") as caught:
        built([*refs, (coords, FAR)], 2)
    assert caught.value.facts["key"] == KEY


def test_a_manifest_of_several_arrays_ascends_by_node() -> None:
    builder = ManifestBuilder(KEY)
    first, second = NodeId(b"a" * 8), NodeId(b"b" * 8)
    for node, number in ((second, 1), (first, 2), (second, 0)):
        builder.of(node, 1).inline((number,), bytes([number]))
    tables, strays = builder.finish()
    assert [*tables] == [first, second]
    assert [coords for coords, _ in rows_of(tables[second])] == [(0,), (1,)]
    assert strays == {}
    assert ManifestBuilder(KEY).finish() == ({}, {})
