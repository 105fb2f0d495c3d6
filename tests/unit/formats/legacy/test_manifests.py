"""Manifests of G2 and G3 in every dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import unwrap
from frazil.formats.legacy.layouts import refined
from frazil.formats.legacy.manifest_writing import check_reference, encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import ManifestRecord
from frazil.ids import ChunkId, ManifestId, NodeId, crockford
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import (
    MESSAGE_DIALECTS,
    dumps,
    node_id,
    rows_of,
    tables,
)

SCHEMAS = Path(__file__).parent / "schemas"
G2, G3 = LegacyGeneration.G2, LegacyGeneration.G3
WIDE_TEXT = "40GJ48S44MK2EA1958NJRB9E5W"
LIBRARY = (
    bytes.fromhex("91 83 92 02 92 00 00 81 a3 52 65 66 93 ba")
    + WIDE_TEXT.encode()
    + bytes.fromhex("00 64 92 02 92 00 01 81 a6 49 6e 6c 69 6e 65 c4 01 54")
    + bytes.fromhex("92 02 92 01 00 81 a7")
    + b"Virtual"
    + bytes.fromhex("93 81 a8")
    + b"Absolute\xabs3://b/f.nc"
    + bytes.fromhex("cd 10 00 64")
)
NESTED = bytes.fromhex(
    "92 92 c4 0c 000102030405060708090a0b 90 81 92 c4 08 0001020304050607 90"
) + bytes.fromhex("81 92 00 01 81 a6 49 6e 6c 69 6e 65 c4 01 54")
ID = ManifestId(bytes(range(12)))
FAR = VirtualRef("s3://b/f.nc", 4096, 100)


def read(blob: bytes, generation: LegacyGeneration = G3) -> ManifestRecord:
    """Decode a manifest."""
    return decode_manifest(blob, key="manifests/x", generation=generation)


def record_of(dialect: Dialect, found: dict[NodeId, ChunkTable]) -> ManifestRecord:
    """A record to be written."""
    has_id = dialect in (Dialect.G3G, Dialect.G3H, Dialect.G3I)
    return ManifestRecord(found, dialect, ID if has_id else None)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
@settings(max_examples=12)
@given(data=st.data())
def test_manifests_come_back(dialect: Dialect, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(1, 200), max_size=3))
    given_tables = {node_id(dialect, n): data.draw(tables(dialect)) for n in numbers}
    record = record_of(dialect, given_tables)
    blob = encode_manifest(record)
    found = read(blob, dialect.generation)
    assert found.id == record.id
    assert found.tables.keys() == given_tables.keys()
    for node, table in given_tables.items():
        assert rows_of(found.tables[node]) == rows_of(table)
    assert not found.names
    assert not found.strays
    again = ManifestRecord(found.tables, dialect, found.id)
    assert unwrap(encode_manifest(again), None, key="k") == unwrap(blob, None, key="k")


def test_a_library_manifest_of_g2() -> None:
    assert len(LIBRARY) == 99
    found = read(LIBRARY, G2)
    node = numbered_node(2)
    chunk = ChunkId(bytes(range(32, 44)))
    assert rows_of(found.tables[node]) == [
        ((0, 0), NativeRef(chunk, 0, 100)),
        ((0, 1), InlineRef(b"T")),
        ((1, 0), FAR),
    ]
    assert found.dialect is Dialect.G2_MSGPACK
    assert found.names == {chunk: WIDE_TEXT}
    assert encode_manifest(found) == LIBRARY


def test_locations_were_bare_texts_once() -> None:
    old = LIBRARY.replace(b"\x81\xa8Absolute\xab", b"\xab")
    assert rows_of(read(old, G2).tables[numbered_node(2)])[-1][1] == FAR


def test_a_nested_manifest() -> None:
    found = read(NESTED)
    assert found.id == ID
    assert found.dialect is Dialect.G3I
    assert rows_of(found.tables[NodeId(bytes(range(8)))]) == [((0, 1), InlineRef(b"T"))]
    assert unwrap(encode_manifest(found), None, key="k")[1] == NESTED


def test_an_empty_manifest() -> None:
    found = read(bytes.fromhex("93008080"))
    assert found.tables == {}
    assert encode_manifest(found) == bytes.fromhex("93008080")


def test_a_fragment_of_a_real_manifest() -> None:
    raw = (
        bytes.fromhex("93 00 80 82 92 03 92 00 01 81 a3 52 65 66 93 b4")
        + b"TGKWEJAE6BYZQFFKNVK0"
        + bytes.fromhex("00 64 92 04 91 00 81 a6 49 6e 6c 69 6e 65 c4 01 54")
    )
    found = read(raw)
    assert found.dialect is Dialect.G3A
    chunk = ChunkId.parse("TGKWEJAE6BYZQFFKNVK0")
    assert rows_of(found.tables[numbered_node(3)]) == [((0, 1), NativeRef(chunk, 0, 100))]
    assert encode_manifest(found) == raw


def test_references_of_other_ranks_are_kept_apart() -> None:
    payload = {"Inline": b"T"}
    keys = [(3, (0, 0)), (3, (5, 0)), (3, (0,)), (3, (1, 1)), (3, ())]
    found = read(pack_message([0, {}, dict.fromkeys(keys, payload)]))
    node = numbered_node(3)
    assert found.num_refs == 5
    assert [coords for coords, _ in rows_of(found.tables[node])] == [(0, 0), (1, 1), (5, 0)]
    strays = [[coords for coords, _ in rows_of(table)] for table in found.strays[node]]
    assert sorted(strays) == [[()], [(0,)]]
    assert [*found.tables] == [node]


def test_documents_of_g2_validate() -> None:
    schema = json.loads((SCHEMAS / "manifest.json").read_text())
    refs: list[tuple[tuple[int, ...], ChunkRef]] = [
        ((0, 0), NativeRef(ChunkId(bytes(12)), 1, 2)),
        ((0, 1), InlineRef(b"T")),
        ((1, 0), FAR),
    ]
    record = record_of(
        Dialect.G2_JSON,
        {
            numbered_node(2): ChunkTable.from_refs(2, refs),
            numbered_node(3): ChunkTable.from_refs(0, [((), InlineRef(b""))]),
        },
    )
    document = json.loads(encode_manifest(record))
    jsonschema.Draft7Validator(schema).validate(document)
    assert set(document["chunks"]) == {"2/0/0", "2/0/1", "2/1/0", "3"}
    assert document["chunks"]["2/0/1"] == {"Inline": [84]}


def test_json_keys_may_be_json() -> None:
    found = read(dumps({"chunks": {"[2,[0,1]]": {"Inline": [84]}}}), G2)
    assert rows_of(found.tables[numbered_node(2)]) == [((0, 1), InlineRef(b"T"))]


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1, 2, 3, 4, 5],
        [0, {}, []],
        [0, {}, {(1, (0,)): 5}],
        [0, {}, {(1, (0,)): {"Inline": "text"}}],
        [0, {}, {(1, (0,)): {"Ref": ["nonsense", 0, 1]}}],
        [0, {}, {(1, (0,)): {"Ref": [crockford(bytes(12)), -1, 1]}}],
        [0, {}, {(1, (0,)): {"Ref": [crockford(bytes(12)), 2**64 - 1, 1]}}],
        [0, {}, {(1, (0,)): {"Virtual": ["u", 0, 1, {"Sum": 1}]}}],
        [0, {}, {(1, (0,)): {"Virtual": [7, 0, 1]}}],
        [0, {}, {(1, (0,)): {"Other": b""}}],
        [0, {}, {(1, (2**32,)): {"Inline": b""}}],
        [0, {}, {(1, (-1,)): {"Inline": b""}}],
        [0, {}, {(1, ("a",)): {"Inline": b""}}],
        [0, {}, {("x", (0,)): {"Inline": b""}}],
        [0, {}, {(1, tuple(range(2000))): {"Inline": b""}}],
        [["nonsense"], {}],
    ],
)
def test_damage_is_told(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError) as caught:
        read(pack_message(value))
    assert caught.value.facts["key"] == "manifests/x"


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"chunks": []},
        {"chunks": {"x": {"Inline": []}}},
        {"chunks": {"1/-1": {"Inline": []}}},
        {"chunks": {"1/²": {"Inline": []}}},
        {"chunks": {"[1": {"Inline": []}}},
        {"chunks": {"[1,2,3]": {"Inline": []}}},
        {"chunks": {"1/0": {"Inline": [256]}}},
        {"chunks": {"1/0": {"Inline": []}, "[1,[0]]": {"Inline": []}}},
    ],
)
def test_damage_in_json_is_told(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError):
        read(dumps(value), G2)


def test_bytes_after_the_end_are_told() -> None:
    with pytest.raises(FormatError, match="after the end"):
        read(LIBRARY + b"\0", G2)
    for size in range(len(LIBRARY)):
        with pytest.raises(FormatError):
            read(LIBRARY[:size], G2)


def test_two_names_for_one_id_are_told() -> None:
    other = crockford(bytes(range(32, 44)) + b"abcd")
    twice = LIBRARY.replace(
        b"\x81\xa6Inline\xc4\x01T", b"\x81\xa3Ref\x93\xba" + other.encode() + b"\0\1"
    )
    with pytest.raises(FormatError, match="one id"):
        read(twice, G2)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_checksums_need_a_dialect_that_has_them(dialect: Dialect) -> None:
    ref = VirtualRef("s3://b/f", 0, 1, "etag")
    record = record_of(dialect, {node_id(dialect, 1): ChunkTable.from_refs(1, [((0,), ref)])})
    if dialect.has_checksums:
        check_reference(dialect, ref)
        found = read(encode_manifest(record), dialect.generation)
        assert rows_of(found.tables[node_id(dialect, 1)]) == [((0,), ref)]
        return
    for refused in (lambda: check_reference(dialect, ref), lambda: encode_manifest(record)):
        with pytest.raises(InvalidInputError) as caught:
            refused()
        assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE


def test_manifests_tell_what_snapshots_do_not() -> None:
    plain = ManifestRecord({}, Dialect.G3B)
    later = ManifestRecord({}, Dialect.G3B, has_checksums=True)
    assert refined(Dialect.G3B, [plain, later]) is Dialect.G3C
    assert refined(Dialect.G3B, [plain]) is Dialect.G3B
    assert refined(Dialect.G3I, [later]) is Dialect.G3I


def test_a_manifest_without_id_where_one_is_needed() -> None:
    with pytest.raises(FormatError, match="must have an id"):
        encode_manifest(ManifestRecord({}, Dialect.G3I))


def test_parquet_is_not_written_here() -> None:
    with pytest.raises(FormatError):
        encode_manifest(ManifestRecord({}, Dialect.G1))
