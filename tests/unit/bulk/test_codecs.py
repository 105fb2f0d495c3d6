"""Filters, texts and plain bytes as zarr encodes them, and the sizes that chunks may have."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
import zarr.codecs
import zarr.codecs.numcodecs as numcodecs
from hypothesis import given
from hypothesis import strategies as st

from frazil import config
from frazil.bulk.chain import Chain
from frazil.bulk.codecs import Raw, array_codec, is_justified, require_justified
from frazil.errors import FormatError
from tests.support.arrays import documents, numbers, zarr_array
from tests.unit.bulk.samples import SHAPE, chain_of, is_harmless, quiet, written

FILTERS = {
    "delta": quiet(lambda: numcodecs.Delta(dtype="f4")),
    "bitround": quiet(lambda: numcodecs.BitRound(keepbits=12)),
    "quantize": quiet(lambda: numcodecs.Quantize(digits=3, dtype="f4")),
    "fixedscaleoffset": quiet(
        lambda: numcodecs.FixedScaleOffset(offset=1, scale=10, dtype="f4", astype="i4")
    ),
    "astype": quiet(lambda: numcodecs.AsType(encode_dtype="f8", decode_dtype="f4")),
    "transpose": zarr.codecs.TransposeCodec(order=(1, 0)),
}


@pytest.mark.parametrize("codec", FILTERS.values(), ids=FILTERS)
def test_filters_encode_as_zarr_does(codec: Any) -> None:
    chain, encoded, values = written(filters=codec)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    assert bytes(chain.encode(values) or b"") == encoded


def test_bits_are_packed_as_zarr_does() -> None:
    values = numbers(SHAPE) > 0
    codec = quiet(lambda: numcodecs.PackBits())
    chain, encoded, _ = written(dtype="bool", filters=codec, values=values)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    assert bytes(chain.encode(values) or b"") == encoded


@cache
def strings() -> tuple[Chain, bytes]:
    """A chunk of four texts."""
    texts = np.array([["a", "bcd"], ["", "é"]], np.dtypes.StringDType())
    array = zarr_array(shape=(2, 2), chunks=(2, 2), dtype=str, compressors=None)
    array[...] = texts
    return chain_of(array), documents(array)["c/0/0"]


@given(data=st.data())
def test_damaged_strings_are_format_errors(data: st.DataObject) -> None:
    chain, encoded = strings()
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    is_harmless(chain, bytes(damaged), (2, 2))
    assert not is_harmless(chain, struct.pack("<I", 2**32 - 1) + encoded[4:], (2, 2))
    assert not is_harmless(chain, encoded[:-1], (2, 2))


def test_strings_come_back_whatever_their_layout() -> None:
    chain, encoded = strings()
    texts = chain.decode(encoded, (2, 2))
    assert texts.tolist() == [["a", "bcd"], ["", "é"]]
    turned = np.asfortranarray(texts)
    assert bytes(chain.encode(turned) or b"") == encoded


def test_a_chunk_of_the_wrong_length_is_refused() -> None:
    codec = Raw(np.dtype("<i2"))
    assert codec.decode(bytes([1, 0, 2, 0]), (1, 2)).tolist() == [[1, 2]]
    for size in (0, 3, 5):
        with pytest.raises(FormatError, match="size") as caught:
            codec.decode(bytes(size), (1, 2))
        assert (caught.value.facts["found"], caught.value.facts["expected"]) == (size, 4)


def test_plain_chunks_are_the_memory_of_the_caller_where_its_layout_is_right() -> None:
    values = np.arange(6, dtype="<i2").reshape(2, 3)
    assert np.shares_memory(np.frombuffer(Raw(np.dtype("<i2")).encode(values), "u1"), values)
    swapped = Raw(np.dtype(">i2")).encode(values.T)
    assert bytes(swapped) == values.T.astype(">i2").tobytes()


def test_large_chunks_must_be_justified_by_their_bytes() -> None:
    limit = config.current().large_chunk_bytes
    expansion = config.current().max_expansion
    require_justified(limit, 1)
    require_justified(limit + 1, limit // expansion + 1)
    with pytest.raises(FormatError, match="large_chunk_bytes") as caught:
        require_justified(limit + 1, limit // expansion)
    assert caught.value.facts["decoded"] == limit + 1
    with config.set(large_chunk_bytes=100, max_expansion=10):
        assert is_justified(100, 0)
        assert is_justified(110, 11)
        assert not is_justified(111, 11)


@pytest.mark.parametrize("order", [(0, 0), (0, 2), (1,), (0, 1, 2)])
def test_a_transposition_needs_every_axis_once(order: tuple[int, ...]) -> None:
    assert array_codec("transpose", {"order": order}, np.dtype("f4"), 2) is None


def test_transposed_shapes_are_those_of_the_transposed_array() -> None:
    found = array_codec("transpose", {"order": [2, 0, 1]}, np.dtype("f4"), 3)
    assert found is not None
    codec, values = found[0], numbers((2, 3, 4))
    assert codec.encoded_shape((2, 3, 4)) == codec.encode(values).shape == (4, 2, 3)
    np.testing.assert_array_equal(codec.decode(codec.encode(values), (2, 3, 4)), values)


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 2), (8, 2), (9, 3)])
def test_packed_bits_take_a_byte_for_eight_and_one_for_their_count(count: int, size: int) -> None:
    found = array_codec("numcodecs.packbits", {}, np.dtype(bool), 1)
    assert found is not None
    codec, encoded = found
    assert encoded == np.uint8
    assert codec.encoded_shape((count,)) == (size,)
    assert codec.encode(np.ones(count, bool)).shape == (size,)


@pytest.mark.parametrize(
    ("name", "given_options"),
    [
        ("delta", {}),
        ("numcodecs.other", {}),
        ("numcodecs.bitround", {"keepbits": -1}),
        ("numcodecs.bitround", {"no_such_option": 1}),
    ],
)
def test_filters_that_cannot_be_made_are_left_to_zarr(
    name: str, given_options: dict[str, Any]
) -> None:
    assert array_codec(name, given_options, np.dtype("f4"), 1) is None
