"""The history as rows of a graph: each commit in a lane, with the lines that lead to the next row.

Rows carry the lines below them, so that any window of a long history can be drawn by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.model.lineage import other_parents
from frazil.model.values import SnapshotInfo

MOST_LANES: Final = 64
"""Lanes whose lines are drawn; the lines of more could not be followed by eye."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One commit; `lines` go from a lane of this row to a lane of the next, each of a colour."""

    snapshot: SnapshotInfo
    lane: int
    colour: int
    parents: tuple[str, ...]
    tracks: tuple[tuple[int, int], ...]
    """for each parent, the lane in which the line to it goes down, and its colour"""
    lines: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class _Lane:
    wanted: str
    colour: int


@dataclass(slots=True)
class _Step:
    snapshot: SnapshotInfo
    lane: int
    colour: int
    parents: tuple[str, ...]
    tracks: tuple[tuple[int, int], ...]
    below: list[tuple[int, int, str, int]]
    """lines to the next row: from, to, what the lane waits for, colour"""


def parents_of(snapshot: SnapshotInfo) -> tuple[str, ...]:
    """The parent of a commit, then what it merged."""
    own = () if snapshot.parent_id is None else (snapshot.parent_id,)
    others = (str(each) for each in other_parents(snapshot.metadata))
    return tuple(dict.fromkeys((*own, *others)))


def lay_out(snapshots: Sequence[SnapshotInfo], first: str | None = None) -> list[GraphRow]:
    """Give each commit a row below its children; `first`, a tip, gets the first lane."""
    known = {each.id: each for each in snapshots}
    parents = {
        key: tuple(one for one in parents_of(each) if one in known and one != key)
        for key, each in known.items()
    }
    steps = list(_steps(known, parents, first))
    rows: list[GraphRow] = []
    for number, step in enumerate(steps):
        after = steps[number + 1] if number + 1 < len(steps) else None
        lines = {
            (begin, after.lane if after and wanted == after.snapshot.id else end, colour)
            for begin, end, wanted, colour in step.below
        }
        rows.append(
            GraphRow(
                step.snapshot,
                step.lane,
                step.colour,
                step.parents,
                step.tracks,
                tuple(sorted(lines)),
            )
        )
    return rows


class _Lanes:
    """Which lanes wait for which commit; histories may have as many lanes as branches."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._by_wanted: dict[str, list[int]] = {}
        self._free: list[int] = []
        self._next = 0

    def put(self, wanted: str, colour: int, lane: int | None = None) -> int:
        """Let a lane wait for a commit: a certain one, or the first that is free."""
        if lane is None:
            lane = self.take()
        self._lanes[lane] = _Lane(wanted, colour)
        self._by_wanted.setdefault(wanted, []).append(lane)
        return lane

    def take(self) -> int:
        """The first lane that is free."""
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, lane: int) -> None:
        """Nothing waits in a lane any more."""
        heapq.heappush(self._free, lane)

    def arrived(self, key: str) -> list[tuple[int, int]]:
        """The lanes that waited for a commit, with their colours; they wait no longer."""
        found = sorted(self._by_wanted.pop(key, ()))
        return [(lane, self._lanes.pop(lane).colour) for lane in found]

    def waiting_for(self, key: str) -> int | None:
        """The first lane that waits for a commit."""
        return min(self._by_wanted.get(key, ()), default=None)

    def colour(self, lane: int) -> int:
        """The colour of a lane that waits."""
        return self._lanes[lane].colour

    def first(self) -> Iterator[tuple[int, _Lane]]:
        """The lanes that wait, as many as are drawn."""
        return ((n, self._lanes[n]) for n in range(MOST_LANES) if n in self._lanes)


def _steps(
    known: Mapping[str, SnapshotInfo], parents: Mapping[str, tuple[str, ...]], first: str | None
) -> Iterator[_Step]:
    lanes = _Lanes()
    reserved, colours = bool(first in known and first), 1
    if reserved and first:
        lanes.put(first, 0)
    for key in _children_first(known, parents):
        waiting = lanes.arrived(key)
        if waiting:
            lane, colour = waiting[0]
            reserved = reserved and lane != 0
        else:
            lane, colour, colours = lanes.take(), colours, colours + 1
        for other_lane, _ in waiting[1:]:
            lanes.give_back(other_lane)
        tracks = []
        if parents[key]:
            lanes.put(parents[key][0], colour, lane)
            tracks.append((lane, colour))
        else:
            lanes.give_back(lane)
        joins: list[tuple[int, int, str, int]] = []
        new = set()
        for other in parents[key][1:]:
            held = lanes.waiting_for(other)
            if held is None:
                held = lanes.put(other, colours)
                new.add(held)
                colours += 1
            elif held == 0 and reserved:
                reserved = False  # it was kept free for a tip, and now leads there
                new.add(held)
            tracks.append((held, lanes.colour(held)))
            joins.append((lane, held, other, lanes.colour(held)))
        below = [
            (number, number, each.wanted, each.colour)
            for number, each in lanes.first()
            if number not in new and not (reserved and number == 0)
        ]
        yield _Step(known[key], lane, colour, parents[key], tuple(tracks), below + joins)


def _children_first(
    known: Mapping[str, SnapshotInfo], parents: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Newest first, but never a parent before its children; circles of damaged files end it."""
    children = dict.fromkeys(known, 0)
    for found in parents.values():
        for one in found:
            children[one] += 1
    ready = [(-known[key].written_at.timestamp(), key) for key, n in children.items() if not n]
    heapq.heapify(ready)
    while ready:
        key = heapq.heappop(ready)[1]
        yield key
        for one in parents[key]:
            children[one] -= 1
            if not children[one]:
                heapq.heappush(ready, (-known[one].written_at.timestamp(), one))
