"""Chunks as zarr has encoded them, with the chains that read them."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import zarr

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


def filled(values: Any, **options: Any) -> zarr.Array[Any]:
    """An array of zarr's with these values, without compression."""
    about = {"dtype": values.dtype, "compressors": None} | options
    array = zarr_array(shape=values.shape, **about)
    array[...] = values
    return array
