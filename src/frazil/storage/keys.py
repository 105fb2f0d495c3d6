"""Keys, listing prefixes and byte ranges that every storage accepts."""

from __future__ import annotations

import re
from typing import Final

from frazil.errors import ErrorKind, InvalidInputError, StorageError


def byte_span(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Turn a requested range into offsets inside an object of `size` bytes.

    Raises:
        InvalidInputError: the range makes no sense for any object.
        StorageError: it begins beyond the end of this one.
    """
    check_range(start, end)
    if start is not None and start < 0:
        return max(0, size + start), size
    first = start or 0
    if first > size:
        raise StorageError(
            "range begins beyond the end of the object",
            kind=ErrorKind.INVALID_OBJECT_SIZE,
            start=first,
            size=size,
        )
    return first, size if end is None else min(end, size)


def check_range(start: int | None, end: int | None) -> None:
    """Refuse ranges that no object can answer."""
    if end is None or (end >= 0 and (start is None or 0 <= start <= end)):
        return
    raise InvalidInputError(
        "invalid byte range", kind=ErrorKind.INVALID_BYTE_RANGE, start=start, end=end
    )


def check_key(key: str) -> None:
    """Refuse keys that could name something else, or something outside the root."""
    if _KEY.fullmatch(key) is None:
        raise InvalidInputError("invalid object key", kind=ErrorKind.INVALID_KEY, key=repr(key))


def check_prefix(prefix: str) -> None:
    """Refuse listing prefixes that are neither empty nor a key followed by `/`."""
    if prefix and (not prefix.endswith("/") or _KEY.fullmatch(prefix[:-1]) is None):
        raise InvalidInputError(
            "a listing prefix is empty or ends in /",
            kind=ErrorKind.BAD_KEY_PREFIX,
            prefix=repr(prefix),
        )


_SEGMENT: Final = r"(?!\.{1,2}(?:/|\Z))[^/\0]+"
_KEY: Final = re.compile(f"{_SEGMENT}(?:/{_SEGMENT})*")
