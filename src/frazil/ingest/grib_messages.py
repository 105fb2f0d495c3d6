"""Single GRIB messages: where they are, what they say of themselves, and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import eccodes
import numpy as np

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingest.encoding import Meaning, encoding_of
from frazil.ingest.records import Array, Variable, plain
from frazil.ingest.sources import shown

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One message, and what it is about."""

    offset: int
    length: int
    variable: str
    level_type: str
    place: tuple[float, float, float, float]
    """number, time in seconds since 1970, step in hours, level"""
    grid: str


def message_spans(data: bytes, url: str) -> Iterator[tuple[int, int]]:
    """Where messages are; what lies between them is passed over."""
    at = data.find(b"GRIB")
    while at >= 0:
        edition = data[at + 7] if at + 8 <= len(data) else 0
        length = int.from_bytes(
            data[at + 8 : at + 16] if edition == 2 else data[at + 4 : at + 7], "big"
        )
        if data[at + length - 4 : at + length] != b"7777":
            raise unsuitable("a GRIB message is damaged or cut off", url)
        yield at, length
        at = data.find(b"GRIB", at + length)


def described(
    handle: Any,  # noqa: ANN401  (of eccodes)
    offset: int,
    length: int,
    url: str,
) -> tuple[Message, dict[str, Any]]:
    """What a message says of itself, and the attributes of its variable."""

    def get(key: str, default: Any = None) -> Any:  # noqa: ANN401 - whatever a key holds
        try:
            return eccodes.codes_get(handle, key)
        except eccodes.KeyValueNotFoundError:
            return default

    short = get("cfVarName") or get("shortName")
    name = short if short and short != "unknown" else f"param_{get('paramId', 0)}"
    date, clock = int(get("dataDate")), int(get("dataTime"))
    when = datetime(date // 10000, date // 100 % 100, date % 100, tzinfo=UTC)
    when += timedelta(hours=clock // 100, minutes=clock % 100)
    step = _step(str(get("endStep", 0)), url)
    level = float(get("level", 0))
    place = (float(get("number", 0)), (when - _EPOCH).total_seconds(), step, level)
    attrs = {
        "long_name": get("name"),
        "units": get("units"),
        "standard_name": get("cfName"),
        "GRIB_shortName": get("shortName"),
        "GRIB_paramId": get("paramId"),
        "GRIB_typeOfLevel": get("typeOfLevel"),
        "GRIB_stepType": get("stepType"),
        "GRIB_edition": get("edition"),
        "GRIB_gridType": get("gridType"),
    }
    known = {key: value for key, value in attrs.items() if value not in (None, "unknown")}
    made = Message(
        offset, length, str(name), str(get("typeOfLevel")), place, str(get("md5GridSection"))
    )
    return made, known


def _step(text: str, url: str) -> float:
    """A step in hours."""
    for unit, hours in (("h", 1.0), ("m", 1 / 60), ("s", 1 / 3600)):
        if text.endswith(unit):
            return float(text[:-1]) * hours
    try:
        return float(text)
    except ValueError:
        raise unsuitable(f"the step {text!r} cannot be read", url) from None


def grid_of(handle: Any, url: str) -> dict[str, Variable]:  # noqa: ANN401  (of eccodes)
    """Coordinates of the grid: two axes where it is regular, else arrays over rows and columns."""
    kind = eccodes.codes_get(handle, "gridType")
    if kind in ("regular_ll", "regular_gg"):
        lat = eccodes.codes_get_array(handle, "distinctLatitudes")
        lon = eccodes.codes_get_array(handle, "distinctLongitudes")
        if not eccodes.codes_get(handle, "jScansPositively"):
            lat = lat[::-1] if lat[0] < lat[-1] else lat
        _require_plain(handle, url)
        return {
            "latitude": loaded("latitude", ("latitude",), lat, {"units": "degrees_north"}),
            "longitude": loaded("longitude", ("longitude",), lon, {"units": "degrees_east"}),
        }
    try:
        shape = (eccodes.codes_get(handle, "Ny"), eccodes.codes_get(handle, "Nx"))
    except eccodes.KeyValueNotFoundError:
        raise unsuitable(f"grids of the type {kind!r} are not supported", url) from None
    _require_plain(handle, url)
    lat = eccodes.codes_get_array(handle, "latitudes").reshape(shape)
    lon = eccodes.codes_get_array(handle, "longitudes").reshape(shape)
    return {
        "latitude": loaded("latitude", ("y", "x"), lat, {"units": "degrees_north"}),
        "longitude": loaded("longitude", ("y", "x"), lon, {"units": "degrees_east"}),
    }


def _require_plain(handle: Any, url: str) -> None:  # noqa: ANN401  (of eccodes)
    for key in ("alternativeRowScanning", "jPointsAreConsecutive", "iScansNegatively"):
        if eccodes.codes_get(handle, key):
            raise unsuitable(f"grids with {key} are not supported", url)


def loaded(name: str, dims: tuple[str, ...], values: Array, attrs: Mapping[str, Any]) -> Variable:
    """A coordinate with its values."""
    encoding = encoding_of(Meaning(values.dtype.newbyteorder("<"), 0.0))
    shape = tuple(values.shape)
    chunks = tuple(max(1, n) for n in shape)
    return Variable(name, dims, shape, chunks, encoding, plain(dict(attrs)), None, values)


def refusal(data: bytes) -> str | None:
    """Why a message cannot be referred to; None when gribberish decodes it as eccodes does."""
    if data[7] != 2:
        return "it is of the first edition of GRIB"
    try:
        from gribberish import parse_grib_array
    except ImportError:
        return "the package gribberish is not installed"
    expected = decoded(data)
    try:
        found = parse_grib_array(data, 0)
    except BaseException as error:  # a panic of its compiled code is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return f"gribberish does not decode it ({type(error).__name__})"
    size = float(np.nanmax(np.abs(expected), initial=0.0))
    is_same = found.size == expected.size and np.allclose(
        found.ravel(), expected, rtol=0, atol=1e-6 * size, equal_nan=True
    )
    return None if is_same else "gribberish decodes it to other values than eccodes"


def decoded(data: bytes) -> Array:
    """The values of a message, NaN where there are none."""
    handle = eccodes.codes_new_from_message(data)
    try:
        eccodes.codes_set(handle, "missingValue", 9.9e36)
        values = np.asarray(eccodes.codes_get_values(handle))
        if eccodes.codes_get(handle, "bitmapPresent"):
            values = np.where(values == 9.9e36, np.nan, values)
        return values
    finally:
        eccodes.codes_release(handle)


def unsuitable(message: str, url: str) -> InvalidInputError:
    """The error for a file that is not what it should be."""
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA, file=shown(url))
