"""The texts of `sel` and `isel` options.

sel     time=2024-05, lat=10:20
isel    time=0:10, lat=[3, 5], lon=-1
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from frazil.spark.reading.where import Condition, Positions, both, pointing
from frazil.spelling import meant, unknown

_ITEM: Final = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.\-]*))\s*=\s*"
    r"(?P<value>\[[^\]]*\]|(?:'[^']*'|[^,'\[\]])+)\s*(?:,|$)"
)
_RANGE: Final = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(\d+)?\s*)?")


def _items(text: str, option: str) -> list[tuple[str, str, int]]:
    """Names with the texts after them, and where those begin."""
    found, at = [], 0
    while at < len(text.rstrip()):
        item = _ITEM.match(text, at)
        if item is None:
            raise pointing(text, at, "NAME=VALUE is expected", option)
        found.append((item["quoted"] or item["name"], item["value"].strip(), item.start("value")))
        at = item.end()
    return found


def parse_isel(text: str, sizes: dict[str, int]) -> Condition | None:
    """Read positions; negative ones count from the end.

    Raises:
        InvalidInputError: the text cannot be read, or names no dimension or no place of one.
    """
    found: Condition | None = None
    for given, written, at in _items(text, "isel"):
        name = meant(given, sizes)
        if name is None:
            raise pointing(text, at, unknown("dimension", given, sizes), "isel")
        found = both(found, _positions(name, written, sizes[name], text, at))
    return found


def _positions(name: str, written: str, size: int, text: str, at: int) -> Positions:
    span = _RANGE.fullmatch(written)
    if span is not None:
        step = int(span[3] or 1)
        if step == 0:
            raise pointing(text, at, "a step cannot be 0", "isel")
        start, stop, _ = slice(
            None if span[1] is None else int(span[1]), None if span[2] is None else int(span[2])
        ).indices(size)
        return Positions(name, start, stop, step)
    numbers = re.fullmatch(r"\[?((?:\s*-?\d+\s*,?)+)\]?", written)
    if numbers is None:
        raise pointing(text, at, "a number, START:STOP:STEP or [A, B] is expected", "isel")
    chosen = [int(n) for n in re.findall(r"-?\d+", numbers[1])]
    for number in chosen:
        if not -size <= number < size:
            raise pointing(text, at, f"{number} is outside of {name!r}, {size} long", "isel")
    return Positions(name, 0, 0, 1, tuple(sorted({n % size for n in chosen})))


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels along a dimension: one, several, or all between two (both count)."""

    name: str
    values: tuple[str, ...] = ()
    low: str | None = None
    high: str | None = None
    at: int = 0


def parse_sel(text: str) -> list[Labels]:
    """Read labels; what they mean depends on the coordinate.

    Raises:
        InvalidInputError: the text cannot be read.
    """
    found = []
    for name, written, at in _items(text, "sel"):
        if written.startswith("["):
            parts = [_unquoted(part) for part in re.findall(r"'[^']*'|[^,\[\]]+", written)]
            found.append(Labels(name, tuple(parts), at=at))
            continue
        parts = re.findall(r"'[^']*'|[^:']+|:", written)
        if not written.startswith("'") and _is_clock(written):
            found.append(Labels(name, (written,), at=at))
        elif ":" in parts:
            cut = _range_cut(written)
            low, high = written[:cut].strip(), written[cut + 1 :].strip()
            found.append(Labels(name, (), _unquoted(low) or None, _unquoted(high) or None, at))
        else:
            found.append(Labels(name, (_unquoted(written),), at=at))
    return found


_CLOCK: Final = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?"


def _is_clock(written: str) -> bool:
    """Tell whether the colons are those of a time of day."""
    return re.fullmatch(_CLOCK, written) is not None


def _range_cut(written: str) -> int:
    """The place of the colon between two labels, which is in neither quotes nor a time."""
    hidden = re.sub(rf"'[^']*'|{_CLOCK}", lambda m: "x" * len(m[0]), written)
    return hidden.index(":") if ":" in hidden else written.index(":")


def _unquoted(text: str) -> str:
    return text.strip().removeprefix("'").removesuffix("'")
