"""Attributes of the CF conventions: which name other arrays, how values are packed and masked.

Fill values of floats are spelled as xarray spells them for Zarr v3: Base64 of a double.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from frazil.errors import unsuitable
from frazil.texts import FLOAT_WORDS

FILL: Final = "_FillValue"
PACKING: Final = ("scale_factor", "add_offset", FILL, "missing_value", "_Unsigned")
"""what turns stored numbers into values"""
_NAMING: Final = ("coordinates", "bounds", "climatology", "grid_mapping")
DESCRIBING: Final = (*_NAMING, "ancillary_variables")
"""These name arrays that describe the data and are none themselves."""
LOADED: Final = (*_NAMING, "formula_terms")
"""These name arrays that everybody reads who opens a dataset."""
ENCODING: Final = frozenset({
    *PACKING, *DESCRIBING, "calendar", "dtype", "cell_measures",
    "valid_min", "valid_max", "valid_range", "actual_range",
})  # fmt: skip
"""what tells how values are stored and what belongs to them, and not what they are"""


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


def plain_fill_attribute(fill: object, dtype: np.dtype[Any]) -> bool | int | str | None:
    """A `_FillValue` of numbers as attributes hold it; None for other types."""
    match dtype.kind:
        case "b":
            return bool(fill)
        case "i" | "u":
            return int(fill)  # type: ignore[call-overload,no-any-return]  # a number of numpy
        case "f":
            return encode_double(float(fill))  # type: ignore[arg-type]  # a number of numpy
        case _:
            return None


def plain_fill(attribute: object, dtype: np.dtype[Any]) -> int | float | None:
    """What a `_FillValue` in that spelling stands for; None for other spellings and types."""
    match dtype.kind, attribute:
        case ("i" | "u", int(number)) if not isinstance(number, bool):
            return number
        case "f", str(text) if text not in FLOAT_WORDS:
            try:
                return decode_double(text)
            except ValueError:
                return None
        case _:
            return None


def fill_values(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[float, ...]:
    """What stands for missing values, by `_FillValue` and `missing_value`, as a type of numbers."""
    given = [attrs[FILL]] if attrs.get(FILL) is not None else []
    # Some files spell the missing value as text, which is a number or says nothing.
    missing = _number(attrs.get("missing_value"))
    given += [] if missing is None else [missing]
    flat = [one for value in given for one in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(_fill(one, dtype) for one in flat))


def _number(value: object) -> object:
    """A missing value, as a number where it is written as text; None for other texts."""
    if not isinstance(value, str) or value in FLOAT_WORDS:
        return value
    try:
        return float(value)
    except ValueError:
        return None


def _fill(value: object, dtype: np.dtype[Any]) -> float:
    try:
        number = decode_double(value) if isinstance(value, str) else value
    except ValueError as error:
        raise unsuitable(f"the fill value {value!r} cannot be read") from error
    try:
        # Wrapping is meant: -1 of a byte stands for 255 once the bytes are unsigned.
        with np.errstate(invalid="ignore"):
            return np.asarray(number).astype(dtype).item()  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError) as error:
        raise unsuitable(f"the fill value {value!r} is no {dtype}") from error


# --- packed numbers ---


def unsigned(dtype: np.dtype[Any], attrs: Mapping[str, Any]) -> np.dtype[Any] | None:
    """The type that stored numbers are to be seen as, where `_Unsigned` says another one."""
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
