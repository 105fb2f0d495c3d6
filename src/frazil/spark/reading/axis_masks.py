"""Where along an axis a condition can hold.

An axis may be far longer than what is chosen of it, and its length is what a document says. So
places are runs. What a condition says of numbers of places is computed from the comparison alone;
labels are looked at only where this leaves places, a piece at a time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Any

from frazil.cf.decoding import DecodedValues
from frazil.spark.reading.runs import Runs, require_few
from frazil.spark.reading.scan import Column, Scan
from frazil.spark.reading.selecting import literal, satisfied
from frazil.spark.reading.stored import Places, numbers_of, read_coordinate
from frazil.spark.reading.where import (
    All,
    Any_,
    Compare,
    Condition,
    IsNull,
    Leaf,
    OneOf,
    Positions,
    leaves,
)
from frazil.spark.tuning import LABELS_AT_ONCE


def full_runs(scan: Scan, condition: Condition | None, axis: int) -> Runs | None:
    """The places of a whole axis where a condition can hold; None when it can everywhere.

    Raises:
        InvalidInputError: too many labels would have to be looked at.
    """
    if condition is None:
        return None
    return runs_along(scan, condition, axis, Runs.one(0, scan.axes[axis].size))


def runs_along(scan: Scan, condition: Condition, axis: int, within: Runs) -> Runs | None:
    """Which of some places of an axis a condition can hold at; None when it can at all of them.

    Raises:
        InvalidInputError: too many labels would have to be looked at.
    """
    match condition:
        case All(parts):
            return _all_of(scan, parts, axis, within)
        case Any_(parts):
            found = [runs_along(scan, part, axis, within) for part in parts]
            known = [each for each in found if each is not None]
            return Runs.any_of(known) if len(known) == len(found) else None
        case leaf if not _is_along(scan, leaf, axis):
            return None
        case Positions():
            return within & _positions(condition, within)
        case leaf if _is_number(scan, leaf):
            return within & _compared(leaf, scan, scan.axes[axis].size)
        case leaf:
            return _labelled(scan, leaf, within)


def narrowed(scan: Scan, condition: Condition, axis: int, places: Places) -> Places:
    """Places of an axis without those where a condition cannot hold."""
    found = runs_along(scan, condition, axis, Runs.at(places))
    return places if found is None else found.places()


def _all_of(scan: Scan, parts: tuple[Condition, ...], axis: int, within: Runs) -> Runs | None:
    """What conditions leave one after the other; those that cost nothing to tell come first."""
    found, is_any = within, False
    for part in sorted(parts, key=lambda part: _needs_labels(scan, part, axis)):
        left = runs_along(scan, part, axis, found)
        if left is not None:
            found, is_any = left, True
    return found if is_any else None


def _is_along(scan: Scan, leaf: Leaf, axis: int) -> bool:
    known = scan.known_values
    return known.axes[leaf.name] == (axis,) and leaf.name not in known.values


def _is_number(scan: Scan, leaf: Leaf) -> bool:
    """Whether labels are the numbers of places."""
    column = scan.coordinates[leaf.name]
    return column.variable is None or column.decoder is None


def _needs_labels(scan: Scan, condition: Condition, axis: int) -> bool:
    return any(
        _is_along(scan, leaf, axis)
        and not isinstance(leaf, Positions)
        and not _is_number(scan, leaf)
        for leaf in leaves(condition)
    )


def _labelled(scan: Scan, leaf: Compare | OneOf | IsNull, within: Runs) -> Runs:
    """The places whose labels a comparison chooses."""
    require_few(within.count)
    column = scan.coordinates[leaf.name]
    found: list[Runs] = []
    for places in within.pieces(LABELS_AT_ONCE):
        mask = satisfied(leaf, axis_values(scan, column, places))
        if isinstance(places, slice):
            found.append(Runs.where(mask, places.start))
        else:
            found.append(Runs.at(places[mask]))
    return within & Runs.any_of(found)


def axis_values(scan: Scan, column: Column, places: Places) -> DecodedValues:
    """The values of a column of one axis, or the positions along it."""
    if column.variable is None or column.decoder is None:
        return DecodedValues(numbers_of(places))
    return read_coordinate(scan.pinned, column.variable, column.decoder, (places,))


# --- what positions tell ---


def _positions(chosen: Positions, within: Runs) -> Runs:
    """The places that are chosen, those far from others left out."""
    if not within:
        return within
    low, high = int(within.starts[0]), int(within.stops[-1])
    if chosen.numbers:
        numbers = chosen.numbers
        near = numbers[bisect_left(numbers, low) : bisect_left(numbers, high)]
        return Runs.of((number, number + 1) for number in near)
    if chosen.runs:
        first = bisect_right(chosen.runs, low, key=itemgetter(1))
        return Runs.of(chosen.runs[first : bisect_left(chosen.runs, high, key=itemgetter(0))])
    if chosen.step == 1:
        return Runs.one(chosen.start, chosen.stop)
    skipped = max(0, -(-(low - chosen.start) // chosen.step))
    first = chosen.start + skipped * chosen.step
    return Runs.every(range(first, min(chosen.stop, high), chosen.step))


def _compared(leaf: Compare | OneOf | IsNull, scan: Scan, length: int) -> Runs:
    """The numbers below a length that a comparison chooses."""
    dtype = scan.coordinates[leaf.name].dtype
    everywhere, nowhere = (0, length), (0, 0)
    match leaf:
        case IsNull(negated=negated):
            return Runs.of([everywhere if negated else nowhere])
        case OneOf(values=values, negated=negated):
            numbers = {literal(value, dtype) for value in values}
            chosen = Runs.of(run for n in numbers for run in _signed(n, "=", length))
            return chosen.outside(length) if negated else chosen
        case Compare(sign=sign, value=value):
            return Runs.of(_signed(literal(value, dtype), sign, length))


def _signed(value: Any, sign: str, length: int) -> list[tuple[int, int]]:  # noqa: ANN401  (a number)
    """The runs of the whole numbers below a length that are so compared with a value."""
    if value != value:  # NaN
        return [(0, length)] if sign == "!=" else []
    low = min(max(value, -1), length)  # beyond the ends it does not matter how far
    first, after = math.ceil(low), math.floor(low) + 1
    if value < 0:
        first = after = 0
    match sign:
        case "<":
            found = [(0, first)]
        case "<=":
            found = [(0, after)]
        case ">":
            found = [(after, length)]
        case ">=":
            found = [(first, length)]
        case "=":
            found = [(first, after)]
        case _:
            found = [(0, first), (after, length)]
    return [(start, min(stop, length)) for start, stop in found]
