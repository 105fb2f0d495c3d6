"""Plain values that records of the history are made of: JSON, metadata and points in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

JSON: TypeAlias = Any
"""A value JSON can hold; metadata comes from foreign bytes."""
Metadata: TypeAlias = Mapping[str, JSON]
Micros: TypeAlias = int
"""Microseconds since 1970 UTC."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(micros: Micros) -> datetime:
    """The time as an aware datetime."""
    return EPOCH + timedelta(microseconds=micros)


def to_micros(when: datetime) -> Micros:
    """An aware datetime as microseconds since 1970."""
    return (when - EPOCH) // timedelta(microseconds=1)


MAX_MICROS: Final = to_micros(datetime.max.replace(tzinfo=UTC))
"""Python has no later times; a file with one is damaged."""


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """How one file format packs a JSON value into bytes."""

    pack: Callable[[JSON], bytes]
    unpack: Callable[[bytes], JSON]
