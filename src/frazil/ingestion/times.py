"""Times of several files in one unit: numbers are moved exactly, or not at all.

Files of one archive often count from different days. Their numbers cannot stand in one array as
they are; here they are counted anew from one day, in integers as long as they are integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any, Final

import cftime
import numpy as np

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.records import Array

MICROSECONDS: Final = {
    "microseconds": 1,
    "milliseconds": 1_000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
    "weeks": 604_800_000_000,
}
_ALIASES: Final = {
    "microsecond": "microseconds",
    "us": "microseconds",
    "millisecond": "milliseconds",
    "ms": "milliseconds",
    "msec": "milliseconds",
    "second": "seconds",
    "sec": "seconds",
    "secs": "seconds",
    "s": "seconds",
    "minute": "minutes",
    "min": "minutes",
    "mins": "minutes",
    "hour": "hours",
    "hr": "hours",
    "hrs": "hours",
    "h": "hours",
    "day": "days",
    "d": "days",
    "week": "weeks",
}
_SINCE: Final = re.compile(r"\s*([A-Za-z_]+)\s+since\s+(.+?)\s*", re.IGNORECASE)
STANDARD: Final = "standard"
_SAME_CALENDAR: Final = {"gregorian": STANDARD, "noleap": "365_day", "all_leap": "366_day"}


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """What numbers of a time coordinate mean."""

    unit: str
    since: str
    calendar: str

    @property
    def step_us(self) -> int:
        """Microseconds of one step."""
        return MICROSECONDS[self.unit]

    @property
    def text(self) -> str:
        """As the attribute `units` has it."""
        return f"{self.unit} since {self.since}"


def time_units(attrs: dict[str, Any]) -> TimeUnits | None:
    """The time units that attributes tell; None when they tell no time of fixed steps."""
    units = attrs.get("units")
    found = _SINCE.fullmatch(units) if isinstance(units, str) else None
    if found is None:
        return None
    name = found[1].lower()
    unit = _ALIASES.get(name, name)
    if unit not in MICROSECONDS:
        return None
    calendar = str(attrs.get("calendar", STANDARD)).lower()
    return TimeUnits(unit, found[2], _SAME_CALENDAR.get(calendar, calendar))


def common_units(found: Sequence[TimeUnits]) -> TimeUnits:
    """Units that can tell the times of all: the first's day, and a step that divides all steps.

    Raises:
        InvalidInputError: the calendars differ.
    """
    first = found[0]
    for other in found[1:]:
        if other.calendar != first.calendar:
            raise InvalidInputError(
                f"the calendars {first.calendar} and {other.calendar} do not go together",
                kind=ErrorKind.UNSUITABLE_DATA,
            )
    step = gcd(*(each.step_us for each in found), *(_shift_us(each, first) for each in found))
    fitting = [name for name, size in MICROSECONDS.items() if step % size == 0]
    return TimeUnits(max(fitting, key=MICROSECONDS.__getitem__), first.since, first.calendar)


def converted(values: Array, old: TimeUnits, new: TimeUnits) -> Array:
    """Times counted in other units.

    Raises:
        InvalidInputError: whole numbers would not stay whole.
    """
    if old == new:
        return values
    factor = Fraction(old.step_us, new.step_us)
    shift = Fraction(_shift_us(old, new), new.step_us)
    if values.dtype.kind not in "iu":
        return np.asarray(values.astype(np.float64) * float(factor) + float(shift))
    over = factor.denominator * shift.denominator
    scaled = values.astype(np.int64) * int(factor * over) + int(shift * over)
    if (scaled % over).any():
        raise InvalidInputError(
            f"times in {old.text!r} are no whole numbers of {new.text!r}",
            kind=ErrorKind.UNSUITABLE_DATA,
        )
    return np.asarray(scaled // over)


def shown_time(value: Any, units: TimeUnits | None) -> str:  # noqa: ANN401  (a scalar)
    """A coordinate value for people: times as dates."""
    if units is None:
        return str(value)
    try:
        when = cftime.num2date(value, units.text, units.calendar)
    except (ValueError, OverflowError):
        return f"{value} {units.text}"
    return str(when).removesuffix(" 00:00:00")


def _shift_us(old: TimeUnits, new: TimeUnits) -> int:
    """Microseconds from the new day of reference to the old one."""
    if old.since == new.since:
        return 0
    step = _reference(old) - _reference(new)
    return int((step.days * 86_400 + step.seconds) * 1_000_000 + step.microseconds)


def _reference(units: TimeUnits) -> Any:  # noqa: ANN401  (cftime's own)
    try:
        return cftime.num2date(0, f"microseconds since {units.since}", units.calendar)
    except ValueError as error:
        raise InvalidInputError(
            f"the time units {units.text!r} cannot be read: {error}",
            kind=ErrorKind.UNSUITABLE_DATA,
            calendar=units.calendar,
        ) from None
