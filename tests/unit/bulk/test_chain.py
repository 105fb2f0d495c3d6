"""Chains of codecs: what they know in advance, and what damaged bytes do to them."""
# Values, codecs and selections are of all kinds here:

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
import zarr.codecs
from hypothesis import given
from hypothesis import strategies as st

from frazil.bulk.chain import Chain
from tests.support.arrays import zarr_array
from tests.unit.bulk.samples import SHAPE, chain_of, is_harmless, written


def test_chains_tell_how_they_can_be_read() -> None:
    raw, packed = written()[0], written(compressors=zarr.codecs.ZstdCodec())[0]
    swapped = written(serializer=zarr.codecs.BytesCodec(endian="big"))[0]
    assert (raw.is_raw, raw.is_direct, raw.encoded_size(SHAPE)) == (True, True, 192)
    assert (packed.is_raw, packed.is_direct, packed.encoded_size(SHAPE)) == (False, True, None)
    assert (swapped.is_raw, swapped.is_direct) == (False, False)


@pytest.mark.parametrize("value", [0.0, -0.0, np.nan, 7.0])
def test_fill_values_are_compared_bit_by_bit(value: float) -> None:
    chain = chain_of(zarr_array(shape=(4,), chunks=(4,), dtype="f4", fill_value=0.0))
    assert chain.is_fill(np.full(4, value, "f4")) == (str(value) == "0.0")


# --- damage ---


@cache
def sharded(place: str) -> tuple[Chain, bytes, Any]:
    """A shard of four inner chunks, with its index at one end."""
    return written(chunks=(3, 4), shards={"shape": SHAPE, "index_location": place})


@given(data=st.data())
def test_damaged_shards_are_format_errors(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(("start", "end")))
    chain, encoded, values = sharded(place)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    damaged = bytearray(encoded)
    index = slice(0, 68) if place == "start" else slice(len(encoded) - 68, len(encoded))
    at = data.draw(st.integers(index.start, index.stop - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    assert not is_harmless(chain, bytes(damaged))  # the index has a checksum
    assert not is_harmless(chain, encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_an_index_that_points_outside_its_shard_is_refused() -> None:
    plain = [zarr.codecs.BytesCodec(endian="little")]
    codec = zarr.codecs.ShardingCodec(chunk_shape=(3, 4), codecs=plain, index_codecs=plain)
    chain, encoded, values = written(serializer=codec)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    for offset, length in (
        (2**63, 48),
        (2**64 - 1, 48),
        (0, 2**64 - 1),
        (2**64 - 8, 48),
        (210, 48),
    ):
        index = struct.pack("<2Q", offset, length) + encoded[-48:]
        assert not is_harmless(chain, encoded[:-64] + index)
