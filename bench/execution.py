"""Running one contestant once: in this process, or in a worker on behalf of another."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.disk import settle
from bench.model import Case, Contestant, Party, Place, Timed, Unit
from bench.page_cache import warm

STATUS = Path("/proc/self/status")
CLEAR_PEAK = Path("/proc/self/clear_refs")

QUICK_S = 0.3
QUICK_TIMES = 3
"""Work that takes less is done so often in a round: a hiccup of the machine is as long as it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run gave: seconds or bytes, and memory before it and at its peak."""

    value: float
    base_bytes: int | None
    peak_bytes: int | None


def execute(
    case: Case,
    contestant: Contestant,
    data: Place,
    scratch: Place,
    *,
    check: bool,
    before: Callable[[], object] | None = None,
) -> Measured:
    """Do the work once; `check` looks at the result as well, `before` runs just before it."""
    action = contestant.make(data, scratch)
    gc.collect()
    if scratch.is_local:
        settle()  # else one contestant's fsync waits for what another left to the kernel
        warm(scratch.folder.parent)
    if before is not None:
        before()
    with contextlib.suppress(OSError):
        CLEAR_PEAK.write_text("5")  # from here on the peak is that of the action
    base = _memory("VmRSS")
    begin = time.perf_counter()
    result = action()
    seconds = time.perf_counter() - begin
    peak = _memory("VmHWM")
    if check and case.check is not None and contestant.party is not Party.LIMIT:
        case.check(result)
    match result:
        case Timed():
            value = float(result)
        case int() | float() if case.unit is Unit.BYTES:
            value = float(result)
        case _:
            value = seconds
    return Measured(value, base, peak)


def typical(run: Callable[[], float]) -> float:
    """The median of what `run` takes: what is quick is done several times."""
    known = [run()]
    while len(known) < QUICK_TIMES and known[0] < QUICK_S:
        known.append(run())
    return median(known)


def _memory(name: str) -> int | None:
    """A figure of this process as the kernel tells it, where it does."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    found = (line.split() for line in lines if line.startswith(f"{name}:"))
    return next((int(words[1]) * 1024 for words in found), None)
