"""Ranges of objects: which of them one request can answer, and what must hold of their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frazil.errors import ErrorKind, StorageError
from frazil.masking import MaskedRecord, shown_url
from frazil.storage.tuning import RANGE_BYTES, RANGE_GAP


def near_ranges(
    ranges: Sequence[tuple[Any, int | None, int | None]],
) -> Sequence[Sequence[int]]:
    """Numbers of ranges of objects, those together that one request can answer.

    The first of each group has the smallest start. Ranges without a start or an end stand alone.
    """
    groups: list[list[int]] = []
    at: tuple[Any, int, int] | None = None
    for number in sorted(range(len(ranges)), key=lambda n: (ranges[n][0], ranges[n][1] or 0)):
        key, start, end = ranges[number]
        if start is None or end is None or start < 0:
            groups.append([number])
            at = None
            continue
        if at is not None and at[0] == key and start <= at[2] + RANGE_GAP:
            first, last = at[1], max(at[2], end)
            if last - first <= RANGE_BYTES:
                groups[-1].append(number)
                at = (key, first, last)
                continue
        groups.append([number])
        at = (key, start, end)
    return groups


@dataclass(frozen=True, slots=True, repr=False)
class WantedRange(MaskedRecord):
    """A range of an object, and what the object must still be."""

    url: str
    """as messages show it"""
    key: str
    """as it is asked for"""
    start: int
    end: int
    checksum: str | int | None = None

    @property
    def size(self) -> int:
        """Bytes in the range."""
        return self.end - self.start

    def check_size(self, data: bytes) -> bytes:
        """Refuse a short answer."""
        if len(data) == self.size:
            return data
        raise self.too_short(len(data))

    def check_end(self, size: int) -> None:
        """Refuse a range that ends behind the end of an object."""
        if self.end > size:
            raise self.too_short(max(0, size - self.start))

    def too_short(self, available: int | None = None) -> StorageError:
        """The error for an object that ends before the range does."""
        facts = {} if available is None else {"available": available}
        return StorageError(
            "the object that holds the virtual chunk is too short",
            kind=ErrorKind.INVALID_OBJECT_SIZE,
            location=shown_url(self.url),
            expected=self.size,
            **facts,
        )

    def modified(self) -> StorageError:
        """The error for an object that is no longer what the reference says."""
        return StorageError(
            "the object that holds the virtual chunk has changed",
            kind=ErrorKind.VIRTUAL_CHUNK_MODIFIED,
            location=shown_url(self.url),
        )

    def failed(self, why: str) -> StorageError:
        """The error for an object that cannot be read."""
        return StorageError(
            f"error fetching virtual reference: {why}",
            kind=ErrorKind.VIRTUAL_CHUNK_FETCH,
            location=shown_url(self.url),
        )
