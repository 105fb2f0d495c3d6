"""The texts of `sel` and `isel` options.

sel     time=2024-05, lat=10:20
isel    time=0:10, lat=[3, 5], lon=[0:4, 8]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.spark.reading.where import Condition, Positions, both, pointing
from frazil.spelling import meant, unknown
from frazil.texts import BACKQUOTED, position, span, unquoted
from frazil.texts import text as given

_ITEM: Final = re.compile(
    r"\s*(?:(?P<quoted>" + BACKQUOTED + r")|(?P<name>[^\W\d][\w.\-]*))\s*=\s*"
    r"(?P<value>\[[^\]]*\]|(?:'[^']*'|[^,'\[\]])+)\s*(?:,|$)"
)


def _items(text: str, option: str) -> list[tuple[str, str, int]]:
    """Names with the texts after them, and where those begin."""
    found, at = [], 0
    while at < len(text.rstrip()):
        item = _ITEM.match(text, at)
        if item is None:
            raise pointing(text, at, "NAME=VALUE is expected", option)
        name = unquoted(item["quoted"]) if item["quoted"] else item["name"]
        found.append((name, item["value"].strip(), item.start("value")))
        at = item.end()
    return found


@dataclass(frozen=True, slots=True)
class Isel:
    """Positions along dimensions, as they were written."""

    text: str
    items: tuple[tuple[str, str, int], ...]

    def condition(self, sizes: Mapping[str, int]) -> Condition | None:
        """The condition on dimensions of some sizes; negative positions count from the end.

        Raises:
            InvalidInputError: there is no such dimension, or no such place along it.
        """
        found: Condition | None = None
        for called, written, at in self.items:
            name = meant(called, sizes)
            if name is None:
                raise pointing(self.text, at, unknown("dimension", called, sizes), "isel")
            found = both(found, _positions(name, written, sizes[name], self.text, at))
        return found


def parse_isel(text: str) -> Isel:
    """Read positions by dimension.

    Raises:
        InvalidInputError: the text cannot be read.
    """
    return Isel(text, tuple(_items(given(text), "isel")))


def _positions(name: str, written: str, size: int, text: str, at: int) -> Positions:
    try:
        if written.startswith("["):
            parts = written.strip("[], ").split(",")
            if any(":" in part for part in parts):
                return Positions(name, 0, 0, runs=_merged(_run(part, size) for part in parts))
            return Positions(name, 0, 0, 1, tuple(sorted({position(p, size) for p in parts})))
        found = span(written, size)
    except ValueError as error:
        raise pointing(text, at, f"{name!r}: {error.args[0]}", "isel") from None
    return Positions(name, found.start, found.stop, found.step)


def _run(written: str, size: int) -> tuple[int, int]:
    """A range of a list, or one place of it as a range."""
    if ":" not in written:
        at = position(written, size)
        return at, at + 1
    found = span(written, size)
    if found.step != 1:
        raise ValueError(f"a range of a list has no step, and {written.strip()!r} has one")
    return found.start, max(found.start, found.stop)


def _merged(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order, those that meet or overlap as one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Lists:
    """Words by name, with the text that they were read from."""

    text: str
    items: tuple[tuple[str, tuple[str, ...]], ...]


def parse_lists(text: str) -> Lists:
    """Read `name=[word, word], name=word`.

    Raises:
        InvalidInputError: the text cannot be read.
    """
    return Lists(
        text,
        tuple(
            (name, tuple(_unquoted(word) for word in written.strip("[]").split(",")))
            for name, written, _ in _items(given(text), "aggregates")
        ),
    )


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels along a dimension: one, several, or all between two (both count)."""

    name: str
    values: tuple[str, ...] = ()
    low: str | None = None
    high: str | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Sel:
    """Labels along dimensions, with the text that they were read from."""

    text: str
    labels: tuple[Labels, ...]


def parse_sel(text: str) -> Sel:
    """Read labels; what they mean depends on the coordinate.

    Raises:
        InvalidInputError: the text cannot be read.
    """
    found = []
    for name, written, at in _items(given(text), "sel"):
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
    return Sel(text, tuple(found))


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
