"""Snapshots of G2 and G3 in every dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.legacy.attributes import decode_attributes, with_attributes
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import unwrap
from frazil.formats.legacy.messages import pack_message, unpack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import AttributeRef, SnapshotRecord
from frazil.formats.legacy.snapshots import (
    MAX_HISTORY,
    decode_snapshot,
    encode_snapshot,
    next_node_number,
    root_record,
    successor,
)
from frazil.ids import SnapshotId, crockford
from frazil.model.history import Snapshot
from frazil.model.nodes import ArrayNode, Dimension, GroupNode
from tests.unit.formats.legacy.samples import (
    ATTRIBUTES,
    MESSAGE_DIALECTS,
    SEGMENTS,
    TEXTS,
    TIMES,
    array_nodes,
    dumps,
    encode_attributes,
    group_json,
    node_id,
    small_snapshot,
)

SCHEMAS = Path(__file__).parent / "schemas"
ROOT_3A = (
    bytes.fromhex("9b008090900000 90 93 b4")
    + b"CSXTVQ7X32VFDE466BD0"
    + b"\xbe2024-10-11T23:23:33.477087302Z"
    + b"\xb6Repository initialized"
    + b"\xbe2024-10-11T23:23:33.477092600Z\x80\x80"
)
WIDE_TEXT = crockford(bytes(range(16)))


def read(blob: bytes, dialect: Dialect, id: SnapshotId | None = None) -> SnapshotRecord:
    """Decode a snapshot of the generation of a dialect."""
    return decode_snapshot(blob, key="snapshots/x", generation=dialect.generation, id=id)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_snapshots_come_back(dialect: Dialect) -> None:
    record = small_snapshot(dialect)
    blob = encode_snapshot(record)
    found = read(blob, dialect)
    # Virtual references tell 3c from 3b; a snapshot cannot.
    expected = Dialect.G3B if dialect is Dialect.G3C else dialect
    assert found == replace(record, dialect=expected)
    assert encode_snapshot(replace(found, dialect=dialect)) == blob


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
@settings(max_examples=12)
@given(data=st.data())
def test_any_snapshot_comes_back(dialect: Dialect, data: st.DataObject) -> None:
    draw = data.draw
    paths = draw(st.sets(SEGMENTS, max_size=3))
    nodes = tuple(
        draw(array_nodes(dialect, number, f"/{path}"))
        if draw(st.booleans())
        else GroupNode(node_id(dialect, number), f"/{path}", group_json(draw(ATTRIBUTES)))
        for number, path in enumerate(sorted(paths, key=str.encode), 1)
    )
    base = small_snapshot(dialect)
    snapshot = replace(
        base.snapshot,
        nodes=nodes,
        message=draw(TEXTS),
        metadata=draw(ATTRIBUTES),
        manifest_files=(),
    )
    when = draw(TIMES)
    record = replace(
        base, snapshot=replace(snapshot, flushed_at=when // 1000), written_at=max(when, 1)
    )
    found = read(encode_snapshot(record), dialect)
    assert found.snapshot.nodes == nodes
    assert found.snapshot.message == snapshot.message
    assert found.snapshot.metadata == snapshot.metadata
    assert found.snapshot.parent_id == snapshot.parent_id
    assert found.snapshot.flushed_at == record.written_at // 1000
    assert found.history == record.history


def test_a_real_root_snapshot() -> None:
    assert len(ROOT_3A) == 117
    id = SnapshotId.parse("H01K0XJPGVW4HFX470AG")
    found = read(ROOT_3A, Dialect.G3A, id)
    assert found.snapshot.id == id
    assert found.stored_id == SnapshotId.parse("CSXTVQ7X32VFDE466BD0")
    assert found.snapshot.message == "Repository initialized"
    assert found.written_at % 10**9 == 477087302
    assert encode_snapshot(found) == ROOT_3A


def test_documents_of_g2_validate() -> None:
    schema = json.loads((SCHEMAS / "snapshot.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    record = small_snapshot(Dialect.G2_JSON)
    document = json.loads(encode_snapshot(record))
    assert list(validator.iter_errors(document)) == []
    assert len(document["metadata"]["id"]) == 16
    with_ref = replace(record, attributes={"/t": AttributeRef(WIDE_TEXT, 1)})
    document = json.loads(encode_snapshot(with_ref))
    assert list(validator.iter_errors(document)) == []
    assert document["nodes"]["/t"]["user_attributes"]["Ref"]["location"] == 1
    del document["metadata"]
    assert list(validator.iter_errors(document))


def test_ids_of_sixteen_bytes_keep_their_names() -> None:
    record = small_snapshot(Dialect.G2_MSGPACK)
    raw = json.loads(encode_snapshot(replace(record, dialect=Dialect.G2_JSON)))
    raw["metadata"]["id"] = list(range(16))
    raw["short_term_history"][0]["id"] = "0f" * 16
    raw["nodes"]["/t"]["node_data"]["Array"][1][0]["object_id"] = WIDE_TEXT
    found = read(dumps(raw), Dialect.G2_JSON)
    assert found.snapshot.id == SnapshotId(bytes(range(12)))
    assert found.names.snapshots[found.snapshot.id] == WIDE_TEXT
    assert found.snapshot.parent_id is not None
    assert found.names.snapshots[found.snapshot.parent_id] == crockford(b"\x0f" * 16)
    again = json.loads(encode_snapshot(found))
    assert again["metadata"]["id"] == list(range(16))
    assert again["short_term_history"][0]["id"] == [15] * 16
    assert again["nodes"]["/t"]["node_data"]["Array"][1][0]["object_id"] == list(range(16))


@pytest.mark.parametrize("dialect", [Dialect.G3A, Dialect.G3E, Dialect.G3I])
def test_maps_with_names_are_structs_too(dialect: Dialect) -> None:
    from frazil.formats.legacy.snapshots import FIELDS

    record = small_snapshot(dialect)
    body = unwrap(encode_snapshot(record), None, key="k")[1]
    values = unpack_message(body, key="k")
    named = pack_message(dict(zip(FIELDS[len(values)], values, strict=True)))
    assert read(named, dialect).snapshot == record.snapshot


def test_snapshots_of_nodes_alone() -> None:
    body = unpack_message(encode_snapshot(small_snapshot(Dialect.G2_MSGPACK)), key="k")
    id = SnapshotId(bytes([9] * 12))
    found = read(pack_message([body[6]]), Dialect.G2_MSGPACK, id)
    assert found.dialect is Dialect.G2_NODES
    assert found.snapshot.id == id
    assert [node.path for node in found.snapshot.nodes] == ["/", "/t"]
    with pytest.raises(FormatError):
        encode_snapshot(found)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_attributes_in_files(dialect: Dialect) -> None:
    items = ({"units": "K"}, {"a": [1, 2.5, None]})
    blob = encode_attributes(items, dialect)
    assert decode_attributes(blob, key="a/x", dialect=dialect) == items
    is_wide = dialect.generation is LegacyGeneration.G2
    file = WIDE_TEXT if is_wide else crockford(bytes(range(12)))
    record = replace(small_snapshot(dialect), attributes={"/t": AttributeRef(file, 1)})
    found = read(encode_snapshot(record), dialect)
    assert found.attributes == record.attributes
    assert found.attribute_files == (file,)
    resolved = with_attributes(found, {file: items})
    assert resolved.unresolved == frozenset()
    assert json.loads(resolved.snapshot.nodes[1].user_data)["attributes"] == items[1]
    with pytest.raises(FormatError, match="shorter"):
        with_attributes(found, {file: items[:1]})


def test_bytes_of_an_attribute_file() -> None:
    items: list[dict[str, Any]] = [{"units": "K"}, {"a": [1, 2.5, None]}]
    blob = encode_attributes(items, Dialect.G2_MSGPACK)
    assert blob.hex() == "9281a5756e697473a14b81a1619301cb4004000000000000c0"
    assert decode_attributes(b"\x81\xa1a\x01", key="a/x", dialect=Dialect.G3A) == ({"a": 1},)
    assert decode_attributes(b'{"a":1}', key="a/x", dialect=Dialect.G2_JSON) == ({"a": 1},)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_a_commit_follows_from_the_last(dialect: Dialect) -> None:
    first = root_record(
        Snapshot(SnapshotId(bytes(12)), None, (), 1_000_000, "Repository initialized", {}, ()),
        dialect,
    )
    second = successor(first, replace(small_snapshot(dialect).snapshot, flushed_at=2_000_000))
    third = successor(second, replace(second.snapshot, id=SnapshotId.random(), message="third"))
    found = read(encode_snapshot(third), dialect)
    assert found.snapshot.parent_id == second.snapshot.id
    if dialect in (Dialect.G3H, Dialect.G3I):
        assert read(encode_snapshot(first), dialect).snapshot.metadata == {"__root": True}
        return
    assert found.total_parents == 2
    assert [each.id for each in found.history] == [second.snapshot.id, first.snapshot.id]


def test_histories_are_cut() -> None:
    record = small_snapshot(Dialect.G2_JSON)
    for _ in range(MAX_HISTORY + 5):
        record = successor(record, record.snapshot)
    assert len(record.history) == MAX_HISTORY
    assert record.total_parents == MAX_HISTORY + 7


def test_unchanged_nodes_keep_their_attribute_files() -> None:
    ref = AttributeRef(WIDE_TEXT, 0)
    record = replace(small_snapshot(Dialect.G2_JSON), attributes={"/": ref, "/t": ref})
    changed = replace(record.snapshot.nodes[0], user_data=group_json({"other": 1}))
    snapshot = replace(record.snapshot, nodes=(changed, record.snapshot.nodes[1]))
    assert successor(record, snapshot).attributes == {"/t": ref}


def test_new_nodes_are_numbered() -> None:
    assert next_node_number([]) == 1
    assert next_node_number([GroupNode(numbered_node(4), "/", group_json())]) == 5


def test_dimensions_follow_from_the_fields() -> None:
    node = small_snapshot(Dialect.G3I).snapshot.nodes[1]
    assert isinstance(node, ArrayNode)
    assert node.shape == (Dimension(10, 2), Dimension(10, 2))


def break_field(record: SnapshotRecord, position: int, value: Any) -> bytes:  # noqa: ANN401
    """A snapshot with one field exchanged."""
    body = unpack_message(unwrap(encode_snapshot(record), None, key="k")[1], key="k")
    body[position] = value
    return pack_message(body)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (2, 7),
        (2, [["nonsense", 0]]),
        (4, -1),
        (6, [1]),
        (7, ["x", "y", "z"]),
        (8, "yesterday"),
        (9, {1: 2}),
        (9, {"a": b"bytes"}),
        (10, {"t": [1, "t", None, "Group"]}),
        (10, {"/a": [1, "/b", None, "Group"]}),
        (10, {"/a": [1, "/a", None, "Leaf"]}),
        (10, {"/a": [-1, "/a", None, "Group"]}),
        (10, {"/a": [1, "/a", {"Inline": 5}, "Group"]}),
        (10, {"/a": [1, "/a", {"Else": 5}, "Group"]}),
        (10, {"/a": [1, "/a", None, {"Array": [[], []]}]}),
        (10, {"/a/": [1, "/a/", None, "Group"]}),
    ],
)
def test_damaged_fields_are_told(position: int, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError) as caught:
        read(break_field(small_snapshot(Dialect.G3A), position, value), Dialect.G3A)
    assert caught.value.facts["key"] == "snapshots/x"


def test_halves_of_characters_are_told() -> None:
    blob = encode_snapshot(small_snapshot(Dialect.G2_JSON))
    broken = blob.replace(b'"/t"', rb'"/\ud800"').replace(b'"second"', rb'"\ud800"')
    for raw in (
        broken,
        blob.replace(b'"second"', rb'"\ud800"'),
        blob.replace(b'"y"', rb'"\ud800"'),
    ):
        with pytest.raises(FormatError, match="not Unicode"):
            read(raw, Dialect.G2_JSON)
