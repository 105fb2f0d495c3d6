"""Bulk reads and writes, the codec pipeline and the store."""

from __future__ import annotations

import asyncio
from functools import cache, partial

import zarr
from zarr.core.buffer import default_buffer_prototype

from bench.tuning.arrays import empty, filled, values
from bench.tuning.sweep import HIGH, KIB, LOW, MIB, Row, Work, disk, far, scratch
from frazil import Repository, bulk
from frazil.bulk import selection
from frazil.bulk.grid import GridAxis
from frazil.bulk.pack import Packing
from frazil.bulk.zstd import Zstd
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage

ZSTD = zarr.codecs.ZstdCodec(level=1)


@cache
def near_array(chunk: int, *, is_packed: bool) -> Repository:
    """32 MiB on the disk."""
    return filled(disk(), 32 * MIB, chunk, compressors=ZSTD if is_packed else None)


def read(chunk: int, *, is_packed: bool = True) -> Work:
    session = near_array(chunk, is_packed=is_packed).readonly_session("main")
    return lambda: bulk.read_region(session, "a0")


@cache
def far_array(chunk: int, count: int) -> Repository:
    """So many bytes in the object store."""
    return filled(far(), count, chunk)


def read_far(chunk: int, count: int = 16 * MIB) -> Work:
    session = far_array(chunk, count).readonly_session("main")
    return lambda: bulk.read_region(session, "a0")


def write(storage: Storage, count: int, chunk: int, *, packing: object = False) -> Work:
    session, data = empty(storage, count, chunk), values(count)
    return lambda: bulk.write_region(session, "a0", ..., data, packing=packing)  # type: ignore[arg-type]


def write_files(size: int) -> Work:
    return write(scratch(), 16 * MIB, size)


def read_inline() -> Work:
    session = inline().readonly_session("main")
    return lambda: bulk.read_region(session, "a0")


@cache
def inline() -> Repository:
    """200,000 chunks of four bytes, in the manifest."""
    return filled(MemoryStorage(), 800_000, 4)


@cache
def several() -> Repository:
    """Eight arrays of 4 MiB."""
    return filled(disk(), 4 * MIB, 256 * KIB, arrays=8, compressors=ZSTD)


def read_several() -> Work:
    session = several().readonly_session("main")
    return lambda: bulk.read_regions(session, {f"a{n}": ... for n in range(8)})


def get_values(size: int) -> Work:
    """64 values side by side, as zarr asks for them."""
    store = near_array(size, is_packed=False).readonly_session("main").store
    prototype = default_buffer_prototype()

    async def get() -> None:
        await asyncio.gather(*[store.get(f"a0/c/{n}", prototype) for n in range(32)])

    return lambda: asyncio.run(get())


def read_by_zarr(count: int) -> Work:
    """A hundred reads of some chunks of 1 KiB."""
    array = zarr.open_array(small().readonly_session("main").store, path="a0", mode="r")
    return lambda: [array[: count * KIB] for _ in range(100)]


@cache
def small() -> Repository:
    return filled(disk(), 64 * KIB, KIB)


def list_keys() -> Work:
    session = filled(MemoryStorage(), 20_000, 1).readonly_session("main")

    async def names() -> int:
        return len([key async for key in session.store.list()])

    return lambda: asyncio.run(names())


def write_rows(row: int) -> Work:
    """32 MiB in chunks of 1 MiB, whose rows have so many bytes."""
    session = Repository.create(scratch()).writable_session("main")
    rows = MIB // row
    shape, chunks = (rows, 32 * row), (rows, row)
    zarr.create_array(
        session.store, name="a", shape=shape, chunks=chunks, dtype="u1", compressors=None
    )
    data = values(32 * MIB).reshape(shape)
    return lambda: bulk.write_region(session, "a", ..., data, packing=False)


def cut() -> Work:
    axis, wanted = GridAxis(64 * 1000, (1000,)), slice(5, 63_000)
    return lambda: [selection.cut_slice(axis, wanted) for _ in range(200)]


def compress(size: int) -> Work:
    codec, data = Zstd(1, checksum=False), values(size).tobytes()
    return lambda: [codec.encode(data) for _ in range(4 * MIB // size)]


TWO_WAYS = (LOW, HIGH)
ROWS = [
    Row("bulk.DISK_BATCH", partial(read, 64 * KIB), note="read, 64 KiB"),
    Row("bulk.DISK_BATCH", partial(read, MIB), note="read, 1 MiB"),
    Row(
        "bulk.DISK_BATCH", lambda: write(scratch(), 32 * MIB, 64 * KIB), is_fresh=True, note="write"
    ),
    Row("bulk.REMOTE_BATCH", partial(read_far, 64 * KIB), note="64 KiB"),
    Row("bulk.REMOTE_BATCH", partial(read_far, MIB), note="1 MiB"),
    Row("bulk.REMOTE_BATCHES", partial(read_far, 256 * KIB, 96 * MIB), (1, 4, 16)),
    Row("bulk.LOOKUP_ROWS", read_inline),
    Row("bulk.LEAST_BYTES", lambda: write(MemoryStorage(), 400_000, 4), is_fresh=True),
    Row("bulk.SMALL_CHUNK", partial(read, 16 * KIB, is_packed=False), TWO_WAYS, note="16 KiB"),
    Row("bulk.SMALL_CHUNK", partial(read, 256 * KIB, is_packed=False), TWO_WAYS, note="256 KiB"),
    *(
        Row("bulk.TINY_CHUNK", partial(read, n * KIB, is_packed=False), TWO_WAYS, note=f"{n} KiB")
        for n in (1, 16)
    ),
    Row("bulk.SMALL_RESULT", read_several, TWO_WAYS),
    *(
        Row("bulk.LARGE_FILE", partial(write_files, n * KIB), TWO_WAYS, True, f"{n} KiB")
        for n in (64, 256, 1024)
    ),
    *(
        Row("bulk.LARGE_VALUE", partial(get_values, n * KIB), TWO_WAYS, note=f"{n} KiB")
        for n in (16, 256, 1024)
    ),
    *(
        Row("bulk.SMALL_BATCH", partial(read_by_zarr, n), TWO_WAYS, note=f"{n} chunks")
        for n in (2, 8, 16, 32)
    ),
    Row("bulk.LISTED_PER_TURN", list_keys),
    *(
        Row("bulk.ROW_BYTES", partial(write_rows, n), TWO_WAYS, True, f"{n}")
        for n in (512, 4096, 32768)
    ),
    Row(
        "bulk.PACKS_SENT",
        lambda: write(far(), 32 * MIB, 64 * KIB, packing=Packing(2 * MIB, MIB)),
        (0, 2, 8),
        is_fresh=True,
    ),
    Row("bulk.CUTS_KEPT", cut, TWO_WAYS),
    *(
        Row("bulk.ZSTD_BY_NUMCODECS", partial(compress, n * KIB), TWO_WAYS, note=f"{n} KiB")
        for n in (16, 256, 2048)
    ),
]
