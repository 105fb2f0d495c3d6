"""Cases: reading arrays from local disk, through zarr, in bulk, and through xarray."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import arrays
from bench.arrays import Layout, same_values
from bench.model import Action, Case, Contestant, Dataset, Party, Place, Size, Target
from bench.parties import open_repository, pipeline, reading

THEME = "Reading from local disk"
PEER = Party.ICECHUNK2.value
TENSORSTORE = Party.TENSORSTORE.value
BULK = "frazil.bulk"
PACKED = "frazil.bulk, packed"
THROUGH_ZARR = "frazil through zarr"


# --- the work ---


def through_zarr(party: Party, place: Place, _: Place) -> Action:
    """Open the repository, then the array, and read all of it."""

    def work() -> Any:
        import zarr

        with pipeline(party):
            array = zarr.open_array(reading(party, place).store, path="a", mode="r")
        return array[...]

    return work


def in_bulk(place: Place, _: Place) -> Action:
    """Open the repository and read the whole array."""

    def work() -> Any:
        from frazil.bulk import read_region

        return read_region(reading(Party.FRAZIL, place), "a")

    return work


def plain_zarr(place: Place, _: Place) -> Action:
    """Read the unversioned array with zarr-python."""

    def work() -> Any:
        import zarr

        with pipeline(Party.ZARR):
            array = zarr.open_array(arrays.plain_store(place), path="a", mode="r")
        return array[...]

    return work


def with_tensorstore(place: Place, _: Place) -> Action:
    """Read the unversioned array with tensorstore."""
    return lambda: arrays.tensor(place).read().result()


def files_of(place: Place) -> list[Path]:
    """The chunk objects of a repository."""
    return sorted((place.folder / "chunks").iterdir())


def read_files(place: Place, _: Place) -> Action:
    """What the disk can do: the same files one after another, into one buffer."""
    sizes = [(str(file), file.stat().st_size) for file in files_of(place)]
    total = sum(length for _, length in sizes)

    def work() -> None:
        buffer = np.empty(total, np.uint8).data
        at = 0
        for name, length in sizes:
            handle = os.open(name, os.O_RDONLY)
            at += os.preadv(handle, (buffer[at : at + length],), 0)
            os.close(handle)
        assert at == total

    return work


def copy_memory(layout: Layout, place: Place, _: Place) -> Action:
    """What memory can do: a copy of the values."""
    source = arrays.values(layout)

    def work() -> None:
        source.copy()

    return work


def with_xarray(party: Party, blocks: dict[str, int] | None, place: Place, _: Place) -> Action:
    """Load a dataset, whole or in dask blocks of some shape."""

    def work() -> Any:
        import xarray

        with pipeline(party):
            if party is Party.ZARR:
                store = arrays.plain_store(place)
            else:
                store = reading(party, place).store
            data = xarray.open_zarr(store, consolidated=False, zarr_format=3, chunks=blocks)
        return data["a"].load().values

    return work


# --- the datasets ---


def repository(party: Party, layout: Layout, codec: str, *, packed: bool = False) -> Dataset:
    """The array in a repository that the party wrote."""
    suffix = "-packed" if packed else ""
    return Dataset(
        f"{layout.key}-{codec}-{party.name.lower()}{suffix}",
        party,
        partial(arrays.write_repository, party, layout, codec, packed=packed),
    )


def plain(layout: Layout, codec: str) -> Dataset:
    """The array without versions."""
    return Dataset(
        f"{layout.key}-{codec}-plain",
        Party.ZARR,
        partial(arrays.write_plain, layout, codec),
    )


# --- the cases ---


def peers(layout: Layout, codec: str, *, older: bool = True) -> tuple[Contestant, ...]:
    """The official packages, each on what it wrote itself."""
    parties = (Party.ICECHUNK2, Party.ICECHUNK1) if older else (Party.ICECHUNK2,)
    return tuple(
        Contestant(
            party.value, party, partial(through_zarr, party), repository(party, layout, codec)
        )
        for party in parties
    )


def unversioned(layout: Layout, codec: str, *, zarr: bool = True) -> tuple[Contestant, ...]:
    """zarr-python and tensorstore on plain zarr."""
    data = plain(layout, codec)
    tensorstore = Contestant(TENSORSTORE, Party.TENSORSTORE, with_tensorstore, data)
    if not zarr:
        return (tensorstore,)
    return (Contestant("zarr LocalStore", Party.ZARR, plain_zarr, data), tensorstore)


def limits(layout: Layout, data: Dataset) -> tuple[Contestant, ...]:
    """What the machine allows."""
    return (
        Contestant("limit: pread", Party.LIMIT, read_files, data),
        Contestant("limit: memcpy", Party.LIMIT, partial(copy_memory, layout), data),
    )


def _small(size: Size, codec: str, musts: dict[str, tuple[float, float] | None]) -> Case:
    layout = arrays.small(size)
    single = repository(Party.FRAZIL, layout, codec)
    packed = repository(Party.FRAZIL, layout, codec, packed=True)
    zarr = partial(through_zarr, Party.FRAZIL)
    return Case(
        key=f"read-16k-{codec}",
        title=f"read {layout.title} {codec}",
        theme=THEME,
        contestants=(
            Contestant(THROUGH_ZARR, Party.FRAZIL, zarr, single),
            Contestant(BULK, Party.FRAZIL, in_bulk, single),
            Contestant(PACKED, Party.FRAZIL, in_bulk, packed),
            Contestant(f"{THROUGH_ZARR}, packed", Party.FRAZIL, zarr, packed),
            *peers(layout, codec),
            *unversioned(layout, codec),
            *limits(layout, single),
        ),
        targets=(
            *(Target(name, PEER, *(bounds or ())) for name, bounds in musts.items()),
            Target(BULK, TENSORSTORE, *((1, 1.2) if codec == "raw" else (0.9, 1.1))),
        ),
        check=partial(same_values, layout),
        memory=codec == "raw",
    )


def _tiny(size: Size) -> Case:
    layout = arrays.tiny(size)
    single = repository(Party.FRAZIL, layout, "raw")
    packed = repository(Party.FRAZIL, layout, "raw", packed=True)
    # The peer reads what Frazil wrote, file by file the same: writing takes it minutes.
    peer = Contestant(PEER, Party.ICECHUNK2, partial(through_zarr, Party.ICECHUNK2), single)
    return Case(
        key="read-1k",
        title=f"read {layout.title} raw",
        theme=THEME,
        contestants=(
            Contestant(BULK, Party.FRAZIL, in_bulk, single),
            Contestant(PACKED, Party.FRAZIL, in_bulk, packed),
            peer,
            *unversioned(layout, "raw", zarr=False),
            *limits(layout, single),
        ),
        targets=(
            Target(BULK, PEER, 30, 45),
            Target(PACKED, PEER, 100, 300),
            Target(BULK, TENSORSTORE),
        ),
        check=partial(same_values, layout),
        warm_up=False,
    )


def _large(size: Size, codec: str, must: float, goal: float) -> Case:
    layout = arrays.large(size)
    single = repository(Party.FRAZIL, layout, codec)
    return Case(
        key=f"read-4m-{codec}",
        title=f"read {layout.title} {codec}",
        theme=THEME,
        contestants=(
            Contestant(BULK, Party.FRAZIL, in_bulk, single),
            Contestant(THROUGH_ZARR, Party.FRAZIL, partial(through_zarr, Party.FRAZIL), single),
            *peers(layout, codec),
            *unversioned(layout, codec),
            *limits(layout, single),
        ),
        targets=(Target(BULK, PEER, must, goal), Target(BULK, TENSORSTORE, 0.9, 1.2)),
        check=partial(same_values, layout),
        memory=codec == "zstd",
    )


def _xarray(size: Size, side: int | None = None) -> Case:
    """The whole dataset, at once or in dask blocks with so many chunks along each side."""
    layout = arrays.small(size)
    codec = "zstd"
    way, blocks = "open_zarr().load()", None
    if side is not None:
        way = f"in dask blocks of {side * side} chunks"
        blocks = dict(zip(("y", "x"), (side * n for n in layout.chunks), strict=True))

    def contestant(name: str, party: Party, data: Dataset) -> Contestant:
        return Contestant(name, party, partial(with_xarray, party, blocks), data)

    return Case(
        key="xarray-load" if side is None else f"xarray-dask-{side * side}",
        title=f"xarray {way}, {layout.title} zstd",
        theme=THEME,
        contestants=(
            contestant("frazil", Party.FRAZIL, repository(Party.FRAZIL, layout, codec)),
            contestant(PEER, Party.ICECHUNK2, repository(Party.ICECHUNK2, layout, codec)),
            contestant("zarr LocalStore", Party.ZARR, plain(layout, codec)),
        ),
        # Blocks of 64 chunks are what the target is stated for; dask has its share in smaller ones.
        targets=(Target("frazil", PEER, *((5, 10) if side != 4 else ())),),
        check=partial(same_values, layout),
    )


def _one_chunk(size: Size) -> Case:
    layout = arrays.small(size)

    def make(party: Party, place: Place, _: Place) -> Action:
        import zarr

        with pipeline(party):
            store = open_repository(party, place).readonly_session("main").store
            array = zarr.open_array(store, path="a", mode="r")
        rows, columns = layout.chunks

        def work() -> None:
            for number in range(64):
                at = number % layout.grid[0] * rows
                array[at : at + rows, :columns]

        return work

    return Case(
        key="read-one",
        title="64 single chunks of 16 KiB through zarr, one call each",
        theme=THEME,
        contestants=tuple(
            Contestant(name, party, partial(make, party), repository(party, layout, "raw"))
            for name, party in (
                ("frazil", Party.FRAZIL),
                (PEER, Party.ICECHUNK2),
                (Party.ICECHUNK1.value, Party.ICECHUNK1),
            )
        ),
        targets=(Target("frazil", PEER),),
    )


def cases(size: Size) -> tuple[Case, ...]:
    """All cases of this theme."""
    return (
        _small(size, "raw", {THROUGH_ZARR: (8, 20), BULK: (15, 30), PACKED: (25, 80)}),
        _small(size, "zstd", {THROUGH_ZARR: (5, 12), BULK: (8, 18), PACKED: None}),
        _one_chunk(size),
        _xarray(size),
        _xarray(size, 8),
        _xarray(size, 4),
        _tiny(size),
        _large(size, "raw", 4, 8),
        _large(size, "zstd", 1.5, 3),
        _large(size, "blosc", 3, 5),
    )
