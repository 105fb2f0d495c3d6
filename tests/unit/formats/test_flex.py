"""FlexBuffers values: official bytes, limits of what can be written, hostile buffers."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from flatbuffers import flexbuffers

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats import flex
from tests.support.effort import at_most

KEY = "repo"
OFFICIAL: list[tuple[object, str]] = [
    (None, "00 00 01"),
    (True, "01 68 01"),
    (False, "00 68 01"),
    (3, "03 08 01"),
    (256, "00 01 09 02"),
    (70000, "70 11 01 00 0a 04"),
    (-2, "fe 04 01"),
    (-129, "7f ff 05 02"),
    (1.5, "00 00 c0 3f 0e 04"),
    (0.1, "9a 99 99 99 99 99 b9 3f 0f 08"),
    ("v", "01 76 00 02 14 01"),
    ("", "00 00 01 14 01"),
    ([], "00 00 28 01"),
    ({}, "00 00 01 00 00 24 01"),
    ([1, 2, 3], "01 02 03 03 50 01"),
    ([True, False], "02 01 00 02 90 01"),
    ([1, -1], "02 01 ff 08 04 04 28 01"),
    (["a", "bc"], "01 61 00 02 62 63 00 02 07 05 14 14 04 28 01"),
    ({"is_root": True}, "69 73 5f 72 6f 6f 74 00 01 09 01 01 01 01 68 02 24 01"),
]
DOCUMENT: dict[str, Any] = {
    "numbers": [0, 255, 256, 65535, 65536, 2**32, 2**63, 2**64 - 1, -1, -128, -129, -(2**63)],
    "floats": [0.0, -0.0, 1e300, 5e-324, 0.1, 1.5],
    "typed": [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5], [-1, -2], [0.5, 0.25], [True] * 300],
    "nested": {"e": {"z": None, "a": [[], {}, [[None]], "é" * 300]}},
    "": "",
    "long" * 100: list(range(1000)),
}


@pytest.mark.parametrize(("value", "official"), OFFICIAL)
def test_writes_and_reads_what_the_official_package_writes(value: object, official: str) -> None:
    assert flex.dumps(value) == bytes.fromhex(official)
    assert same(flex.loads(bytes.fromhex(official), key=KEY), value)


def test_reads_the_smallest_official_configuration() -> None:
    raw = bytes.fromhex(
        "696e6c696e655f6368756e6b5f7468726573686f6c645f627974657300011e0101010504022401"
    )
    assert flex.loads(raw, key=KEY) == {"inline_chunk_threshold_bytes": 5}


def test_a_document_comes_back_unchanged() -> None:
    assert same(flex.loads(flex.dumps(DOCUMENT), key=KEY), DOCUMENT)


def test_another_implementation_reads_what_we_write_and_we_read_what_it_writes() -> None:
    assert json.dumps(flexbuffers.Loads(flex.dumps(DOCUMENT)), sort_keys=True) == json.dumps(
        DOCUMENT, sort_keys=True
    )
    theirs = bytes(flexbuffers.Dumps({"a": [1, 2.5, "x", None, True], "b": {"c": [[]]}}))
    assert flex.loads(theirs, key=KEY) == {"a": [1, 2.5, "x", None, True], "b": {"c": [[]]}}


def test_types_that_only_other_writers_use_are_read() -> None:
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.IndirectInt(-300)
        builder.IndirectUInt(300)
        builder.IndirectFloat(0.25)
        builder.Blob(b"\x00\xff")
        builder.Key("key")
        builder.TypedVectorFromElements(["k1", "k2"])
        builder.FixedTypedVectorFromElements([-1, 2, 3])
        builder.FixedTypedVectorFromElements([0.5, 2.5])
    assert flex.loads(bytes(builder.Finish()), key=KEY) == [
        -300,
        300,
        0.25,
        [0, 255],
        "key",
        ["k1", "k2"],
        [-1, 2, 3],
        [0.5, 2.5],
    ]


def test_half_floats_are_read() -> None:
    assert flex.loads(struct.pack("<e", 1.5) + bytes([flex.FLOAT << 2 | 1, 2]), key=KEY) == 1.5


def test_keys_in_any_script_are_sorted_by_their_bytes() -> None:
    value = {"é": 1, "z": 2, "a": 3, "日": 4}
    again = flex.loads(flex.dumps(value), key=KEY)
    assert again == value
    assert list(again) == ["a", "z", "é", "日"]


def test_infinities_and_nan_survive() -> None:
    values = flex.loads(flex.dumps([math.inf, -math.inf, math.nan]), key=KEY)
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {1: 2}, {"a\0b": 1}, 2**64, -(2**63) - 1, {"a": {"b": {1, 2}}}, "\ud800"],
)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        flex.dumps(value)
    assert caught.value.kind == ErrorKind.BAD_METADATA


def test_endless_nesting_is_refused_when_written() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(InvalidInputError, match="nested"):
        flex.dumps(value)


def test_a_vector_that_holds_itself_is_refused() -> None:
    # size 1, item: offset 0 back to the vector itself, type vector; root points to the item
    loop = bytes([1, 0, flex.VECTOR << 2, 2, flex.VECTOR << 2, 1])
    with pytest.raises(FormatError, match="damaged metadata value"):
        flex.loads(loop, key=KEY)


def test_vectors_that_share_their_items_do_not_unfold_without_end() -> None:
    # Thirty vectors, each of two items that both point to the vector before: 2**30 values.
    raw = bytearray([0])
    previous = 1
    for _ in range(30):
        raw.append(2)
        at = len(raw)
        raw += bytes([at - previous, at + 1 - previous, flex.VECTOR << 2, flex.VECTOR << 2])
        previous = at
    raw += bytes([len(raw) - previous, flex.VECTOR << 2, 1])
    with at_most(10_000), pytest.raises(FormatError, match="more values than the buffer"):
        flex.loads(bytes(raw), key=KEY)


def test_a_long_text_used_by_everybody_does_not_fill_the_memory() -> None:
    text = b"x" * 60000
    raw = bytearray(len(text).to_bytes(4, "little") + text + b"\0")
    raw += bytes(-len(raw) % 4)
    raw += (20000).to_bytes(4, "little")
    first = len(raw)
    for n in range(20000):
        raw += (first + 4 * n - 4).to_bytes(4, "little")
    raw += bytes([flex.STRING << 2 | 2]) * 20000
    raw += bytes(-len(raw) % 4)
    raw += (len(raw) - first).to_bytes(4, "little") + bytes([flex.VECTOR << 2 | 2, 4])
    with pytest.raises(FormatError, match="too often"):
        flex.loads(bytes(raw), key=KEY)


@pytest.mark.parametrize(
    "raw", [b"", b"\1", b"\1\1", b"\0\0\3", b"\0\0\x08", b"\xff\x14\1", b"\0\x24\1"]
)
def test_short_rubbish_is_named_with_its_file(raw: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        flex.loads(raw, key="some/key")
    assert "some/key" in str(caught.value)


def same(a: object, b: object) -> bool:
    """Equal, and of equal types all the way down."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b
