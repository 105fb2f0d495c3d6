"""Byte vectors and strings that many tables point to, each distinct one taken once."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import vectors_at
from frazil.flatbuf.reader import Buffer
from frazil.model.lookup import ABSENT
from frazil.model.strings import I32, I64, U8, Strings, by_length, gather_runs, opaque_items

SAMPLE: Final = 4096
"""Texts looked at to tell whether a pool has many repetitions: to look for them among a million
different texts takes longer than to keep them."""


def pool(buffer: Buffer, positions: I64) -> tuple[I32, bytes, I64]:
    """Pool byte vectors, equal ones once; position 0 stands for none.

    Returns the number of each row in the pool (-1 for none), the bytes, and the end of each.
    """
    numbers = np.full(len(positions), ABSENT, np.int32)
    present = np.flatnonzero(positions)
    if not len(present):
        return numbers, b"", np.zeros(0, np.int64)
    some = positions if len(present) == len(positions) else positions[present]
    distinct, number = _distinct_positions(some)
    starts, lengths = vectors_at(buffer, distinct, 1)
    data, ends = gather_runs(buffer.data, starts, lengths)
    heads = _first_of_equals(np.frombuffer(data, np.uint8), ends, lengths)
    if len(heads) < len(ends):
        member = np.zeros(len(ends), np.int32)
        member[heads] = 1
        number = (np.cumsum(member, dtype=np.int32) - 1)[number]
        data, ends = gather_runs(data, (ends - lengths)[heads], lengths[heads])
    again, data, ends = _without_repeats(data, ends)
    numbers[present] = number if again is None else again[number]
    return numbers, data, ends


def _without_repeats(data: bytes, ends: I64) -> tuple[I32 | None, bytes, I64]:
    """Drop repetitions anywhere in a pool, if a sample shows that there are many.

    Returns the new number of each item, or None when nothing changed.
    """
    if len(ends) > SAMPLE:
        picked = np.linspace(0, len(ends) - 1, SAMPLE).astype(np.int64)
        sample = [data[ends[i - 1] if i else 0 : ends[i]] for i in picked.tolist()]
        if 2 * len(set(sample)) > SAMPLE:
            return None, data, ends
    items = [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
    distinct = dict.fromkeys(items, 0)
    if len(distinct) == len(items):
        return None, data, ends
    for number, item in enumerate(distinct):
        distinct[item] = number
    numbers = np.fromiter(map(distinct.__getitem__, items), np.int32, len(items))
    lengths = np.fromiter(map(len, distinct), np.int64, len(distinct))
    return numbers, b"".join(distinct), np.cumsum(lengths, dtype=np.int64)


def _distinct_positions(positions: I64) -> tuple[I64, I32]:
    """Positions without repetitions, and the number of each in that list."""
    is_head = np.ones(len(positions), bool)
    np.not_equal(positions[1:], positions[:-1], out=is_head[1:])
    heads = positions[is_head]
    number = np.cumsum(is_head, dtype=np.int32) - np.int32(1)
    # Writers put texts in the order of the tables or, building from the end, in the reverse.
    if (heads[1:] > heads[:-1]).all() or (heads[1:] < heads[:-1]).all():
        return heads, number
    distinct, inverse = np.unique(heads, return_inverse=True)
    return distinct, inverse.astype(np.int32)[number]


def _first_of_equals(data: U8, ends: I64, lengths: I64) -> npt.NDArray[np.intp]:
    """Which runs differ from the run before them.

    Foreign writers store a text once for each reference; references to one object follow each
    other, so comparing neighbours finds nearly all repetitions at the cost of one pass.
    """
    starts = ends - lengths
    differs = np.ones(len(ends), bool)
    candidates = np.flatnonzero(lengths[1:] == lengths[:-1]) + 1
    if len(candidates) > SAMPLE and not _any_equal(data, starts, lengths, candidates):
        return np.arange(len(ends))
    for length, chosen in by_length(lengths[candidates]):
        rows, items = candidates[chosen], opaque_items(data, length)
        differs[rows] = items[starts[rows]] != items[starts[rows - 1]]
    return np.flatnonzero(differs)


def _any_equal(data: U8, starts: I64, lengths: I64, candidates: npt.NDArray[np.intp]) -> bool:
    """Whether any of a sample of runs is equal to the run before it."""
    picked = candidates[np.linspace(0, len(candidates) - 1, SAMPLE).astype(np.intp)]
    pairs = zip(starts[picked - 1].tolist(), starts[picked].tolist(), strict=True)
    return any(
        data[before : before + size].tobytes() == data[at : at + size].tobytes()
        for (before, at), size in zip(pairs, lengths[picked].tolist(), strict=True)
    )


def texts(buffer: Buffer, positions: I64) -> tuple[I32, Strings]:
    """Pool strings as `pool` does, checked to be UTF-8."""
    numbers, data, ends = pool(buffer, positions)
    found = Strings(data, ends)
    if not found.is_utf8():
        raise buffer.fail("text is not UTF-8")
    return numbers, found
