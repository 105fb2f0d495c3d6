"""Curves: what a repository costs as references, snapshots and nodes become more.

Each point is measured like a case: both sides in turn, on copies of one repository.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from bench import history, references
from bench.disk import settle
from bench.execution import QUICK_S, QUICK_TIMES
from bench.model import Action, Curve, Party, Place, Size, Timed, Unit
from bench.parties import Durability, create, open_repository, reading
from bench.reference_data import Grid, write_virtual
from bench.seeds import discard, link_copy

FRAZIL, PEER = "frazil", Party.ICECHUNK2.value
ONCE_FROM = 5_000_000
"""from how many references on a commit of all is measured once"""
MANY_COMMITS = 1_000
"""more are not made one by one"""
SIDES = ((FRAZIL, Party.FRAZIL), (PEER, Party.ICECHUNK2))

Measure = Callable[[Party, Place, Place], Action]


@dataclass(frozen=True, slots=True)
class Field:
    """Where curves are measured."""

    size: Size
    rounds: int
    folder: Path
    numbers: count[int]

    def scratch(self) -> Place:
        """An empty place."""
        return Place(str(self.folder / f"growth-{next(self.numbers)}"))

    def compare(
        self, curve: Curve, x: int, measure: Measure, places: dict[str, Place], rounds: int
    ) -> None:
        """Measure the sides in turn and note the point.

        Quick work is done several times a round, but for a single round: there it is done once,
        since some work cannot be done again.
        """
        times = 1 if rounds == 1 else QUICK_TIMES
        values: dict[str, list[float]] = {name: [] for name in places}
        parties = dict(SIDES)
        for turn in range(rounds * times):
            for name in list(places)[:: 1 if turn % 2 else -1]:
                if turn >= rounds and values[name][0] > QUICK_S:
                    continue
                values[name].append(self._once(measure, parties[name], places[name]))
        for name, each in values.items():
            curve.add(name, x, each)
        found = ", ".join(f"{name} {median(each) * 1e3:.1f} ms" for name, each in values.items())
        print(f"    {curve.title}, {x:,} {curve.x}: {found}", flush=True)

    def _once(self, measure: Measure, party: Party, place: Place) -> float:
        scratch = self.scratch()
        action = measure(party, place, scratch)
        gc.collect()
        settle()
        begin = time.perf_counter()
        result = action()
        seconds = time.perf_counter() - begin
        discard(scratch.folder)
        return float(result) if isinstance(result, Timed) else seconds

    def copies(self, source: Place) -> dict[str, Place]:
        """A copy for each side."""
        places = {name: self.scratch() for name, _ in SIDES}
        for place in places.values():
            link_copy(source.folder, place.folder)
        return places


def drop(*places: Place) -> None:
    """Remove folders."""
    for place in places:
        discard(place.folder)


def _durability(party: Party) -> Durability:
    return "commit" if party is Party.FRAZIL else "none"


# --- references ---


def by_references(field: Field) -> Iterator[Curve]:
    """Commit of all at once; with manifests split: a cold lookup and a commit of one chunk."""
    x = "references"
    commit = Curve("growth-refs-commit", "set + commit all references", x, Unit.SECONDS)
    lookup = Curve("growth-refs-lookup", "cold open + one lookup, split", x, Unit.SECONDS)
    one = Curve("growth-refs-one", "open + one-chunk commit, split", x, Unit.SECONDS)
    for number in field.size.reference_growth:
        grid = (number // 1000, 1000)
        sides = {
            name: field.scratch()
            for name, party in SIDES
            if party is Party.FRAZIL or number <= field.size.peer_references
        }
        rounds = 1 if number >= ONCE_FROM else field.rounds
        field.compare(commit, number, partial(_commit_all, grid), sides, rounds)
        seed = field.scratch()
        write_virtual(Party.FRAZIL, grid, seed, split=field.size.split)
        places = field.copies(seed)
        compare = partial(field.compare, places=places, rounds=field.rounds)
        compare(lookup, number, partial(_lookup, grid))
        compare(one, number, partial(_commit_one, grid))
        drop(seed, *places.values())
    commit.remarks[PEER] = [f"measured up to {field.size.peer_references:,}"]
    yield from (commit, lookup, one)


def _commit_all(grid: Grid, party: Party, place: Place, scratch: Place) -> Action:
    return references.commit_virtual(party, grid, False, _durability(party), place, scratch)


def _lookup(grid: Grid, party: Party, place: Place, scratch: Place) -> Action:
    return references.cold_lookup(party, grid, place, scratch)


def _commit_one(grid: Grid, party: Party, place: Place, scratch: Place) -> Action:
    return references.commit_one(party, grid, _durability(party), place, scratch)


# --- snapshots ---


def by_snapshots(field: Field) -> Iterator[Curve]:
    """A commit, listing the history, opening, and clearing up, as the history grows."""
    x = "snapshots"
    curves = {
        "commit": Curve("growth-snapshots-commit", "one small commit", x, Unit.SECONDS),
        "ancestry": Curve("growth-snapshots-ancestry", "list the ancestry", x, Unit.SECONDS),
        "open": Curve("growth-snapshots-open", "cold open", x, Unit.SECONDS),
        "expire": Curve("growth-snapshots-expire", "expire all but the newest", x, Unit.SECONDS),
        "collect": Curve("growth-snapshots-collect", "collect them then", x, Unit.SECONDS),
    }
    seed = field.scratch()
    made = field.size.snapshot_growth[0]
    history.write_history(made, seed)
    for number in field.size.snapshot_growth:
        if number - made > MANY_COMMITS:
            history.grow_history(number - made, seed)
        else:
            history.commit_some(open_repository(Party.FRAZIL, seed), number - made, first=made)
        made = number
        places = field.copies(seed)
        compare = partial(field.compare, places=places, rounds=field.rounds)
        compare(curves["commit"], number, _small_commit)
        compare(curves["ancestry"], number, _ancestry)
        compare(curves["open"], number, history.open_newest)
        once = partial(field.compare, places=places, rounds=1)  # there is one history to clear up
        once(curves["expire"], number, _expire)
        once(curves["collect"], number, _collect)
        drop(*places.values())
    drop(seed)
    yield from curves.values()


def _small_commit(party: Party, place: Place, scratch: Place) -> Action:
    action = history.small_commits(party, _durability(party), place, scratch)

    def work() -> Timed:
        total = action()
        assert isinstance(total, Timed)
        return Timed(total / history.COMMITS)

    return work


def _ancestry(party: Party, place: Place, scratch: Place) -> Action:
    return history.ancestry(party, 1, place, scratch)


def _expire(party: Party, place: Place, scratch: Place) -> Action:
    repository = open_repository(party, place, _durability(party))

    def work() -> None:
        assert repository.expire_snapshots(datetime.now(UTC))

    return work


def _collect(party: Party, place: Place, scratch: Place) -> Action:
    repository = open_repository(party, place, _durability(party))

    def work() -> None:
        assert repository.garbage_collect(datetime.now(UTC)).snapshots_deleted

    return work


# --- nodes ---


def by_nodes(field: Field) -> Iterator[Curve]:
    """Opening one array, listing all, and a commit that changes one, as nodes become more."""
    x = "nodes"
    opened = Curve("growth-nodes-open", "cold open + one array's metadata", x, Unit.SECONDS)
    commit = Curve("growth-nodes-commit", "open + commit of one attribute", x, Unit.SECONDS)
    for number in field.size.node_growth:
        seed = field.scratch()
        _write_nodes(number, seed)
        places = field.copies(seed)
        compare = partial(field.compare, places=places, rounds=field.rounds)
        compare(opened, number, partial(_open_node, number))
        compare(commit, number, partial(_change_node, number))
        drop(seed, *places.values())
    yield from (opened, commit)


def _node_key(number: int) -> str:
    return f"g{number // 100}/a{number % 100}/zarr.json"


def _write_nodes(number: int, place: Place) -> None:
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    memory = zarr.storage.MemoryStore()
    zarr.create_array(memory, name="a", shape=(4,), chunks=(1,), dtype="i4")
    document = memory._store_dict["a/zarr.json"]  # zarr shows it no other way
    group = default_buffer_prototype().buffer.from_bytes(_group(0))
    session = create(Party.FRAZIL, place).writable_session("main")

    async def fill() -> None:
        await session.store.set("zarr.json", group)
        for each in range(number):
            if each % 100 == 0:
                await session.store.set(f"g{each // 100}/zarr.json", group)
            await session.store.set(_node_key(each), document)

    sync(fill())
    session.commit("nodes")


def _group(number: int) -> bytes:
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"number": number}}
    return json.dumps(document).encode()


def _open_node(number: int, party: Party, place: Place, _: Place) -> Action:
    def work() -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        store: Any = reading(party, place).store
        assert sync(store.get(_node_key(number // 2), default_buffer_prototype())) is not None

    return work


def _change_node(number: int, party: Party, place: Place, _: Place) -> Action:
    def work() -> None:
        session = open_repository(party, place, _durability(party)).writable_session("main")
        key = f"g{number // 200}/zarr.json"
        history.put(session.store, key, _group(time.monotonic_ns() % 2**31))
        session.commit("changed")

    return work


GROWTH: dict[str, Callable[[Field], Iterator[Curve]]] = {
    "growth-refs": by_references,
    "growth-snapshots": by_snapshots,
    "growth-nodes": by_nodes,
}
