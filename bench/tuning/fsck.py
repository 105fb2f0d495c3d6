"""Checks of repositories."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import numpy.typing as npt

from bench.tuning.arrays import filled
from bench.tuning.sweep import HIGH, KIB, LOW, MIB, Row, Work, disk, far
from bench.tuning.tables import put_groups
from frazil import Repository
from frazil.fsck.objects import ChunkObjects
from frazil.ids import crockford_many
from frazil.storage.base import Storage


@cache
def long_history() -> Repository:
    """256 commits on the disk."""
    repo = Repository.create(disk())
    for value in range(256):
        put_groups(repo, 1, value)
    return repo


def check_history() -> Work:
    repo = long_history()
    return lambda: repo.audit.fsck()


@cache
def chunks(*, is_far: bool) -> Repository:
    """16 MiB in chunks of 32 KiB."""
    return filled(far() if is_far else disk(), 16 * MIB, 32 * KIB)


def check_chunks(*, is_far: bool) -> Work:
    repo = chunks(is_far=is_far)
    return lambda: repo.audit.fsck(deep=True)


@cache
def many_objects() -> Storage:
    """2,000 objects far away."""
    storage = far()
    names = crockford_many(_ids(2000))
    storage.put_many([(f"chunks/{name}", b"1") for name in names])
    return storage


def _ids(count: int) -> npt.NDArray[np.uint8]:
    ids = np.zeros((count, 12), np.uint8)
    ids[:, -4:] = np.arange(count, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return ids


def ask(count: int) -> Work:
    storage = many_objects()
    return lambda: ChunkObjects(storage).sizes(_ids(count))


ROWS = [
    Row("fsck.ITEM_FILES", check_history, (2, 16, 128)),
    Row("fsck.CHUNKS_AT_ONCE", partial(check_chunks, is_far=False), note="near"),
    Row("fsck.CHUNKS_AT_ONCE", partial(check_chunks, is_far=True), note="far"),
    *(
        Row("fsck.FEW_OBJECTS", partial(ask, n), (LOW, HIGH), note=f"{n} of 2,000")
        for n in (32, 256, 1000)
    ),
]
