"""Times in different units become one axis, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.cf.times import TimeUnits, common_units, converted, time_units
from frazil.errors import InvalidInputError


def units(text: str, calendar: str = "standard") -> TimeUnits:
    found = time_units({"units": text, "calendar": calendar})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("days since 2000-01-01", "days since 2000-01-01", 5, 5),
        ("days since 2000-01-02", "days since 2000-01-01", 5, 6),
        ("days since 2000-01-01", "hours since 2000-01-01", 2, 48),
        ("hours since 2000-01-01 12:00", "hours since 2000-01-01", 0, 12),
        ("s since 1970-01-01", "seconds since 1969-12-31", 1, 86401),
        ("weeks since 2000-01-01", "days since 2000-01-01", 3, 21),
    ],
)
def test_whole_numbers_stay_whole(old: str, new: str, value: int, expected: int) -> None:
    found = converted(np.array([value]), units(old), units(new))
    assert found.tolist() == [expected]
    assert found.dtype.kind == "i"


def test_parts_of_a_unit_are_refused_rather_than_rounded() -> None:
    with pytest.raises(InvalidInputError, match="no whole numbers"):
        converted(np.array([1]), units("hours since 2000-01-01"), units("days since 2000-01-01"))


def test_common_units_can_tell_the_times_of_all() -> None:
    found = common_units([units("days since 2000-01-01"), units("days since 2000-01-01 06:00")])
    assert found.text == "hours since 2000-01-01"
    leap = common_units(
        [units("days since 2000-02-28", "noleap"), units("days since 2000-03-01", "365_day")]
    )
    assert converted(np.array([0]), units("days since 2000-03-01", "noleap"), leap).tolist() == [1]


def test_calendars_do_not_mix() -> None:
    with pytest.raises(InvalidInputError, match="calendars"):
        common_units([units("days since 2000-01-01"), units("days since 2000-01-01", "360_day")])


@pytest.mark.parametrize("text", ["K", "months since 2000-01-01", "since 2000", "days", ""])
def test_other_units_are_no_times(text: str) -> None:
    assert time_units({"units": text}) is None


def test_a_day_that_is_none_is_told() -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        common_units([units("days since 2000-01-01"), units("days since never")])


def test_times_that_need_more_than_64_bits_are_refused() -> None:
    days, short = units("days since 1850-01-01"), units("nanoseconds since 1850-01-01")
    assert converted(np.array([100_000]), days, short).tolist() == [100_000 * 86_400 * 10**9]
    with pytest.raises(InvalidInputError, match="too far away"):
        converted(np.array([200_000]), days, short)


def test_packed_times_stay_in_their_units() -> None:
    hours = units("hours since 2000-01-01")
    assert converted(np.array([5]), hours, hours, is_packed=True).tolist() == [5]
    with pytest.raises(InvalidInputError, match="packed"):
        converted(np.array([5]), hours, units("hours since 2000-01-02"), is_packed=True)
