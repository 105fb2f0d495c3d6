"""An error about a chunk tells which one it is, whichever way it is read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil.bulk import read_region, write_region
from frazil.bulk.fetch import OneReader
from frazil.errors import StorageError
from frazil.model.chunks import NativeRef
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Piece
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


# --- turns of threads ---


def test_threads_read_small_files_one_after_the_other() -> None:
    reader, inside, most = OneReader(30), [], []

    def read(number: int) -> None:
        with reader.turn():
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.001)
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(20)))
    assert most == [1] * 20


def test_a_failed_read_ends_its_turn() -> None:
    reader = OneReader(0.01)
    with pytest.raises(ValueError, match="lost"), reader.turn():
        raise ValueError("lost")
    with reader.turn():
        assert not reader._lock.acquire(blocking=False)


@pytest.mark.parametrize("compressors", ["auto", None], ids=["compressed", "raw"])
def test_nobody_waits_for_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressors: Literal["auto"] | None
) -> None:
    meeting, read, met = threading.Barrier(2), LocalStorage.read_into, []

    def slow(storage: LocalStorage, pieces: Sequence[Piece]) -> None:
        meeting.wait(30)  # ends no read before a second one has begun
        met.append(len(pieces))
        read(storage, pieces)

    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    session = Repository.create(LocalStorage(tmp_path), config).writable_session("main")
    values = np.arange(128 * 2048, dtype="i8").reshape(128, 2048)
    zarr.create_group(session.store).create_array(
        "a", shape=values.shape, chunks=(1, 2048), dtype="i8", compressors=compressors
    )
    write_region(session, "a", ..., values, packing=False)
    session.commit("two batches")
    monkeypatch.setattr(LocalStorage, "read_into", slow)
    np.testing.assert_array_equal(read_region(session, "a"), values)
    assert met == [64, 64]
