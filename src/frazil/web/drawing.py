"""Drawings that need no script: the growth of a repository as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from markupsafe import Markup

from frazil.cli.text import size

WIDTH: Final = 600
HEIGHT: Final = 180
LEFT: Final = 92
RIGHT: Final = 16
TOP: Final = 12
BOTTOM: Final = 28


def growth_chart(points: Sequence[tuple[datetime, int]]) -> Markup:
    """Bytes over time, as steps."""
    if not points:
        return Markup("")
    begin, end = points[0][0].timestamp(), points[-1][0].timestamp()
    most = max(total for _, total in points) or 1
    span = end - begin or 1.0

    def x(when: datetime) -> float:
        return LEFT + (when.timestamp() - begin) / span * (WIDTH - LEFT - RIGHT)

    def y(total: float) -> float:
        return HEIGHT - BOTTOM - total / most * (HEIGHT - TOP - BOTTOM)

    path = [f"M{LEFT} {y(0):.1f}"]
    for when, total in points:
        path.append(f"H{x(when):.1f}V{y(total):.1f}")
    path.append(f"H{WIDTH - RIGHT}")
    line = "".join(path)
    area = f"{line}V{y(0):.1f}H{LEFT}Z"
    grid = "".join(
        Markup('<line class="rule" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            LEFT, WIDTH - RIGHT, f"{y(most * part):.1f}", f"{y(most * part):.1f}"
        )
        + Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
            LEFT - 8, f"{y(most * part) + 4:.1f}", size(int(most * part))
        )
        for part in (0, 0.5, 1)
    )
    style = "%Y-%m-%d" if span > 86_400 * 2 else "%Y-%m-%d %H:%M"
    ticks = Markup('<text class="tick" x="{}" y="{}">{}</text>').format(
        LEFT, HEIGHT - 8, points[0][0].strftime(style)
    ) + Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
        WIDTH - RIGHT, HEIGHT - 8, points[-1][0].strftime(style)
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="Stored bytes over time">'
        '{}<path class="area" d="{}"/><path class="curve" d="{}"/>{}</svg>'
    ).format(WIDTH, HEIGHT, Markup(grid), area, line, ticks)
