"""Garbage collection, compaction and other maintenance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, partial

import numpy as np

from bench.tuning.sweep import Row, Work, far
from bench.tuning.tables import RANDOM, put_groups
from frazil import Repository
from frazil.ids import ChunkId
from frazil.maintenance import tuning
from frazil.maintenance.file_history import read_file_history
from frazil.maintenance.id_sets import RowSet
from frazil.maintenance.listing import list_older
from frazil.storage.assets import chunk_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage


def collect_ids(count: int) -> Work:
    """A set to which so many times a thousand ids are added."""
    parts = [RANDOM.integers(0, 256, (1000, 12), np.uint8) for _ in range(count)]

    def work() -> None:
        found = RowSet()
        for part in parts:
            found.add(part)
        found.rows()

    return work


@cache
def history() -> Repository:
    """256 commits of spec 1, in the object store."""
    repo = Repository.create(far(), spec_version=1)
    for value in range(256):
        put_groups(repo, 1, value)
    return repo


def read_history() -> Work:
    assets = Repository.open(history().storage)._context.assets
    return lambda: read_file_history(assets, tuning.FILES_AT_ONCE)


@cache
def names() -> Storage:
    """100,000 objects."""
    storage = MemoryStorage()
    for _ in range(100_000):
        storage.put(chunk_key(ChunkId.random()), b"1")
    return storage


def list_names() -> Work:
    later = datetime.now(UTC) + timedelta(days=1)
    return lambda: list_older(names(), "chunks/", later)


ROWS = [
    Row("maintenance.FILES_AT_ONCE", read_history),
    Row("maintenance.NAMES_AT_ONCE", list_names, (1 << 9, 1 << 12, 1 << 16)),
    Row("maintenance.MIN_PENDING", partial(collect_ids, 500), (1 << 16, 1 << 18, 1 << 20)),
]
