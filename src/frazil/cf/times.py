"""Times of the CF conventions: `hours since 1900-01-01`, read, counted anew and shown.

Times are microseconds in 64 bits. Numbers of several files that count from different days are
moved into one unit exactly, in integers as long as they are integers, or not at all.

Days of a calendar are counted from 1970-01-01, or from year 0 in calendars with years of one
length. The standard calendar is Julian before 1582-10-15.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Array
from frazil.errors import InvalidInputError, unsuitable

Days: TypeAlias = npt.NDArray[np.int64]

STANDARD: Final = "standard"
GREGORIAN_START: Final = -141_427
"""1582-10-15, the first day of the Gregorian calendar"""
YEAR_1: Final = -719_162
"""0001-01-01, the first day of Spark's timestamps"""
CALENDARS: Final = {
    "standard": STANDARD,
    "gregorian": STANDARD,
    "proleptic_gregorian": "proleptic_gregorian",
    "julian": "julian",
    "noleap": "noleap",
    "365_day": "noleap",
    "all_leap": "all_leap",
    "366_day": "all_leap",
    "360_day": "360_day",
}
"""all names, with the one that is used here"""
NUMPY_CALENDARS: Final = frozenset({STANDARD, "proleptic_gregorian"})
"""those whose dates numpy's times, and timestamps, can show"""
_OF_HISTORY: Final = frozenset({STANDARD, "julian"})
"""those without a year 0"""
_JULIAN_EPOCH: Final = 2_440_588
"""the Julian day number of 1970-01-01"""
_MONTHS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def day_number(calendar: str, year: int, month: int, day: int) -> int:
    """The number of a day, from 1970-01-01, or from year 0 in calendars with equal years."""
    match calendar:
        case "noleap":
            return year * 365 + int(_MONTHS[: month - 1].sum()) + day - 1
        case "all_leap":
            return year * 366 + int(_MONTHS[: month - 1].sum()) + (month > 2) + day - 1
        case "360_day":
            return year * 360 + (month - 1) * 30 + day - 1
        case _:
            is_early = calendar == STANDARD and (year, month, day) < (1582, 10, 15)
            back = (14 - month) // 12
            y, m = year + 4800 - back, month + 12 * back - 3
            skipped = 32083 if calendar == "julian" or is_early else y // 100 - y // 400 + 32045
            return day + (153 * m + 2) // 5 + 365 * y + y // 4 - skipped - _JULIAN_EPOCH


def civil(calendar: str, days: Days) -> tuple[Days, Days, Days]:
    """Year, month and day of numbered days."""
    match calendar:
        case "noleap":
            return _fixed_year(days, _MONTHS)
        case "all_leap":
            lengths = _MONTHS.copy()
            lengths[1] = 29
            return _fixed_year(days, lengths)
        case "360_day":
            return _fixed_year(days, np.full(12, 30))
        case "julian":
            return _julian_civil(days)
        case "standard" if len(days) and int(days.min()) < GREGORIAN_START:
            is_old = days < GREGORIAN_START
            parts = zip(_julian_civil(days), civil("proleptic_gregorian", days), strict=True)
            year, month, day = (np.where(is_old, old, new) for old, new in parts)
            return year, month, day
        case _:
            dates = days.astype("M8[D]")
            months = dates.astype("M8[M]")
            year = dates.astype("M8[Y]").astype(np.int64) + 1970
            return (
                year,
                months.astype(np.int64) % 12 + 1,
                (dates - months.astype("M8[D]")).astype(np.int64) + 1,
            )


def _fixed_year(days: Days, lengths: npt.NDArray[np.int64]) -> tuple[Days, Days, Days]:
    ends = np.cumsum(lengths)
    year, rest = np.divmod(days, ends[-1])
    month = np.searchsorted(ends, rest, side="right")
    return year, month.astype(np.int64) + 1, rest - (ends - lengths)[month] + 1


def _julian_civil(days: Days) -> tuple[Days, Days, Days]:
    c = days + _JULIAN_EPOCH + 32082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


Microseconds: TypeAlias = npt.NDArray[np.int64]

US_PER_DAY: Final = 86_400_000_000
_STEPS_NS: Final = {
    "nanoseconds": 1,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
    "minutes": 60 * 1_000_000_000,
    "hours": 3_600 * 1_000_000_000,
    "days": 1000 * US_PER_DAY,
    "weeks": 7 * 1000 * US_PER_DAY,
}
_EVEN_NS: Final = {
    "noleap": {"common_years": 365 * 1000 * US_PER_DAY},
    "360_day": {"months": 30 * 1000 * US_PER_DAY},
}
"""lengths of months and years, which are fixed in some calendars only"""
_SHORT: Final = {
    "d": "days", "h": "hours", "hr": "hours", "min": "minutes", "s": "seconds", "sec": "seconds",
    "ms": "milliseconds", "msec": "milliseconds", "millisec": "milliseconds",
    "us": "microseconds", "microsec": "microseconds", "ns": "nanoseconds",
}  # fmt: skip
_SINCE: Final = re.compile(r"\s*([A-Za-z_]+)\s+since\s+(.+?)\s*", re.IGNORECASE)
_REFERENCE: Final = re.compile(
    r"(?P<y>[+-]?\d{1,6})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2}))?)?"
    r"(?:[T\s_]+(?P<H>\d{1,2})(?::(?P<M>\d{1,2}))?(?::(?P<S>\d{1,2})(?:\.(?P<f>\d*))?)?)?"
    r"\s*(?P<z>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """What the numbers of a time coordinate mean."""

    unit: str
    since: str
    calendar: str

    @property
    def text(self) -> str:
        """As the attribute `units` has it."""
        return f"{self.unit} since {self.since}"

    @property
    def step_ns(self) -> int:
        """Nanoseconds of one step."""
        return (_STEPS_NS | _EVEN_NS.get(self.calendar, {}))[self.unit]

    @property
    def step_us(self) -> int:
        """Microseconds of one step, or of `per_us` steps where it is shorter."""
        return max(self.step_ns // 1000, 1)

    @property
    def per_us(self) -> int:
        """Steps of one microsecond, for units shorter than it."""
        return max(1000 // self.step_ns, 1)

    @property
    def start_us(self) -> int:
        """The time that is counted from, in microseconds since the calendar's day 0."""
        return _reference_us(self.since, self.calendar)

    @property
    def is_numpy(self) -> bool:
        """Whether numpy's times have the same labels."""
        return self.calendar in NUMPY_CALENDARS

    @property
    def is_early(self) -> bool:
        """Whether times are counted from a date that no timestamp has, such as one of year 0."""
        first = GREGORIAN_START if self.calendar == STANDARD else YEAR_1
        return self.is_numpy and self.start_us < first * US_PER_DAY


# --- reading units ---


def is_time(units: object) -> bool:
    """Tell whether units are those of times."""
    return isinstance(units, str) and re.search(r"\ssince\s", units) is not None


def time_units(attrs: Mapping[str, Any]) -> TimeUnits | None:
    """The time units that attributes tell; None when they tell no time of fixed steps.

    What is counted from is not looked at before it is needed.
    """
    units = attrs.get("units")
    found = _SINCE.fullmatch(units) if isinstance(units, str) else None
    if found is None:
        return None
    name = str(attrs.get("calendar", STANDARD)).lower()
    calendar = CALENDARS.get(name, name)
    word = found[1].lower()
    unit = _SHORT.get(word) or _SHORT.get(word.removesuffix("s")) or word.removesuffix("s") + "s"
    is_even = unit in _STEPS_NS or unit in _EVEN_NS.get(calendar, {})
    return TimeUnits(unit, found[2], calendar) if is_even else None


def parse_time_units(attrs: Mapping[str, Any]) -> TimeUnits:
    """Like `time_units`, for numbers that must be times."""
    found, units = time_units(attrs), str(attrs.get("units"))
    if found is not None:
        _ = found.start_us
        return found
    if _SINCE.fullmatch(units) is None:
        raise unsuitable(f"the time units {units!r} cannot be read")
    raise unsuitable(f"time is counted in {units.split()[0]!r}, which has no fixed length")


@lru_cache(maxsize=256)
def _reference_us(since: str, calendar: str) -> int:
    if calendar not in CALENDARS.values():
        raise unsuitable(f"times have the unknown calendar {calendar!r}")
    found = _REFERENCE.fullmatch(since)
    if found is None:
        raise unsuitable(f"the time that is counted from, {since!r}, cannot be read")
    year, month, day = int(found["y"]), int(found["m"] or 1), int(found["d"] or 1)
    hour, minute, second = (int(found[part] or 0) for part in "HMS")
    if not 1 <= month <= 12 or hour > 24 or minute > 59 or second > 60:
        raise unsuitable(f"the time that is counted from does not exist: {since!r}")
    if year < 0 and not _has_year_zero(since, calendar):
        year += 1
    number = day_number(calendar, year, month, day)
    if [int(part[0]) for part in civil(calendar, np.array([number]))] != [year, month, day]:
        raise unsuitable(f"the day that is counted from does not exist: {since!r}")
    seconds = (hour * 60 + minute) * 60 + second
    us = seconds * 1_000_000 + int((found["f"] or "0").ljust(6, "0")[:6])
    return number * US_PER_DAY + us - _zone_us(found["z"])


def _has_year_zero(since: str, calendar: str) -> bool:
    """Whether year 1 follows year 0; in the calendars of history it follows year -1.

    There it is so too, where times are counted from year 0, as those of climatologies are.
    """
    found = _REFERENCE.fullmatch(since)
    return calendar not in _OF_HISTORY or found is None or int(found["y"]) == 0


def _zone_us(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000


# --- numbers as times ---


def microseconds(values: Array, units: TimeUnits) -> Microseconds:
    """Microseconds since the first day of the calendar's count, exact for whole numbers."""
    start, step_us, per_us = units.start_us, units.step_us, units.per_us
    limit = (2**62 - abs(start)) // step_us
    if values.dtype.kind in "iu":
        far = len(values) and (
            int(values.min()) < -limit * per_us or int(values.max()) > limit * per_us
        )
        steps = values.astype(np.int64) // per_us * step_us if not far else values
    else:
        whole = values.astype(np.float64) * (step_us / per_us)
        far = bool((np.abs(whole) > limit * step_us).any())
        steps = values if far else np.rint(whole).astype(np.int64)
    if far:
        raise unsuitable("there are times that no timestamp can hold")
    return steps + start


def require_dates(us: Microseconds, units: TimeUnits) -> None:
    """Refuse times whose date in the calendar is not the one that a timestamp would show."""
    if units.calendar == STANDARD and len(us) and int(us.min()) < GREGORIAN_START * US_PER_DAY:
        raise unsuitable(
            "there are times before 1582-10-15, where the calendar is the Julian one, which "
            "timestamps cannot hold; read them as text with other-calendars=string, as numbers "
            "with decode_times=false, or choose other columns with option 'columns'"
        )


def times_as_text(us: Microseconds, units: TimeUnits) -> Array:
    """Times as texts like `2000-02-30 12:00:00`, which sort as the times do."""
    days, rest = np.divmod(us, US_PER_DAY)
    year, month, day = civil(units.calendar, days)
    if not _has_year_zero(units.since, units.calendar):
        year = np.where(year < 1, year - 1, year)
    second = rest // 1_000_000
    parts = (year, month, day, second // 3600, second // 60 % 60, second % 60)
    return np.array(
        [
            f"{y:04d}-{m:02d}-{d:02d} {hh:02d}:{mm:02d}:{ss:02d}"
            for y, m, d, hh, mm, ss in zip(*(part.tolist() for part in parts), strict=True)
        ],
        dtype=np.dtypes.StringDType(),
    )


def shown_time(value: Any, units: TimeUnits | None) -> str:  # noqa: ANN401  (a scalar)
    """A coordinate value for people: times as dates."""
    if units is None:
        return str(value)
    try:
        when = times_as_text(microseconds(np.atleast_1d(np.asarray(value)), units), units)
    except InvalidInputError:
        return f"{value} {units.text}"
    return str(when[0]).removesuffix(" 00:00:00")


# --- several units as one ---


def common_units(found: Sequence[TimeUnits]) -> TimeUnits:
    """Units for all times: the first reference date, and a step that divides all steps."""
    first = found[0]
    for other in found[1:]:
        if other.calendar != first.calendar:
            raise unsuitable(
                f"the calendars {first.calendar} and {other.calendar} do not go together"
            )
    step = gcd(*(each.step_ns for each in found), *(_shift_ns(each, first) for each in found))
    fitting = [name for name, size in _STEPS_NS.items() if step % size == 0]
    return TimeUnits(max(fitting, key=_STEPS_NS.__getitem__), first.since, first.calendar)


def converted(values: Array, old: TimeUnits, new: TimeUnits, *, is_packed: bool = False) -> Array:
    """Times counted in other units.

    Raises:
        InvalidInputError: whole numbers would not stay whole, or need more than 64 bits.
    """
    if old == new:
        return values
    if is_packed:
        raise unsuitable("packed times (scale_factor, add_offset) cannot be counted in other units")
    factor = Fraction(old.step_ns, new.step_ns)
    shift = Fraction(_shift_ns(old, new), new.step_ns)
    if values.dtype.kind not in "iu":
        return np.asarray(values.astype(np.float64) * float(factor) + float(shift))
    over = factor.denominator * shift.denominator
    most = max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
    if most * int(factor * over) + abs(int(shift * over)) >= 1 << 63:
        raise unsuitable(f"times in {old.text!r} are too far away to be told in {new.text!r}")
    scaled = values.astype(np.int64) * int(factor * over) + int(shift * over)
    if (scaled % over).any():
        raise unsuitable(f"times in {old.text!r} are no whole numbers of {new.text!r}")
    return np.asarray(scaled // over)


def _shift_ns(old: TimeUnits, new: TimeUnits) -> int:
    """Nanoseconds from the new day of reference to the old one."""
    return 0 if old.since == new.since else (old.start_us - new.start_us) * 1000
