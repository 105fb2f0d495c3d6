"""What lies below a prefix, as columns of ids and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from frazil.arrays import U8, U64
from frazil.ids import ALPHABET, crockford_many
from frazil.maintenance.id_sets import ID_WIDTH, RowSet
from frazil.maintenance.tuning import NAMES_AT_ONCE
from frazil.model.history import Micros, to_micros
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.pool import fan_out

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    """Items in groups of at most `size`."""
    rest = iter(items)
    while group := tuple(islice(rest, max(1, size))):
        yield group


ID_LETTERS: Final = 20
ID_NAME: Final = re.compile(f"[{ALPHABET}]{{19}}[0G]")
"""The one spelling of an id that is used in keys; any other name is not ours."""
ONE_SECOND: Final = timedelta(seconds=1)
SECOND: Final = 1_000_000
"""in microseconds"""
GONE: Final = (0, 1 << 60)
"""Size and time of what is not there any more: never old enough to delete."""
END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)
_DIGITS: Final = np.zeros(128, np.uint8)
_DIGITS[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(32, dtype=np.uint8)
_IS_DIGIT: Final = np.zeros(128, np.bool_)
_IS_DIGIT[np.frombuffer(ALPHABET.encode(), np.uint8)] = True
_IS_LAST: Final = np.zeros(128, np.bool_)
_IS_LAST[[ord("0"), ord("G")]] = True


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects below a prefix whose names are ids."""

    prefix: str
    ids: U8
    """(n, 12)"""
    sizes: U64
    is_measured: bool = True
    """False: neither sizes nor ages are known yet"""

    @classmethod
    def none(cls, prefix: str) -> Objects:
        """No objects."""
        return cls(prefix, np.zeros((0, ID_WIDTH), np.uint8), np.zeros(0, np.uint64))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size_bytes(self) -> int:
        """Sum of the sizes."""
        return int(self.sizes.sum())

    def without(self, kept: RowSet) -> Objects:
        """The objects that are not in a set."""
        return self.where(~kept.contains(self.ids))

    def older(self, storage: Storage, cutoff: datetime) -> Objects:
        """The objects written before a time; a local disk is asked if the listing had no times."""
        if self.is_measured or not isinstance(storage, LocalStorage):
            return self
        found = storage.measure(self.prefix, crockford_many(self.ids))
        columns = np.array([one or GONE for one in found], np.int64).reshape(-1, 2)
        sizes, times = columns.T
        measured = replace(self, sizes=sizes.astype(np.uint64), is_measured=True)
        return measured.where(are_older(times, to_micros(cutoff)))

    def sorted_by(self, order: Callable[[U8], npt.NDArray[np.intp]]) -> Objects:
        """The same in the order that a function finds for their ids."""
        rows = order(self.ids)
        return replace(self, ids=self.ids[rows], sizes=self.sizes[rows])

    def keys(self) -> list[str]:
        """Their keys."""
        return [f"{self.prefix}{name}" for name in crockford_many(self.ids)]

    def batches(self, size: int) -> Iterator[Objects]:
        """The same objects in portions."""
        for first in range(0, len(self), size):
            yield self.part(first, first + size)

    def part(self, first: int, end: int) -> Objects:
        """Some that follow each other."""
        return Objects(self.prefix, self.ids[first:end], self.sizes[first:end])

    def where(self, rows: npt.NDArray[np.bool_]) -> Objects:
        """The objects that a mask selects."""
        return replace(self, ids=self.ids[rows], sizes=self.sizes[rows])


def list_candidates(storage: Storage, prefix: str, cutoff: datetime) -> Objects:
    """The objects below a prefix; where names come first, their ages are left for later.

    Most objects are in use, and looking at each file costs more than all else.
    """
    if not isinstance(storage, LocalStorage):
        return list_older(storage, prefix, cutoff)
    ids = find_ids(storage.names(prefix))
    return Objects(prefix, ids, np.zeros(len(ids), np.uint64), is_measured=False)


def list_older(storage: Storage, prefix: str, cutoff: datetime) -> Objects:
    """The objects below a prefix that were written before a time, by the store's clock."""
    names: list[str] = []
    sizes: list[int] = []
    id_parts: list[U8] = [np.zeros((0, ID_WIDTH), np.uint8)]
    size_parts: list[U64] = [np.zeros(0, np.uint64)]

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
            if len(names) == NAMES_AT_ONCE:
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


def are_older(times: npt.NDArray[np.int64], cutoff: Micros) -> npt.NDArray[np.bool_]:
    """The same for many times in microseconds."""
    found: npt.NDArray[np.bool_] = np.where(
        times % SECOND, times < cutoff, times + SECOND <= cutoff
    )
    return found


def find_ids(names: Iterable[str]) -> U8:
    """The ids among many names, as (n, 12) bytes."""
    likely = [name for name in names if len(name) == ID_LETTERS]
    text = np.frombuffer("".join(likely).encode("ascii", "replace"), np.uint8)
    letters = text.reshape(-1, ID_LETTERS)
    is_id = _IS_DIGIT[letters].all(axis=1) & _IS_LAST[letters[:, -1]]
    return parse_letters(letters[is_id])


def parse_names(names: Sequence[str]) -> U8:
    """Read many texts of 12-byte ids, which must be well-formed, as (n, 12) bytes."""
    text = np.frombuffer("".join(names).encode("ascii"), np.uint8)
    return parse_letters(text.reshape(-1, ID_LETTERS))


def parse_letters(letters: U8) -> U8:
    """Read well-formed texts of ids, (n, 20) bytes, as (n, 12)."""
    n = len(letters)
    digits = np.zeros((n, 24), np.uint64)
    digits[:, :ID_LETTERS] = _DIGITS[letters]
    words = np.zeros((n, 3), np.uint64)
    for place in range(8):
        words = (words << np.uint64(5)) | digits[:, place::8]
    raw = words.astype(">u8").view(np.uint8).reshape(n, 3, 8)[:, :, 3:]
    return np.ascontiguousarray(raw.reshape(n, 15)[:, :ID_WIDTH])


def measured(storage: Storage, prefix: str, ids: U8, cutoff: datetime) -> Objects:
    """The objects that exist and were written before a time, with their sizes."""
    objects = Objects(prefix, ids, np.zeros(len(ids), np.uint64), is_measured=False)
    if not len(ids) or isinstance(storage, LocalStorage):
        return objects.older(storage, cutoff)
    sizes: list[int] = []
    rows: list[int] = []
    for group in batched(enumerate(objects.keys()), NAMES_AT_ONCE):
        found = fan_out(lambda item: storage.head(item[1]), group)
        for (row, _), item in zip(group, found, strict=True):
            if item is not None and is_older(item.created_at, cutoff):
                rows.append(row)
                sizes.append(item.size_bytes)
    return Objects(prefix, ids[rows], np.array(sizes, np.uint64))
