"""How much of a region is read at a time, and that nothing is lost between threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil import config
from frazil.bulk.engine import pace_for
from frazil.errors import FormatError, StorageError
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage

MIB = 1 << 20


@pytest.mark.parametrize("total", [0, 8 * MIB, 1 << 40])
@pytest.mark.parametrize("limit", [MIB, 32 * MIB, 512 * MIB])
@pytest.mark.parametrize("size", [1, 1 << 10, MIB, 3 * MIB, 64 * MIB])
def test_what_is_in_memory_at_a_time_is_within_the_limit(
    storage: Storage, size: int, limit: int, total: int
) -> None:
    """Chunks as they are and encoded; one of them at least, however large it is."""
    pace = pace_for(storage, size, limit, total=total)
    held = 2 * size * pace.rows * pace.width
    assert held <= limit or (pace.rows, pace.width) == (1, 1)
    assert pace.rows > 0
    assert pace.width > 0


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("total", [8 * MIB, 64 * MIB, 1 << 34])
def test_every_thread_of_a_disk_gets_several_batches(threads: int, total: int) -> None:
    """Else one of them would still work when the others have nothing left."""
    size = 16 << 10
    with config.set(threads=threads):
        pace = pace_for(MemoryStorage(), size, total=total)
    batches = total // (pace.rows * size)
    assert batches >= min(4 * pace.width, total // MIB)


def test_batches_of_large_reads_are_larger() -> None:
    size = 16 << 10
    with config.set(threads=2):
        small, large = (pace_for(MemoryStorage(), size, total=n * MIB) for n in (8, 64))
    assert (small.rows, large.rows) == (64, 256)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_few_threads_begin_to_read_small_chunks(threads: int) -> None:
    """Batches are cut for those that begin; others join on a slow disk, within the limit."""
    with config.set(threads=threads):
        pace = pace_for(MemoryStorage(), 16 << 10, 8 * MIB, at_first=1, total=64 * MIB)
    assert pace.at_first == 1
    assert pace.width > threads
    assert 2 * (16 << 10) * pace.rows * pace.width <= 8 * MIB


@pytest.mark.parametrize("codec", [None, "auto"], ids=["raw", "zstd"])
@pytest.mark.parametrize("rows", [4, 64, 128], ids=["tiny", "small", "larger"])
@pytest.mark.parametrize("missing", [0, 128], ids=["full", "sparse"])
def test_chunks_of_many_batches_are_read_to_their_places(
    tmp_path: Path, rows: int, codec: Literal["auto"] | None, missing: int
) -> None:
    """Written and missing ones, by threads that take turns."""
    values = np.random.default_rng(rows).normal(size=(512, 1024))
    values[:, 128 : 128 + missing] = 7
    session = frazil.Repository.create(tmp_path).writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=values.shape,
        chunks=(rows, 32),
        dtype=values.dtype,
        fill_value=7,
        compressors=codec,
        config={"write_empty_chunks": False},
    )
    array[...] = values
    session.commit("values")
    session = frazil.Repository.open(tmp_path).readonly_session("main")
    with config.set(threads=3):
        assert np.array_equal(session.array("a")[...], values)
        assert np.array_equal(session.array("a")[3:-5, 20:-100], values[3:-5, 20:-100])
    chunks = sorted((tmp_path / "chunks").iterdir())
    chunks[len(chunks) // 2].unlink()
    with pytest.raises(StorageError, match="/a"):
        session.array("a")[...]


@pytest.mark.parametrize("codec", [None, "auto"], ids=["raw", "zstd"])
def test_a_chunk_of_another_size_among_many_is_named(
    tmp_path: Path, codec: Literal["auto"] | None
) -> None:
    session = frazil.Repository.create(tmp_path).writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=(512, 512), chunks=(64, 32), dtype="f8", compressors=codec
    )
    array[...] = 1.5
    chunk = asyncio.run(session.store.get("a/c/3/5", default_buffer_prototype()))
    assert chunk is not None
    asyncio.run(session.store.set("a/c/3/5", chunk[: len(chunk) - 8]))
    with pytest.raises(FormatError) as caught:
        session.array("a")[...]
    assert (caught.value.facts["array"], caught.value.facts["chunk"]) == ("/a", (3, 5))
