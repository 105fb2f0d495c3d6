"""Inventories of G1: the chunk references of a snapshot."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.g1_inventory import decode_inventory, encode_inventory
from frazil.formats.legacy.names import base64_name, numbered_node
from frazil.formats.legacy.records import ManifestRecord
from frazil.ids import ChunkId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import (
    encode_coord,
    rows_of,
    tables,
)
from tests.unit.formats.legacy.test_g1_structure import edited, parquet, stored_schema


@settings(max_examples=25)
@given(st.data())
def test_inventories_come_back(data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(0, 2**32 - 1), max_size=3))
    made = {numbered_node(n): data.draw(tables(Dialect.G1)) for n in numbers}
    blob = encode_inventory(ManifestRecord(made, Dialect.G1))
    found = decode_inventory(blob, key="i/x")
    assert found.tables.keys() == made.keys()
    for node, table in made.items():
        assert rows_of(found.tables[node]) == rows_of(table)
    assert not found.names
    assert not found.strays


def test_rows_of_an_inventory() -> None:
    refs: list[tuple[tuple[int, ...], ChunkRef]] = [
        ((0, 0), NativeRef(ChunkId(bytes(range(12))), 7, 100)),
        ((0, 1), InlineRef(b"T")),
        ((1, 0), VirtualRef("s3://b/f.nc", 4096, 100)),
    ]
    names = {ChunkId(bytes(range(12))): "shard one"}
    record = ManifestRecord(
        {numbered_node(2): ChunkTable.from_refs(2, refs)}, Dialect.G1, names=names
    )
    blob = encode_inventory(record)
    rows = pq.read_table(io.BytesIO(blob)).to_pylist()
    assert rows == [
        {"id": 0, "array_id": 2, "coord": b"\0\0", "inline_data": None, "chunk_file": "shard one",
         "offset": 7, "length": 100},
        {"id": 1, "array_id": 2, "coord": b"\0\1", "inline_data": b"T", "chunk_file": None,
         "offset": None, "length": 1},
        {"id": 2, "array_id": 2, "coord": b"\1\0", "inline_data": None,
         "chunk_file": "s3://b/f.nc", "offset": 4096, "length": 100},
    ]  # fmt: skip
    sorting = pq.ParquetFile(io.BytesIO(blob)).metadata.row_group(0).sorting_columns
    assert [column.column_index for column in sorting] == [1, 2]


def test_long_chunks_need_the_wide_profile() -> None:
    ref = NativeRef(ChunkId(bytes(12)), 0, 2**32)
    table = ChunkTable.from_refs(1, [((0,), ref)])
    blob = encode_inventory(ManifestRecord({numbered_node(1): table}, Dialect.G1))
    assert str(stored_schema(blob).field("length").type) == "uint64"
    assert rows_of(decode_inventory(blob, key="i/x").tables[numbered_node(1)]) == [((0,), ref)]


def test_names_of_chunks_are_kept() -> None:
    table = pa.table(
        {
            "array_id": pa.array([1, 1], pa.uint32()),
            "coord": pa.array([b"\0", b"\1"], pa.binary()),
            "chunk_file": pa.array(["shard-0", "shard-0"]),
            "offset": pa.array([0, 10], pa.uint64()),
            "length": pa.array([10, 10], pa.uint32()),
        }
    )
    found = decode_inventory(parquet(table), key="i/x", grids=lambda: {numbered_node(1): [(2,)]})
    ((_, first), (_, second)) = rows_of(found.tables[numbered_node(1)])
    assert isinstance(first, NativeRef)
    assert isinstance(second, NativeRef)
    assert first.chunk_id == second.chunk_id
    assert found.names == {first.chunk_id: "shard-0"}
    again = decode_inventory(encode_inventory(found), key="i/x")
    assert again.names == found.names


def test_other_encodings_of_coordinates_are_read() -> None:
    base = {
        "array_id": pa.array([1, 1], pa.uint32()),
        "inline_data": pa.array([b"a", b"b"], pa.binary()),
        "chunk_file": pa.nulls(2, pa.string()),
        "offset": pa.nulls(2, pa.uint64()),
        "length": pa.array([1, 1], pa.uint32()),
    }
    coords = [struct.pack(">HH", 0, 1), struct.pack(">HH", 300, 2)]
    table = pa.table(base | {"coord": pa.array(coords, pa.binary())})
    expected = [((0, 1), InlineRef(b"a")), ((300, 2), InlineRef(b"b"))]
    marked = table.replace_schema_metadata({"icechunk.coord_encoding": "be16"})
    node = numbered_node(1)
    assert rows_of(decode_inventory(parquet(marked), key="i/x").tables[node]) == expected
    found = decode_inventory(parquet(table), key="i/x", grids=lambda: {node: [(400, 5)]})
    assert rows_of(found.tables[node]) == expected
    with pytest.raises(FormatError, match="no snapshot tells"):
        decode_inventory(parquet(table), key="i/x")
    strange = table.replace_schema_metadata({"icechunk.coord_encoding": "zigzag"})
    with pytest.raises(FormatError, match="zigzag"):
        decode_inventory(parquet(strange), key="i/x")


def test_references_of_other_ranks_are_kept_apart() -> None:
    table = pa.table(
        {
            "array_id": pa.array([1] * 4, pa.uint32()),
            "coord": pa.array([b"\0", b"\0\0", b"\0\1", b"\5\5"], pa.binary()),
            "inline_data": pa.array([b"a", b"b", b"c", b"d"], pa.binary()),
            "length": pa.array([1] * 4, pa.uint32()),
            "offset": pa.nulls(4, pa.uint64()),
        }
    )
    table = table.replace_schema_metadata({"icechunk.coord_encoding": "ovi1"})
    found = decode_inventory(parquet(table), key="i/x")
    assert rows_of(found.tables[numbered_node(1)]) == [
        ((0, 0), InlineRef(b"b")),
        ((0, 1), InlineRef(b"c")),
        ((5, 5), InlineRef(b"d")),
    ]
    assert [rows_of(table) for table in found.strays[numbered_node(1)]] == [
        [((0,), InlineRef(b"a"))]
    ]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("coord", [b"\x80"]),
        ("coord", [encode_coord((2**32,))]),
        ("coord", [b"\0" * 2000]),
        ("chunk_file", ["a/b"]),
        ("chunk_file", [None]),
        ("inline_data", [b"x"]),
    ],
)
def test_damaged_inventories_are_told(column: str, values: list[Any]) -> None:
    ref = NativeRef(ChunkId(bytes(12)), 0, 5)
    table = ChunkTable.from_refs(1, [((0,), ref)])
    blob = encode_inventory(ManifestRecord({numbered_node(1): table}, Dialect.G1))
    with pytest.raises(FormatError) as caught:
        decode_inventory(edited(blob, column, values), key="i/x")
    assert caught.value.facts["key"] == "i/x"


def test_checksums_have_no_place() -> None:
    table = ChunkTable.from_refs(1, [((0,), VirtualRef("s3://b/f", 0, 1, "etag"))])
    with pytest.raises(InvalidInputError) as caught:
        encode_inventory(ManifestRecord({numbered_node(1): table}, Dialect.G1))
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE


def test_inventories_of_the_library() -> None:
    raw = bytes(range(16))
    table = pa.table(
        {
            "array_id": pa.array([2, 2, 2], pa.uint32()),
            "coords": pa.array([struct.pack(">QQ", 0, n) for n in range(3)], pa.binary()),
            "offset": pa.array([0, None, 5], pa.uint64()),
            "length": pa.array([100, 1, 7], pa.uint64()),
            "inline_data": pa.array([None, b"T", None], pa.binary()),
            "chunk_id": pa.array([raw, None, None], pa.binary(16)),
            "virtual_path": pa.array([None, None, "s3://b/f"]),
            "extra": pa.nulls(3, pa.string()),
        }
    )
    found = decode_inventory(parquet(table), key="m/x")
    assert found.dialect is Dialect.G1_LIBRARY
    assert rows_of(found.tables[numbered_node(2)]) == [
        ((0, 0), NativeRef(ChunkId(raw[:12]), 0, 100)),
        ((0, 1), InlineRef(b"T")),
        ((0, 2), VirtualRef("s3://b/f", 5, 7)),
    ]
    assert found.names == {ChunkId(raw[:12]): base64_name(raw) + ".parquet"}
