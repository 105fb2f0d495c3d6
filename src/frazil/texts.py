"""Texts that people write, one grammar for options, arguments and the command line.

Each function reads one kind of text, and refuses with a `ValueError` that says what it expects;
`read` makes of it an error that names what was being read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

from frazil.errors import invalid_option

T = TypeVar("T")


def parse_as(what: str, parse: Callable[[str], T], written: str) -> T:
    """Parse the text of an argument; `what` is the argument, for the error.

    Raises:
        InvalidInputError: it cannot be read; with what it is for and what is expected.
    """
    try:
        return parse(written)
    except ValueError as error:
        raise invalid_option(f"{what} is {written!r}: {error.args[0]}") from None


# --- words and numbers ---


def text(written: str) -> str:
    """Any text but the empty one."""
    if not written.strip():
        raise ValueError("it must not be empty")
    return written.strip()


def flag(written: str) -> bool:
    """Yes or no."""
    match written.strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError("it must be true or false")


def always(written: str) -> bool:
    """Yes, where there is no other way."""
    if not flag(written):
        raise ValueError("it can only be true")
    return True


_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([KMGT])(i?B?)|B)?\s*", re.IGNORECASE)


def byte_count(written: str) -> int:
    """A number of bytes, perhaps with a unit.

    A letter alone, `64M`, is a power of 1024, as in Spark and Java; so is `64 MiB`. `64 MB` is
    a power of 1000.
    """
    found = _SIZE.fullmatch(written)
    if found is None:
        raise ValueError('it must be a number of bytes, or text like "64 MiB"')
    base = 1000 if (found[3] or "").lower() == "b" else 1024
    power = "KMGT".index(found[2].upper()) + 1 if found[2] else 0
    return int(Decimal(found[1]) * base**power)


def size(written: str) -> int:
    """A positive number of bytes, perhaps with a unit: `64m`, `128 MiB`."""
    found = byte_count(written) if _SIZE.fullmatch(written) else 0
    if found == 0:
        raise ValueError("it must be a positive number of bytes, such as 134217728 or 128m")
    return found


def count(written: str) -> int:
    """A positive whole number."""
    if not written.strip().isdecimal() or int(written) == 0:
        raise ValueError("it must be a positive whole number")
    return int(written)


def number(written: str) -> int:
    """A whole number."""
    try:
        return int(written)
    except ValueError:
        raise ValueError("it must be a whole number") from None


BACKQUOTED: Final = r"`(?:[^`]|``)+`"
"""A name in backquotes, with its own backquotes doubled, as in SQL; a regular expression."""


def backquoted(name: str) -> str:
    """A name as SQL and options write one that has any characters."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(written: str) -> str:
    """The name that stands in backquotes."""
    return written[1:-1].replace("``", "`")


def names(written: str) -> tuple[str, ...]:
    """A list of names, with commas between them; names with commas stand in backquotes."""
    found = [
        unquoted(a) or b.strip() for a, b in re.findall(rf"({BACKQUOTED})|([^,`\s][^,`]*)", written)
    ]
    chosen = tuple(dict.fromkeys(found))
    if not chosen:
        raise ValueError("it must be a list of names, such as 'a, b'")
    return chosen


def iso_time(written: str) -> datetime:
    """A time as text, UTC when it names no zone."""
    try:
        found = datetime.fromisoformat(written.strip())
    except ValueError:
        raise ValueError("it must be a time such as 2024-05-01T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def moment(written: str) -> datetime:
    """A time as text, UTC when it names no zone, or as milliseconds since 1970."""
    if re.fullmatch(r"\s*-?\d{6,}\s*", written):
        try:
            return datetime.fromtimestamp(int(written) / 1000, UTC)
        except (OverflowError, OSError):
            raise ValueError("it must be a time between the years 1 and 9999") from None
    return iso_time(written)


_AGE: Final = re.compile(r"(\d+)\s*([smhdw])")
_AGE_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age(written: str) -> timedelta:
    """An age: `30d`, `12h`, `0h`."""
    found = _AGE.fullmatch(written.strip())
    if found is None:
        raise ValueError("it must be an age such as 12h, 30m, 2d or 0h")
    try:
        return timedelta(**{_AGE_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise ValueError("it must be an age of less than a million years") from None


def moment_or_age(written: str, now: datetime | None = None) -> datetime:
    """A time as text, or an age, which counts back from now."""
    if _AGE.fullmatch(written.strip()):
        try:
            return (now or datetime.now(UTC)) - age(written)
        except OverflowError:
            raise ValueError("it must be an age that ends after the year 1") from None
    try:
        return iso_time(written)
    except ValueError:
        raise ValueError(
            "it must be a time such as 2024-05-01T12:00:00Z, or an age such as 30d"
        ) from None


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def read(written: str) -> str:
        if written.strip().lower() not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return written.strip().lower()

    return read


_SETTING: Final = re.compile(
    r"\s*(?:(?:(?P<quoted>" + BACKQUOTED + r")|(?P<name>[^\s,=`]+))\s*=\s*)?"
    r"(?P<value>'[^']*'|[^,'=]+?)\s*(?:,|$)"
)


def settings(written: str) -> dict[str, str]:
    """Values by name, as in `time=24, lat=100`; a value alone is for all and has the name ''."""
    found: dict[str, str] = {}
    at = 0
    while at < len(written.rstrip()):
        item = _SETTING.match(written, at)
        if item is None or (name := unquoted(item["quoted"] or "") or item["name"] or "") in found:
            raise ValueError("it must be one value, or NAME=VALUE with commas between")
        found[name] = item["value"].strip("'")
        at = item.end()
    if not found:
        raise ValueError("it must not be empty")
    return found


def counts(written: str) -> dict[str, int]:
    """Positive whole numbers by name."""
    return {name: count(value) for name, value in settings(written).items()}


def lengths(written: str) -> dict[str, int]:
    """Lengths of chunks by dimension, -1 for all of it; one without a name is for all."""
    return {name: _length(value) for name, value in settings(written).items()}


def chunk_lengths(written: str) -> dict[str, int] | list[int]:
    """Lengths of chunks by dimension, `time=100, lat=-1`, or for each axis: `100, 90, -1`."""
    if "=" not in written:
        return [_length(part) for part in written.split(",")]
    found = lengths(written)
    if "" in found:
        raise ValueError("it must name all dimensions, or none")
    return found


def _length(written: str) -> int:
    found = number(written)
    if found == 0 or found < -1:
        raise ValueError("lengths of chunks are positive, or -1 for all of a dimension")
    return found


# --- regions ---

_RANGE: Final = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(\d+)?\s*)?")


def position(written: str, size: int) -> int:
    """A place along a dimension of some size; negative numbers count from the end."""
    try:
        place = int(written)
    except ValueError:
        raise ValueError("a number, START:STOP:STEP or [A, B] is expected") from None
    if not -size <= place < size:
        raise ValueError(f"{place} is outside of a dimension {size} long")
    return place % size


def span(written: str, size: int) -> slice:
    """A number or `START:STOP:STEP` along a dimension of some size; negative ones count back."""
    found = _RANGE.fullmatch(written)
    if found is None:
        place = position(written, size)
        return slice(place, place + 1, 1)
    first, last, step = (None if each is None else int(each) for each in found.groups())
    if step == 0:
        raise ValueError("a step cannot be 0")
    return slice(*slice(first, last, step).indices(size))


def region(written: str, shape: Sequence[int]) -> tuple[slice, ...]:
    """A region as numpy would write it, `0:3, :, 5`; axes that are not named are taken whole."""
    bare = written.strip().removeprefix("[").removesuffix("]").strip()
    parts = bare.split(",") if bare else []
    if len(parts) > len(shape):
        raise ValueError(f"it has {len(parts)} axes, and the array {len(shape)}")
    named = [span(part, length) for part, length in zip(parts, shape, strict=False)]
    return (*named, *(slice(0, length, 1) for length in shape[len(named) :]))


def chunk_index(written: str) -> tuple[int, ...]:
    """The coordinates of a chunk: `0,3,1`, `0/3/1` or `c/0/3/1`."""
    parts = re.split(r"[,/ ]+", written.strip("[]() ").removeprefix("c/"))
    if parts in ([""], ["c"]):
        return ()
    return tuple(map(number, parts))


# --- codecs ---


@dataclass(frozen=True, slots=True)
class Compressor:
    """A compressor with its level, and for Blosc the one inside."""

    name: str
    level: int
    inner: str = ""

    def codec(self) -> Any:  # noqa: ANN401  (what zarr takes as `compressors`)
        """The codec of zarr."""
        from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

        match self.name:
            case "zstd":
                return ZstdCodec(level=self.level)
            case "gzip":
                return GzipCodec(level=self.level)
            case "blosc":
                # For mypy: the parser lets only known names pass.
                return BloscCodec(cname=self.inner, clevel=self.level)  # type: ignore[arg-type]
            case _:
                return None


_COMPRESSOR: Final = re.compile(
    r"(?P<name>none|raw|zstd|gzip|zlib|blosc)"
    r"(?::(?P<inner>lz4|lz4hc|blosclz|snappy|zlib|zstd))?(?::(?P<level>-?\d+))?"
)
_SAME_COMPRESSOR: Final = {"raw": "none", "zlib": "gzip"}
_LEVELS: Final = {
    "zstd": (-131_072, 3, 22),
    "gzip": (0, 5, 9),
    "blosc": (0, 5, 9),
    "none": (0, 0, 0),
}
"""by compressor the lowest level, the default and the highest"""


def compressor(written: str) -> Compressor:
    """A compressor: `zstd`, `zstd:9`, `gzip:5`, `blosc:lz4:5` or `none`."""
    found = _COMPRESSOR.fullmatch(written.strip().lower())
    if found is not None:
        name = _SAME_COMPRESSOR.get(found["name"], found["name"])
        low, default, high = _LEVELS[name]
        level = int(found["level"] or default)
        if low <= level <= high and (name == "blosc" or not found["inner"]):
            return Compressor(name, level, (found["inner"] or "zstd") if name == "blosc" else "")
    raise ValueError("there is no compressor like that; write zstd:9, gzip:5, blosc:lz4:5 or none")


# --- JSON ---

FLOAT_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""what stands in JSON for floats that it does not have"""


def json_float(value: float) -> float | str:
    """A float as JSON can hold it: what is not finite is a word."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def document(written: str) -> Any:  # noqa: ANN401  (what JSON can hold)
    """A JSON document."""
    try:
        return json.loads(written)
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be JSON: {error}") from None


def documents(written: str) -> dict[str, Any]:
    """A JSON object."""
    found = document(written)
    if not isinstance(found, dict):
        raise ValueError("it must be a JSON object")  # noqa: TRY004  (what all readers raise)
    return found
