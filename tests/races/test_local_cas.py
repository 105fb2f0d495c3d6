"""Compare-and-swap on a local disk, across processes that race and die."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.storage.base import Fetched, LostRace, Version, Written
from frazil.storage.local import Durability, LocalStorage
from tests.support.forking import Forked, run_all

PROCESSES = 8


def pack(count: int, size: int) -> bytes:
    """A counter in an object of some size that shows if it was torn."""
    body = f"{count}\n".encode() + random.randbytes(size)
    return hashlib.sha256(body).digest() + body


def unpack(data: bytes) -> int:
    """The counter, if the object is whole."""
    assert hashlib.sha256(data[32:]).digest() == data[:32], "torn"
    return int(data[32:].split(b"\n", 1)[0])


def read_counter(storage: LocalStorage) -> tuple[int, Version]:
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    return unpack(found.data), found.version


def count_up(
    root: str, durability: Durability, times: int, size: int, log: str | None = None
) -> None:
    """Increment the counter, noting each value that was acknowledged."""
    storage = LocalStorage(root, durability=durability)
    noted = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen = 0
    while times:
        value, version = read_counter(storage)
        assert value >= seen, "went back"
        seen = value
        new = pack(value + 1, random.randrange(size + 1))
        if isinstance(storage.put_if("repo", new, version), Written):
            times -= 1
            if noted is not None:
                os.write(noted, f"{value + 1}\n".encode())


def create_each(root: str, log: str, rounds: int) -> None:
    """Try to be the one who creates each object."""
    storage = LocalStorage(root, durability="none")
    won = [
        turn
        for turn in range(rounds)
        if isinstance(storage.put_if(f"refs/{turn}", log.encode(), None), Written)
    ]
    Path(log).write_text(" ".join(map(str, won)))


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["commit", "none"])
def test_counting_in_processes_loses_nothing(tmp_path: Path, durability: Durability) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("repo", pack(0, 10))
    run_all(count_up, [(str(tmp_path), durability, 25, 2000)] * PROCESSES)
    assert read_counter(storage)[0] == PROCESSES * 25


@pytest.mark.slow
def test_each_object_has_one_creator(tmp_path: Path) -> None:
    rounds = 100
    logs = [str(tmp_path / f"log{number}") for number in range(PROCESSES)]
    root = str(tmp_path / "repository")
    run_all(create_each, [(root, log, rounds) for log in logs])
    winners = {turn: log for log in logs for turn in map(int, Path(log).read_text().split())}
    assert sum(len(Path(log).read_text().split()) for log in logs) == rounds
    storage = LocalStorage(root)
    for turn in range(rounds):
        assert storage.get(f"refs/{turn}") == winners[turn].encode()


def test_a_deletion_does_not_come_between(tmp_path: Path) -> None:
    """What was deleted is not brought back by a replacement that began before."""
    storage = LocalStorage(tmp_path)
    storage.put("repo", b"old")
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    storage.delete_many(["repo"])
    assert storage.put_if("repo", b"new", found.version) == LostRace("repo")
    assert storage.get("repo") is None


class Massacre:
    """Writers that are killed at random and started again."""

    def __init__(self, root: Path, writers: int, size: int) -> None:
        self.root = root / "repository"
        self.log = root / "acknowledged"
        self.deaths = 0
        self._size = size
        self.storage = LocalStorage(self.root)
        self.storage.put("repo", pack(0, 10))
        self._running = [self._start() for _ in range(writers)]

    def _start(self) -> Forked:
        return Forked(count_up, str(self.root), "none", 10**9, self._size, str(self.log))

    def run(self, duration_s: float) -> None:
        """Kill for a while, and look at the object all the time."""
        end = time.monotonic() + duration_s
        seen = 0
        while time.monotonic() < end:
            time.sleep(random.uniform(0, 0.03))
            value = read_counter(self.storage)[0]
            assert value >= seen
            seen = value
            victim = random.randrange(len(self._running))
            assert self._running[victim].is_running(), "died by itself"
            self._kill(victim)
            self._running[victim] = self._start()
        self.end()

    def end(self) -> None:
        """Kill all."""
        for number in range(len(self._running)):
            self._kill(number)

    def _kill(self, number: int) -> None:
        self.deaths += self._running[number].kill() != 0

    def acknowledged(self) -> list[int]:
        """All values that some writer was told were written."""
        return [int(line) for line in self.log.read_text().split()]


def check_massacre(massacre: Massacre) -> None:
    """Every acknowledged write is there, once; only dying writes may be unacknowledged."""
    values = massacre.acknowledged()
    final = read_counter(massacre.storage)[0]
    assert len(values) == len(set(values))
    assert values
    assert max(values) <= final
    assert len(values) <= final <= len(values) + massacre.deaths
    # It would be refused if it had to wait for a lock of the dead.
    assert isinstance(
        massacre.storage.put_if("repo", b"end", read_counter(massacre.storage)[1]), Written
    )
    assert [item.key for item in massacre.storage.list()] == ["repo"]


@pytest.fixture
def massacre(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Massacre]:
    made = Massacre(tmp_path, writers=4, size=request.param)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize("massacre", [20_000], indirect=True)
def test_killed_writers_tear_and_lock_nothing(massacre: Massacre) -> None:
    massacre.run(3)
    check_massacre(massacre)


@pytest.mark.soak
@pytest.mark.parametrize("massacre", [1_000, 4_000_000], indirect=True)
def test_many_killed_writers_tear_and_lock_nothing(massacre: Massacre) -> None:
    massacre.run(90)
    check_massacre(massacre)


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["commit", "none"])
def test_counting_long_in_processes_loses_nothing(tmp_path: Path, durability: Durability) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("repo", pack(0, 10))
    run_all(count_up, [(str(tmp_path), durability, 500, 2000)] * PROCESSES)
    assert read_counter(storage)[0] == PROCESSES * 500
