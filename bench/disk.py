"""Waiting until the disk has done what earlier work left to it."""

from __future__ import annotations

import os
import time
from pathlib import Path

STATISTICS = Path("/proc/diskstats")
COUNTED = (7, 11, 14)
"""where a line of it has what a disk has written, is busy with and has given back"""
STILL_S = 0.02
"""a disk that has counted nothing for so long is at rest"""
PATIENCE_S = 10.0
"""a machine whose disk never rests is measured as it is"""


def settle() -> None:
    """Write what is to be written, and wait until blocks of removed files were given back.

    A file system that is mounted with `discard` gives them back after the `sync` that freed them,
    for seconds and with a good part of a core, beside whatever is measured next.
    """
    os.sync()
    end = time.monotonic() + PATIENCE_S
    seen = _counted()
    while seen and time.monotonic() < end:
        time.sleep(STILL_S)
        before, seen = seen, _counted()
        if seen == before:
            return


def _counted() -> list[list[str]]:
    """What the disks have done so far, where the kernel tells it."""
    try:
        lines = [line.split() for line in STATISTICS.read_text().splitlines()]
    except OSError:
        return []
    return [[line[each] for each in COUNTED] for line in lines if len(line) > max(COUNTED)]
