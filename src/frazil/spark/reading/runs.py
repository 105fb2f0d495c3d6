"""Places along an axis as runs of neighbours, so that they cost by how they are scattered.

An axis may be far longer than memory, and a comparison with a number chooses a few runs of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from frazil.arrays import I64, Mask
from frazil.errors import InvalidInputError
from frazil.spark.reading.stored import Places
from frazil.spark.tuning import DENSE_RUN

MOST_PLACES: Final = 1 << 30
"""Places of an axis that are looked at, or listed, one by one."""
MOST_RUNS: Final = 1 << 27
"""Runs that are held at once; each takes 16 bytes."""


def require_few(count: int, most: int = MOST_PLACES) -> None:
    """Refuse to look at more places of an axis than memory has room for.

    Raises:
        InvalidInputError: there are too many.
    """
    if count > most:
        raise InvalidInputError(
            f"an axis has {count:,} places to be looked at, and at most {most:,} are; "
            "choose fewer by their positions (isel)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Ascending runs of places, between which there are others."""

    starts: I64
    stops: I64
    """after the last place of each run"""

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]]) -> Runs:
        """Runs in any order, which may be empty, meet or overlap."""
        found = np.array([*runs], np.int64).reshape(-1, 2)
        return _merged(found[:, 0], found[:, 1])

    @classmethod
    def one(cls, start: int, stop: int) -> Runs:
        """The places from one to before another."""
        return cls.of([(start, stop)])

    @classmethod
    def at(cls, places: Places) -> Runs:
        """Places as runs."""
        if isinstance(places, slice):
            return cls.one(places.start, places.stop)
        return _merged(places, places + 1)

    @classmethod
    def where(cls, mask: Mask, start: int = 0) -> Runs:
        """The places where a mask that begins at a place says yes."""
        inner = np.flatnonzero(mask[1:] != mask[:-1]) + 1
        first = [0] if mask[:1].any() else []
        last = [len(mask)] if mask[-1:].any() else []
        edges = np.concatenate([first, inner, last]).astype(np.int64) + start
        return cls(edges[::2], edges[1::2])

    @classmethod
    def every(cls, numbers: range) -> Runs:
        """Places at some distance from each other."""
        require_few(len(numbers), MOST_RUNS)
        places = np.arange(numbers.start, numbers.stop, numbers.step)
        return _merged(places, places + 1)

    @classmethod
    def any_of(cls, parts: Sequence[Runs]) -> Runs:
        """The places that are in one of some."""
        none = np.zeros(0, np.int64)
        return _merged(
            np.concatenate([none, *(part.starts for part in parts)]),
            np.concatenate([none, *(part.stops for part in parts)]),
        )

    @property
    def count(self) -> int:
        """How many places there are."""
        return int((self.stops - self.starts).sum())

    def __bool__(self) -> bool:
        """Whether there is a place."""
        return len(self.starts) > 0

    def __and__(self, other: Runs) -> Runs:
        """The places that are in both."""
        first = np.searchsorted(other.stops, self.starts, side="right")
        after = np.searchsorted(other.starts, self.stops, side="left")
        times = np.maximum(after - first, 0)
        require_few(int(times.sum()), MOST_RUNS)
        own = np.repeat(np.arange(len(times)), times)
        others = np.arange(len(own)) + np.repeat(first - (np.cumsum(times) - times), times)
        return Runs(
            np.maximum(self.starts[own], other.starts[others]),
            np.minimum(self.stops[own], other.stops[others]),
        )

    def outside(self, length: int) -> Runs:
        """The places of an axis that are not here."""
        starts, stops = np.append(0, self.stops), np.append(self.starts, length)
        return _merged(starts.astype(np.int64), stops.astype(np.int64))

    def before(self, places: I64) -> I64:
        """How many places come before others."""
        lengths = self.stops - self.starts
        counts: I64 = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        run = np.searchsorted(self.starts, places, side="right")
        last = np.maximum(run - 1, 0)
        if not len(lengths):
            return np.zeros(len(places), np.int64)
        within = np.clip(places - self.starts[last], 0, lengths[last])
        found: I64 = np.where(run > 0, counts[last] + within, 0)
        return found

    def first(self, count: int) -> Runs:
        """So many of the places, the first ones."""
        lengths = self.stops - self.starts
        earlier = np.cumsum(lengths) - lengths
        chosen = earlier < count
        stops = np.minimum(self.stops, self.starts + (count - earlier))
        return Runs(self.starts[chosen], stops[chosen])

    def blocks(self, size: int) -> Runs:
        """The numbers of the blocks of some length that places are in."""
        return _merged(self.starts // size, (self.stops - 1) // size + 1)

    def numbers(self) -> I64:
        """The number of each place.

        Raises:
            InvalidInputError: there are too many.
        """
        require_few(self.count)
        lengths = self.stops - self.starts
        earlier = np.cumsum(lengths) - lengths
        return np.repeat(self.starts - earlier, lengths) + np.arange(int(lengths.sum()))

    def places(self) -> Places:
        """The places as a slice, if they are neighbours.

        Raises:
            InvalidInputError: they are no neighbours, and too many to list.
        """
        if not self:
            return slice(0, 0)
        if len(self.starts) == 1:
            return slice(int(self.starts[0]), int(self.stops[0]))
        return self.numbers()

    def mask(self, length: int) -> Mask:
        """For each place of an axis whether it is one.

        Raises:
            InvalidInputError: the axis is too long.
        """
        require_few(length)
        found = np.zeros(length, bool)
        found[self.numbers()] = True
        return found

    def pieces(self, size: int) -> Iterator[Places]:
        """All places, and perhaps some between them, a piece of some length at a time."""
        for start in range(0, self.count, size):
            part = self._between(start, start + size)
            low, high = int(part.starts[0]), int(part.stops[-1])
            yield slice(low, high) if high - low <= DENSE_RUN * part.count else part.numbers()

    def _between(self, start: int, stop: int) -> Runs:
        """The places from one to before another, counted from the first."""
        counts = np.cumsum(self.stops - self.starts)
        low, high = np.searchsorted(counts, [start, stop - 1], side="right")
        part = Runs(self.starts[low : high + 1], self.stops[low : high + 1])
        skipped = start - (int(counts[low - 1]) if low else 0)
        starts = part.starts.copy()
        starts[0] += skipped
        return Runs(starts, part.stops).first(stop - start)


def _merged(starts: I64, stops: I64) -> Runs:
    """Runs in order, those that meet or overlap as one, without empty ones."""
    there = starts < stops
    starts, stops = starts[there], stops[there]
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    is_new = np.ones(len(starts), bool)
    is_new[1:] = starts[1:] > stops[:-1]
    is_last = np.ones(len(starts), bool)
    is_last[:-1] = is_new[1:]
    require_few(int(np.count_nonzero(is_new)), MOST_RUNS)
    return Runs(starts[is_new], stops[is_last])
