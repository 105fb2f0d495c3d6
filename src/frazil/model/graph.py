"""The history drawn as a graph with its merges: for terminals, notebooks, files and Mermaid."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from frazil.masking import safe
from frazil.model.lanes import GraphRow, lay_out
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

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOXES: Final = " │││─╯╮┤─╰╭├─┴┬┼"
"""the character for each set of directions, by the sum of their numbers"""


class AncestryGraph:
    """A drawing of snapshots, newest first, with the branches and tags that point to them.

    `str` gives it for a terminal, a notebook shows it as a picture, `svg` and `mermaid` are for
    files and documents.

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
        self._rows = lay_out(snapshots, (branches or {}).get("main"))
        lanes = [row.lane for row in self._rows]
        lanes += [end for row in self._rows for _, end, _ in row.lines]
        self._width = 1 + max(lanes, default=0)

    def __str__(self) -> str:
        lines: list[str] = []
        before: GraphRow | None = None
        for row, after in zip(self._rows, [*self._rows[1:], None], strict=False):
            if before is not None:
                lines.append(self._gap(before, row))
            lines.append(f"{self._rail(before, row, after)} {self._caption(row)}")
            before = row
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'

    def _repr_svg_(self) -> str:
        return self.svg()

    # --- terminal ---

    def _gap(self, before: GraphRow, row: GraphRow) -> str:
        """The line between two rows: every lane that leads from one to the other."""
        alive: dict[int, int] = {}
        for line in before.lines:
            begin, end, colour = line
            alive[end if _leaves(line, before, row) else begin] = colour
        return "".join(
            self._paint("│", alive[i]) + " " if i in alive else "  " for i in range(self._width)
        )

    def _rail(self, before: GraphRow | None, row: GraphRow, after: GraphRow | None) -> str:
        """The lanes beside a commit; what joins it from above, or leaves it, goes across."""
        cells, across = [0] * self._width, [0] * self._width
        colours: dict[int, int] = {}
        beams: dict[int, int] = {}

        def reach(lane: int, colour: int, direction: int) -> None:
            low, high = sorted((lane, row.lane))
            cells[low] |= _RIGHT
            cells[high] |= _LEFT
            cells[lane] |= direction
            colours[lane] = colour
            for between in range(low, high):
                across[between] = 1
                beams[between] = colour
                if between > low:
                    cells[between] |= _LEFT | _RIGHT

        for line in before.lines if before is not None else ():
            begin, end, colour = line
            if begin == end or (before is not None and _leaves(line, before, row)):
                cells[end] |= _UP
                colours.setdefault(end, colour)
            else:
                reach(begin, colour, _UP)
        for line in row.lines:
            begin, end, colour = line
            if after is not None and begin != end and _leaves(line, row, after):
                reach(end, colour, _DOWN)
            else:
                cells[begin] |= _DOWN
                colours.setdefault(begin, colour)
        shown: list[str] = []
        for lane in range(self._width):
            colour = colours.get(lane, beams.get(lane, 0))
            shown.append(
                self._paint("●", row.colour)
                if lane == row.lane
                else self._paint(_BOXES[cells[lane]], colour)
            )
            shown.append(self._paint("─", beams[lane]) if across[lane] else " ")
        return "".join(shown[:-1])

    def _caption(self, row: GraphRow) -> str:
        names = [
            self._style(name, _TAG_COLOUR if is_tag else _colour(row.colour), bold=True)
            for name, is_tag in self._labels.get(row.snapshot.id, ())
        ]
        label = f"({', '.join(names)}) " if names else ""
        short = row.snapshot.id[:_ID_CHARS]
        return f"{self._style(short, None)} {label}{_headline(row.snapshot)}"

    def _paint(self, mark: str, colour: int) -> str:
        return mark if mark == " " else self._style(mark, _colour(colour))

    def _style(self, text: str, colour: str | None, *, bold: bool = False) -> str:
        if self._plain:
            return text
        if colour is None:
            return f"\x1b[2m{text}\x1b[0m"
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        weight = "\x1b[1m" if bold else ""
        return f"{weight}\x1b[38;2;{red};{green};{blue}m{text}\x1b[0m"

    # --- pictures ---

    def svg(self) -> str:
        """The drawing as an SVG document, readable on light and dark ground."""
        shapes = [*self._edges(), *(self._dot(row, y) for y, row in enumerate(self._rows))]
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

    def _edges(self) -> Iterator[str]:
        """A line from every commit to each of its parents."""
        places = {row.snapshot.id: (row.lane, y) for y, row in enumerate(self._rows)}
        for y, row in enumerate(self._rows):
            for parent, (track, colour) in zip(row.parents, row.tracks, strict=True):
                if parent in places:
                    yield self._edge((row.lane, y), track, places[parent], colour)

    def _edge(
        self, child: tuple[int, int], track: int, parent: tuple[int, int], colour: int
    ) -> str:
        x1, y1, x2, y2 = _x(child[0]), _y(child[1]), _x(parent[0]), _y(parent[1])
        middle, down, turn = _x(track), y1 + _ROW_HEIGHT, y2 - _ROW_HEIGHT
        path = f"M {x1} {y1}"
        if y2 - y1 == _ROW_HEIGHT:
            path += f" C {x1} {y2}, {x2} {y1}, {x2} {y2}" if x1 != x2 else f" L {x2} {y2}"
        else:
            if middle != x1:
                path += f" C {x1} {down}, {middle} {y1}, {middle} {down}"
            path += f" L {middle} {turn if middle != x2 else y2}"
            if middle != x2:
                path += f" C {middle} {y2}, {x2} {turn}, {x2} {y2}"
        stroke = "currentColor" if self._plain else _colour(colour)
        return f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="2" />'

    def _dot(self, row: GraphRow, y: int) -> str:
        fill = "currentColor" if self._plain else _colour(row.colour)
        names = ", ".join(
            f'<tspan font-weight="bold"{self._fill(row.colour, is_tag)}>{html.escape(name)}</tspan>'
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

    def _fill(self, colour: int, is_tag: bool) -> str:
        if self._plain:
            return ' font-style="italic"' if is_tag else ""
        return f' fill="{_TAG_COLOUR if is_tag else _colour(colour)}"'

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart, which GitHub and many documents draw."""
        numbers = {row.snapshot.id: n for n, row in enumerate(self._rows)}
        lines = ["flowchart BT"]
        for number, row in enumerate(self._rows):
            names = ", ".join(name for name, _ in self._labels.get(row.snapshot.id, ()))
            parts = [row.snapshot.id[:_ID_CHARS], f"({names})" if names else ""]
            parts.append(_headline(row.snapshot))
            lines.append(f'    c{number}["{_entities(" ".join(filter(None, parts)))}"]')
        lines += [
            f"    c{numbers[parent]} {'-->' if first else '-.->'} c{number}"
            for number, row in enumerate(self._rows)
            for first, parent in zip([True, *[False] * len(row.parents)], row.parents, strict=False)
            if parent in numbers
        ]
        return "\n".join(lines) + "\n"


def _leaves(line: tuple[int, int, int], row: GraphRow, after: GraphRow) -> bool:
    """Whether a line goes across beside the commit it comes from; others do where they end."""
    begin, end, _ = line
    goes_on = any(one == other == begin for one, other, _ in row.lines)
    return begin == row.lane and begin != end and (end != after.lane or goes_on)


def _colour(number: int) -> str:
    return _PALETTE[number % len(_PALETTE)]


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
    return "".join(c if c.isprintable() else "�" for c in safe(text))


def _entities(text: str) -> str:
    """Text as Mermaid takes it inside quotes: whatever might mean something, by its number."""
    return re.sub(r"[^\w .,:/()+=@-]", lambda found: f"#{ord(found[0])};", text)
