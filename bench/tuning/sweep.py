"""One constant, some values of it, and the same work with each of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench.model import Party, Where
from bench.parties import storage
from bench.servers import Remote, remote
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage

KIB, MIB = 1 << 10, 1 << 20
LOW, HIGH = 0, 1 << 60
"""values that always decide for one of two ways"""
Work = Callable[[], object]
RUNNING = ExitStack()
"""what is stopped and removed in the end"""
USED_UP: list[str] = []
"""folders that are removed after one round"""


@dataclass(frozen=True, slots=True)
class Row:
    """What is measured of a constant."""

    name: str
    """table and constant, such as `bulk.DISK_BATCH`"""
    make: Callable[[], Work]
    """prepares the work; the work alone is measured"""
    values: Sequence[Any] = ()
    """to be compared; an eighth, the value itself and eight times as much unless given"""
    is_fresh: bool = False
    """whether the work is prepared anew for each time, since it uses up what it works on"""
    note: str = ""
    """what the work is about, where one constant has several rows"""


@dataclass(slots=True)
class Costs:
    """What one value has cost, once for each round."""

    cpu: list[float]
    wall: list[float]
    memory: list[int]

    def __str__(self) -> str:
        cpu, wall = 1e3 * median(self.cpu), 1e3 * median(self.wall)
        best, memory = 1e3 * min(self.cpu), max(self.memory) / MIB
        return f"{cpu:.4g} ms (best {best:.4g}, clock {wall:.4g}, {memory:.0f} MiB)"


def measure(row: Row, seconds: float) -> None:
    """Print the median processor time of each value, the time on the clock and the memory."""
    places, value = _places(row.name)
    values = row.values or (type(value)(value / 8), value, value * 8)
    costs = {each: Costs([], [], []) for each in values}
    prepared: dict[Any, Work] = {}
    try:
        rounds, spent = 0, 0.0
        while rounds < 3 or (spent < seconds and rounds < 400):
            rounds += 1
            for each in values:
                _set(places, each)
                if row.is_fresh or each not in prepared:
                    prepared[each] = row.make()
                    if not row.is_fresh:
                        prepared[each]()  # what is loaded once is not counted
                spent += _once(prepared[each], costs[each])
                while USED_UP:
                    shutil.rmtree(USED_UP.pop(), ignore_errors=True)
    finally:
        _set(places, value)
    told = "; ".join(f"{each}: {cost}" for each, cost in costs.items())
    print(f"{row.name} {row.note} [{rounds}] {told}", flush=True)


def _once(work: Work, costs: Costs) -> float:
    _forget_peak()
    before = _resident("VmRSS")
    others, own, start = _time_of_others(), time.process_time(), time.perf_counter()
    work()
    costs.wall.append(time.perf_counter() - start)
    own = time.process_time() - own
    costs.cpu.append(own + _time_of_others() - others)
    costs.memory.append(_resident("VmHWM") - before)
    return costs.wall[-1]


def _places(name: str) -> tuple[list[tuple[Any, str]], Any]:
    """The modules that have got a constant from its table, and its value."""
    table, _, constant = name.partition(".")
    value = getattr(import_module(f"frazil.{table}.tuning"), constant)
    modules = [module for key, module in [*sys.modules.items()] if key.startswith("frazil.")]
    return [(m, constant) for m in modules if vars(m).get(constant) == value], value


def _set(places: Sequence[tuple[Any, str]], value: object) -> None:
    for module, constant in places:
        setattr(module, constant, value)


def _time_of_others() -> float:
    """Seconds of processors that processes which this one has started have used, but servers.

    What a process has used that ended meanwhile counts only if its parent has waited for it.
    """
    found = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            if not {"ministack", "bench.proxy"} & {*child.cmdline()}:
                found += sum(child.cpu_times()[:4])
        except psutil.Error:
            continue
    return found


def _forget_peak() -> None:
    with Path("/proc/self/clear_refs").open("w") as file:
        file.write("5")


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * KIB


# --- places ---


@cache
def home() -> Path:
    """A folder for everything."""
    return Path(RUNNING.enter_context(TemporaryDirectory(prefix="tune-")))


def folder(name: str = "") -> str:
    """A folder that does not exist yet."""
    return str(home() / f"{name}-{os.urandom(6).hex()}")


def disk(*, is_durable: bool = False) -> LocalStorage:
    """A new local storage."""
    return LocalStorage(folder("disk"), durability="commit" if is_durable else "none")


def scratch(*, is_durable: bool = False) -> LocalStorage:
    """A new local storage for one round."""
    USED_UP.append(folder("scratch"))
    return LocalStorage(USED_UP[-1], durability="commit" if is_durable else "none")


@cache
def _server() -> Remote:
    return RUNNING.enter_context(remote())


def far() -> Storage:
    """A new prefix of an object store on loopback, whose answers take 30 ms more."""
    place = _server().place(Where.SLOW_S3, Path(folder("far")).name)
    found: Storage = storage(Party.FRAZIL, place)
    return found
