"""How values are written for people: times in UTC, sizes, ids, and nothing that moves a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from frazil.masking import clean

SHORT_ID: Final = 8
"""Digits of an id that are shown; enough to name it again."""
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def one_line(text: str) -> str:
    """The first line of a message."""
    return clean(text.strip().partition("\n")[0])


def size(count: int) -> str:
    """A number of bytes, to three digits."""
    amount, unit = float(count), "B"
    for unit_above in _UNITS:
        if amount < (1024 if unit == "B" else 999.5):  # which three digits still can show
            break
        amount, unit = amount / 1024, unit_above
    return f"{count} B" if unit == "B" else f"{amount:.3g} {unit}"


def counted(count: int, noun: str) -> str:
    """A number with its noun, which gets an s unless there is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def second_text(when: datetime) -> str:
    """A time, to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact(when: datetime) -> str:
    """A time, to the microsecond, for programs."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def short(snapshot_id: str) -> str:
    """The beginning of an id."""
    return snapshot_id[:SHORT_ID]


def axes(lengths: Sequence[object]) -> str:
    """A shape."""
    return " x ".join(map(str, lengths)) if lengths else "scalar"
