"""Repositories with references by the million, and the ways to make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.model import Action, Party, Place
from bench.parties import api, create, open_repository, split_config

LENGTH = 5000
"""bytes of each virtual chunk"""

Grid = tuple[int, int]


def locations(grid: Grid, *, distinct: bool) -> list[str]:
    """One file per row of chunks, or one per chunk."""
    rows, columns = grid
    if distinct:
        return [f"s3://some-bucket/data/part-{i:07d}.nc" for i in range(rows * columns)]
    names = (f"s3://some-bucket/data/file-{row:04d}.nc" for row in range(rows))
    return [name for name in names for _ in range(columns)]


def declare(store: Any, grid: Grid, chunk: int = 1) -> None:
    """The array `a` with one byte per chunk, or with wider chunks."""
    import zarr

    zarr.open_group(store, mode="a").create_array(
        "a",
        shape=(grid[0], grid[1] * chunk),
        chunks=(1, chunk),
        dtype="u1",
        filters=None,
        compressors=None,
        dimension_names=("y", "x"),
    )


def set_virtual(party: Party, store: Any, grid: Grid, names: list[str]) -> Action:
    """What sets all references; the oldest package takes them one record each."""
    rows, columns = grid
    offsets = np.tile(np.arange(columns, dtype=np.uint64) * LENGTH + 4096, rows)
    lengths = np.full(rows * columns, LENGTH, np.uint64)
    if party is not Party.ICECHUNK1:
        return lambda: store.set_virtual_refs_arr(
            "/a", grid, names, offsets, lengths, validate_containers=False
        )
    record = api(party).VirtualChunkSpec
    specs = [
        record([i // columns, i % columns], name, int(offset), LENGTH)
        for i, (name, offset) in enumerate(zip(names, offsets, strict=True))
    ]
    return lambda: store.set_virtual_refs("/a", specs, validate_containers=False)


def write_virtual(
    party: Party, grid: Grid, place: Place, *, spec: int = 2, split: int | None = None
) -> None:
    """A repository with virtual references, one file per row."""
    config = {} if split is None else {"config": split_config(party, split)}
    session = create(party, place, spec=spec, **config).writable_session("main")
    declare(session.store, grid)
    set_virtual(party, session.store, grid, locations(grid, distinct=False))()
    session.commit("referenced")


def write_native(party: Party, grid: Grid, place: Place) -> None:
    """A repository with native references to chunk objects that nobody reads.

    No package but Frazil can set so many at once; a peer's own manifest is made by a peer's
    commit of one more chunk, which encodes all of them anew.
    """
    from frazil.ids import ChunkId
    from frazil.model.chunks import ChunkTable
    from frazil.storage.assets import chunk_key

    session = create(Party.FRAZIL, place).writable_session("main")
    declare(session.store, grid)
    coords = np.indices(grid, np.uint32).reshape(2, -1).T
    ids = np.random.default_rng(3).integers(0, 256, (len(coords), 12), np.uint8)
    table = ChunkTable.native(coords, ids, 0, LENGTH)
    session.state.set_table(session.state.array("/a"), table)
    # A commit looks at one of its chunks to tell the age of its session.
    first = chunk_key(ChunkId(bytes(ids[0])))
    session.state.context.storage.put(first, bytes(LENGTH))
    session.commit("referenced")
    if party is not Party.FRAZIL:
        one_chunk(party, open_repository(party, place), (0, 0))


def one_chunk(party: Party, repository: Any, index: tuple[int, int]) -> None:
    """Change one reference and commit."""
    session = repository.writable_session("main")
    session.store.set_virtual_ref(
        f"a/c/{index[0]}/{index[1]}",
        "s3://some-bucket/data/other.nc",
        offset=0,
        length=LENGTH,
        validate_container=False,
    )
    session.commit("one chunk")
