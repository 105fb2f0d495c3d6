"""Fill values of the older generations: JSON as Zarr has it, tagged as G2 and G3, bytes as G1.

All three spell one value of one data type. What cannot be kept exactly is refused, never rounded
further than the data type itself does.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from frazil.formats.legacy.messages import Single
from frazil.model.plain import JSON

Scalar: TypeAlias = Any
"""A value in Python: bool, int, float, complex parts as a pair, bytes, str."""

_RAW: Final = re.compile(r"r([1-9][0-9]{0,6})")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FLOATS: Final = {2: ">e", 4: ">f", 8: ">d"}
_CANONICAL_NAN: Final = {2: b"\x7e\x00", 4: b"\x7f\xc0\0\0", 8: b"\x7f\xf8\0\0\0\0\0\0"}


class UnfitError(ValueError):
    """A value that its data type or the generation cannot hold."""


@dataclass(frozen=True, slots=True)
class DataType:
    """How the values of one data type are spelled."""

    name: str
    tag: str
    parse: Callable[[JSON], Scalar]
    """from zarr.json, or from the value below a tag"""
    json: Callable[[Scalar], JSON]
    """to zarr.json"""
    tagged: Callable[[Scalar], JSON]
    """to the value below a tag in MessagePack"""
    to_bytes: Callable[[Scalar], bytes]
    from_bytes: Callable[[bytes], Scalar]
    zero: Scalar


# --- booleans and whole numbers ---


def _parse_bool(value: JSON) -> bool:
    if not isinstance(value, bool):
        raise UnfitError("it must be true or false")
    return value


def _bool_from_bytes(raw: bytes) -> bool:
    if raw not in (b"\0", b"\1"):
        raise UnfitError("it must be one byte, 0 or 1")
    return raw == b"\1"


def _same(value: Scalar) -> JSON:
    return value


_BOOL: Final = DataType(
    "bool", "Bool", _parse_bool, _same, _same, lambda v: bytes([v]), _bool_from_bytes, False
)


def _whole(kind: str, width: int, *, signed: bool) -> DataType:
    tag = f"{kind}{8 * width}"
    low = -(1 << 8 * width - 1) if signed else 0
    high = (1 << 8 * width - signed) - 1

    def parse(value: JSON) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise UnfitError(f"it must be a whole number from {low} to {high}")
        return value

    def from_bytes(raw: bytes) -> int:
        if len(raw) != width:
            raise UnfitError(f"it must have {width} bytes")
        return int.from_bytes(raw, "big", signed=signed)

    def to_bytes(value: int) -> bytes:
        return value.to_bytes(width, "big", signed=signed)

    return DataType(tag.lower(), tag, parse, _same, _same, to_bytes, from_bytes, 0)


# --- floating point and complex numbers ---


def _parse_float(value: JSON, width: int) -> float:
    """A number rounded as its data type does; also its bits in hexadecimal."""
    if value is None:  # what JSON writers of that age made of NaN
        return math.nan
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * width}}}", value) is None:
            raise UnfitError("it must be a number, NaN, Infinity or bits in hexadecimal")
        return _float_from_bytes(bytes.fromhex(value[2:]), width)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnfitError("it must be a number, NaN, Infinity or bits in hexadecimal")
    try:
        rounded: float = struct.unpack(_FLOATS[width], struct.pack(_FLOATS[width], value))[0]
    except (OverflowError, struct.error) as error:
        raise UnfitError(f"it does not fit into {width} bytes") from error
    return rounded


def _float_from_bytes(raw: bytes, width: int) -> float:
    if len(raw) != width:
        raise UnfitError(f"it must have {width} bytes")
    value: float = struct.unpack(_FLOATS[width], raw)[0]
    if math.isnan(value) and raw != _CANONICAL_NAN[width]:
        raise UnfitError("it is a NaN with bits of its own, which would be lost")
    return value


def _float_to_bytes(value: float, width: int) -> bytes:
    return _CANONICAL_NAN[width] if math.isnan(value) else struct.pack(_FLOATS[width], value)


def float_json(value: float) -> JSON:
    """A float as zarr.json spells it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def _floating(width: int) -> DataType:
    def from_bytes(raw: bytes) -> float:
        if width == 2 and len(raw) == 4:  # some kept half precision in single
            return _parse_float(_float_from_bytes(raw, 4), 2)
        return _float_from_bytes(raw, width)

    return DataType(
        f"float{8 * width}",
        f"Float{8 * width}",
        lambda value: _parse_float(value, width),
        float_json,
        float if width == 8 else Single,
        lambda value: _float_to_bytes(value, width),
        from_bytes,
        0.0,
    )


def _complex(part: DataType, width: int) -> DataType:
    """Pairs of floating point numbers of so many bytes."""

    def parse(value: JSON) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise UnfitError("it must be a pair of numbers")
        return tuple(map(part.parse, value))

    return DataType(
        f"complex{16 * width}",
        f"Complex{16 * width}",
        parse,
        lambda pair: [part.json(each) for each in pair],
        lambda pair: [part.tagged(each) for each in pair],
        lambda pair: b"".join(map(part.to_bytes, pair)),
        lambda raw: (part.from_bytes(raw[:width]), part.from_bytes(raw[width:])),
        (0.0, 0.0),
    )


# --- bytes and texts ---


def _parse_octets(value: JSON) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnfitError("it is neither a list of bytes nor base64") from error
    if not isinstance(value, list | tuple) or not all(
        type(each) is int and 0 <= each < 256 for each in value
    ):
        raise UnfitError("it is neither a list of bytes nor base64")
    return bytes(value)


def _parse_text(value: JSON) -> str:
    if not isinstance(value, str):
        raise UnfitError("it must be a text")
    return value


def _json_bytes(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _from_json_bytes(raw: bytes) -> JSON:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnfitError("it is not JSON") from error


_STRING: Final = DataType(
    "string",
    "String",
    _parse_text,
    _same,
    _same,
    _json_bytes,
    lambda raw: _parse_text(_from_json_bytes(raw)),
    "",
)
_BYTES: Final = DataType(
    "bytes",
    "Bytes",
    _parse_octets,
    lambda raw: base64.b64encode(raw).decode("ascii"),
    list,
    lambda value: _json_bytes(list(value)),
    lambda raw: _parse_octets(_from_json_bytes(raw)),
    b"",
)


def raw_bits(bits: int) -> DataType:
    """The data type `r<n>`: so many bits without meaning."""
    size = bits // 8

    def parse(value: JSON) -> bytes:
        raw = _parse_octets(value)
        if len(raw) not in (size, bits):
            raise UnfitError(f"it must have {size} bytes")
        return raw

    def from_bytes(raw: bytes) -> bytes:
        return parse(list(raw))

    return DataType(f"r{bits}", "RawBits", parse, list, list, bytes, from_bytes, bytes(size))


# --- all of them ---

_FLOAT32, _FLOAT64 = _floating(4), _floating(8)
CORE: Final[Mapping[str, DataType]] = {
    each.name: each
    for each in (
        _BOOL,
        *(_whole("Int", width, signed=True) for width in (1, 2, 4, 8)),
        *(_whole("UInt", width, signed=False) for width in (1, 2, 4, 8)),
        _floating(2),
        _FLOAT32,
        _FLOAT64,
        _complex(_FLOAT32, 4),
        _complex(_FLOAT64, 8),
    )
}
"""Data types of every generation."""
TEXTUAL: Final[Mapping[str, DataType]] = {"string": _STRING, "bytes": _BYTES}
"""Data types that G3 added."""


def raw_bits_named(name: str) -> DataType | None:
    """The data type `r<n>` with this name, or None."""
    found = _RAW.fullmatch(name)
    if found is None or int(found[1]) % 8:
        return None
    return raw_bits(int(found[1]))


def fill_to_bytes(data_type: str, value: JSON) -> bytes:
    """A fill value as G1 keeps it: the element in big-endian order, or JSON of other types.

    Raises:
        UnfitError: it is no value of this data type.
    """
    known = _g1_type(data_type)
    return _json_bytes(value) if known is None else known.to_bytes(known.parse(value))


def fill_from_bytes(data_type: str, raw: bytes | None) -> JSON:
    """The fill value in zarr.json for what G1 keeps; none means the zero of the type.

    Raises:
        UnfitError: the bytes are no value of this data type.
    """
    known = _g1_type(data_type)
    if known is None:
        return None if raw is None else _from_json_bytes(raw)
    return known.json(known.zero if raw is None else known.from_bytes(raw))


def _g1_type(name: str) -> DataType | None:
    return CORE.get(name) or TEXTUAL.get(name) or raw_bits_named(name)
