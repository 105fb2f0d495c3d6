"""CF decoding in numpy: fill values to nulls, scale and offset, times, unsigned numbers.

What a decoder gives is known from the array's metadata alone, so that a schema needs no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.cf.attributes import factor, fill_values, unsigned
from frazil.cf.times import (
    TimeUnits,
    as_text,
    is_time,
    microseconds,
    parse_time_units,
    require_labels,
)
from frazil.errors import InvalidInputError, unsuitable

Values: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

TEXT: Final = np.dtypes.StringDType()
TIME: Final = np.dtype("M8[us]")
SPAN: Final = np.dtype("m8[us]")


@dataclass(frozen=True, slots=True)
class Rules:
    """How values are to be decoded."""

    cf: bool = True
    calendars_as_text: bool = False
    """times that timestamps cannot hold, or that are counted from a date before their first"""
    times: bool = True
    """whether numbers with units of times become times; masks are applied either way"""


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Values with the places where there is none; `missing` is None when every place has one."""

    values: Values
    missing: Mask | None = None

    def take(self, chosen: Any) -> Decoded:  # noqa: ANN401  (any index of numpy)
        """The values at some places."""
        return Decoded(self.values[chosen], None if self.missing is None else self.missing[chosen])

    def reshape(self, *shape: int) -> Decoded:
        """The same values in another shape."""
        return Decoded(
            self.values.reshape(shape),
            None if self.missing is None else self.missing.reshape(shape),
        )


@dataclass(frozen=True, slots=True)
class Decoder:
    """What to do with the stored values of one variable."""

    name: str
    source: np.dtype[Any]
    result: np.dtype[Any]
    view: np.dtype[Any] | None = None
    fills: tuple[float, ...] = ()
    nan_is_missing: bool = False
    scale: float | None = None
    offset: float | None = None
    time: TimeUnits | None = None
    time_as_text: bool = False
    letters: int = 0
    """how many of the last axis make up a text"""

    def decode(self, stored: Values) -> Decoded:
        """Decode values as they were stored."""
        values = stored
        if self.letters:
            joined = np.ascontiguousarray(values).view(f"S{self.letters}")
            values = joined.reshape(values.shape[:-1])
        if self.source.kind == "U":
            return Decoded(values.astype(TEXT))
        if self.source.kind == "S" and self.result == TEXT:
            return Decoded(self._decode_bytes(values))
        if self.source.kind in "Mm":
            return Decoded(values.astype(self.result), np.isnat(values) if values.size else None)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if self.view is not None:
            values = values.astype(self.view)
        missing = self._missing(values)
        if self.time is not None:
            return self._decode_time(values, missing, self.time)
        if self.scale is not None or self.offset is not None:
            values = values.astype(self.result)
            if self.scale is not None:
                values *= self.scale
            if self.offset is not None:
                values += self.offset
        elif values.dtype != self.result:
            values = values.astype(self.result)
        return Decoded(values, missing)

    def _missing(self, values: Values) -> Mask | None:
        missing = np.isnan(values) if self.nan_is_missing else None
        for fill in self.fills:
            found = values == fill
            missing = found if missing is None else missing | found
        return missing if missing is not None and missing.any() else None

    def _decode_time(self, values: Values, missing: Mask | None, units: TimeUnits) -> Decoded:
        if values.dtype.kind == "f":
            absent = ~np.isfinite(values)
            missing = absent if missing is None else missing | absent
        flat = values.ravel()
        if missing is not None:
            flat = np.where(missing.ravel(), values.dtype.type(0), flat)
        with naming("variable", self.name):
            us = microseconds(flat, units)
            if self.time_as_text:
                return Decoded(as_text(us, units).reshape(values.shape), missing)
            require_labels(us if missing is None else us[~missing.ravel()], units)
        return Decoded(us.view(TIME).reshape(values.shape), missing)

    def _decode_bytes(self, values: Values) -> Values:
        try:
            return np.strings.decode(values, "utf-8").astype(TEXT)
        except UnicodeDecodeError as error:
            raise unsuitable(
                f"variable {self.name!r} has text that is not UTF-8; read it with decode_cf=false"
            ) from error


@contextmanager
def naming(what: str, name: str) -> Iterator[None]:
    """Let errors begin with what they are about."""
    try:
        yield
    except InvalidInputError as error:
        raise unsuitable(f"{what} {name!r}: {error.args[0]}") from error


def decoder_of(
    name: str, dtype: np.dtype[Any], attrs: Mapping[str, Any], rules: Rules, letters: int = 0
) -> Decoder:
    """The decoder of an array; `letters` of its last axis make up a text."""
    plain = _plain(name, dtype)  # refuses what no column can hold
    if not rules.cf or dtype.kind not in "iuf":
        result = TEXT if rules.cf and dtype.kind == "S" else plain
        return Decoder(name, dtype, result, letters=letters)
    with naming("variable", name):
        return _number_decoder(name, dtype, attrs, rules)


def _number_decoder(
    name: str, dtype: np.dtype[Any], attrs: Mapping[str, Any], rules: Rules
) -> Decoder:
    view = unsigned(dtype, attrs)
    packed = view or dtype
    known = fill_values(attrs, packed)
    fills = tuple(fill for fill in known if fill == fill)
    nan = len(fills) < len(known)
    if is_time(attrs.get("units")) and rules.times:
        time = parse_time_units(attrs)
        if not time.is_numpy and not rules.calendars_as_text:
            raise unsuitable(
                f"timestamps cannot hold the dates of the calendar {attrs.get('calendar')!r}; "
                "read them as text with other-calendars=string, or as numbers with "
                "decode_times=false"
            )
        as_texts = rules.calendars_as_text and (time.is_early or not time.is_numpy)
        kind: np.dtype[Any] = TEXT if as_texts else TIME
        return Decoder(name, dtype, kind, view, fills, nan, time=time, time_as_text=as_texts)
    scale, offset = factor(attrs, "scale_factor"), factor(attrs, "add_offset")
    if scale is not None or offset is not None:
        return Decoder(name, dtype, np.dtype("f8"), view, fills, nan, scale, offset)
    if attrs.get("dtype") == "bool" and packed.kind in "iu":
        return Decoder(name, dtype, np.dtype("?"), view, fills, nan)
    return Decoder(name, dtype, _widened(packed), view, fills, nan)


def _plain(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of values that are handed over as they are."""
    match dtype.kind:
        case "i" | "u" | "f" if dtype.itemsize <= 8:
            return _widened(dtype)
        case "c" if dtype.itemsize <= 16:
            return dtype.newbyteorder("=")
        case "b" | "T" | "O" | "S":
            return dtype
        case "V" if dtype.fields is None:
            return dtype
        case "U":
            return TEXT
        case "M":
            return TIME
        case "m":
            return SPAN
        case _:
            raise unsuitable(
                f"{name!r} has the type {dtype}, which no column can hold; leave it out "
                "with option 'variables'"
            )


def _widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Half precision floats become single ones; everything gets the machine's byte order."""
    return np.dtype("f4") if dtype.kind == "f" and dtype.itemsize == 2 else dtype.newbyteorder("=")
