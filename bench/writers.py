"""Curve: how many commits per second many processes put onto one branch.

Every writer changes its own chunk, and on a lost race rebases and tries again. What the
writers were told to be committed is compared with what the history holds in the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from bench import history
from bench.disk import settle
from bench.model import Curve, Party, Place, Size, Unit, Where
from bench.parties import Durability, api, create, open_repository
from bench.servers import Remote
from bench.worker import ROOT, Worker

SIDES: tuple[tuple[str, Party, Durability], ...] = (
    ("frazil, durable", Party.FRAZIL, "commit"),
    ("frazil, no fsync", Party.FRAZIL, "none"),
    (Party.ICECHUNK2.value, Party.ICECHUNK2, "none"),
)

LONGER = 5
"""A race on a disk has so many times as many commits as one on a store: four of each of sixteen
writers are over in less than half a second, a third of which is the beginning and the end"""


def commit_all(request: dict[str, Any]) -> list[int]:
    """What one writer does; returns how many commits it was told have landed, and failed."""
    party = Party(request["party"])
    place = Place(**request["place"])
    repository = open_repository(party, place, request["durability"])
    solver = api(party).ConflictDetector()
    _ = repository.writable_session("main").store  # imports zarr, which is not what is measured
    landed = failed = 0
    for number in range(request["count"]):
        session = repository.writable_session("main")
        data = (number + 1).to_bytes(4, "little")
        history.put(session.store, f"a/c/{request['writer']}", data)
        try:
            session.commit(f"{request['writer']}/{number}", rebase_with=solver)
        except Exception:
            failed += 1
        else:
            landed += 1
    return [landed, failed]


def by_writers(size: Size, rounds: int, folder: Path, remote: Remote | None) -> Iterator[Curve]:
    """Measure on disk and, if there is a server, on it."""
    workers = [
        Worker(Path(sys.executable), (ROOT / "src", ROOT)) for _ in range(max(size.writer_growth))
    ]
    try:
        yield _curve(size, rounds, workers, Where.LOCAL, folder, None)
        if remote is not None:
            yield _curve(size, rounds, workers, Where.S3, folder, remote)
    finally:
        for worker in workers:
            worker.close()


def _curve(
    size: Size,
    rounds: int,
    workers: list[Worker],
    where: Where,
    folder: Path,
    remote: Remote | None,
) -> Curve:
    key = f"growth-writers-{where.name.lower()}"
    title = f"commits per second to one branch, {where.value}"
    curve = Curve(key, title, "writers", Unit.PER_SECOND)
    # An object store is always as durable as it is: one way of ours is enough there.
    sides = SIDES if remote is None else SIDES[1:]
    names = {name: name if remote is None else name.split(",")[0] for name, _, _ in sides}
    numbers = count()
    lost: dict[str, int] = {}
    failed: dict[str, int] = {}
    for number in size.writer_growth:
        speeds: dict[str, list[float]] = {name: [] for name, _, _ in sides}
        for turn in range(rounds):
            for name, party, durability in sides[:: 1 if turn % 2 else -1]:
                path = f"writers-{next(numbers)}-{time.monotonic_ns()}"
                place = remote.place(where, path) if remote else Place(str(folder / path))
                commits = size.commits if remote else LONGER * size.commits
                race = _race(workers[:number], party, durability, place, commits)
                speeds[name].append(race.speed)
                lost[name] = lost.get(name, 0) + race.lost
                failed[name] = failed.get(name, 0) + race.failed
        for name, values in speeds.items():
            curve.add(names[name], number, values)
        found = ", ".join(f"{name} {median(values):.1f}" for name, values in speeds.items())
        print(f"    {title}, {number} writers: {found}", flush=True)
    remarks = (
        (lost, "acknowledged commits are not in the history"),
        (failed, "commits were given up"),
    )
    for counted, text in remarks:
        for name, number in counted.items():
            if number:
                curve.remarks.setdefault(names[name], []).append(f"{number} {text}")
    return curve


@dataclass(frozen=True, slots=True)
class Race:
    """What came out of one race."""

    speed: float
    """acknowledged commits per second"""
    lost: int
    failed: int


def _race(
    workers: list[Worker], party: Party, durability: Durability, place: Place, commits: int
) -> Race:
    """Let the writers commit, all at the same time."""
    repository = create(Party.FRAZIL, place)
    session = repository.writable_session("main")
    history.declare(session.store)
    session.commit("array")
    share = max(1, commits // len(workers))
    request = {"party": party.value, "place": place.plain(), "durability": durability}

    def ask(number: int, count: int) -> list[int]:
        own = {"do": "commits", "writer": number, "count": count}
        answer: list[int] = workers[number].ask(own | request)
        return answer

    with ThreadPoolExecutor(len(workers)) as pool:
        # Processes start and import before the time does.
        list(pool.map(partial(ask, count=0), range(len(workers))))
        settle()
        begin = time.perf_counter()
        done = list(pool.map(partial(ask, count=share), range(len(workers))))
        seconds = time.perf_counter() - begin
    acknowledged, failed = (sum(each[i] for each in done) for i in (0, 1))
    landed = len(list(open_repository(Party.FRAZIL, place).ancestry(branch="main"))) - 2
    return Race(acknowledged / seconds, acknowledged - landed, failed)
