"""Tables in memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.tuning.sweep import HIGH, LOW, Row, Work
from bench.tuning.tables import RANDOM, native
from frazil.model.combining import overlay
from frazil.model.lookup import lookup_for
from frazil.model.strings import copy_runs

NONE = np.zeros((0, 1), np.uint32)


def change(count: int, changed: int) -> Work:
    base = native(count)
    rows = np.zeros(count, bool)
    rows[:: count // changed] = True
    changes = base.take(rows)
    # A new table each time: one keeps its index.
    return lambda: overlay(base.take(np.ones(count, bool)), changes, NONE)


def look_up(step: int) -> Work:
    """An index of 200,000 references, one in `step` cells, and each of them looked up."""
    coords = native(200_000, step).coords
    return lambda: lookup_for(coords).rows(coords)


def copy(length: int) -> Work:
    """16 MiB in runs of one length."""
    source = RANDOM.integers(0, 256, 16 << 20, np.uint8)
    count = len(source) // length
    starts = RANDOM.permutation(count).astype(np.int64) * length
    places, lengths = np.sort(starts), np.full(count, length, np.int64)
    target = np.zeros_like(source)
    return lambda: copy_runs(source, starts, lengths, target, places)


ROWS = [
    *(
        Row("model.FEW_CHANGES", partial(change, count, n), (LOW, HIGH), note=f"{n} of {count}")
        for count in (5000, 500_000)
        for n in (8, 32, 128)
    ),
    *(
        Row("model.DENSE_SHARE", partial(look_up, n), (LOW, HIGH), note=f"one in {n}")
        for n in (4, 16, 64)
    ),
    *(
        Row("model.LONG_RUN", partial(copy, n), (LOW, HIGH), note=f"{n}")
        for n in (512, 4096, 32768)
    ),
]
