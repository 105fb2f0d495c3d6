"""Bulk reads give what zarr gives, for all kinds of arrays and selections."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import zarr.codecs
import zarr.codecs.numcodecs as numcodecs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.core.dtype import VariableLengthBytes

from frazil.bulk.compiling import compile_chain
from frazil.bulk.read import read_region
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage
from tests.support.arrays import documents, numbers, session_with, zarr_array

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

TEXTS = np.array(["", "a", "bb", "ä€𝄞", "long " * 9], np.dtypes.StringDType())
RECORD = np.dtype([("x", "<i4"), ("y", "<f8")])
DTYPES: tuple[Any, ...] = (
    *("bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"),
    *("M8[s]", "m8[ms]", "S3", "U2", "V5", RECORD, str, "bytes"),
)


def with_warnings_off(make: Any) -> Any:
    """Codecs outside the specification say so when they are made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


COMPRESSORS = with_warnings_off(
    lambda: (
        None,
        zarr.codecs.ZstdCodec(level=3),
        zarr.codecs.ZstdCodec(level=-2, checksum=True),
        zarr.codecs.GzipCodec(level=5),
        zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"),
        zarr.codecs.BloscCodec(cname="zstd", clevel=0, shuffle="noshuffle"),
        zarr.codecs.Crc32cCodec(),
        [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()],
        [zarr.codecs.BloscCodec(), zarr.codecs.GzipCodec()],
        numcodecs.Zlib(),
        numcodecs.LZ4(),
        numcodecs.BZ2(),
        numcodecs.LZMA(),
        numcodecs.Zstd(level=1),
        numcodecs.Fletcher32(),
        [numcodecs.Shuffle(elementsize=1), numcodecs.Zlib()],
    )
)


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """Random elements of any type."""
    chosen = np.random.default_rng(seed).integers(0, len(TEXTS), shape)
    if dtype is str:
        return TEXTS[chosen]
    if dtype == "bytes":
        return np.array([str(t).encode() for t in TEXTS], object)[chosen]
    if dtype == "V5":
        return np.array([b"12345", b"\0\1\2\3\4", b"", b"a", b"zzzzz"], "V5")[chosen]
    return numbers(shape, dtype, seed)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """An array of zarr's, with some of its chunks written."""
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 11), min_size=ndim, max_size=ndim)))
    inner = tuple(draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim)))
    dtype = draw(st.sampled_from(DTYPES))
    options: dict[str, Any] = {"chunks": inner}
    # zarr 3.1 cannot read records in shards.
    if ndim and dtype not in ("V5", RECORD) and draw(st.booleans()):
        times = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
        shards = tuple(n * k for n, k in zip(inner, times, strict=True))
        place = draw(st.sampled_from(("start", "end")))
        options["shards"] = {"shape": shards, "index_location": place}
    if dtype not in (str, "bytes"):
        order = draw(st.permutations(range(ndim)))
        if ndim > 1 and draw(st.booleans()):
            options["filters"] = zarr.codecs.TransposeCodec(order=tuple(order))
        if np.dtype(dtype).kind not in "SV" and np.dtype(dtype).itemsize > 1:
            endian = draw(st.sampled_from(("little", "big")))
            options["serializer"] = zarr.codecs.BytesCodec(endian=endian)
    options["compressors"] = draw(st.sampled_from(COMPRESSORS))
    if np.dtype(dtype if dtype != "bytes" else object).kind in "iuf":
        options["fill_value"] = draw(st.sampled_from((0, 7)))
    made = zarr_array(
        shape=shape, dtype=VariableLengthBytes() if dtype == "bytes" else dtype, **options
    )
    region = tuple(
        slice(*sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))) for n in shape
    )
    data = values(shape, dtype, draw(st.integers(0, 5)))
    if draw(st.booleans()):
        region = ()
    if ndim and data[region].size:
        made[region or ...] = data[region]
    elif not ndim and dtype != "bytes":  # which zarr 3.4 fails to write
        made[...] = data
    return made


def slices(length: int) -> st.SearchStrategy[slice]:
    """Slices with positive steps, also beyond the ends."""
    bound = st.none() | st.integers(-length - 2, length + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 5))


def indices(length: int) -> st.SearchStrategy[Any]:
    """Arrays of indices, in any order and with repetitions."""
    one = st.integers(-length, length - 1)
    return st.lists(one, min_size=1, max_size=9).map(np.array)


def masks(length: int) -> st.SearchStrategy[Any]:
    """Masks of an axis."""
    return st.lists(st.booleans(), min_size=length, max_size=length).map(
        lambda chosen: np.array(chosen, bool)
    )


@st.composite
def basic(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Indices, slices, and perhaps an ellipsis."""
    items: list[Any] = [
        draw(slices(n) | st.integers(-n, n - 1)) if n else draw(slices(n)) for n in shape
    ]
    has_dots: bool = draw(st.booleans())
    if items and has_dots:
        at = draw(st.integers(0, len(items) - 1))
        items[at : draw(st.integers(at, len(items)))] = [...]
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@st.composite
def orthogonal(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Arrays of indices and masks beside slices and indices."""
    return tuple(
        draw(slices(n) | st.integers(-n, n - 1) | indices(n) | masks(n)) if n else slice(None)
        for n in shape
    )


RELAXED = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def assert_same(found: Any, expected: Any) -> None:
    """Equal values, of equal shape and type."""
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    np.testing.assert_array_equal(np.asarray(found), expected)
    if expected.ndim:
        assert np.asarray(found).dtype == expected.dtype


@RELAXED
@given(arrays(), st.data())
def test_basic_selections(array: Any, data: st.DataObject) -> None:
    ours = session_with(array, inline_limit=data.draw(st.sampled_from((0, 512)))).array("a0")
    for _ in range(3):
        selection = data.draw(basic(array.shape))
        assert_same(ours[selection], array.get_basic_selection(selection))


@RELAXED
@given(arrays(), st.data())
def test_orthogonal_selections(array: Any, data: st.DataObject) -> None:
    ours = session_with(array).array("a0")
    for _ in range(3):
        selection = data.draw(orthogonal(array.shape))
        if array.ndim and all(array.shape):
            assert_same(ours.oindex[selection], array.get_orthogonal_selection(selection))


@RELAXED
@given(arrays(), st.data())
def test_points_masks_and_blocks(array: Any, data: st.DataObject) -> None:
    ours = session_with(array).array("a0")
    if not array.ndim or not all(array.shape):
        return
    count = data.draw(st.integers(1, 9))
    points = tuple(
        np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)))
        for n in array.shape
    )
    assert_same(ours.vindex[points], array.get_coordinate_selection(points))
    mask = np.random.default_rng(count).random(array.shape) < 0.3
    assert_same(ours.vindex[mask], array.get_mask_selection(mask))
    stored = array.shards or array.chunks
    blocks = tuple(
        data.draw(st.integers(0, (n - 1) // size))
        for n, size in zip(array.shape, stored, strict=True)
    )
    assert_same(ours.blocks[blocks], array.get_block_selection(blocks))


@RELAXED
@given(arrays(), st.data())
def test_far_storages_and_little_memory(array: Any, data: st.DataObject) -> None:
    storage: Storage = LatencyStorage(MemoryStorage())
    session = session_with(array, storage=storage, inline_limit=0)
    session.commit("x", allow_empty=True)
    for selection in (..., data.draw(basic(array.shape))):
        found = read_region(session, "a0", selection, max_in_flight=data.draw(st.integers(1, 500)))
        assert_same(found, array.get_basic_selection(selection))


@RELAXED
@given(arrays())
def test_chains_encode_what_zarr_decodes(array: Any) -> None:
    chain = compile_chain(array.metadata)
    assert chain is not None
    shape = array.shards or array.chunks
    for key, encoded in documents(array).items():
        if key == "zarr.json":
            continue
        chunk = chain.decode(encoded, shape)
        again = chain.encode(chunk)
        assert again is not None
        np.testing.assert_array_equal(chain.decode(again, shape), chunk)
        if not any(type(each).__name__ != "Crc32cCodec" for each in array.compressors):
            assert bytes(again) == encoded
