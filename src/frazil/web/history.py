"""The history as rows of a graph: each commit in a lane, with the lines that lead to the next row.

Rows carry the lines below them, so that any window of a long history can be drawn by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from frazil.merging.lineage import other_parents
from frazil.model.values import SnapshotInfo


@dataclass(frozen=True, slots=True)
class Row:
    """One commit; `lines` go from a lane of this row to a lane of the next, each of a colour."""

    snapshot: SnapshotInfo
    lane: int
    colour: int
    parents: tuple[str, ...]
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
    below: list[tuple[int, int, str, int]]
    """lines to the next row: from, to, what the lane waits for, colour"""


def parents_of(snapshot: SnapshotInfo) -> tuple[str, ...]:
    """The parent of a commit, then what it merged."""
    own = () if snapshot.parent_id is None else (snapshot.parent_id,)
    others = (str(each) for each in other_parents(snapshot.metadata))
    return tuple(dict.fromkeys((*own, *others)))


def lay_out(snapshots: Sequence[SnapshotInfo], first: str | None = None) -> list[Row]:
    """Give each commit a row below its children; `first`, a tip, gets the first lane."""
    known = {each.id: each for each in snapshots}
    parents = {
        key: tuple(one for one in parents_of(each) if one in known and one != key)
        for key, each in known.items()
    }
    steps = list(_steps(known, parents, first))
    rows: list[Row] = []
    for number, step in enumerate(steps):
        after = steps[number + 1] if number + 1 < len(steps) else None
        lines = {
            (begin, after.lane if after and wanted == after.snapshot.id else end, colour)
            for begin, end, wanted, colour in step.below
        }
        rows.append(Row(step.snapshot, step.lane, step.colour, step.parents, tuple(sorted(lines))))
    return rows


def _steps(
    known: Mapping[str, SnapshotInfo], parents: Mapping[str, tuple[str, ...]], first: str | None
) -> Iterator[_Step]:
    lanes: list[_Lane | None] = [_Lane(first, 0)] if first in known and first else []
    reserved, colours = bool(lanes), 1
    for key in _children_first(known, parents):
        waiting = [n for n, lane in enumerate(lanes) if lane is not None and lane.wanted == key]
        if waiting:
            lane, colour = waiting[0], lanes[waiting[0]].colour  # type: ignore[union-attr]
            if reserved and lane == 0:
                reserved = False
        else:
            lane, colour, colours = _free(lanes), colours, colours + 1
        for number in waiting:
            lanes[number] = None
        fresh: list[tuple[int, int]] = []
        if parents[key]:
            lanes[lane] = _Lane(parents[key][0], colour)
        for other in parents[key][1:]:
            held = next(
                (n for n, each in enumerate(lanes) if each is not None and each.wanted == other),
                None,
            )
            if held is None:
                held = _free(lanes)
                lanes[held] = _Lane(other, colours)
                colours += 1
                fresh.append((held, held))
            else:
                fresh.append((held, -1))
        new = {end for end, mark in fresh if mark >= 0}
        below = [
            (number, number, each.wanted, each.colour)
            for number, each in enumerate(lanes)
            if each is not None and number not in new and not (reserved and number == 0)
        ]
        below += [
            (lane, end, each.wanted, each.colour)
            for end, _ in fresh
            if (each := lanes[end]) is not None
        ]
        while lanes and lanes[-1] is None:
            lanes.pop()
        yield _Step(known[key], lane, colour, parents[key], below)


def _free(lanes: list[_Lane | None]) -> int:
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


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
