"""Uncommitted changes, and commits."""

from __future__ import annotations

import secrets
from functools import partial

import numpy as np

from bench.tuning.arrays import empty
from bench.tuning.sweep import HIGH, LOW, Row, Work, scratch
from bench.tuning.tables import groups, native, put_groups
from frazil import Repository, bulk
from frazil.model.chunks import ChunkTable
from frazil.storage.memory import MemoryStorage
from frazil.transaction.chunk_changes import ChunkChanges


def write_and_look() -> Work:
    """200 bulk writes of 100 chunks, each looked up afterwards."""
    ids = native(100).chunk_id
    tables = [
        ChunkTable.native(np.arange(n * 100, n * 100 + 100, dtype=np.uint32)[:, None], ids, 0, 9)
        for n in range(200)
    ]

    def work() -> None:
        changes = ChunkChanges(1)
        for number, table in enumerate(tables):
            changes.set_many(table)
            for row in range(20):
                changes.get((number * 100 + row,))

    return work


def edit_groups(count: int) -> Work:
    repo = Repository.open(groups(2000))
    return lambda: put_groups(repo, count, secrets.randbits(60))


def commit_chunks(count: int) -> Work:
    """What others wait for while a commit has its turn."""
    session = empty(scratch(), count * 600, 600)
    data = np.ones(count * 600, np.uint8)
    bulk.write_region(session, "a0", ..., data)
    return lambda: session.commit("chunks")


def commit_arrays(count: int) -> Work:
    """Eight arrays with so many references together."""
    size = count // 8
    session = empty(MemoryStorage(), size, 1, arrays=8)
    for number in range(8):
        bulk.write_region(session, f"a{number}", ..., np.arange(size, dtype="u1") | 1)
    return lambda: session.commit("references")


ROWS = [
    Row("transaction.MAX_SEGMENTS", write_and_look, (1, 8, 64)),
    *(
        Row("transaction.MANY_EDITS", partial(edit_groups, n), (LOW, HIGH), True, f"{n} of 2,000")
        for n in (50, 250, 1000)
    ),
    *(
        Row("transaction.MANY_CHANGES", partial(commit_chunks, n), (1000,), True, f"{n} chunks")
        for n in (1, 1000, 8000)
    ),
    *(
        Row("transaction.MANY_REFS", partial(commit_arrays, n), (1, HIGH), True, f"{n}")
        for n in (8000, 48_000, 400_000)
    ),
]
