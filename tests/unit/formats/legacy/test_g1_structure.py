"""Structure files of G1."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.attributes import (
    decode_attribute_file,
)
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.g1_inventory import decode_inventory, encode_inventory
from frazil.formats.legacy.g1_schemas import inventory_schema, structure_schema
from frazil.formats.legacy.g1_state import StateSnapshot
from frazil.formats.legacy.g1_structure import decode_structure, encode_structure
from frazil.formats.legacy.names import base64_name, numbered_node
from frazil.formats.legacy.records import ManifestRecord, Names, SnapshotRecord
from frazil.ids import ManifestId, SnapshotId, crockford
from frazil.model.chunks import ChunkTable, InlineRef
from frazil.model.nodes import ArrayNode, ManifestRef
from tests.unit.formats.legacy.samples import (
    array_json,
    array_nodes,
    small_snapshot,
)

STRUCTURE_SCHEMA = """\
id: uint16 not null
  -- field metadata --
  description: 'unique identifier for the node'
type: string not null
  -- field metadata --
  description: 'array or group'
path: string not null
  -- field metadata --
  description: 'path to the node within the store'
array_metadata: struct<shape: list<item: uint16> not null, data_type: string not null, \
fill_value: binary, dimension_names: list<item: string>, chunk_grid: struct<name: string not null, \
configuration: struct<chunk_shape: list<item: uint16> not null> not null>, chunk_key_encoding: \
struct<name: string not null, configuration: struct<separator: string not null> not null>, \
codecs: list<item: struct<name: string not null, configuration: binary>>>
  child 0, shape: list<item: uint16> not null
      child 0, item: uint16
  child 1, data_type: string not null
  child 2, fill_value: binary
  child 3, dimension_names: list<item: string>
      child 0, item: string
  child 4, chunk_grid: struct<name: string not null, configuration: struct<chunk_shape: \
list<item: uint16> not null> not null>
      child 0, name: string not null
      child 1, configuration: struct<chunk_shape: list<item: uint16> not null> not null
          child 0, chunk_shape: list<item: uint16> not null
              child 0, item: uint16
  child 5, chunk_key_encoding: struct<name: string not null, configuration: struct<separator: \
string not null> not null>
      child 0, name: string not null
      child 1, configuration: struct<separator: string not null> not null
          child 0, separator: string not null
  child 6, codecs: list<item: struct<name: string not null, configuration: binary>>
      child 0, item: struct<name: string not null, configuration: binary>
          child 0, name: string not null
          child 1, configuration: binary
  -- field metadata --
  description: 'All the Zarr array metadata'
inline_attrs: binary
  -- field metadata --
  description: 'user-defined attributes, stored inline with this entry'
attrs_reference: struct<attrs_file: string not null, row: uint16 not null, flags: uint16>
  child 0, attrs_file: string not null
  child 1, row: uint16 not null
  child 2, flags: uint16
  -- field metadata --
  description: 'user-defined attributes, stored in a separate attributes ' + 4
inventories: list<item: struct<inventory_file: string not null, row: uint16 not null, extent: \
list<item: fixed_size_list<item: uint16>[2]> not null, flags: uint16>>
  child 0, item: struct<inventory_file: string not null, row: uint16 not null, extent: \
list<item: fixed_size_list<item: uint16>[2]> not null, flags: uint16>
      child 0, inventory_file: string not null
      child 1, row: uint16 not null
      child 2, extent: list<item: fixed_size_list<item: uint16>[2]> not null
          child 0, item: fixed_size_list<item: uint16>[2]
              child 0, item: uint16
      child 3, flags: uint16"""
INVENTORY_SCHEMA = """\
id: uint32 not null
array_id: uint32 not null
coord: binary not null
inline_data: binary
chunk_file: string
offset: uint64
length: uint32 not null"""

ITEM = StateSnapshot(
    crockford(bytes([3] * 16)),
    crockford(bytes([1] * 16)),
    1_800_000_000_123,
    crockford(bytes([3] * 16)) + ".parquet",
    {"message": "second", "by": "me"},
)


def shown(schema: pa.Schema) -> str:
    """A schema as the specification prints it."""
    text: str = schema.to_string(
        truncate_metadata=True, element_size_limit=100000, show_schema_metadata=False
    )
    return text


def stored_schema(blob: bytes) -> pa.Schema:
    """The Arrow schema of a Parquet file."""
    return pq.read_schema(io.BytesIO(blob))


def read(blob: bytes) -> SnapshotRecord:
    """Decode a structure file."""
    return decode_structure(blob, key="s/x", item=ITEM)


def with_nodes(record: SnapshotRecord, *documents: bytes) -> SnapshotRecord:
    """The record with other documents for its array, at the same grid."""
    group, array = record.snapshot.nodes
    nodes = (group, *(replace(array, user_data=each) for each in documents))
    return replace(record, snapshot=replace(record.snapshot, nodes=nodes))


# --- schemas ---


def test_schemas_are_those_of_the_specification() -> None:
    assert shown(structure_schema("seed").remove_metadata()) == STRUCTURE_SCHEMA
    assert shown(inventory_schema("seed").remove_metadata()) == INVENTORY_SCHEMA


def test_written_files_have_these_schemas() -> None:
    blob = encode_structure(small_snapshot(Dialect.G1))
    schema = stored_schema(blob)
    assert shown(schema.remove_metadata()) == STRUCTURE_SCHEMA
    assert schema.metadata[b"icechunk.schema_profile"] == b"seed"
    table = ChunkTable.from_refs(1, [((0,), InlineRef(b"T"))])
    blob = encode_inventory(ManifestRecord({numbered_node(1): table}, Dialect.G1))
    schema = stored_schema(blob)
    assert shown(schema.remove_metadata()) == INVENTORY_SCHEMA
    assert schema.metadata[b"icechunk.coord_encoding"] == b"ovi1"


@pytest.mark.parametrize(
    ("shape", "chunks", "profile"),
    [
        ([65535, 10], [5, 5], b"seed"),
        ([70000, 10], [5, 5], b"wide"),
        ([10, 10], [70000, 5], b"wide"),
    ],
)
def test_large_axes_need_the_wide_profile(
    shape: list[int], chunks: list[int], profile: bytes
) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    document = array_json(shape=shape, chunk_grid=grid)
    blob = encode_structure(with_nodes(small_snapshot(Dialect.G1), document))
    schema = stored_schema(blob)
    assert schema.metadata[b"icechunk.schema_profile"] == profile
    assert str(schema.field("id").type) == ("uint16" if profile == b"seed" else "uint32")
    assert read(blob).snapshot.nodes[1].user_data == document


def test_high_numbers_of_nodes_need_the_wide_profile() -> None:
    record = small_snapshot(Dialect.G1)
    group = replace(record.snapshot.nodes[0], id=numbered_node(70000))
    record = replace(record, snapshot=replace(record.snapshot, nodes=(group,)))
    blob = encode_structure(record)
    assert stored_schema(blob).metadata[b"icechunk.schema_profile"] == b"wide"
    assert read(blob).snapshot.nodes == (group,)


# --- structure files ---


def test_structures_come_back() -> None:
    record = small_snapshot(Dialect.G1)
    found = read(encode_structure(record))
    assert found.snapshot.nodes == record.snapshot.nodes
    assert found.snapshot.message == "second"
    assert found.snapshot.metadata == {"by": "me"}
    assert found.snapshot.flushed_at == 1_800_000_000_123_000
    assert found.snapshot.id == SnapshotId(bytes([3] * 12))
    assert found.names.snapshots[found.snapshot.id] == ITEM.name
    assert found.dialect is Dialect.G1


@settings(max_examples=25)
@given(st.data())
def test_any_structure_comes_back(data: st.DataObject) -> None:
    nodes = tuple(
        data.draw(array_nodes(Dialect.G1, number, f"/{number}"))
        for number in range(1, data.draw(st.integers(1, 3)))
    )
    record = small_snapshot(Dialect.G1)
    record = replace(record, snapshot=replace(record.snapshot, nodes=nodes))
    assert read(encode_structure(record)).snapshot.nodes == nodes


def test_an_empty_structure() -> None:
    record = small_snapshot(Dialect.G1)
    blob = encode_structure(replace(record, snapshot=replace(record.snapshot, nodes=())))
    assert read(blob).snapshot.nodes == ()
    assert shown(stored_schema(blob).remove_metadata()) == STRUCTURE_SCHEMA


@pytest.mark.parametrize(
    "changes",
    [
        {"dimension_names": ["y", None]},
        {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}]},
        {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
        {"data_type": "datetime64", "fill_value": "NaT"},
        {
            "data_type": {"name": "x", "configuration": {"unit": "s"}},
            "fill_value": [1, {"a": None}],
        },
        {"data_type": "string", "fill_value": "ice 🧊"},
        {"data_type": "complex128", "fill_value": ["NaN", 1.0]},
        {"data_type": "r16", "fill_value": [1, 255]},
        {"data_type": "uint64", "fill_value": 2**64 - 1},
        {"attributes": {"a": 2**70, "b": {"c": [1.5, None]}}},
    ],
)
def test_documents_come_back(changes: dict[str, Any]) -> None:
    document = array_json(**changes)
    found = read(encode_structure(with_nodes(small_snapshot(Dialect.G1), document)))
    assert json.loads(found.snapshot.nodes[1].user_data) == json.loads(document)


def test_names_of_inventories_are_kept() -> None:
    record = small_snapshot(Dialect.G1)
    id = ManifestId(bytes(range(12)))
    names = Names(manifests={id: "00010203-0405-0607-0809-0a0b0c0d0e0f"})
    found = read(encode_structure(replace(record, names=names)))
    assert found.names.manifests == names.manifests
    assert not read(encode_structure(record)).names.manifests


def parquet(table: pa.Table) -> bytes:
    """A Parquet file made by others."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def edited(blob: bytes, column: str, values: list[Any]) -> bytes:
    """A structure file with other values in a column."""
    table = pq.read_table(io.BytesIO(blob))
    index = table.column_names.index(column)
    field = table.schema.field(column)
    return parquet(table.set_column(index, field, pa.array(values, field.type)))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("path", ["/", "t"]),
        ("path", ["/", "/"]),
        ("type", ["group", "leaf"]),
        ("inline_attrs", [b"[]", None]),
        ("inline_attrs", [b"\xff", None]),
        ("array_metadata", [None, None]),
        ("attrs_reference", [{"attrs_file": "../x", "row": 0}, None]),
        ("attrs_reference", [{"attrs_file": "x", "row": 0, "flags": 0x100}, None]),
        ("inventories", [None, [{"inventory_file": "a/b", "row": 0, "extent": []}]]),
        ("inventories", [None, [{"inventory_file": "x", "row": 0, "extent": [[2, 1], [0, 1]]}]]),
        ("inventories", [None, [{"inventory_file": "x", "row": 0, "extent": [[0, 1]]}]]),
    ],
)
def test_damage_is_told(column: str, values: list[Any]) -> None:
    blob = edited(encode_structure(small_snapshot(Dialect.G1)), column, values)
    with pytest.raises(FormatError) as caught:
        read(blob)
    assert caught.value.facts["key"] == "s/x"


def test_unknown_extents_are_the_whole_grid() -> None:
    inventories = [None, [{"inventory_file": "x", "row": 0, "extent": []}]]
    found = read(edited(encode_structure(small_snapshot(Dialect.G1)), "inventories", inventories))
    node = found.snapshot.nodes[1]
    assert isinstance(node, ArrayNode)
    assert node.manifests[0].extents == ((0, 2), (0, 2))
    assert found.names.manifests == {node.manifests[0].id: "x"}


def test_unknown_columns_are_ignored_and_optional_ones_may_lack() -> None:
    table = pq.read_table(io.BytesIO(encode_structure(small_snapshot(Dialect.G1))))
    table = table.drop_columns(["attrs_reference", "inline_attrs"])
    table = table.append_column("colour", pa.array(["red", "blue"]))
    found = read(parquet(table))
    assert [node.path for node in found.snapshot.nodes] == ["/", "/t"]


def test_what_cannot_be_held_is_refused() -> None:
    document = array_json(storage_transformers=[{"name": "x"}])
    with pytest.raises(InvalidInputError) as caught:
        encode_structure(with_nodes(small_snapshot(Dialect.G1), document))
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE


# --- coordinates ---


# --- inventories ---


# --- the library's own Parquet ---


def test_structures_of_the_library() -> None:
    raw = bytes(range(16))
    reference = pa.array(
        [None, {"reference": [raw], "start_row": [0], "end_row": [2]}],
        pa.struct(
            [
                ("reference", pa.list_(pa.binary(16))),
                ("start_row", pa.list_(pa.uint32())),
                ("end_row", pa.list_(pa.uint32())),
            ]
        ),
    )
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.uint32()),
            "type": ["group", "array"],
            "path": ["/", "/t"],
            "shape": pa.array([None, [10, 10]], pa.list_(pa.uint64())),
            "data_type": pa.array([None, "float32"]),
            "chunk_shape": pa.array([None, [5, 5]], pa.list_(pa.uint64())),
            "chunk_key_encoding": pa.array([None, ord("/")], pa.uint8()),
            "fill_value": pa.array([None, bytes(4)], pa.binary()),
            "codecs": pa.array(
                [None, [b'{"name":"bytes","configuration":{"endian":"little"}}']],
                pa.list_(pa.binary()),
            ),
            "user_attributes": pa.array([b'{"a":1}', None], pa.binary()),
            "manifest_references": reference,
        }
    )
    found = read(parquet(table))
    assert found.dialect is Dialect.G1_LIBRARY
    group, array = found.snapshot.nodes
    assert json.loads(group.user_data)["attributes"] == {"a": 1}
    assert isinstance(array, ArrayNode)
    assert array.user_data == array_json()
    assert array.manifests == (ManifestRef(ManifestId(raw[:12]), ((0, 2), (0, 2))),)
    assert found.names.manifests == {array.manifests[0].id: base64_name(raw) + ".parquet"}


@pytest.mark.parametrize("blob", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"{}"])
def test_no_parquet_at_all(blob: bytes) -> None:
    for decode in (
        read,
        lambda raw: decode_inventory(raw, key="s/x"),
        lambda raw: decode_attribute_file(raw, key="s/x"),
    ):
        with pytest.raises(FormatError) as caught:
            decode(blob)
        assert caught.value.facts["key"] == "s/x"


def test_pyarrow_is_asked_for_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; import frazil.formats.legacy.g1_inventory; print('pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInputError, match="frazil\\[legacy\\]"):
        read(b"PAR1")


def test_tables_that_unpack_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"attrs": pa.array([b"{" + b" " * 5000 + b"}"] * 2000, pa.binary())})
    blob = parquet(table)
    assert len(blob) < 20_000
    assert decode_attribute_file(blob, key="a/x")[0] == {}
    monkeypatch.setattr("frazil.formats.legacy.g1_schemas.MAX_MESSAGE", 1 << 20)
    with pytest.raises(FormatError, match="more than is allowed"):
        decode_attribute_file(blob, key="a/x")
    monkeypatch.setattr("frazil.formats.legacy.g1_schemas.MAX_ROWS", 1000)
    with pytest.raises(FormatError, match="too many rows"):
        decode_attribute_file(blob, key="a/x")
