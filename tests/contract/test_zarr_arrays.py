"""zarr's own array strategies, run on our store: what zarr tests of any store's arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import zarr
import zarr.testing.strategies as zarr_st
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.codec_pipeline.bulk_pipeline import BulkPipeline
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage

QUICK = settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[zarr.Array[Any], Any]:
    """An array in a new store, with values as numpy has them."""
    values, chunks = draw(zarr_st.np_array_and_chunks(arrays=zarr_st.numpy_arrays()))
    store = Repository.create(MemoryStorage()).writable_session("main").store
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr, about data types without a specification
        array = zarr.create_array(
            store,
            name=draw(zarr_st.array_names),
            shape=values.shape,
            chunks=chunks,
            dtype=values.dtype,
            fill_value=None,
        )
        array[...] = values
    return array, values


@QUICK
@given(st.data(), arrays())
def test_basic_indexing(data: st.DataObject, pair: tuple[zarr.Array[Any], Any]) -> None:
    array, values = pair
    assert isinstance(array.async_array.codec_pipeline, BulkPipeline)
    selection = data.draw(zarr_st.basic_indices(shape=values.shape))
    np.testing.assert_array_equal(array[selection], values[selection])
    changed = np.zeros_like(values[selection])
    array[selection] = changed
    values[selection] = changed
    np.testing.assert_array_equal(array[...], values)


@QUICK
@given(st.data(), arrays())
def test_orthogonal_indexing(data: st.DataObject, pair: tuple[zarr.Array[Any], Any]) -> None:
    array, values = pair
    selection, as_numpy = data.draw(zarr_st.orthogonal_indices(shape=values.shape))
    np.testing.assert_array_equal(array.oindex[selection], values[as_numpy])


@QUICK
@given(st.data(), arrays())
def test_points(data: st.DataObject, pair: tuple[zarr.Array[Any], Any]) -> None:
    array, values = pair
    if not values.ndim or not values.size:
        return
    points = [
        data.draw(st.lists(st.integers(0, n - 1), min_size=3, max_size=3)) for n in values.shape
    ]
    selection = tuple(np.array(axis) for axis in points)
    np.testing.assert_array_equal(array.vindex[selection], values[selection])
