"""Points in time as microseconds, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from frazil.model.plain import EPOCH, MAX_MICROS, to_datetime, to_micros


def test_times_come_back_to_the_microsecond() -> None:
    when = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    assert to_datetime(to_micros(when)) == when
    assert to_micros(EPOCH - timedelta(microseconds=1)) == -1
    assert to_datetime(MAX_MICROS) == datetime.max.replace(tzinfo=UTC)


def test_zones_are_taken_into_account() -> None:
    east = timezone(timedelta(hours=2))
    assert to_micros(datetime(1970, 1, 1, 2, tzinfo=east)) == 0
