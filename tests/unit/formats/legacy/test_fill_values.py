"""Fill values as the older generations pack them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.fill_values import UnfitError, fill_from_bytes, fill_to_bytes
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.zarr_fields import (
    parse_fields,
    stored_type,
    tagged_fill,
    untagged_fill,
)
from tests.unit.formats.legacy.samples import array_json
from tests.unit.formats.legacy.test_zarr_fields import ALL, G2, G3


def tagged(generation: LegacyGeneration, data_type: str, fill: Any) -> bytes:  # noqa: ANN401
    """The bytes of a fill value in MessagePack."""
    fields = parse_fields(generation, array_json(data_type=data_type, fill_value=fill)).array
    assert fields is not None
    return pack_message(tagged_fill(generation, fields))


@pytest.mark.parametrize(
    ("data_type", "fill", "packed", "raw"),
    [
        ("bool", True, "81a4426f6f6cc3", "01"),
        ("int8", -1, "81a4496e7438ff", "ff"),
        ("int64", -40, "81a5496e743634d0d8", "ffffffffffffffd8"),
        ("uint16", 7, "81a655496e74313607", "0007"),
        ("float16", 1.0, "81a7466c6f61743136ca3f800000", "3c00"),
        ("float32", "NaN", "81a7466c6f61743332ca7fc00000", "7fc00000"),
        ("float64", "NaN", "81a7466c6f61743634cb7ff8000000000000", "7ff8000000000000"),
        (
            "complex64",
            [1.0, "NaN"],
            "81a9436f6d706c6578363492ca3f800000ca7fc00000",
            "3f8000007fc00000",
        ),
    ],
)
def test_fill_values_have_these_bytes(data_type: str, fill: Any, packed: str, raw: str) -> None:  # noqa: ANN401
    assert tagged(G3, data_type, fill).hex() == packed
    assert tagged(G2, data_type, fill).hex() == packed
    assert fill_to_bytes(data_type, fill).hex() == raw
    assert fill_from_bytes(data_type, bytes.fromhex(raw)) == fill


def test_fill_values_of_some_generations_only() -> None:
    assert tagged(G2, "r16", [0, 255]).hex() == "81a752617742697473" + "9200ccff"
    assert tagged(G3, "string", "").hex() == "81a6537472696e67a0"
    assert tagged(G3, "bytes", [1, 2, 200]).hex() == "81a54279746573930102ccc8"
    assert tagged(G3, "bytes", "AQLI").hex() == "81a54279746573930102ccc8"
    assert fill_to_bytes("r16", [0, 255]) == b"\0\xff"
    assert fill_to_bytes("string", "") == b'""'
    assert fill_from_bytes("bytes", b"[1,2,200]") == "AQLI"


def test_half_precision_kept_in_four_bytes_is_read() -> None:
    assert fill_from_bytes("float16", bytes.fromhex("3f800000")) == 1.0


def test_no_fill_value_means_zero() -> None:
    assert fill_from_bytes("int32", None) == 0
    assert fill_from_bytes("complex64", None) == [0.0, 0.0]
    assert fill_from_bytes("string", None) == ""
    assert fill_from_bytes('{"name":"datetime"}', None) is None


@pytest.mark.parametrize(
    ("data_type", "spelling", "expected"),
    [
        ("float32", "0x7fc00000", "NaN"),
        ("float32", "0x3f800000", 1.0),
        ("float64", 3, 3.0),
        ("float64", "Infinity", "Infinity"),
        ("float32", "-Infinity", "-Infinity"),
        ("float32", 0.1, 0.10000000149011612),
        ("complex128", [1, "NaN"], [1.0, "NaN"]),
    ],
)
@pytest.mark.parametrize("generation", [G2, G3])
def test_spellings_of_numbers(
    generation: LegacyGeneration,
    data_type: str,
    spelling: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
) -> None:
    document = array_json(data_type=data_type, fill_value=spelling)
    fields = parse_fields(generation, document).array
    known = stored_type(data_type)
    assert fields is not None
    assert known is not None
    assert untagged_fill(known, tagged_fill(generation, fields)) == expected
    assert fill_from_bytes(data_type, fill_to_bytes(data_type, spelling)) == expected


@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        ("int8", 128),
        ("uint8", -1),
        ("int32", 1.5),
        ("int32", True),
        ("bool", 0),
        ("float32", 1e300),
        ("float16", 70000.0),
        ("float32", "0x7fc00001"),
        ("float32", "0x7fc0"),
        ("float64", "zero"),
        ("complex64", [1.0]),
        ("int8", None),
    ],
)
@pytest.mark.parametrize("generation", ALL)
def test_fill_values_that_do_not_fit_are_refused(
    generation: LegacyGeneration,
    data_type: str,
    fill: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_fields(generation, array_json(data_type=data_type, fill_value=fill))
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE
    assert caught.value.facts == {"generation": generation.name, "field": "fill_value"}


@given(st.sampled_from(["int16", "uint64", "float16", "float32", "float64"]), st.binary(max_size=9))
def test_any_bytes_are_a_fill_value_or_refused(data_type: str, raw: bytes) -> None:
    try:
        value = fill_from_bytes(data_type, raw)
    except UnfitError:
        return
    if data_type != "float16" or len(raw) == 2:
        assert fill_to_bytes(data_type, value) == raw
