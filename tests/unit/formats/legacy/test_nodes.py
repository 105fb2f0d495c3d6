"""Nodes of G2 and G3: their bytes, what does not fit, and damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.layouts import IdForm, dialect_layout
from frazil.formats.legacy.messages import pack_message, unpack_message
from frazil.formats.legacy.nodes import NodeWriter, file_id, read_extents, read_nodes, write_id
from frazil.formats.legacy.records import AttributeRef, Names, SnapshotRecord
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot
from frazil.formats.legacy.structs import LegacyDocument
from frazil.ids import ManifestId, NodeId, SnapshotId, crockford
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef
from tests.unit.formats.legacy.samples import (
    MESSAGE_DIALECTS,
    array_json,
    group_json,
    node_id,
    small_snapshot,
)

SCHEMAS = Path(__file__).parent / "schemas"


def read(blob: bytes, dialect: Dialect, id: SnapshotId | None = None) -> SnapshotRecord:
    """Decode a snapshot of the generation of a dialect."""
    return decode_snapshot(blob, key="snapshots/x", generation=dialect.generation, id=id)


def test_one_array_node_of_g2() -> None:
    record = small_snapshot(Dialect.G2_MSGPACK)
    body = encode_snapshot(record)
    node = (
        bytes.fromhex("a22f74 94 02 a22f74 81a6")
        + b"Inline"
        + bytes.fromhex("81a17501 81a5")
        + b"Array"
        + bytes.fromhex("92 98 920a0a a7")
        + b"float32"
        + bytes.fromhex("920505 a5")
        + b"Slash"
        + bytes.fromhex("81a7")
        + b"Float32"
        + bytes.fromhex("ca00000000 91 92 a5")
        + b"bytes"
        + bytes.fromhex("81a6")
        + b"endian"
        + b"\xa6little"
        + bytes.fromhex("c0 92 a179 c0 91 93 ba")
    )
    assert node in body
    assert body.endswith(b"\x90\x90")  # flags and extents
    assert b"\x91\x92\xb4" in encode_snapshot(small_snapshot(Dialect.G3A))


@pytest.mark.parametrize(
    "data_type",
    ["bool", "int8", "uint64", "float16", "float64", "complex64", "complex128", "r16"],
)
def test_fill_values_of_g2_validate(data_type: str) -> None:
    schema = json.loads((SCHEMAS / "snapshot.json").read_text())
    fills: dict[str, Any] = {"bool": True, "complex64": [0, 1], "complex128": [0, 1], "r16": [1, 2]}
    node = small_snapshot(Dialect.G2_JSON).snapshot.nodes[1]
    document = array_json(data_type=data_type, fill_value=fills.get(data_type, 1))
    record = small_snapshot(Dialect.G2_JSON)
    nodes = (record.snapshot.nodes[0], replace(node, user_data=document))
    record = replace(record, snapshot=replace(record.snapshot, nodes=nodes))
    blob = encode_snapshot(record)
    assert list(jsonschema.Draft7Validator(schema).iter_errors(json.loads(blob))) == []
    found = json.loads(read(blob, Dialect.G2_JSON).snapshot.nodes[1].user_data)
    assert found["data_type"] == data_type


def test_numbers_that_json_lacks_are_texts() -> None:
    record = small_snapshot(Dialect.G2_JSON)
    node = replace(record.snapshot.nodes[1], user_data=array_json(fill_value="NaN"))
    snapshot = replace(record.snapshot, nodes=(record.snapshot.nodes[0], node))
    blob = encode_snapshot(replace(record, snapshot=snapshot))
    assert b'{"Float32":"NaN"}' in blob
    for spelling in (b'"NaN"', b"null", b"NaN"):
        found = read(
            blob.replace(b'{"Float32":"NaN"}', b'{"Float32":%b}' % spelling), Dialect.G2_JSON
        )
        assert json.loads(found.snapshot.nodes[1].user_data)["fill_value"] == "NaN"


def test_unknown_extents_are_the_whole_grid() -> None:
    record = small_snapshot(Dialect.G3A)
    node = record.snapshot.nodes[1]
    assert isinstance(node, ArrayNode)
    narrow = replace(node, manifests=(ManifestRef(node.manifests[0].id, ((1, 2), (0, 1))),))
    snapshot = replace(record.snapshot, nodes=(record.snapshot.nodes[0], narrow))
    for dialect, expected in ((Dialect.G3A, ((0, 2), (0, 2))), (Dialect.G3I, ((1, 2), (0, 1)))):
        if dialect is Dialect.G3I:
            snapshot = replace(snapshot, nodes=(replace(narrow, id=NodeId(b"\7" * 8)),))
        blob = encode_snapshot(replace(record, snapshot=snapshot, dialect=dialect))
        found = read(blob, dialect).snapshot.nodes[-1]
        assert isinstance(found, ArrayNode)
        assert found.manifests[0].extents == expected


def test_random_node_ids_need_a_dialect_that_has_them() -> None:
    record = small_snapshot(Dialect.G3I)
    with pytest.raises(FormatError, match="has no number"):
        encode_snapshot(replace(record, dialect=Dialect.G3A))


def test_nodes_that_do_not_fit_are_refused() -> None:
    record = small_snapshot(Dialect.G3I)
    node = replace(record.snapshot.nodes[1], user_data=array_json(data_type="datetime64"))
    with pytest.raises(InvalidInputError) as caught:
        encode_snapshot(replace(record, snapshot=replace(record.snapshot, nodes=(node,))))
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, [10]),
        (0, [2**40, 10]),
        (1, "float128"),
        (1, ["bool"]),
        (2, [0, 5]),
        (3, "Comma"),
        (3, []),
        (4, {"Int8": 0}),
        (4, 0),
        (5, {}),
        (5, [[1, None]]),
        (7, ["a"]),
        (7, [1, 2]),
    ],
)
def test_damaged_array_metadata_is_told(field: int, value: Any) -> None:  # noqa: ANN401
    body = unpack_message(encode_snapshot(small_snapshot(Dialect.G3A)), key="k")
    body[10]["/t"][3]["Array"][0][field] = value
    if field == 0 and value[0] == 2**40:
        body[10]["/t"][3]["Array"][0][2] = [1, 5]
    with pytest.raises(FormatError):
        read(pack_message(body), Dialect.G3A)


def writer(dialect: Dialect) -> NodeWriter:
    return NodeWriter(dialect, dialect_layout(dialect), Names())


def document(dialect: Dialect) -> LegacyDocument:
    return LegacyDocument("snapshots/x", dialect.generation)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_nodes_come_back_in_the_order_of_the_model(dialect: Dialect) -> None:
    """Files have them component by component, in which `/a/b` is before `/a-b`."""
    paths = ["/", "/a", "/a-b", "/a/b", "/é"]
    nodes = [GroupNode(node_id(dialect, n), path, group_json()) for n, path in enumerate(paths, 1)]
    written = writer(dialect).nodes(reversed(nodes), {})
    assert [*written] == ["/", "/a", "/a/b", "/a-b", "/é"]
    found, refs = read_nodes(document(dialect), written)
    assert [*found] == nodes
    assert refs == {}


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_attributes_in_a_file_are_not_in_the_node(dialect: Dialect) -> None:
    width = 12 if dialect.generation is LegacyGeneration.G3 else 16
    ref = AttributeRef(crockford(bytes(range(width))), 2**32 - 1)
    node = GroupNode(node_id(dialect, 1), "/", group_json({"title": "x"}))
    written = writer(dialect).nodes([node], {"/": ref})
    assert "title" not in str(written)
    (found,), refs = read_nodes(document(dialect), written)
    assert refs == {"/": ref}
    assert json.loads(found.user_data)["attributes"] == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], ((0, 5), (0, 2))),
        ([[1, 0], [2, 1]], ((1, 2), (0, 1))),
        ({"start": [1, 0], "end": [2, 1]}, ((1, 2), (0, 1))),
        ([[], []], ((0, 5), (0, 2))),
    ],
)
def test_extents_are_first_and_last_edges(value: Any, expected: Any) -> None:  # noqa: ANN401
    found = document(Dialect.G3I)
    found.has_true_extents = True
    assert read_extents(found, value, (Dimension(10, 5), Dimension(4, 2))) == expected


@pytest.mark.parametrize("value", [[[1, 0]], [[1], [2, 1]], [[1, 0], [2, 1], [3, 3]], [1, 2], 5])
def test_other_extents_are_damage(value: Any) -> None:  # noqa: ANN401
    found = document(Dialect.G3I)
    found.has_true_extents = True
    with pytest.raises(FormatError):
        read_extents(found, value, (Dimension(10, 5), Dimension(4, 2)))


def test_ids_are_spelled_as_the_dialect_does() -> None:
    raw = bytes(range(12))
    id, name = ManifestId(raw), crockford(raw + b"abcd")
    assert write_id(IdForm.TEXT, id, name) == name
    assert write_id(IdForm.NUMBERS, id, name) == [*raw, *b"abcd"]
    assert write_id(IdForm.PACKED, id, str(id)) == [raw, []]
    assert file_id(IdForm.PACKED, str(id)) == [raw, []]
    for form, wrong in ((IdForm.NUMBERS, str(id)), (IdForm.PACKED, name), (IdForm.PACKED, "?")):
        with pytest.raises(InvalidInputError, match="is not the text of a"):
            file_id(form, wrong)
