"""Single GRIB messages: where they are, what they say of themselves, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import eccodes
import numpy as np

from frazil.ingestion.encoding import coordinate
from frazil.ingestion.records import Array, FileVariable
from frazil.ingestion.sources import bad_file
from frazil.ingestion.tuning import GRIB_BLOCK

_BITMAP: Final = b"\x06"
"""Section of the second edition with the bitmap; that with the values follows."""
_VALUES: Final = b"\x07"
_COMPLEX: Final = "grid_complex"
"""how the packings in groups of values begin: this one, and those of differences"""
_WIDTHS: Final = "numberOfBitsUsedForTheGroupWidths"
_SCALING: Final = ("referenceValue", "binaryScaleFactor", "decimalScaleFactor")
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
    packing: str
    """how its values are written, as far as readers may differ in that"""


class Window:
    """A file that is read block by block; large messages are skipped without reading them."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self.size = size
        self._start, self._block = 0, b""

    def get(self, start: int, length: int) -> bytes:
        """Some bytes, fewer at the end of the file."""
        length = max(0, min(length, self.size - start))
        inside = start - self._start
        if inside < 0 or inside + length > len(self._block):
            wanted = min(max(length, GRIB_BLOCK), self.size - start)
            block = self._read(start, wanted) if length else b""
            if len(block) > GRIB_BLOCK:
                return block[:length]
            self._start, self._block, inside = start, block, 0
        return self._block[inside : inside + length]

    def find(self, sign: bytes, start: int) -> int:
        """Where some bytes are next, -1 for nowhere."""
        if self.get(start, len(sign)) == sign:
            return start
        while start < self.size:
            block = self.get(start, GRIB_BLOCK)
            found = block.find(sign)
            if found >= 0:
                return start + found
            start += max(1, len(block) - len(sign) + 1)
        return -1


def messages(file: Window, url: str) -> Iterator[tuple[int, int, bytes]]:
    """Positions of messages, and their headers; bytes between them are skipped."""
    at = file.find(b"GRIB", 0)
    while at >= 0:
        head = file.get(at, 16).ljust(16, b"\0")
        length = int.from_bytes(head[8:] if head[7] == 2 else head[4:7], "big")
        header = _header(file, at, length)  # now, as the end is read with the next header
        if head[7] == 2 and _has_more_fields(file, at, length):
            raise bad_file(
                "a GRIB message holds several fields, which is not supported; write each into a"
                " message of its own, as grib_copy of eccodes does",
                url,
            )
        if length < len(head) or file.get(at + length - 4, 4) != b"7777":
            raise bad_file("a GRIB message is damaged or cut off", url)
        yield at, length, header
        at = file.find(b"GRIB", at + length)


def _header(file: Window, offset: int, length: int) -> bytes:
    """A message without its bitmap and values, which are not needed to describe it."""
    if length <= GRIB_BLOCK:
        return file.get(offset, length)
    end = _end_of_header_1 if file.get(offset + 7, 1) == b"\x01" else _end_of_header_2
    return file.get(offset, min(length, end(file, offset, length)))


def _end_of_header_1(file: Window, offset: int, _: int) -> int:
    at = 8
    has_grid = file.get(offset + at + 7, 1)[0] & 128
    for _ in range(2 if has_grid else 1):
        at += int.from_bytes(file.get(offset + at, 3), "big")
    return at


def _end_of_header_2(file: Window, offset: int, length: int) -> int:
    at = 16
    while at < length:
        size, number = file.get(offset + at, 4), file.get(offset + at + 4, 1)
        if number >= _BITMAP:
            break
        at += max(5, int.from_bytes(size, "big"))
    return at


def _has_more_fields(file: Window, offset: int, length: int) -> bool:
    """Whether other sections than the end follow the first values."""
    at = 16
    while at < length:
        size, number = file.get(offset + at, 4), file.get(offset + at + 4, 1)
        at += max(5, int.from_bytes(size, "big"))
        if number == _VALUES:
            return at + len(b"7777") < length
    return False


@contextmanager
def open_message(message: bytes) -> Iterator[Any]:
    """What eccodes knows of a message, or of its beginning."""
    handle = eccodes.codes_new_from_message(message, partial=message[-4:] != b"7777")
    try:
        yield handle
    finally:
        eccodes.codes_release(handle)


def describe_message(
    handle: Any,  # noqa: ANN401  (of eccodes)
    offset: int,
    length: int,
    url: str,
) -> tuple[Message, dict[str, Any]]:
    """The metadata of a message, and the attributes of its variable."""

    def get(key: str, default: Any = None, kind: type | None = None) -> Any:  # noqa: ANN401 - whatever a key holds
        try:
            return eccodes.codes_get(handle, key, kind)
        except eccodes.KeyValueNotFoundError:
            return default

    short = get("cfVarName") or get("shortName")
    name = short if short and short != "unknown" else _made_up(get)
    date, clock = int(get("dataDate")), int(get("dataTime"))
    when = datetime(date // 10000, date // 100 % 100, date % 100, tzinfo=UTC)
    second = int(get("second", 0))  # of the second edition; radars count them
    when += timedelta(hours=clock // 100, minutes=clock % 100, seconds=second)
    step = _step(str(get("endStep", 0)), url)
    level = get("level", 0.0, float)  # as a whole number it would lose its fraction
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
    # Readers have special cases for values that are all the same, for missing ones and for no
    # scale, and may be wrong in one of them only.
    numbers = [get(key) or 0 for key in _SCALING]
    signs = [(number > 0) - (number < 0) for number in numbers]
    count = get("numberOfValues")
    is_full = count == get("numberOfDataPoints")
    is_even = get(_WIDTHS) == 0
    packing = f"{get('packingType')} {get('bitsPerValue')} {is_full} {count == 0} {is_even} {signs}"
    made = Message(
        offset,
        length,
        str(name),
        _level_type(get),
        place,
        str(get("md5GridSection")),
        packing,
    )
    return made, known


def _made_up(get: Callable[..., Any]) -> str:
    """The name of a parameter that eccodes does not know: the numbers that messages have for it."""
    known = get("paramId", 0)
    second = ("discipline", "parameterCategory", "parameterNumber")
    keys = second if get("edition") == 2 else ("table2Version", "indicatorOfParameter")
    return f"param_{known}" if known else "_".join(["param", *(str(get(key)) for key in keys)])


def _level_type(get: Callable[..., Any]) -> str:
    """What levels are counted in; numbers tell surfaces apart that eccodes has no name for."""
    known = str(get("typeOfLevel"))
    key = "typeOfFirstFixedSurface" if get("edition") == 2 else "indicatorOfTypeOfLevel"
    return f"surface_{get(key, 0, int)}" if known == "unknown" else known


def _step(text: str, url: str) -> float:
    """A step in hours."""
    for unit, hours in (("h", 1.0), ("m", 1 / 60), ("s", 1 / 3600)):
        if text.endswith(unit):
            return float(text[:-1]) * hours
    try:
        return float(text)
    except ValueError:
        raise bad_file(f"the step {text!r} cannot be read", url) from None


def grid_coordinates(handle: Any, url: str) -> dict[str, FileVariable]:  # noqa: ANN401  (of eccodes)
    """Coordinates of the grid: two axes where it is regular, else arrays over rows and columns."""
    kind = eccodes.codes_get(handle, "gridType")
    is_regular, sides = kind in ("regular_ll", "regular_gg"), ("Ny", "Nx")
    if not is_regular:
        try:
            shape = [eccodes.codes_get(handle, key) for key in sides]
            is_known = not any(eccodes.codes_is_missing(handle, key) for key in sides)
        except eccodes.KeyValueNotFoundError:
            is_known = False
        if not is_known:
            raise bad_file(f"grids of the type {kind!r} are not supported", url)
    for key in ("alternativeRowScanning", "jPointsAreConsecutive", "iScansNegatively"):
        if eccodes.codes_get(handle, key):
            raise bad_file(f"grids with {key} are not supported", url)
    dims: list[tuple[str, ...]]
    if is_regular:
        lat = eccodes.codes_get_array(handle, "distinctLatitudes")
        lon = eccodes.codes_get_array(handle, "distinctLongitudes")
        if not eccodes.codes_get(handle, "jScansPositively"):
            lat = lat[::-1] if lat[0] < lat[-1] else lat
        dims = [("latitude",), ("longitude",)]
    else:
        lat = eccodes.codes_get_array(handle, "latitudes").reshape(shape)
        lon = eccodes.codes_get_array(handle, "longitudes").reshape(shape)
        dims = [("y", "x")] * 2
    return {
        "latitude": coordinate("latitude", dims[0], lat, {"units": "degrees_north"}),
        "longitude": coordinate("longitude", dims[1], lon, {"units": "degrees_east"}),
    }


def refusal(data: bytes) -> str | None:
    """Why a message cannot be referred to; None when gribberish decodes it as eccodes does."""
    if data[7] != 2:
        return "it is of the first edition of GRIB"
    try:
        from gribberish import parse_grib_array
    except ImportError:
        return "the package gribberish is not installed"
    if _is_decoded_by_chance(data):
        return "gribberish decodes some fields in groups of such values wrongly"
    expected = message_values(data)
    if np.isnan(expected).all():  # packed as JPEG 2000, it would be decoded for ever
        return "it has no values, which gribberish does not expect"
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


def _is_decoded_by_chance(data: bytes) -> bool:
    """Whether it depends on values if gribberish decodes them right, so that a try tells little.

    That is so for groups of values without differences, and for groups that are all equally wide.
    """
    with open_message(data) as handle:
        packing = str(eccodes.codes_get(handle, "packingType"))
        if not packing.startswith(_COMPLEX):
            return False
        return packing == _COMPLEX or eccodes.codes_get(handle, _WIDTHS) == 0


def message_values(data: bytes) -> Array:
    """The values of a message, NaN where there are none."""
    with open_message(data) as handle:
        eccodes.codes_set(handle, "missingValue", 9.9e36)
        values = np.asarray(eccodes.codes_get_values(handle))
        # Not only bitmaps leave values out: some packings mark them among the others.
        return np.where(values == 9.9e36, np.nan, values)
