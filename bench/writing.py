"""Cases: writing arrays to local disk and committing them.

Frazil makes a commit durable before it moves the branch; the official package, zarr-python
and tensorstore never ask the disk for that. So each row is there twice: as it is by default,
and with `durability="none"`, which does what the others do; large chunks, whose bytes take their
time to the disk, also beside the official package with fsync after its commit.
"""

from __future__ import annotations

import os
from functools import partial

from bench import arrays
from bench.arrays import Layout
from bench.model import Action, Case, Contestant, Party, Place, Size, Target
from bench.parties import SYNCED, Durability, create, pipeline, to_disk

THEME = "Writing to local disk, with commit"
PEER = Party.ICECHUNK2.value
HOW: dict[Durability, str] = {"commit": "durable", "none": "no fsync"}


def through_zarr(
    party: Party,
    layout: Layout,
    codec: str,
    durability: Durability,
    packed: bool,
    _: Place,
    scratch: Place,
) -> Action:
    """Write the whole array by one assignment and commit."""
    session = create(party, scratch, durability).writable_session("main")
    with pipeline(party):
        array = arrays.declare(session.store, layout, codec)
    content = arrays.values(layout)

    def assign() -> None:
        array[...] = content
        session.commit("written")
        if durability == "after":
            to_disk(scratch.folder.rglob("*"))

    if not packed:
        return assign

    def assign_packed() -> None:
        import frazil.config

        with frazil.config.set(pack_zarr_writes=True):
            assign()

    return assign_packed


def in_bulk(layout: Layout, codec: str, durability: Durability, _: Place, scratch: Place) -> Action:
    """Write the whole array by `frazil.bulk` and commit."""
    from frazil.bulk import write_region

    session = create(Party.FRAZIL, scratch, durability).writable_session("main")
    arrays.declare(session.store, layout, codec)
    content = arrays.values(layout)

    def work() -> None:
        write_region(session, "a", ..., content)
        session.commit("written")

    return work


def plain_zarr(layout: Layout, codec: str, _: Place, scratch: Place) -> Action:
    """Write without versions, with zarr-python."""
    with pipeline(Party.ZARR):
        array = arrays.declare(arrays.plain_store(scratch), layout, codec)
    content = arrays.values(layout)

    def work() -> None:
        array[...] = content

    return work


def with_tensorstore(layout: Layout, codec: str, _: Place, scratch: Place) -> Action:
    """Write without versions, with tensorstore."""
    arrays.declare(arrays.plain_store(scratch), layout, codec)
    array = arrays.tensor(scratch)
    content = arrays.values(layout)
    return lambda: array.write(content).result()


def files(layout: Layout, _: Place, scratch: Place) -> Action:
    """What the file system can do: as many files of that size, created one after another."""
    scratch.folder.mkdir(parents=True, exist_ok=True)
    piece = arrays.values(layout).reshape(-1)[: layout.nbytes // layout.count // 8].tobytes()

    def work() -> None:
        for number in range(layout.count):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            handle = os.open(f"{scratch.path}/{number}", flags)
            os.write(handle, piece)
            os.close(handle)

    return work


def one_file(layout: Layout, _: Place, scratch: Place) -> Action:
    """What the disk can do: all bytes in one file."""
    scratch.folder.mkdir(parents=True, exist_ok=True)
    content = arrays.values(layout).data.cast("B")

    def work() -> None:
        with (scratch.folder / "all").open("wb", buffering=0) as file:
            at = 0
            while at < len(content):
                at += file.write(content[at:])

    return work


def _limits(layout: Layout) -> tuple[Contestant, ...]:
    return (
        Contestant("limit: one file per chunk", Party.LIMIT, partial(files, layout)),
        Contestant("limit: one file", Party.LIMIT, partial(one_file, layout)),
    )


def _others(layout: Layout, codec: str) -> tuple[Contestant, ...]:
    official = (Party.ICECHUNK2, Party.ICECHUNK1)
    return (
        *(
            Contestant(
                party.value,
                party,
                partial(through_zarr, party, layout, codec, "none", False),
            )
            for party in official
        ),
        Contestant("zarr LocalStore", Party.ZARR, partial(plain_zarr, layout, codec)),
        Contestant("tensorstore", Party.TENSORSTORE, partial(with_tensorstore, layout, codec)),
        *_limits(layout),
    )


def _ours(
    layout: Layout, codec: str, packings: tuple[bool, ...]
) -> tuple[tuple[Contestant, ...], dict[tuple[bool, Durability], str]]:
    """Frazil through zarr in all its ways, and how they are called."""
    names = {
        (packed, how): f"frazil, {'packed' if packed else 'one file per chunk'}, {HOW[how]}"
        for packed in packings
        for how in HOW
    }
    return tuple(
        Contestant(
            name,
            Party.FRAZIL,
            partial(through_zarr, Party.FRAZIL, layout, codec, how, packed),
        )
        for (packed, how), name in names.items()
    ), names


def _small(
    size: Size, codec: str, packed: tuple[float, float], single: tuple[float, float]
) -> Case:
    layout = arrays.small(size)
    contestants, names = _ours(layout, codec, (True, False))
    bulk = "frazil.bulk, packed, durable"
    return Case(
        key=f"write-16k-{codec}",
        title=f"write {layout.title} {codec} through zarr + commit",
        theme=THEME,
        contestants=(
            *contestants,
            Contestant(bulk, Party.FRAZIL, partial(in_bulk, layout, codec, "commit")),
            *_others(layout, codec),
        ),
        targets=(
            *(
                Target(name, PEER, *(packed if is_packed else single))
                for (is_packed, _), name in names.items()
            ),
            Target(bulk, PEER),
        ),
        warm_up=False,
        memory=codec == "raw",
    )


def _large(size: Size, codec: str, must: float, goal: float) -> Case:
    layout = arrays.large(size)
    contestants, names = _ours(layout, codec, (False,))
    return Case(
        key=f"write-4m-{codec}",
        title=f"write {layout.title} {codec} through zarr + commit",
        theme=THEME,
        contestants=(
            *contestants,
            *_others(layout, codec),
            Contestant(
                SYNCED,
                Party.ICECHUNK2,
                partial(through_zarr, Party.ICECHUNK2, layout, codec, "after", False),
            ),
        ),
        targets=(
            Target(names[False, "none"], PEER, must, goal),
            Target(names[False, "commit"], SYNCED, must, goal),
            Target(names[False, "commit"], PEER),
        ),
        warm_up=False,
        memory=codec == "raw",
    )


def cases(size: Size) -> tuple[Case, ...]:
    """All cases of this theme."""
    return (
        _small(size, "raw", packed=(8, 15), single=(5, 10)),
        _small(size, "zstd", packed=(6, 12), single=(5, 10)),
        _large(size, "raw", 1.2, 4),
        _large(size, "zstd", 0.9, 1.2),
    )
