"""Cases: committing, opening and looking up references by the million."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import numpy as np

from bench.model import Action, Case, Contestant, Dataset, Party, Place, Size, Target, Unit
from bench.parties import Durability, create, open_repository, reading
from bench.reference_data import (
    Grid,
    declare,
    locations,
    one_chunk,
    set_virtual,
    write_native,
    write_virtual,
)
from bench.seeds import seeded

THEME = "References"
PEER = Party.ICECHUNK2.value
OLDER = Party.ICECHUNK1.value
SAME_CALL = "frazil, same call"
COLUMNS = "frazil, columns"

# --- the work ---


def commit_virtual(
    party: Party, grid: Grid, distinct: bool, durability: Durability, _: Place, scratch: Place
) -> Action:
    """Set references for a whole array and commit them."""
    session = create(party, scratch, durability).writable_session("main")
    declare(session.store, grid)
    set_all = set_virtual(party, session.store, grid, locations(grid, distinct=distinct))

    def work() -> None:
        set_all()
        session.commit("referenced")

    return work


def all_locations(party: Party, grid: Grid, place: Place, _: Place) -> Action:
    """Open and list where every virtual chunk is."""

    def work() -> None:
        found = reading(party, place).all_virtual_chunk_locations()
        assert len(found) == grid[0] * grid[1]

    return work


def all_coordinates(party: Party, grid: Grid, place: Place, _: Place) -> Action:
    """Open and list which chunks there are, by the call that both packages have."""

    def work() -> None:
        import asyncio

        session = reading(party, place)

        async def count() -> int:
            return len([None async for _ in session.chunk_coordinates("/a")])

        assert asyncio.run(count()) == grid[0] * grid[1]

    return work


def all_columns(grid: Grid, place: Place, _: Place) -> Action:
    """Open and have every reference as columns: coordinates, ids, offsets, lengths, places."""

    def work() -> None:
        state = reading(Party.FRAZIL, place).state
        table = state.table(state.array("/a"))
        assert len(table.coords) == len(table.offset) == grid[0] * grid[1]

    return work


def cold_lookup(party: Party, grid: Grid, place: Place, _: Place) -> Action:
    """Open and ask for one chunk."""

    def work() -> None:
        kind = reading(party, place).chunk_type("/a", [grid[0] // 2, grid[1] // 2])
        assert "virtual" in repr(kind).lower()  # releases spell it differently

    return work


def _asked(grid: Grid, count: int) -> Any:
    return np.random.default_rng(5).integers(0, grid, (count, 2))


def lookup_each(party: Party, grid: Grid, count: int, place: Place, _: Place) -> Action:
    """Ask for chunks one by one, with everything at hand."""
    session = reading(party, place)
    coords = _asked(grid, count).tolist()
    session.chunk_type("/a", coords[0])

    def work() -> None:
        for each in coords:
            session.chunk_type("/a", each)

    return work


def lookup_many(grid: Grid, count: int, place: Place, _: Place) -> Action:
    """Ask for all chunks at once, with everything at hand."""
    state = reading(Party.FRAZIL, place).state
    coords = _asked(grid, count)
    table = state.table(state.array("/a"))
    table.find_many(coords[:1])

    def work() -> None:
        assert (table.find_many(coords) >= 0).all()

    return work


def commit_one(
    party: Party, grid: Grid, durability: Durability, place: Place, scratch: Place
) -> Action:
    """Open, change one reference of very many, commit."""
    # A different chunk each time, or nothing would change.
    number = zlib.crc32(scratch.path.encode())
    index = number % grid[0], number % grid[1]
    return lambda: one_chunk(party, open_repository(party, place, durability), index)


def manifest_bytes(place: Place, _: Place) -> Action:
    """The size of all manifests."""
    files = place.folder / "manifests"
    return lambda: sum(file.stat().st_size for file in files.iterdir())


# --- datasets and cases ---


def virtual_data(party: Party, grid: Grid) -> Dataset:
    """Virtual references that the party committed itself."""
    return Dataset(
        f"virtual-{grid[0]}-{party.name.lower()}", party, partial(write_virtual, party, grid)
    )


def native_data(party: Party, grid: Grid) -> Dataset:
    """Native references in a manifest that the party encoded itself."""
    return Dataset(
        f"native-{grid[0]}-{party.name.lower()}", party, partial(write_native, party, grid)
    )


def seeded_data(party: Party, grid: Grid, split: int | None, tag: str = "") -> Dataset:
    """Virtual references that Frazil committed, whoever changes them then.

    The newer package gets format 2, the older one format 1.
    """
    spec = 1 if party is Party.ICECHUNK1 else 2
    # The explicit rule of one manifest keeps Frazil from splitting by itself.
    build = partial(write_virtual, Party.FRAZIL, grid, spec=spec, split=split or grid[0])
    name = f"virtual-{grid[0]}-{split}-v{spec}"
    return Dataset(f"{name}-{party.name.lower()}{tag}", Party.FRAZIL, partial(seeded, name, build))


def _commits(size: Size, distinct: bool, must: float, goal: float) -> Case:
    grid = size.references
    count = grid[0] * grid[1]
    files = "all distinct" if distinct else f"{grid[0]:,} files"
    # The older package takes references one record each, which is slow enough to see once.
    parties = (Party.ICECHUNK2,) if distinct else (Party.ICECHUNK2, Party.ICECHUNK1)
    return Case(
        key=f"virtual-{'distinct' if distinct else 'files'}",
        title=f"set + commit {count:,} virtual references, {files}",
        theme=THEME,
        contestants=(
            Contestant(
                "frazil, durable",
                Party.FRAZIL,
                partial(commit_virtual, Party.FRAZIL, grid, distinct, "commit"),
            ),
            *(
                Contestant(
                    party.value, party, partial(commit_virtual, party, grid, distinct, "none")
                )
                for party in parties
            ),
        ),
        targets=(Target("frazil, durable", PEER, must, goal),),
        warm_up=False,
        memory=not distinct,
    )


def _opening(size: Size) -> tuple[Case, ...]:
    grid = size.references
    count = f"{grid[0] * grid[1]:,}"
    parties = (("frazil", Party.FRAZIL), (PEER, Party.ICECHUNK2), (OLDER, Party.ICECHUNK1))
    native = native_data(Party.FRAZIL, grid)
    peer_native = native_data(Party.ICECHUNK2, grid)
    return (
        Case(
            key="open-virtual",
            title=f"open + all {count} virtual references",
            theme=THEME,
            contestants=tuple(
                Contestant(
                    name, party, partial(all_locations, party, grid), virtual_data(party, grid)
                )
                for name, party in parties
            ),
            targets=(Target("frazil", PEER, 3, 4),),
            memory=True,
        ),
        Case(
            key="open-native",
            title=f"open + all {count} native references",
            theme=THEME,
            contestants=(
                Contestant(COLUMNS, Party.FRAZIL, partial(all_columns, grid), native),
                Contestant(
                    SAME_CALL, Party.FRAZIL, partial(all_coordinates, Party.FRAZIL, grid), native
                ),
                Contestant(
                    PEER,
                    Party.ICECHUNK2,
                    partial(all_coordinates, Party.ICECHUNK2, grid),
                    peer_native,
                ),
            ),
            targets=(Target(COLUMNS, PEER, 10, 15), Target(SAME_CALL, PEER)),
            memory=True,
        ),
        Case(
            key="open-lookup",
            title=f"cold open + one lookup in {count} references",
            theme=THEME,
            contestants=tuple(
                Contestant(
                    name, party, partial(cold_lookup, party, grid), virtual_data(party, grid)
                )
                for name, party in parties
            ),
            targets=(Target("frazil", PEER, 2, 3),),
            memory=True,
        ),
    )


def _lookups(size: Size) -> Case:
    grid, count = size.references, size.lookups
    data = virtual_data(Party.FRAZIL, grid)
    one_by_one = partial(lookup_each, Party.FRAZIL, grid, count)
    peers = tuple(
        Contestant(
            party.value, party, partial(lookup_each, party, grid, count), virtual_data(party, grid)
        )
        for party in (Party.ICECHUNK2, Party.ICECHUNK1)
    )
    return Case(
        key="lookup-many",
        title=f"look up {count:,} chunks of {grid[0] * grid[1]:,}, manifest at hand",
        theme=THEME,
        contestants=(
            Contestant(COLUMNS, Party.FRAZIL, partial(lookup_many, grid, count), data),
            Contestant(SAME_CALL, Party.FRAZIL, one_by_one, data),
            *peers,
        ),
        targets=(Target(COLUMNS, PEER, 100, 1000), Target(SAME_CALL, PEER)),
    )


def _one_chunk(size: Size, split: int | None, must: float, goal: float) -> Case:
    grid = size.many_references
    parties: list[tuple[str, Party, Durability]] = [
        ("frazil, durable", Party.FRAZIL, "commit"),
        ("frazil, no fsync", Party.FRAZIL, "none"),
        (PEER, Party.ICECHUNK2, "none"),
    ]
    if split is not None:
        parties.append((OLDER, Party.ICECHUNK1, "none"))
    how = "one manifest" if split is None else f"manifests of {split * grid[1]:,}"
    return Case(
        key=f"one-chunk-{'unsplit' if split is None else 'split'}",
        title=f"open + one-chunk commit on {grid[0] * grid[1]:,} references, {how}",
        theme=THEME,
        contestants=tuple(
            Contestant(
                name,
                party,
                partial(commit_one, party, grid, durability),
                seeded_data(party, grid, split, f"-{durability}"),
            )
            for name, party, durability in parties
        ),
        targets=(Target("frazil, durable", PEER, must, goal), Target("frazil, no fsync", PEER)),
        warm_up=split is not None,
        memory=split is not None,
    )


def _sizes(size: Size) -> Case:
    grid = size.references
    return Case(
        key="manifest-size",
        title=f"manifest file of {grid[0] * grid[1]:,} virtual references, {grid[0]:,} files",
        theme=THEME,
        unit=Unit.BYTES,
        contestants=tuple(
            Contestant(name, party, manifest_bytes, virtual_data(party, grid))
            for name, party in (
                ("frazil", Party.FRAZIL),
                (PEER, Party.ICECHUNK2),
                (OLDER, Party.ICECHUNK1),
            )
        ),
        targets=(Target("frazil", PEER, 0.6, 0.5),),
        warm_up=False,
    )


def cases(size: Size) -> tuple[Case, ...]:
    """All cases of this theme."""
    return (
        _commits(size, False, 6, 10),
        _commits(size, True, 2.5, 4),
        *_opening(size),
        _lookups(size),
        _sizes(size),
        _one_chunk(size, None, 10, 25),
        _one_chunk(size, size.split, 5, 10),
    )
