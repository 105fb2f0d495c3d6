"""Storages: a local disk, and an object store 30 ms away."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path

from bench.servers import BUCKET
from bench.tuning.sweep import HIGH, KIB, LOW, MIB, Row, Work, disk, far, folder, scratch
from frazil import (
    Repository,
    RepositoryConfig,
    VirtualChunkContainer,
    containers_credentials,
    s3_credentials,
    s3_store,
)
from frazil.model.chunks import VirtualRef
from frazil.storage import tuning
from frazil.storage.assets import CHUNK
from frazil.storage.base import Storage
from frazil.storage.disk_cache import DiskCache
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object import ObjectStorage
from frazil.storage.pool import thread_pool
from frazil.storage.wrapped import IMMUTABLE, CachedStorage

TWO_WAYS = (LOW, HIGH)


@cache
def kept(where: str, size: int, count: int) -> tuple[Storage, list[str]]:
    """Objects of one size that stay."""
    return put(disk() if where == "near" else far(), size, count)


def put(storage: Storage, size: int, count: int) -> tuple[Storage, list[str]]:
    keys = [f"chunks/{number:020}" for number in range(count)]
    storage.put_many([(key, bytes(size)) for key in keys])
    return storage, keys


def get_each(where: str, size: int, count: int) -> Work:
    storage, keys = kept(where, size, count)
    return lambda: storage.each(storage.get, keys)


def get_cold(count: int) -> Work:
    """Files that are no longer in the page cache."""
    storage, keys = kept("near", 16 * KIB, count)
    assert isinstance(storage, LocalStorage)
    for path in Path(storage._root).rglob("chunks/*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    return lambda: storage.each(storage.get, keys)


def get_many(size: int) -> Work:
    storage, keys = kept("near", size, 16)
    return lambda: storage.get_many([(key, None, None) for key in keys])


def by_new_pool() -> Work:
    thread_pool().shutdown()
    thread_pool.cache_clear()
    return get_each("far", KIB, 512)


def by_new_limit() -> Work:
    storage, keys = kept("far", KIB, 512)
    assert isinstance(storage, ObjectStorage)
    storage._clients.limit = tuning.DEFAULT_LIMIT
    storage._clients._start()
    return lambda: storage.get_many([(key, None, None) for key in keys])


def get_ranges(size: int, gap: int, count: int) -> Work:
    """Virtual chunks of one object."""
    storage, keys = kept("far", count * (size + gap), 1)
    place = f"s3://{BUCKET}/"
    client = s3_store(
        region="us-east-1",
        endpoint_url=storage._clients.place.endpoint,  # type: ignore[attr-defined]
        allow_http=True,
        s3_compatible=True,
        force_path_style=True,
    )
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(VirtualChunkContainer(place, client))
    access = s3_credentials(access_key_id="bench", secret_access_key="bench")
    repo = Repository.create(
        MemoryStorage(),
        config,
        authorize_virtual_chunk_access=containers_credentials({place: access}),
    )
    containers = repo.readonly_session("main").state.context.containers
    where = f"{place}{storage._clients.full(keys[0])}"  # type: ignore[attr-defined]
    starts = range(0, count * (size + gap), size + gap)
    refs = [VirtualRef(where, at, size) for at in starts]
    return lambda: containers.fetch_many(refs)


def put_far(size: int) -> Work:
    storage, data = kept("far", KIB, 512)[0], bytes(size)
    return lambda: storage.put("chunks/large", data, CHUNK)


def delete(count: int) -> Work:
    storage, keys = put(scratch(), KIB, count)
    return lambda: storage.delete_many(keys)


def write_durably() -> Work:
    """32 files of 1 MiB, synced at the end as by a commit."""
    storage, data = scratch(is_durable=True), bytes(MIB)
    keys = [f"chunks/{number:020}" for number in range(32)]

    def work() -> None:
        for key in keys:
            storage.put(key, data, CHUNK)
        storage.make_durable(keys)

    return work


@cache
def cached(size: int) -> tuple[CachedStorage, list[str]]:
    storage, keys = kept("far", size, 64)
    return CachedStorage(storage, DiskCache(folder("cache"), 64 * MIB), IMMUTABLE), keys


def read_cached(size: int) -> Work:
    storage, keys = cached(size)
    memory = memoryview(bytearray(64 * size))
    pieces = [(key, 0, memory[n * size :][:size]) for n, key in enumerate(keys)]
    return lambda: storage.read_into(pieces)


def fill_cache() -> Work:
    """Copies of four times as many bytes as may stay."""
    cache = DiskCache(scratch()._root, 4 * MIB)
    data = bytes(4 * KIB)

    def work() -> None:
        for number in range(4096):
            cache.put(str(number), data)

    return work


ROWS = [
    Row("storage.POOL_THREADS", by_new_pool, (8, 32, 128), is_fresh=True),
    Row("storage.DEFAULT_LIMIT", by_new_limit, (32, 256, 1024), is_fresh=True),
    *(
        Row("storage.FEW_CALLS", partial(get_each, "near", KIB, n), TWO_WAYS, note=f"{n} files")
        for n in (8, 32)
    ),
    *(
        Row("storage.FEW_CALLS", partial(get_cold, n), TWO_WAYS, True, f"{n} cold files")
        for n in (8, 32)
    ),
    *(
        Row("storage.RANGE_GAP", partial(get_ranges, 4 * KIB, n * KIB, 64), TWO_WAYS, note=f"{n}")
        for n in (8, 64, 512)
    ),
    Row("storage.RANGE_BYTES", partial(get_ranges, MIB, 0, 64), (2 * MIB, 8 * MIB, 16 * MIB)),
    Row("storage.PART_BYTES", partial(put_far, 64 * MIB), (5 * MIB, 8 * MIB, 32 * MIB)),
    *(
        Row("storage.PARTED_FROM", partial(put_far, n * MIB), TWO_WAYS, note=f"{n} MiB")
        for n in (8, 16, 64)
    ),
    *(
        Row("storage.LARGE_OBJECT", partial(get_many, n * KIB), TWO_WAYS, note=f"{n} KiB")
        for n in (64, 256, 1024)
    ),
    *(
        Row("storage.DELETED_TOGETHER", partial(delete, n), TWO_WAYS, True, f"{n} files")
        for n in (16, 64, 256)
    ),
    Row("storage.DELETERS", partial(delete, 4000), (1, 4, 16, 32), is_fresh=True),
    Row("storage.EARLY_SYNCS", write_durably, (0, 2, 16, 64), is_fresh=True),
    *(
        Row("storage.CACHE_READERS", partial(read_cached, n * KIB), (1, 8, 64), note=f"{n} KiB")
        for n in (4, 512)
    ),
    Row("storage.CACHE_SLACK", fill_cache, (2, 16, 128), is_fresh=True),
]
