"""Points in time as the older generations spell them: RFC 3339 with up to nine digits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from frazil.formats.legacy.records import Nanos
from frazil.model.history import MAX_MICROS, to_datetime

_PATTERN: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> Nanos | None:
    """The time that a text tells, or None where it tells none after 1970."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    day, digits, zone = found.groups()
    try:
        when = datetime.fromisoformat(day.upper() + ("+00:00" if zone in "Zz" else zone))
        seconds = (when - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    nanos = seconds * 10**9 + int((digits or "").ljust(9, "0"))
    return nanos if 0 <= nanos <= MAX_MICROS * 1000 else None


def format_time(when: Nanos) -> str:
    """A time in UTC with six digits, or nine where there is more to tell."""
    micros, rest = divmod(when, 1000)
    text = to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%f")
    # strftime does not pad years on every platform.
    return f"{text.zfill(26)}{rest:03}Z" if rest else f"{text.zfill(26)}Z"
