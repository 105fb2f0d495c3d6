"""CF in numpy: which attributes name other arrays, fill values to nulls, scale and offset, times.

What a decoder gives is known from the array's metadata alone, so that a schema needs no data.
Fill values of floats are spelled as xarray spells them for Zarr v3: Base64 of a double.
"""

from __future__ import annotations

import base64
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Mask
from frazil.cf.times import (
    TimeUnits,
    is_time,
    microseconds,
    parse_time_units,
    require_dates,
    times_as_text,
)
from frazil.errors import InvalidInputError, unsuitable
from frazil.texts import FLOAT_WORDS

FILL: Final = "_FillValue"
PACKING: Final = ("scale_factor", "add_offset", FILL, "missing_value", "_Unsigned")
"""what turns stored numbers into values"""
_NAMING: Final = ("coordinates", "bounds", "climatology", "grid_mapping")
DESCRIBING: Final = (*_NAMING, "ancillary_variables")
"""Attributes that name arrays which describe the data, but are not data themselves."""
LOADED: Final = (*_NAMING, "formula_terms")
"""Attributes that name arrays which are read whenever a dataset is opened."""
ENCODING: Final = frozenset({
    *PACKING, *DESCRIBING, "calendar", "dtype", "cell_measures",
    "valid_min", "valid_max", "valid_range", "actual_range",
})  # fmt: skip
"""attributes about how values are stored, not about what they mean"""


def named_arrays(attributes: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> set[str]:
    """The arrays that some attributes of arrays name."""
    chosen = tuple(keys)
    return {
        word.rstrip(":")
        for attrs in attributes
        for key in chosen
        for word in str(attrs.get(key, "")).split()
    }


# --- fill values ---


def encode_double(value: float) -> str:
    """A float as attributes hold it."""
    return base64.standard_b64encode(struct.pack("<d", value)).decode()


def decode_double(text: str) -> float:
    """A float that attributes hold, as Base64 or as a word."""
    if text in FLOAT_WORDS:
        return FLOAT_WORDS[text]
    try:
        found: float = struct.unpack("<d", base64.b64decode(text, validate=True))[0]
    except struct.error as error:
        raise ValueError(str(error)) from None
    return found


def holds(dtype: np.dtype[Any], value: object) -> bool:
    """Whether a value stays what it is as one of a type; floats may lose digits."""
    given = np.asarray(value)
    if given.size != 1:
        return False
    if dtype.kind not in "biufc" or given.dtype.kind not in "biufc":
        return (dtype.kind in "SU") == (given.dtype.kind in "SU")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex numbers lose their imaginary part
        made = given.reshape(()).astype(dtype)
    if dtype.kind in "fc":
        return bool(np.isfinite(made) == np.isfinite(given.reshape(())))
    is_other_sign = {given.dtype.kind, dtype.kind} == set("iu") and given.itemsize == dtype.itemsize
    return is_other_sign or bool(made.item() == given.item())


def fill_attribute(fill: object, dtype: np.dtype[Any]) -> bool | int | str | list[str] | None:
    """A `_FillValue` as attributes hold it, spelled as xarray does; None for types without one."""
    value = np.asarray(fill).astype(dtype).item()
    match dtype.kind:
        case "b" | "i" | "u" | "U":
            return value  # type: ignore[no-any-return]  # of that kind
        case "f":
            return encode_double(value)
        case "c":
            return [encode_double(value.real), encode_double(value.imag)]
        case "S":
            return base64.standard_b64encode(value).decode()
        case _:
            return None


def fill_values(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[float, ...]:
    """What stands for missing values, by `_FillValue` and `missing_value`, as a type of numbers."""
    given = [attrs[FILL]] if attrs.get(FILL) is not None else []
    # Some files have the missing value as text, which may or may not be a number.
    missing = _number(attrs.get("missing_value"))
    given += [] if missing is None else [missing]
    flat = [one for value in given for one in (value if isinstance(value, list) else [value])]
    known = (_fill(one, dtype) for one in flat)
    return tuple(dict.fromkeys(one for one in known if one is not None))


def _number(value: object) -> object:
    """A missing value, as a number where it is written as text; None for other texts."""
    if not isinstance(value, str) or value in FLOAT_WORDS:
        return value
    try:
        return float(value)
    except ValueError:
        return None


def _fill(value: object, dtype: np.dtype[Any]) -> float | None:
    """A fill value as one of a type; None for one that no value of the type is equal to."""
    try:
        number = decode_double(value) if isinstance(value, str) else value
    except ValueError as error:
        raise unsuitable(f"the fill value {value!r} cannot be read") from error
    # Arrays of integers may have the fill value 1e20 or NaN, left over from before packing.
    if dtype.kind in "iu" and isinstance(number, int | float):
        if not _is_whole(number, dtype):
            return None
        number = int(number)
    try:
        # Wrapping is meant: -1 of a byte stands for 255 once the bytes are unsigned.
        with np.errstate(invalid="ignore"):
            # For mypy: numpy calls it Any.
            return np.asarray(number).astype(dtype).item()  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError) as error:
        raise unsuitable(f"the fill value {value!r} is no {dtype}") from error


def _is_whole(number: float, dtype: np.dtype[Any]) -> bool:
    """Whether a number is one of an integer type, or of the one with the other sign."""
    bits = 8 * dtype.itemsize
    return -(1 << (bits - 1)) <= number < 1 << bits and number == int(number)


# --- packed numbers ---


def unsigned(dtype: np.dtype[Any], attrs: Mapping[str, Any]) -> np.dtype[Any] | None:
    """The type to view stored numbers as, if `_Unsigned` differs from the stored type."""
    word = str(attrs.get("_Unsigned", "")).lower()
    if dtype.kind == "i" and word == "true":
        return np.dtype(f"u{dtype.itemsize}")
    if dtype.kind == "u" and word == "false":
        return np.dtype(f"i{dtype.itemsize}")
    return None


def factor(attrs: Mapping[str, Any], key: str) -> float | None:
    """The number of `scale_factor` or `add_offset`."""
    value = attrs.get(key)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unsuitable(f"the {key} {value!r} is no number")
    return float(value)


def is_scaled(attrs: Mapping[str, Any]) -> bool:
    """Whether attributes tell that stored numbers are to be multiplied or shifted."""
    return any(attrs.get(key) is not None for key in ("scale_factor", "add_offset"))


Values: TypeAlias = npt.NDArray[Any]

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
class DecodedValues:
    """Values, with a mask of the missing ones; `missing` is None if no value is missing."""

    values: Values
    missing: Mask | None = None

    def take(self, chosen: Any) -> DecodedValues:  # noqa: ANN401  (any index of numpy)
        """The values at some places."""
        return DecodedValues(
            self.values[chosen], None if self.missing is None else self.missing[chosen]
        )

    def reshape(self, *shape: int) -> DecodedValues:
        """The same values in another shape."""
        return DecodedValues(
            self.values.reshape(shape),
            None if self.missing is None else self.missing.reshape(shape),
        )


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the stored values of one variable."""

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
    """length of the last axis, if its characters form a string"""

    def decode(self, stored: Values) -> DecodedValues:
        """Decode values as they were stored."""
        values = stored
        if self.letters:
            joined = np.ascontiguousarray(values).view(f"S{self.letters}")
            values = joined.reshape(values.shape[:-1])
        if self.source.kind == "U":
            return DecodedValues(values.astype(TEXT))
        if self.source.kind == "S" and self.result == TEXT:
            return DecodedValues(self._decode_bytes(values))
        if self.source.kind in "Mm":
            return DecodedValues(
                values.astype(self.result), np.isnat(values) if values.size else None
            )
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if self.view is not None:
            values = values.astype(self.view)
        missing = self._missing(values)
        if self.is_packed:
            values = values.astype(np.float64)
            if self.scale is not None:
                values *= self.scale
            if self.offset is not None:
                values += self.offset
        if self.time is not None:
            return self._decode_time(values, missing, self.time)
        if values.dtype != self.result:
            values = values.astype(self.result)
        return DecodedValues(values, missing)

    @property
    def is_packed(self) -> bool:
        """Whether stored numbers are multiplied or shifted."""
        return self.scale is not None or self.offset is not None

    def _missing(self, values: Values) -> Mask | None:
        missing = np.isnan(values) if self.nan_is_missing else None
        for fill in self.fills:
            found = values == fill
            missing = found if missing is None else missing | found
        return missing if missing is not None and missing.any() else None

    def _decode_time(self, values: Values, missing: Mask | None, units: TimeUnits) -> DecodedValues:
        if values.dtype.kind == "f":
            absent = ~np.isfinite(values)
            missing = absent if missing is None else missing | absent
        flat = values.ravel()
        if missing is not None:
            flat = np.where(missing.ravel(), values.dtype.type(0), flat)
        with error_prefix("variable", self.name):
            us = microseconds(flat, units)
            if self.time_as_text:
                return DecodedValues(times_as_text(us, units).reshape(values.shape), missing)
            require_dates(us if missing is None else us[~missing.ravel()], units)
        return DecodedValues(us.view(TIME).reshape(values.shape), missing)

    def _decode_bytes(self, values: Values) -> Values:
        try:
            return np.strings.decode(values, "utf-8").astype(TEXT)
        except UnicodeDecodeError as error:
            raise unsuitable(
                f"variable {self.name!r} has text that is not UTF-8; read it with decode_cf=false"
            ) from error


@contextmanager
def error_prefix(what: str, name: str) -> Iterator[None]:
    """Prefix errors with the name of what they are about."""
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
    with error_prefix("variable", name):
        return _number_decoder(name, dtype, attrs, rules)


def _number_decoder(
    name: str, dtype: np.dtype[Any], attrs: Mapping[str, Any], rules: Rules
) -> Decoder:
    view = unsigned(dtype, attrs)
    packed = view or dtype
    known = fill_values(attrs, packed)
    fills = tuple(fill for fill in known if fill == fill)
    nan = len(fills) < len(known)
    scale, offset = factor(attrs, "scale_factor"), factor(attrs, "add_offset")
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
        return Decoder(
            name, dtype, kind, view, fills, nan, scale, offset, time=time, time_as_text=as_texts
        )
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
