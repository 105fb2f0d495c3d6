"""What lies below a prefix, as columns of ids and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.ids import ALPHABET, crockford_many
from frazil.maintenance.id_sets import ID_WIDTH, U8, RowSet
from frazil.storage.base import Storage

ID_NAME: Final = re.compile(f"[{ALPHABET}]{{19}}[0G]")
"""The one spelling of an id that is used in keys; any other name is not ours."""
ONE_SECOND: Final = timedelta(seconds=1)
BATCH: Final = 1 << 16
"""Names that are turned into columns at once."""
_DIGITS: Final = np.zeros(128, np.uint8)
_DIGITS[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(32, dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects below a prefix whose names are ids."""

    prefix: str
    ids: U8
    """(n, 12)"""
    sizes: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size_bytes(self) -> int:
        """Sum of the sizes."""
        return int(self.sizes.sum())

    def without(self, kept: RowSet) -> Objects:
        """Those that are not in a set."""
        rest = ~kept.contains(self.ids)
        return Objects(self.prefix, self.ids[rest], self.sizes[rest])

    def keys(self) -> list[str]:
        """Their keys."""
        return [f"{self.prefix}{name}" for name in crockford_many(self.ids)]

    def batches(self, size: int) -> Iterator[Objects]:
        """The same objects in portions."""
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            yield Objects(self.prefix, self.ids[part], self.sizes[part])


def list_older(storage: Storage, prefix: str, cutoff: datetime) -> Objects:
    """The objects below a prefix that were written before a time, by the store's clock."""
    names: list[str] = []
    sizes: list[int] = []
    id_parts: list[U8] = [np.zeros((0, ID_WIDTH), np.uint8)]
    size_parts: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]

    def pack() -> None:
        id_parts.append(parse_names(names))
        size_parts.append(np.array(sizes, np.uint64))
        names.clear()
        sizes.clear()

    start = len(prefix)
    for item in storage.list(prefix):
        name = item.key[start:]
        if is_older(item.created_at, cutoff) and ID_NAME.fullmatch(name):
            names.append(name)
            sizes.append(item.size_bytes)
            if len(names) == BATCH:
                pack()
    pack()
    return Objects(prefix, np.concatenate(id_parts), np.concatenate(size_parts))


def is_older(created_at: datetime, cutoff: datetime) -> bool:
    """Whether an object was surely written before a time.

    Some stores drop the fraction of a second, so a whole second may mean any moment in it.
    """
    if created_at.microsecond == 0:
        return created_at + ONE_SECOND <= cutoff
    return created_at < cutoff


def parse_names(names: Sequence[str]) -> U8:
    """Read many texts of 12-byte ids, which must be well-formed, as (n, 12) bytes."""
    n = len(names)
    digits = np.zeros((n, 24), np.uint64)
    text = np.frombuffer("".join(names).encode("ascii"), np.uint8)
    digits[:, :20] = _DIGITS[text].reshape(n, 20)
    words = np.zeros((n, 3), np.uint64)
    for place in range(8):
        words = (words << np.uint64(5)) | digits[:, place::8]
    raw = words.astype(">u8").view(np.uint8).reshape(n, 3, 8)[:, :, 3:]
    return np.ascontiguousarray(raw.reshape(n, 15)[:, :ID_WIDTH])
