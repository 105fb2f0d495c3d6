"""zarr's own store suite and its stateful tests, run on our store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.stateful import ZarrHierarchyStateMachine
from zarr.testing.store import StoreTests

from frazil.errors import InvalidInputError
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore

GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
ARRAY = (
    b'{"zarr_format":3,"node_type":"array","attributes":{},"shape":[30],"data_type":"uint8",'
    b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},'
    b'"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},'
    b'"fill_value":0,"codecs":[{"name":"bytes"}]}'
)


def new_store(*, read_only: bool = False) -> FrazilStore:
    repository = Repository.create(MemoryStorage())
    if read_only:
        return repository.readonly_session("main").store
    return repository.writable_session("main").store


class TestFrazilStore(StoreTests[FrazilStore, cpu.Buffer]):
    """The suite uses free-form keys; ours are Zarr v3 keys, so some tests are given such keys."""

    store_cls = FrazilStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"read_only": False}

    @pytest.fixture
    async def store(self, store_kwargs: dict[str, Any]) -> FrazilStore:
        return new_store(**store_kwargs)

    @pytest.fixture
    async def store_not_open(self, store_kwargs: dict[str, Any]) -> FrazilStore:
        return new_store(**store_kwargs).with_read_only(read_only=False)

    @pytest.fixture
    def open_kwargs(self, store_kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"session": new_store(**store_kwargs).session}

    async def set(self, store: FrazilStore, key: str, value: Buffer) -> None:
        if key.split("/")[0] in ("c", "foo") and await store.get("zarr.json") is None:
            store.set_sync("zarr.json", cpu.Buffer.from_bytes(GROUP))
        await store.set(key, value)

    async def get(self, store: FrazilStore, key: str) -> Buffer:
        found = await store.get(key, default_buffer_prototype())
        assert found is not None
        return found
