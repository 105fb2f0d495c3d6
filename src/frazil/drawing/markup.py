"""Builds HTML for notebooks, with inline styles that suit light and dark themes.

Functions take untrusted text and return `Html`: secrets are masked, control characters spelled out
and HTML characters escaped. Only `Html` can be put into other `Html`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NewType, TypeVar

from frazil.masking import safe

T = TypeVar("T")
Html = NewType("Html", str)

MOST_ROWS: Final = 50
"""Lines of a list or table; the rest is counted."""
LONGEST: Final = 300
"""Characters of one value."""
GREEN, RED, YELLOW, BLUE = "#3a9d5d", "#d0503f", "#b8860b", "#2e86ab"

_CELL: Final = "text-align: left; padding: 1px 14px 1px 0; vertical-align: top"
_NAME: Final = f"{_CELL}; opacity: 0.65; font-weight: normal; white-space: nowrap"


def escaped(value: str) -> Html:
    """Untrusted text, escaped for HTML."""
    shown = safe(value)
    return Html(html.escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"))


def coloured(value: str, colour: str) -> Html:
    """Text in a colour."""
    return Html(f'<span style="color: {colour}">{escaped(value)}</span>')


def joined_html(parts: Iterable[Html], between: str = "") -> Html:
    """Pieces one after the other."""
    return Html(between.join(parts))


def frame(title: str, parts: Iterable[Html]) -> Html:
    """A view: a title, and its content below."""
    head = '<div style="font-weight: 600; border-bottom: 1px solid #8886; margin-bottom: 4px">'
    return Html(
        '<div style="line-height: 1.5; max-width: 64em; overflow-x: auto">'
        f"{head}{escaped(title)}</div>{''.join(parts)}</div>"
    )


def note(value: str) -> Html:
    """A note in small print."""
    return Html(f'<div style="opacity: 0.65">{escaped(value)}</div>')


def fields(pairs: Iterable[tuple[str, Html]]) -> Html:
    """Names and values, a line each."""
    rows = "".join(
        f'<tr style="background: none"><th style="{_NAME}">{escaped(name)}</th>'
        f'<td style="{_CELL}">{value}</td></tr>'
        for name, value in pairs
    )
    return _table(rows)


def table(columns: Sequence[str], rows: Iterable[Sequence[Html]]) -> Html:
    """Rows below the names of their columns; the first ones, and how many follow."""
    shown, more = first(rows)
    head = "".join(f'<th style="{_NAME}">{escaped(name)}</th>' for name in columns)
    body = "".join(
        '<tr style="background: none">'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row)
        + "</tr>"
        for row in shown
    )
    return joined_html(
        [_table(f'<tr style="background: none">{head}</tr>{body}'), *_and_more(more)]
    )


def _table(rows: str) -> Html:
    style = "border-collapse: collapse; border: none; margin: 2px 0"
    return Html(f'<table style="{style}"><tbody>{rows}</tbody></table>')


def listing(lines: Iterable[Html]) -> Html:
    """Lines one below the other; the first ones, and how many follow."""
    shown, more = first(lines)
    return joined_html([*(Html(f"<div>{line}</div>") for line in shown), *_and_more(more)])


def folded(title: str, inner: Html, *, is_open: bool = False) -> Html:
    """Something under a title that can be clicked."""
    state = " open" if is_open else ""
    summary = f'<summary style="cursor: pointer; opacity: 0.8">{escaped(title)}</summary>'
    return Html(f'<details{state}>{summary}<div style="margin-left: 14px">{inner}</div></details>')


def first(items: Iterable[T], most: int = MOST_ROWS) -> tuple[list[T], int]:
    """The first items, and how many more there are."""
    rest = iter(items)
    return list(islice(rest, most)), sum(1 for _ in rest)


def _and_more(count: int) -> Iterator[Html]:
    if count:
        yield note(f"… {count:,} more")
