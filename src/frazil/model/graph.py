"""The history drawn as a tree, for terminals and notebooks."""

from __future__ import annotations

import heapq
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.model.values import SnapshotInfo

_PALETTE: Final = ("#7AA800", "#A653FF", "#E4572E", "#2E86AB", "#D4A017", "#17A398")
_TAG_COLOUR: Final = "#3B9FD8"
_TEXT_COLOUR: Final = "#888"
_LANE_WIDTH: Final = 20
_ROW_HEIGHT: Final = 28
_MARGIN: Final = 15
_CHAR_WIDTH: Final = 8
_ID_CHARS: Final = 8
_MESSAGE_CHARS: Final = 72


@dataclass(frozen=True, slots=True)
class _Row:
    """One snapshot in its lane; `joins` are the lanes that end here, `passing` those that go by."""

    snapshot: SnapshotInfo
    lane: int
    joins: tuple[int, ...]
    passing: frozenset[int]
    from_above: bool


class AncestryGraph:
    """A drawing of snapshots, newest first, with the branches and tags that point to them.

    Args:
        snapshots: the commits to draw, in any order.
        branches: snapshot ids by branch name; `main` gets the first lane.
        tags: snapshot ids by tag name.
        plain: draw without colours.
    """

    def __init__(
        self,
        snapshots: Sequence[SnapshotInfo],
        branches: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        plain: bool = False,
    ) -> None:
        self._plain = plain
        self._labels: dict[str, list[tuple[str, bool]]] = {}
        for refs, is_tag in ((branches or {}, False), (tags or {}, True)):
            for name, snapshot_id in refs.items():
                self._labels.setdefault(snapshot_id, []).append((_legible(name), is_tag))
        first = (branches or {}).get("main")
        self._rows = list(_lay_out(snapshots, first))
        self._width = 1 + max(
            (max((row.lane, *row.joins, *row.passing)) for row in self._rows), default=0
        )

    def __str__(self) -> str:
        lines: list[str] = []
        for row in self._rows:
            if lines:
                lines.append(self._gap(row))
            lines.append(f"{self._rail(row)} {self._caption(row)}")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        lane_of = {row.snapshot.id: (row.lane, y) for y, row in enumerate(self._rows)}
        shapes: list[str] = []
        for y, row in enumerate(self._rows):
            parent = lane_of.get(row.snapshot.parent_id or "")
            if parent is not None:
                shapes.append(self._edge(row.lane, y, *parent))
        for y, row in enumerate(self._rows):
            shapes.append(self._dot(row, y))
        longest = max((len(_headline(row.snapshot)) for row in self._rows), default=0)
        labels = max(
            (sum(len(n) + 2 for n, _ in names) for names in self._labels.values()), default=0
        )
        width = 2 * _MARGIN + self._width * _LANE_WIDTH
        width += (_ID_CHARS + 4 + labels + longest) * _CHAR_WIDTH
        height = 2 * _MARGIN + max(len(self._rows) - 1, 0) * _ROW_HEIGHT
        body = "\n".join(f"  {shape}" for shape in shapes)
        style = "font-family: monospace; font-size: 13px"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'style="{style}">\n{body}\n</svg>'
        )

    # --- terminal ---

    def _gap(self, below: _Row) -> str:
        """The line above a row: every lane that reaches it."""
        alive = below.passing | set(below.joins)
        if below.from_above:
            alive |= {below.lane}
        return "".join(
            self._paint("│", i) + " " if i in alive else "  " for i in range(self._width)
        )

    def _rail(self, row: _Row) -> str:
        last_join = max(row.joins, default=row.lane)
        cells: list[str] = []
        for i in range(self._width):
            between = row.lane < i < last_join
            if i == row.lane:
                mark = self._paint("●", i)
            elif i in row.joins:
                mark = self._paint("╯" if i == last_join else "┴", i)
            elif i in row.passing:
                mark = self._paint("┼" if between else "│", i)
            else:
                mark = self._paint("─", last_join) if between else " "
            cells.append(mark)
            cells.append(self._paint("─", last_join) if row.lane <= i < last_join else " ")
        return "".join(cells[:-1])

    def _caption(self, row: _Row) -> str:
        names = [
            self._style(name, _TAG_COLOUR if is_tag else _colour(row.lane), bold=True)
            for name, is_tag in self._labels.get(row.snapshot.id, ())
        ]
        label = f"({', '.join(names)}) " if names else ""
        short = row.snapshot.id[:_ID_CHARS]
        return f"{self._style(short, None)} {label}{_headline(row.snapshot)}"

    def _paint(self, mark: str, lane: int) -> str:
        return self._style(mark, _colour(lane))

    def _style(self, text: str, colour: str | None, *, bold: bool = False) -> str:
        if self._plain:
            return text
        if colour is None:
            return f"\x1b[2m{text}\x1b[0m"
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        weight = "\x1b[1m" if bold else ""
        return f"{weight}\x1b[38;2;{red};{green};{blue}m{text}\x1b[0m"

    # --- notebook ---

    def _edge(self, lane: int, y: int, parent_lane: int, parent_y: int) -> str:
        x1, y1, x2, y2 = _x(lane), _y(y), _x(parent_lane), _y(parent_y)
        stroke = "currentColor" if self._plain else _colour(lane)
        turn = y2 - _ROW_HEIGHT
        return (
            f'<path d="M {x1} {y1} L {x1} {turn} C {x1} {y2}, {x2} {turn}, {x2} {y2}" '
            f'fill="none" stroke="{stroke}" stroke-width="2" />'
        )

    def _dot(self, row: _Row, y: int) -> str:
        fill = "currentColor" if self._plain else _colour(row.lane)
        names = ", ".join(
            f'<tspan font-weight="bold"{self._fill(row.lane, is_tag)}>{html.escape(name)}</tspan>'
            for name, is_tag in self._labels.get(row.snapshot.id, ())
        )
        label = f"({names}) " if names else ""
        x = _x(self._width)
        return (
            f'<circle cx="{_x(row.lane)}" cy="{_y(y)}" r="5" fill="{fill}" />\n'
            f'  <text x="{x}" y="{_y(y) + 4}" fill="{_TEXT_COLOUR}">'
            f"{html.escape(row.snapshot.id[:_ID_CHARS])} {label}"
            f"{html.escape(_headline(row.snapshot))}</text>"
        )

    def _fill(self, lane: int, is_tag: bool) -> str:
        if self._plain:
            return ' font-style="italic"' if is_tag else ""
        return f' fill="{_TAG_COLOUR if is_tag else _colour(lane)}"'


def _lay_out(snapshots: Sequence[SnapshotInfo], first: str | None) -> Iterator[_Row]:
    """Give every snapshot a row below its children and a lane of its own line of descent."""
    known = {snapshot.id for snapshot in snapshots}
    lanes: list[str | None] = [first] if first in known else []
    live: set[int] = set()  # lanes with a line in them; the first may only be reserved
    for snapshot in _children_first(snapshots):
        waiting = [i for i, wanted in enumerate(lanes) if wanted == snapshot.id]
        if not waiting:
            if None not in lanes:
                lanes.append(None)
            waiting = [lanes.index(None)]
        lane, *joins = waiting
        from_above = lane in live
        for i in waiting:
            lanes[i] = None
            live.discard(i)
        yield _Row(snapshot, lane, tuple(joins), frozenset(live), from_above)
        if snapshot.parent_id in known:
            lanes[lane] = snapshot.parent_id
            live.add(lane)


def _children_first(snapshots: Sequence[SnapshotInfo]) -> Iterator[SnapshotInfo]:
    """Newest first, but never a parent before its children."""
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    children = dict.fromkeys(by_id, 0)
    for snapshot in by_id.values():
        if snapshot.parent_id in children:
            children[snapshot.parent_id] += 1
    ready = [(-s.written_at.timestamp(), s.id) for s in by_id.values() if not children[s.id]]
    heapq.heapify(ready)
    while ready:
        snapshot = by_id[heapq.heappop(ready)[1]]
        yield snapshot
        parent = snapshot.parent_id
        if parent in children:
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-by_id[parent].written_at.timestamp(), parent))


def _colour(lane: int) -> str:
    return _PALETTE[lane % len(_PALETTE)]


def _x(lane: int) -> int:
    return _MARGIN + lane * _LANE_WIDTH


def _y(row: int) -> int:
    return _MARGIN + row * _ROW_HEIGHT


def _headline(snapshot: SnapshotInfo) -> str:
    """First line of the message, safe for a terminal."""
    line = snapshot.message.splitlines()[0] if snapshot.message else ""
    shown = _legible(line)
    return shown if len(shown) <= _MESSAGE_CHARS else shown[: _MESSAGE_CHARS - 1] + "…"


def _legible(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text)
