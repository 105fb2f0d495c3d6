"""MessagePack: bytes as the libraries wrote them, and bounds for everybody else's."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.legacy.messages import MAX_DEPTH, Single, pack_message, unpack_message

CHARACTERS = st.characters(codec="utf-8")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.floats(allow_nan=False, width=32).map(Single)
    | st.text(CHARACTERS, max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(CHARACTERS, max_size=4), inner)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "c0"),
        (True, "c3"),
        (-1, "ff"),
        (-40, "d0d8"),
        (7, "07"),
        (200, "ccc8"),
        (4096, "cd1000"),
        (2**64 - 1, "cf" + "ff" * 8),
        (-(2**63), "d3" + "80" + "00" * 7),
        (Single(1.0), "ca3f800000"),
        (2.5, "cb4004000000000000"),
        ("Group", "a547726f7570"),
        (b"T", "c40154"),
        ([1, 2, 200], "930102ccc8"),
        ({}, "80"),
        (
            [{"units": "K"}, {"a": [1, 2.5, None]}],
            "9281a5756e697473a14b81a1619301cb4004000000000000c0",
        ),
    ],
)
def test_values_have_these_bytes(value: Any, expected: str) -> None:  # noqa: ANN401
    packed = pack_message(value)
    assert packed.hex() == expected
    assert unpack_message(packed, key="k") == value


@given(VALUES)
def test_messages_come_back_as_they_were(value: Any) -> None:  # noqa: ANN401
    packed = pack_message(value)
    again = unpack_message(packed, key="k")
    assert again == value
    assert pack_message(again) == packed


@given(VALUES)
def test_another_reader_agrees(value: Any) -> None:  # noqa: ANN401
    found = msgpack.unpackb(pack_message(value), strict_map_key=False)
    assert found == value


@pytest.mark.parametrize("size", [15, 16, 31, 32, 255, 256, 65535, 65536])
def test_sizes_at_the_edges(size: int) -> None:
    for value in ("a" * size, b"a" * size, [0] * size, dict.fromkeys(range(size), 0)):
        packed = pack_message(value)
        assert packed == msgpack.packb(value)
        assert unpack_message(packed, key="k") == value


def test_lists_may_be_keys() -> None:
    raw = bytes.fromhex("8192029200015405")[:-1]
    assert unpack_message(raw, key="k") == {(2, (0, 1)): 0x54}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x92\x01",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xdb\xff\xff\xff\xffab",
        b"\xc6\x7f\xff\xff\xff",
        b"\xa1\xff",
        b"\xc1",
        b"\xd4\x01\x01",
        b"\x01\x02",
        b"\x82\x01\x01\x01\x01",
        b"\x81\x81\x01\x01\x01",
        b"\xcb\x00",
    ],
)
def test_damage_is_told(raw: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        unpack_message(raw, key="snapshots/x")
    assert caught.value.facts["key"] == "snapshots/x"


def test_lying_lengths_reserve_nothing() -> None:
    # Each list claims as many items as bytes follow: a reader that believes it needs gigabytes.
    nested = b"".join(b"\xdd" + struct.pack(">I", 10_000) for _ in range(100)) + b"\xc0" * 10_000
    with pytest.raises(FormatError):
        unpack_message(nested, key="k")


def test_depth_is_bounded() -> None:
    deep = b"\x91" * (MAX_DEPTH + 1) + b"\xc0"
    with pytest.raises(FormatError, match="too deep"):
        unpack_message(deep, key="k")
    assert unpack_message(b"\x91" * MAX_DEPTH + b"\xc0", key="k")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", object(), {"a": {1, 2}}])
def test_what_cannot_be_written_is_refused(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError, match="cannot hold"):
        pack_message(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_damage(raw: bytes) -> None:
    def told() -> str:
        try:
            return repr(unpack_message(raw, key="some/file"))
        except FormatError as error:
            return f"damage: {error}"

    first = told()
    assert first == told()
    assert not first.startswith("damage") or "some/file" in first
