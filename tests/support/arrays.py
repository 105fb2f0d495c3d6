"""Arrays that zarr has written, in plain zarr stores and in sessions alike."""
# Values, codecs and selections are of all kinds here:
# ruff: noqa: ANN401

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace


def zarr_array(**options: Any) -> zarr.Array[Any]:
    """An array in a store of zarr's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of codecs and types that the specification lacks
        return zarr.create_array(MemoryStore(), zarr_format=3, **options)


def documents(array: zarr.Array[Any]) -> dict[str, bytes]:
    """Every key of an array's store with its bytes."""
    store = array.store

    async def read() -> dict[str, bytes]:
        found = {}
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            assert value is not None
            found[key] = value.to_bytes()
        return found

    return sync(read())


def session_with(
    *arrays: zarr.Array[Any], storage: Storage | None = None, inline_limit: int = 512
) -> Session:
    """A session whose arrays `a0`, `a1`, … have the metadata and chunks of zarr's, byte by byte."""
    settings = RepositoryConfig(inline_chunk_threshold_bytes=inline_limit)
    repo = Repository.create(storage or MemoryStorage(), config=settings)
    session = repo.writable_session("main")
    keys = KeySpace(session.state)
    for number, array in enumerate(arrays):
        for key, value in documents(array).items():
            keys.set(f"a{number}/{key}", value)
    return session


def numbers(shape: tuple[int, ...], dtype: Any = "i4", seed: int = 0) -> Any:
    """Values of a data type, no two chunks alike."""
    kind = np.dtype(dtype)
    found = np.random.default_rng(seed).integers(-100, 100, shape)
    if kind.names is not None:
        records = np.zeros(shape, kind)
        for position, name in enumerate(kind.names):
            records[name] = found + position
        return records
    return found.astype(kind)
