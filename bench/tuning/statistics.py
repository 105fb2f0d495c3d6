"""Statistics of chunks."""

from __future__ import annotations

from functools import cache, partial

import zarr

from bench.tuning.arrays import filled
from bench.tuning.sweep import KIB, MIB, Row, Work, disk, far, scratch
from frazil.statistics.files import list_files, read_index
from frazil.storage.base import Storage

ZSTD = zarr.codecs.ZstdCodec(level=1)


def analyze(count: int, chunk: int) -> Work:
    repo = filled(scratch(), count, chunk, compressors=ZSTD)
    return repo.audit.analyze


@cache
def many_files(*, is_far: bool) -> tuple[Storage, bytes]:
    """Sixteen files of statistics, one for each commit."""
    repo = filled(far() if is_far else disk(), 64 * KIB, KIB)
    for number in range(16):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a0")[number * KIB : (number + 1) * KIB] = number + 1
        session.commit("changed")
        repo.audit.analyze()
    files = list_files(repo.storage)
    return repo.storage, bytes.fromhex(files[0].key.split("/")[-2])


def read_files(*, is_far: bool) -> Work:
    place, decoding = many_files(is_far=is_far)
    return lambda: read_index(place, decoding)


ROWS = [
    Row("statistics.TASK_BYTES", partial(analyze, 64 * MIB, MIB), is_fresh=True),
    Row("statistics.TASK_CHUNKS", partial(analyze, 4 * MIB, KIB), is_fresh=True),
    Row("statistics.BYTES_AT_ONCE", partial(analyze, 32 * MIB, 64 * KIB), is_fresh=True),
    Row("statistics.HELD_ROWS", partial(analyze, 4 * MIB, 64), is_fresh=True),
    Row("statistics.MANY_FILES", partial(read_files, is_far=False), (99,), note="near"),
    Row("statistics.MANY_FILES", partial(read_files, is_far=True), (99,), note="far"),
]
