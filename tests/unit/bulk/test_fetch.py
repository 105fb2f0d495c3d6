"""An error about a chunk tells which one it is, whichever way it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil.errors import StorageError
from frazil.model.chunks import NativeRef
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """An array of four chunks, the third of which has lost its object."""
    storage = LocalStorage(tmp_path)
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(storage, config)
    session = repository.writable_session("main")
    group = zarr.create_group(session.store)
    array = group.create_array("a", shape=(8,), chunks=(2,), dtype="i4", compressors=None)
    array[:] = np.arange(8)
    session.commit("four chunks")
    found = repository.readonly_session("main")
    ref = found.state.chunk_ref(found.state.array("/a"), (2,))
    assert isinstance(ref, NativeRef)
    storage.delete_many([f"chunks/{ref.chunk_id}"])
    return found


WAYS: dict[str, Callable[[Session], object]] = {
    "key": lambda session: asyncio.run(session.store.get("a/c/2", default_buffer_prototype())),
    "one": lambda session: session.array("/a")[4:6],
    "many": lambda session: session.array("/a")[:],
    "zarr one": lambda session: zarr.open_array(session.store, path="a", mode="r")[4:6],
    "zarr many": lambda session: zarr.open_array(session.store, path="a", mode="r")[:],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_chunk_is_named(session: Session, way: str) -> None:
    with pytest.raises(StorageError) as caught:
        WAYS[way](session)
    assert caught.value.facts["array"] == "/a"
    assert caught.value.facts["chunk"] == (2,)
    assert str(caught.value.facts["key"]).startswith("chunks/")
