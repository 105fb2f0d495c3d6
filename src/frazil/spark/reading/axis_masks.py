"""Where along an axis a condition can hold.

An axis may be far longer than what is chosen of it, and its length is what a document says. So
only places are looked at that lie between the first and the last one that positions allow, a piece
at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.cf.decoding import DecodedValues, Mask
from frazil.errors import InvalidInputError
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.selecting import axis_mask, literal
from frazil.spark.reading.stored import Places, length_of, numbers_of, read_coordinate
from frazil.spark.reading.where import All, Any_, Compare, Condition, OneOf, Positions

Span: TypeAlias = tuple[int, int]
"""from a place to before another"""

MOST_PLACES: Final = 1 << 30
"""Places of an axis that are looked at to find those that a condition chooses."""
PIECE: Final = 1 << 22
"""Places whose labels are compared at once."""


@dataclass(frozen=True, slots=True, eq=False)
class AxisMask:
    """The places of an axis where a condition can hold."""

    length: int
    """of the axis"""
    start: int
    inside: Mask
    """for each place from `start` on; all others are out"""

    def any(self) -> bool:
        """Whether there is a place."""
        return bool(self.inside.any())

    def all(self) -> bool:
        """Whether all places are."""
        return len(self.inside) == self.length and bool(self.inside.all())

    def count(self) -> int:
        """How many places there are."""
        return int(np.count_nonzero(self.inside))

    def places(self) -> npt.NDArray[np.int64]:
        """The numbers of the places."""
        return np.flatnonzero(self.inside) + self.start

    def before(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many places come before others."""
        counts: npt.NDArray[np.int64] = np.zeros(len(self.inside) + 1, np.int64)
        np.cumsum(self.inside, out=counts[1:])
        found: npt.NDArray[np.int64] = counts[np.clip(places - self.start, 0, len(self.inside))]
        return found

    def whole(self) -> Mask:
        """For each place of the axis whether it is one."""
        require_few(self.length)
        found = np.zeros(self.length, bool)
        found[self.start : self.start + len(self.inside)] = self.inside
        return found


def require_few(count: int) -> None:
    """Refuse to look at more places of an axis than memory has room for.

    Raises:
        InvalidInputError: there are too many.
    """
    if count > MOST_PLACES:
        raise InvalidInputError(
            f"an axis has {count:,} places to be looked at, and at most {MOST_PLACES:,} are; "
            "choose fewer by their positions (isel)"
        )


def all_places(length: int) -> npt.NDArray[np.int64]:
    """The numbers of all places of an axis.

    Raises:
        InvalidInputError: there are too many.
    """
    require_few(length)
    return np.arange(length)


def full_mask(scan: Scan, condition: Condition | None, axis: int) -> AxisMask | None:
    """The places of a whole axis where a condition can hold; None when it can everywhere.

    Raises:
        InvalidInputError: too many places would have to be looked at.
    """
    if condition is None:
        return None
    length = scan.axes[axis].size
    low, high = span_along(scan, condition, axis, (0, length))
    masks = []
    for first in range(low, max(high, low + 1), PIECE):
        mask = mask_along(scan, condition, axis, slice(first, min(first + PIECE, high)))
        if mask is None:
            return None
        masks.append(mask)
        require_few(high - low)
    return AxisMask(length, low, np.concatenate(masks))


def mask_along(scan: Scan, condition: Condition, axis: int, places: Places) -> Mask | None:
    """Where along an axis, at some places, a condition can hold; None when it can everywhere."""
    require_few(length_of(places))

    def look(name: str) -> DecodedValues:
        return axis_values(scan, scan.coordinates[name], places)

    return axis_mask(condition, axis, scan.known_values, look, lambda _: numbers_of(places))


def narrowed(scan: Scan, condition: Condition, axis: int, places: Places) -> Places:
    """Places without those that positions rule out, where that costs nothing to tell."""
    if not isinstance(places, slice):
        return places
    return slice(*span_along(scan, condition, axis, (places.start, places.stop)))


def axis_values(scan: Scan, column: Column, places: Places) -> DecodedValues:
    """The values of a column of one axis, or the positions along it."""
    if column.variable is None or column.decoder is None:
        return DecodedValues(numbers_of(places))
    return read_coordinate(scan.pinned, column.variable, column.decoder, (places,))


# --- what positions tell ---


def span_along(scan: Scan, condition: Condition, axis: int, within: Span) -> Span:
    """The part of a span outside of which a condition cannot hold, by positions alone."""
    spans = partial(span_along, scan, axis=axis, within=within)
    found = within
    match condition:
        case All(parts):
            found = _common([spans(part) for part in parts])
        case Any_(parts):
            found = _around([spans(part) for part in parts])
        case Positions() if scan.known_values.axes[condition.name] == (axis,):
            found = _positions(condition)
        case Compare() | OneOf() if _is_number(scan, condition.name, axis):
            dtype = scan.coordinates[condition.name].dtype
            found = _compared(condition, lambda value: literal(value, dtype), within)
    low, high = _common([within, found])
    return (low, max(low, high))


def _common(spans: list[Span]) -> Span:
    return max(low for low, _ in spans), min(high for _, high in spans)


def _around(spans: list[Span]) -> Span:
    there = [span for span in spans if span[0] < span[1]] or spans[:1]
    return min(low for low, _ in there), max(high for _, high in there)


def _is_number(scan: Scan, name: str, axis: int) -> bool:
    """Whether the labels of an axis are the numbers of its places."""
    column = scan.coordinates.get(name)
    return column is not None and column.variable is None and column.axes == (axis,)


def _positions(chosen: Positions) -> Span:
    if chosen.numbers:
        return min(chosen.numbers), max(chosen.numbers) + 1
    if chosen.runs:
        return chosen.runs[0][0], chosen.runs[-1][1]
    return chosen.start, chosen.stop


def _compared(leaf: Compare | OneOf, number: Callable[[Any], Any], within: Span) -> Span:
    if isinstance(leaf, OneOf):
        if leaf.negated or not leaf.values:
            return within
        return _around([_one(number(value), "=", within) for value in leaf.values])
    return _one(number(leaf.value), leaf.sign, within)


def _one(value: Any, sign: str, within: Span) -> Span:  # noqa: ANN401  (a number)
    if not math.isfinite(value):
        return within
    match sign:
        case "<":
            return within[0], math.ceil(value)
        case "<=":
            return within[0], math.floor(value) + 1
        case ">":
            return math.floor(value) + 1, within[1]
        case ">=":
            return math.ceil(value), within[1]
        case "=":
            return math.ceil(value), math.floor(value) + 1
        case _:
            return within
