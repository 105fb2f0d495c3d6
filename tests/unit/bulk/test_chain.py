"""Chains of codecs: what they know in advance, and what damaged bytes do to them."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import zarr.codecs
import zarr.codecs.numcodecs as numcodecs
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from frazil.bulk.chain import Chain
from frazil.bulk.compiling import compile_chain
from frazil.errors import FormatError
from tests.support.arrays import documents, numbers, zarr_array

SHAPE = (6, 8)


def quiet(make: Callable[[], Any]) -> Any:
    """Codecs outside the specification say so when they are made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


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


def chain_of(array: Any) -> Chain:
    """The chain of an array of zarr's."""
    found = compile_chain(array.metadata)
    assert found is not None
    return found


def written(**options: Any) -> tuple[Chain, bytes, Any]:
    """The chain of an array with one chunk, that chunk as zarr encoded it, and its values."""
    values = numbers(SHAPE, options.get("dtype", "f4")) if "values" not in options else None
    values = options.pop("values", values)
    about = {"shape": SHAPE, "chunks": SHAPE, "dtype": "f4", "compressors": None} | options
    array = quiet(lambda: zarr_array(**about))
    array[...] = values
    return chain_of(array), documents(array)["c/0/0"], values


@pytest.mark.parametrize("compressor", COMPRESSORS.values(), ids=COMPRESSORS)
def test_compressed_chunks_come_back(compressor: Any) -> None:
    chain, encoded, values = written(compressors=compressor)
    np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
    np.testing.assert_array_equal(chain.decode(chain.encode(values) or b"", SHAPE), values)
    out = np.zeros(SHAPE, "f4")
    chain.decode_into(encoded, out)
    np.testing.assert_array_equal(out, values)


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


def test_documents_and_zarr_metadata_mean_the_same() -> None:
    array = zarr_array(shape=SHAPE, chunks=SHAPE, dtype="M8[s]")
    by_document = compile_chain(json.loads(documents(array)["zarr.json"]))
    by_metadata = chain_of(array)
    assert by_document is not None
    assert by_document.dtype == by_metadata.dtype == np.dtype("M8[s]")
    assert np.isnat(by_document.fill_value) == np.isnat(by_metadata.fill_value)


def test_codecs_we_do_not_know_make_no_chain() -> None:
    array = zarr_array(shape=SHAPE, chunks=SHAPE, dtype="f4")
    document = json.loads(documents(array)["zarr.json"])
    for unknown in ({"name": "numcodecs.zfpy"}, {"name": "example.packer"}, "other"):
        assert compile_chain(document | {"codecs": [*document["codecs"], unknown]}) is None
        assert compile_chain(document | {"codecs": [unknown, *document["codecs"]]}) is None
    assert compile_chain(document | {"codecs": []}) is None


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


def is_harmless(chain: Chain, encoded: bytes, shape: tuple[int, ...] = SHAPE) -> bool:
    """Whether bytes decode to some chunk; whatever else happens must be a `FormatError`."""
    try:
        chunk = chain.decode(encoded, shape)
        out = np.empty(shape, chain.dtype)
        chain.decode_into(encoded, out)
    except FormatError:
        return False
    assert chunk.shape == shape
    return True


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


def test_a_chunk_that_unpacks_to_more_is_refused_early() -> None:
    chain, _, _ = written(compressors=zarr.codecs.ZstdCodec())
    huge = zstandard.ZstdCompressor(level=1).compress(bytes(256 << 20))
    assert len(huge) < 64 << 10
    assert not is_harmless(chain, huge)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    unsaid = stream.compress(bytes(64 << 20)) + stream.flush()
    assert not is_harmless(chain, unsaid)


def test_sizes_that_headers_claim_are_not_believed() -> None:
    blosc, encoded, _ = written(compressors=zarr.codecs.BloscCodec(cname="lz4"))
    for size, stored in ((2**31 - 1, len(encoded)), (192, 2**31 - 1), (191, len(encoded))):
        header = encoded[:4] + struct.pack("<I", size) + encoded[8:12] + struct.pack("<I", stored)
        assert not is_harmless(blosc, header + encoded[16:])
    lz4, encoded, _ = written(compressors=COMPRESSORS["lz4"])
    assert not is_harmless(lz4, struct.pack("<I", 2**31 - 1) + encoded[4:])


def test_frames_without_size_and_several_frames_decode() -> None:
    chain, _, values = written(compressors=zarr.codecs.ZstdCodec())
    data = values.tobytes()
    packer = zstandard.ZstdCompressor()
    stream = packer.compressobj()
    unsaid = stream.compress(data) + stream.flush()
    halves = packer.compress(data[:96]) + packer.compress(data[96:])
    for encoded in (unsaid, halves):
        np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
        out = np.zeros(SHAPE, "f4")
        chain.decode_into(encoded, out)
        np.testing.assert_array_equal(out, values)


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
