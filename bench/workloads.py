"""What is measured. Each workload does the same calls on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

from frazil.storage.local import LocalStorage


@dataclass(frozen=True, slots=True)
class Side:
    """One implementation of the API, and how it names a local folder."""

    name: str
    api: Any
    storage: Callable[[str], Any]

    def create(self, place: Path, **options: Any) -> Any:
        """A new repository."""
        return self.api.Repository.create(self.storage(str(place)), **options)

    def open(self, place: Path, **options: Any) -> Any:
        """An existing repository."""
        return self.api.Repository.open(self.storage(str(place)), **options)


@dataclass(frozen=True, slots=True)
class Workload:
    """A named piece of work.

    `prepare` runs once per side; `make` runs before each measurement and returns what is timed.
    """

    name: str
    make: Callable[[Side, Path, Path], Callable[[], object]]
    prepare: Callable[[Side, Path], None] | None = None
    remark: Callable[[Path, Path], str] | None = None


def _storage(side: Side, place: Path, durability: str) -> Any:
    """A local folder; we can do without fsync as the peer always does."""
    if side.name == "frazil":
        return LocalStorage(str(place), durability="commit" if durability == DURABLE else "none")
    return side.storage(str(place))


DURABLE = "durable"
LIKE_PEER = "no fsync like the peer"

# --- chunks through zarr ---

SMALL = ((4096, 2048), (64, 32))
"""4096 chunks of 16 KiB"""
LARGE = ((8192, 4096), (512, 1024))
"""64 chunks of 4 MiB"""


def _values(shape: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Smooth rows with noise, so that compression has something to do."""
    rows = np.linspace(0, 40, shape[0])[:, None]
    noise = np.random.default_rng(7).integers(0, 50, shape)
    return np.round(rows + noise / 100, 2)


def _array(store: Any, size: tuple[tuple[int, int], tuple[int, int]], codec: str) -> Any:
    return zarr.open_group(store, mode="a").create_array(
        "a",
        shape=size[0],
        chunks=size[1],
        dtype="f8",
        filters=None,
        compressors=None if codec == "raw" else ZstdCodec(level=3),
    )


def _write(
    size: Any, codec: str, durability: str, side: Side, prepared: Path, scratch: Path
) -> Any:
    values = _values(size[0])
    storage = _storage(side, scratch / "r", durability)
    session = side.api.Repository.create(storage).writable_session("main")
    array = _array(session.store, size, codec)

    def work() -> None:
        array[:] = values
        session.commit("written")

    return work


def _prepare_read(size: Any, codec: str, side: Side, place: Path) -> None:
    session = side.create(place / "r").writable_session("main")
    _array(session.store, size, codec)[:] = _values(size[0])
    session.commit("written")


def _read(size: Any, side: Side, prepared: Path, scratch: Path) -> Any:
    def work() -> Any:
        store = side.open(prepared / "r").readonly_session("main").store
        values: Any = zarr.open_array(store, path="a", mode="r")[:]
        assert values.shape == size[0]
        return values

    return work


# --- references ---

GRID = (1000, 1000)


def _virtual(distinct: bool, side: Side, prepared: Path, scratch: Path) -> Any:
    count = GRID[0] * GRID[1]
    if distinct:
        locations = [f"s3://some-bucket/data/part-{i:07d}.nc" for i in range(count)]
    else:
        locations = [f"s3://some-bucket/data/file-{i // 1000:04d}.nc" for i in range(count)]
    offsets = np.tile(np.arange(1000, dtype=np.uint64) * 5000 + 4096, 1000)
    lengths = np.full(count, 5000, np.uint64)
    repository = side.create(scratch / "r")
    session = repository.writable_session("main")
    _grid_array(session.store)

    def work() -> None:
        session.store.set_virtual_refs_arr(
            "/a", GRID, locations, offsets, lengths, validate_containers=False
        )
        session.commit("referenced")

    return work


def _grid_array(store: Any) -> None:
    zarr.open_group(store, mode="a").create_array(
        "a", shape=GRID, chunks=(1, 1), dtype="u1", filters=None, compressors=None
    )


def _prepare_virtual(side: Side, place: Path) -> None:
    _virtual(False, side, place, place)()


def _reopen_all(side: Side, prepared: Path, scratch: Path) -> Any:
    def work() -> None:
        session = side.open(prepared / "r").readonly_session("main")
        assert len(session.all_virtual_chunk_locations()) == GRID[0] * GRID[1]

    return work


def _reopen_one(side: Side, prepared: Path, scratch: Path) -> Any:
    def work() -> None:
        session = side.open(prepared / "r").readonly_session("main")
        assert session.chunk_type("/a", [500, 500]) == side.api.ChunkType.virtual

    return work


def _manifest_sizes(ours: Path, peers: Path) -> str:
    def size(place: Path) -> int:
        return max(file.stat().st_size for file in (place / "r" / "manifests").iterdir())

    return f"manifest file {size(ours) / size(peers):.2f} of the peer's size"


# --- history ---


def _prepare_small(side: Side, place: Path) -> None:
    _small_array(side.create(place / "r"))


def _small_array(repository: Any) -> None:
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "a", shape=(2000,), chunks=(1,), dtype="i4", filters=None, compressors=None
    )
    session.commit("array")


def _commits(count: int, durability: str, side: Side, prepared: Path, scratch: Path) -> Any:
    repository = side.api.Repository.create(_storage(side, scratch / "r", durability))
    _small_array(repository)

    def work() -> None:
        for number in range(count):
            session = repository.writable_session("main")
            zarr.open_array(session.store, path="a", mode="r+")[number] = number + 1
            session.commit(f"commit {number}")

    return work


def _prepare_history(side: Side, place: Path) -> None:
    _commits(1000, LIKE_PEER, side, place, place)()


def _open_history(side: Side, prepared: Path, scratch: Path) -> Any:
    def work() -> None:
        session = side.open(prepared / "r").readonly_session("main")
        assert zarr.open_array(session.store, path="a", mode="r")[999] == 1000

    return work


def _ancestry(side: Side, prepared: Path, scratch: Path) -> Any:
    repository = side.open(prepared / "r")

    def work() -> None:
        assert sum(1 for _ in repository.ancestry(branch="main")) == 1002

    return work


WORKLOADS = (
    *(
        Workload(f"write {name} {codec} + commit, {how}", partial(_write, size, codec, how))
        for name, size in (("4096 x 16 KiB", SMALL), ("64 x 4 MiB", LARGE))
        for codec in ("raw", "zstd")
        for how in (DURABLE, LIKE_PEER)
    ),
    *(
        Workload(f"read {name} {codec}", partial(_read, size), partial(_prepare_read, size, codec))
        for name, size in (("4096 x 16 KiB", SMALL), ("64 x 4 MiB", LARGE))
        for codec in ("raw", "zstd")
    ),
    Workload("commit 1,000,000 virtual refs, 1,000 files", partial(_virtual, False)),
    Workload("commit 1,000,000 virtual refs, all distinct", partial(_virtual, True)),
    Workload(
        "reopen 1,000,000 refs, all locations", _reopen_all, _prepare_virtual, _manifest_sizes
    ),
    Workload("reopen 1,000,000 refs, one lookup", _reopen_one, _prepare_virtual),
    *(
        Workload(f"300 small commits, {how}", partial(_commits, 300, how))
        for how in (DURABLE, LIKE_PEER)
    ),
    Workload("open at 1,000 snapshots, read a chunk", _open_history, _prepare_history),
    Workload("ancestry of 1,000 snapshots", _ancestry, _prepare_history),
)
