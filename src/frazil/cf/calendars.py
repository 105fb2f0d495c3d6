"""Calendars of the CF conventions: days and dates, in numpy.

Days are counted from 1970-01-01, or from year 0 in calendars with years of one length. The
standard calendar is Julian before 1582-10-15.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

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
_JULIAN_EPOCH: Final = 2_440_588
"""the Julian day number of 1970-01-01"""
_MONTHS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def day_number(calendar: str, year: int, month: int, day: int) -> int:
    """The number of a date; calendars without leap rules of ours count from their year 0."""
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
