"""Times of the CF conventions: units, reference dates and calendars, in numpy.

Days are counted from 1970-01-01. The standard calendar is Julian before 1582-10-15. Timestamps
can hold what is labelled as numpy labels it; times of other calendars can be had as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError

Days: TypeAlias = npt.NDArray[np.int64]

US_PER_DAY: Final = 86_400_000_000
GREGORIAN_START: Final = -141_427
"""1582-10-15, the first day of the Gregorian calendar"""
_YEAR_1: Final = -719_162
"""0001-01-01, the first day of Spark's timestamps"""
_JULIAN_EPOCH: Final = 2_440_588
"""the Julian day number of 1970-01-01"""

_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": US_PER_DAY,
    "week": 7 * US_PER_DAY,
}
_EVEN_US: Final = {
    "noleap": {"common_year": 365 * US_PER_DAY},
    "360_day": {"month": 30 * US_PER_DAY},
}
"""units that have a fixed length in some calendars only"""
_SHORT: Final = {
    "d": "day", "h": "hour", "hr": "hour", "min": "minute", "s": "second", "sec": "second",
    "ms": "millisecond", "msec": "millisecond", "millisec": "millisecond", "us": "microsecond",
    "microsec": "microsecond", "ns": "nanosecond",
}  # fmt: skip
_CALENDARS: Final = {
    "standard": "standard",
    "gregorian": "standard",
    "proleptic_gregorian": "proleptic_gregorian",
    "julian": "julian",
    "noleap": "noleap",
    "365_day": "noleap",
    "all_leap": "all_leap",
    "366_day": "all_leap",
    "360_day": "360_day",
}
NUMPY_CALENDARS: Final = frozenset({"standard", "proleptic_gregorian"})
_SINCE: Final = re.compile(
    r"\s*(?P<unit>[A-Za-z_]+)\s+since\s+(?P<y>[+-]?\d{1,6})-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2}))?"
    r"(?:[T\s]+(?P<H>\d{1,2})(?::(?P<M>\d{1,2}))?(?::(?P<S>\d{1,2})(?:\.(?P<f>\d*))?)?)?"
    r"\s*(?P<z>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?\s*",
    re.IGNORECASE,
)
_MONTHS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """How numbers stand for times: microseconds of a step, start, calendar."""

    calendar: str
    step_us: int
    per_us: int
    """steps of one microsecond, for units shorter than it"""
    start_day: int
    start_us: int

    @property
    def is_numpy(self) -> bool:
        """Whether numpy's times have the same labels."""
        return self.calendar in NUMPY_CALENDARS

    @property
    def is_early(self) -> bool:
        """Whether times are counted from a date that no timestamp has, such as one of year 0."""
        first = GREGORIAN_START if self.calendar == "standard" else _YEAR_1
        return self.is_numpy and self.start_day < first


def is_time(units: object) -> bool:
    """Tell whether units are those of times."""
    return isinstance(units, str) and re.search(r"\ssince\s", units) is not None


def parse_time_units(units: str, calendar: str, name: str) -> TimeUnits:
    """Read CF units such as `hours since 1900-01-01`.

    Raises:
        InvalidInputError: the units or the calendar are unknown.
    """
    known = _CALENDARS.get(str(calendar).lower())
    if known is None:
        raise _unsuitable(f"variable {name!r} has the unknown calendar {calendar!r}")
    found = _SINCE.fullmatch(units)
    if found is None:
        raise _unsuitable(f"variable {name!r} has the time units {units!r}, which cannot be read")
    word = found["unit"].lower()
    unit = _SHORT.get(word) or word.removesuffix("s")
    lengths = _UNITS_US | _EVEN_US.get(known, {})
    if unit != "nanosecond" and unit not in lengths:
        raise _unsuitable(f"variable {name!r} counts time in {word!r}, which has no fixed length")
    year, month, day = int(found["y"]), int(found["m"]), int(found["d"] or 1)
    us = (
        (int(found["H"] or 0) * 60 + int(found["M"] or 0)) * 60 + int(found["S"] or 0)
    ) * 1_000_000 + int((found["f"] or "0").ljust(6, "0")[:6])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise _unsuitable(f"variable {name!r} counts from a day that does not exist: {units!r}")
    return TimeUnits(
        known,
        lengths.get(unit, 1),
        1000 if unit == "nanosecond" else 1,
        day_number(known, year, month, day),
        us - _zone_us(found["z"]),
    )


def _zone_us(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000


def microseconds(values: npt.NDArray[Any], units: TimeUnits, name: str) -> npt.NDArray[np.int64]:
    """Microseconds since the first day of the calendar's count, exact for whole numbers.

    Raises:
        InvalidInputError: a value is beyond what timestamps hold.
    """
    start = units.start_day * US_PER_DAY + units.start_us
    limit = (2**62 - abs(start)) // units.step_us
    if values.dtype.kind in "iu":
        far = len(values) and (
            int(values.min()) < -limit * units.per_us or int(values.max()) > limit * units.per_us
        )
        steps = values.astype(np.int64) // units.per_us * units.step_us if not far else values
    else:
        whole = values.astype(np.float64) * (units.step_us / units.per_us)
        far = bool((np.abs(whole) > limit * units.step_us).any())
        steps = values if far else np.rint(whole).astype(np.int64)
    if far:
        raise _unsuitable(f"variable {name!r} has times that no timestamp can hold")
    return steps + start


def require_labels(us: npt.NDArray[np.int64], units: TimeUnits, name: str) -> None:
    """Refuse times whose date in the calendar is not the one that a timestamp would show."""
    if units.calendar == "standard" and len(us) and int(us.min()) < GREGORIAN_START * US_PER_DAY:
        raise _unsuitable(
            f"variable {name!r} has times before 1582-10-15, where its calendar is the Julian "
            "one, which timestamps cannot hold; read them as text with other-calendars=string, as "
            "numbers with decode_times=false, or choose other columns with option 'columns'"
        )


def as_text(us: npt.NDArray[np.int64], units: TimeUnits) -> npt.NDArray[Any]:
    """Times as texts like `2000-02-30 12:00:00`, which sort as the times do."""
    days, rest = np.divmod(us, US_PER_DAY)
    year, month, day = civil(units.calendar, days)
    second = rest // 1_000_000
    parts = (year, month, day, second // 3600, second // 60 % 60, second % 60)
    return np.array(
        [
            f"{y:04d}-{m:02d}-{d:02d} {hh:02d}:{mm:02d}:{ss:02d}"
            for y, m, d, hh, mm, ss in zip(*(part.tolist() for part in parts), strict=True)
        ],
        dtype=np.dtypes.StringDType(),
    )


# --- days and dates ---


def day_number(calendar: str, year: int, month: int, day: int) -> int:
    """The number of a date; calendars without leap rules of ours count from their year 0."""
    match calendar:
        case "noleap":
            return year * 365 + int(_MONTHS[: month - 1].sum()) + day - 1
        case "all_leap":
            return year * 366 + int(_MONTHS[: month - 1].sum()) + (month > 2) + day - 1
        case "360_day":
            return year * 360 + (month - 1) * 30 + day - 1
        case "julian":
            return _julian_day(year, month, day)
        case "standard" if (year, month, day) < (1582, 10, 15):
            return _julian_day(year, month, day)
        case _:
            back = (14 - month) // 12
            y, m = year + 4800 - back, month + 12 * back - 3
            jdn = day + (153 * m + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32045
            return jdn - _JULIAN_EPOCH


def _julian_day(year: int, month: int, day: int) -> int:
    back = (14 - month) // 12
    y, m = year + 4800 - back, month + 12 * back - 3
    return day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32083 - _JULIAN_EPOCH


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


def _unsuitable(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA)
