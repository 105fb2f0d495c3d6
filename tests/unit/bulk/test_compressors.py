"""Compressors and checksums: they come back, and damaged bytes are told from others."""
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

from frazil.bulk.chain import Chain
from frazil.bulk.codecs import ByteCodec
from frazil.bulk.compressors import byte_codec
from frazil.errors import FormatError
from tests.unit.bulk.samples import SHAPE, is_harmless, quiet, written

COMPRESSORS = {
    "zstd": zarr.codecs.ZstdCodec(),
    "zstd with checksum": zarr.codecs.ZstdCodec(checksum=True),
    "gzip": zarr.codecs.GzipCodec(),
    "blosc": zarr.codecs.BloscCodec(cname="lz4"),
    "crc32c": zarr.codecs.Crc32cCodec(),
    "zlib": quiet(lambda: numcodecs.Zlib()),
    "lz4": quiet(lambda: numcodecs.LZ4()),
    "bz2": quiet(lambda: numcodecs.BZ2()),
    "lzma": quiet(lambda: numcodecs.LZMA()),
    "adler32": quiet(lambda: numcodecs.Adler32()),
    "shuffle": quiet(lambda: numcodecs.Shuffle(elementsize=4)),
}


@pytest.mark.parametrize("compressor", COMPRESSORS.values(), ids=COMPRESSORS)
def test_compressed_chunks_come_back(compressor: Any) -> None:
    chain, encoded, values = written(compressors=compressor)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    np.testing.assert_array_equal(chain.decode(chain.encode(values) or b"", SHAPE), values)
    out = np.zeros(SHAPE, "f4")
    chain.decode_into(encoded, out)
    np.testing.assert_array_equal(out, values)


@cache
def compressed(name: str) -> tuple[Chain, bytes, Any]:
    """A chunk that every example may damage anew."""
    return written(compressors=COMPRESSORS[name])


@pytest.mark.parametrize("name", COMPRESSORS)
@given(data=st.data())
def test_damaged_bytes_are_format_errors(name: str, data: st.DataObject) -> None:
    chain, encoded, _ = compressed(name)
    damaged = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
    is_harmless(chain, bytes(damaged))
    assert not is_harmless(chain, encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@pytest.mark.parametrize("name", ["zstd with checksum", "crc32c", "gzip", "adler32"])
def test_checksums_find_a_flipped_bit(name: str) -> None:
    values = np.random.default_rng(0).random(SHAPE).astype("f4")  # nothing to compress
    chain, encoded, _ = written(compressors=COMPRESSORS[name], values=values)
    damaged = bytearray(encoded)
    damaged[len(damaged) // 2] ^= 1
    assert not is_harmless(chain, bytes(damaged))


def test_sizes_that_headers_claim_are_not_believed() -> None:
    blosc, encoded, _ = written(compressors=zarr.codecs.BloscCodec(cname="lz4"))
    for size, stored in ((2**31 - 1, len(encoded)), (192, 2**31 - 1), (191, len(encoded))):
        header = encoded[:4] + struct.pack("<I", size) + encoded[8:12] + struct.pack("<I", stored)
        assert not is_harmless(blosc, header + encoded[16:])
    lz4, encoded, _ = written(compressors=COMPRESSORS["lz4"])
    assert not is_harmless(lz4, struct.pack("<I", 2**31 - 1) + encoded[4:])


# --- each codec alone ---

U1 = np.dtype("u1")
PACKERS: dict[str, dict[str, Any]] = {
    "zstd": {},
    "gzip": {},
    "blosc": {"cname": "lz4"},
    "crc32c": {},
    "numcodecs.zlib": {},
    "numcodecs.lz4": {},
    "numcodecs.bz2": {},
    "numcodecs.lzma": {},
    "numcodecs.blosc": {},
    "numcodecs.fletcher32": {},
    "numcodecs.shuffle": {"elementsize": 2},
}


def made(name: str, options: dict[str, Any] | None = None, dtype: Any = U1) -> ByteCodec:
    """A codec that is known."""
    found = byte_codec(name, options or {}, np.dtype(dtype))
    assert found is not None
    return found


@pytest.mark.parametrize("name", PACKERS)
def test_no_more_bytes_than_the_limit_are_decoded(name: str) -> None:
    codec, data = made(name, PACKERS[name]), bytes(range(200)) * 50
    encoded = codec.encode(data)
    assert len(encoded) <= codec.limit(len(data))
    assert codec.encoded_size(len(data)) in (None, len(encoded))
    assert bytes(codec.decode(encoded, len(data))) == data
    out = bytearray(len(data))
    codec.decode_into(encoded, memoryview(out))
    assert out == data
    for size in (len(data) - 1, len(data) + 1, 0):
        with pytest.raises(FormatError, match="damaged"):
            codec.decode_into(encoded, memoryview(bytearray(size)))
    with pytest.raises(FormatError):
        codec.decode(encoded, len(data) - 1)


@pytest.mark.parametrize("name", PACKERS)
def test_a_chunk_without_bytes_is_refused_where_there_must_be_some(name: str) -> None:
    codec = made(name, PACKERS[name])
    if name == "numcodecs.shuffle":
        assert bytes(codec.decode(b"", 10)) == b""
        return
    with pytest.raises(FormatError):
        codec.decode(b"", 10)


def test_streams_may_follow_each_other_and_end_in_zeros() -> None:
    codec = made("gzip")
    two = bytes(codec.encode(b"first")) + bytes(codec.encode(b"second"))
    assert codec.decode(two, 11) == b"firstsecond"
    assert codec.decode(two + bytes(7), 11) == b"firstsecond"
    with pytest.raises(FormatError):
        codec.decode(two, 10)
    with pytest.raises(FormatError):
        codec.decode(two + b"rest", 100)


def test_a_blosc_header_must_tell_the_length_of_its_chunk() -> None:
    codec = made("blosc")
    encoded = bytes(codec.encode(bytes(100)))
    with pytest.raises(FormatError, match="shorter than a Blosc header"):
        codec.decode(encoded[:15], 100)
    with pytest.raises(FormatError, match="header says") as caught:
        codec.decode(encoded + b"x", 100)
    assert caught.value.facts["said"] == len(encoded)


def test_a_chunk_shorter_than_its_checksum_is_refused() -> None:
    for size in range(4):
        with pytest.raises(FormatError):
            made("crc32c").decode(bytes(size), 10)
    assert bytes(made("crc32c").decode(bytes(4), 10)) == b""  # the checksum of nothing is zero


def test_elements_tell_the_size_of_what_is_shuffled() -> None:
    assert bytes(made("numcodecs.shuffle", dtype="<u2").encode(b"abcd")) == b"acbd"
    assert bytes(made("numcodecs.shuffle", {"elementsize": 1}, "<u2").encode(b"abcd")) == b"abcd"
    assert bytes(made("blosc", dtype="<u8").encode(bytes(800)))[3] == 8
    assert bytes(made("blosc", {"typesize": 4}, "<u8").encode(bytes(800)))[3] == 4


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lz4", {}),
        ("shuffle", {}),
        ("numcodecs.zfpy", {}),
        ("numcodecs.zlib", {"no_such_option": 1}),
        ("unknown", {}),
    ],
)
def test_codecs_that_are_not_known_are_left_to_zarr(name: str, options: dict[str, Any]) -> None:
    assert byte_codec(name, options, U1) is None
