"""Files of statistics: what is written is read again, and what is damaged is not used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pytest
import zstandard

from frazil.arrays import Mask, StructRows
from frazil.errors import ConflictError, FormatError
from frazil.statistics.files import (
    FILE_ROWS,
    HEADER,
    MAGIC,
    PREFIX,
    decode,
    drop_rows,
    encode,
    list_files,
    put_together,
    read_checksums,
    read_index,
    store,
)
from frazil.statistics.records import ROW, blank_rows
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.stepping import SteppingStorage

DECODING = bytes(range(16))
KEY = f"{PREFIX}{DECODING.hex()}/0a"


def some(count: int, first: int = 0) -> StructRows:
    """Rows that all differ."""
    rows = blank_rows(count)
    rows["offset"] = np.arange(first, first + count)
    rows["count"] = 7
    return rows


def test_rows_come_back_as_they_were() -> None:
    rows = some(1000)
    rows["owner"] = np.random.default_rng(1).integers(0, 256, (1000, 16))
    found, back = decode(encode(DECODING, rows), KEY)
    assert found == DECODING
    assert (back == rows).all()
    assert ROW.itemsize == 96


def test_every_byte_is_covered() -> None:
    rows = some(20)
    blob = encode(DECODING, rows)
    refused = 0
    for at in range(len(blob)):
        damaged = bytearray(blob)
        damaged[at] ^= 0x10
        try:
            _, found = decode(bytes(damaged), KEY)
        except FormatError:
            refused += 1
        else:
            assert (found == rows).all()  # a bit of zstd's header that means nothing
    assert refused >= len(blob) - 1
    for length in range(len(blob)):
        with pytest.raises(FormatError):
            decode(blob[:length], KEY)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    packed = zstandard.compress(bytes(1 << 28))
    for rows in (1, FILE_ROWS, FILE_ROWS + 1, 2**63):
        with pytest.raises(FormatError):
            decode(HEADER.pack(MAGIC, DECODING, rows) + packed, KEY)


def test_a_file_counts_only_in_the_folder_of_its_decoding() -> None:
    with pytest.raises(FormatError, match="another decoding"):
        decode(encode(bytes(16), some(1)), KEY)


def test_damaged_files_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    place = MemoryStorage()
    store(place, DECODING, some(5))
    place.put(KEY, b"nonsense")
    place.put(f"{PREFIX}README", b"not ours")
    with caplog.at_level(logging.WARNING):
        assert len(read_index(place, DECODING).rows) == 5
    assert KEY in caplog.text
    with pytest.raises(FormatError):
        read_index(place, DECODING, strict=True)
    assert [error.facts["key"] for error in read_checksums(place).damaged] == [KEY]


def test_files_are_merged_and_disputes_are_settled_by_saying_nothing() -> None:
    place = MemoryStorage()
    store(place, DECODING, some(6))
    store(place, DECODING, some(6, first=3))
    other = some(1, first=4)
    other["max"] = 3
    store(place, DECODING, other)
    index = read_index(place, DECODING)
    assert sorted(index.rows["offset"].tolist()) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert index.disputed == 1
    assert index.find(some(10)).tolist().count(-1) == 2
    assert put_together(place, DECODING) == 2
    assert len(list_files(place)) == 1
    assert (read_index(place, DECODING).rows == index.rows).all()


SECRET = 5


def keep(rows: StructRows) -> Mask:
    """All rows but those of what is erased."""
    stays: Mask = rows["offset"] != SECRET
    return stays


def told(place: MemoryStorage) -> set[int]:
    """What the files tell."""
    return {*read_index(place, DECODING, strict=True).rows["offset"].tolist()}


def write_some(place: Storage, *, is_there: Callable[[], bool] = lambda: True) -> None:
    store(place, DECODING, some(6), is_there)


def merge(place: Storage, **_: object) -> None:
    put_together(place, DECODING)


def collect(place: Storage, **_: object) -> None:
    """A garbage collection that drops other rows."""
    drop_rows(place, lambda rows: rows["offset"] != 0, datetime.now(UTC) + timedelta(days=1))


@pytest.mark.parametrize("work", [write_some, merge, collect])
def test_what_is_erased_meanwhile_is_not_told_even_by_who_is_killed(
    work: Callable[..., None],
) -> None:
    class KilledError(BaseException):
        """The process ends."""

    for first in count(1):
        for last in count(first + 1):
            memory = MemoryStorage()
            if work is not write_some:
                store(memory, DECODING, some(6))
                store(memory, DECODING, some(6, first=3))
            there = True
            calls = 0

            def step(_operation: str, _key: str, first: int = first, last: int = last) -> None:
                nonlocal calls, there
                calls += 1
                if calls == first:
                    there = False
                    drop_rows(memory, keep)  # noqa: B023  (called at once)
                if calls >= last:
                    raise KilledError

            with suppress(KilledError):
                work(SteppingStorage(memory, step), is_there=lambda: there)  # noqa: B023  (called at once)
            assert calls < first or SECRET not in told(memory), (first, last)
            if calls < last:
                break
        if calls < first:
            break
    assert first > 2


def test_two_who_erase_at_the_same_time_leave_nothing_of_both() -> None:
    for call in count(1):
        memory = MemoryStorage()
        store(memory, DECODING, some(10))
        calls = 0

        def step(_operation: str, _key: str, call: int = call) -> None:
            nonlocal calls
            calls += 1
            if calls == call:
                drop_rows(memory, keep)  # noqa: B023  (called at once)

        drop_rows(SteppingStorage(memory, step), lambda rows: rows["offset"] != 0)
        assert told(memory) == {*range(10)} - {0, SECRET} or calls < call, call
        if calls < call:
            break
    assert call > 6


def test_files_that_wait_for_rows_are_no_damage_and_go_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = MemoryStorage()
    place.put(KEY, b"")
    store(place, DECODING, some(2))
    with caplog.at_level(logging.WARNING):
        assert told(place) == {0, 1}
        assert not read_checksums(place).damaged
    assert not caplog.text
    long_ago = datetime.now(UTC) - timedelta(days=1)
    drop_rows(place, lambda rows: rows["offset"] >= 0, long_ago)
    assert KEY in [item.key for item in list_files(place)]
    drop_rows(place, lambda rows: rows["offset"] >= 0, datetime.now(UTC) + timedelta(days=1))
    assert KEY not in [item.key for item in list_files(place)]


def test_who_cannot_erase_says_so() -> None:
    """Somebody writes the same again and again."""
    memory = MemoryStorage()

    def step(operation: str, _key: str) -> None:
        if operation == "list":
            store(memory, DECODING, some(6))

    with pytest.raises(ConflictError, match="kept changing"):
        drop_rows(SteppingStorage(memory, step), keep)


def test_rows_are_forgotten_and_damaged_files_with_them() -> None:
    place = MemoryStorage()
    store(place, DECODING, some(6))
    store(place, DECODING, some(2, first=10))
    place.put(KEY, b"nonsense")
    done = drop_rows(place, lambda rows: rows["offset"] % 2 == 1)
    assert (done.rows, done.files) == (5, 3)
    assert sorted(read_index(place, DECODING, strict=True).rows["offset"]) == [1, 3, 5, 11]
    assert drop_rows(place, lambda rows: np.ones(len(rows), bool)).rows == 0


def test_checksums_are_found_by_range_whatever_the_decoding() -> None:
    place = MemoryStorage()
    for number, decoding in enumerate((DECODING, bytes(16))):
        rows = some(3)
        rows["crc32c"] = [1, 2, 3 + number]
        store(place, decoding, rows)
    assert read_checksums(place).of(some(4)) == [{1}, {2}, {3, 4}, set()]
