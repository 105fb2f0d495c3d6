"""Reading a large array region by region takes the memory of a region and the limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
import zarr.codecs

from frazil.errors import StorageError
from frazil.repository import Repository
from frazil.storage.local import LocalStorage

MIB = 1 << 20
ROWS, CHUNK_ROWS, WIDTH = 2048, 4, MIB
"""2 GiB in chunks of 4 MiB, which compress well"""

PROGRAM = """
import sys
import numpy as np
from frazil.bulk import read_region
from frazil.repository import Repository
from frazil.storage.local import LocalStorage


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) << 10


session = Repository.open(LocalStorage(sys.argv[1])).readonly_session("main")
out = np.zeros((16, 1 << 20), np.uint8)
read_region(session, "a", slice(0, 16), out=out)
before, total = peak(), 0
for start in range(0, 2048, 16):
    read_region(session, "a", slice(start, start + 16), out=out, max_in_flight=32 << 20)
    total += int(out[:, :: 1 << 12].sum(dtype=np.int64))
print(peak() - before, total)
"""


@pytest.mark.slow
def test_region_by_region(tmp_path: Path) -> None:
    session = Repository.create(LocalStorage(tmp_path)).writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=(ROWS, WIDTH),
        chunks=(CHUNK_ROWS, WIDTH),
        dtype="u1",
        compressors=zarr.codecs.ZstdCodec(level=1),
    )
    for start in range(0, ROWS, CHUNK_ROWS):
        array[start : start + CHUNK_ROWS] = np.full((CHUNK_ROWS, WIDTH), start % 7 + 1, "u1")
    session.commit("x")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    grown, total = map(int, done.stdout.split())
    seen = CHUNK_ROWS * WIDTH >> 12
    assert total == sum(start % 7 + 1 for start in range(0, ROWS, CHUNK_ROWS)) * seen
    assert grown < 48 * MIB


def test_manifests_of_other_arrays_are_not_loaded(tmp_path: Path) -> None:
    session = Repository.create(LocalStorage(tmp_path)).writable_session("main")
    side = 1000
    zarr.create_array(session.store, name="many", shape=(side, side), chunks=(1, 1), dtype="u1")
    session.store.set_virtual_refs_arr(
        "many",
        (side, side),
        [f"s3://bucket/{row}.nc" for row in range(side) for _ in range(side)],
        np.tile(np.arange(side, dtype=np.uint64), side),
        np.ones(side * side, np.uint64),
        validate_containers=False,
    )
    session.commit("a million references")
    theirs = [*(tmp_path / "manifests").iterdir()]
    repository = Repository.open(LocalStorage(tmp_path))
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="one", data=np.arange(9))
    session.commit("one chunk")
    for manifest in theirs:
        manifest.unlink()
    session = Repository.open(LocalStorage(tmp_path)).readonly_session("main")
    assert [*session.array("one")[:]] == [*range(9)]
    with pytest.raises(StorageError, match="manifest"):
        session.array("many")[0, 0]
