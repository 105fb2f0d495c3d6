"""Manifests of G2 and G3 in every dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import unwrap
from frazil.formats.legacy.manifest_writing import encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import ManifestRecord
from frazil.ids import ChunkId, NodeId, crockford
from frazil.model.chunks import InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import (
    MANIFEST_ID,
    MESSAGE_DIALECTS,
    dumps,
    node_id,
    record_of,
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
FAR = VirtualRef("s3://b/f.nc", 4096, 100)


def read(blob: bytes, generation: LegacyGeneration = G3) -> ManifestRecord:
    """Decode a manifest."""
    return decode_manifest(blob, key="manifests/x", generation=generation)


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
    assert found.id == MANIFEST_ID
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
