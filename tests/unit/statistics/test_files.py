"""Files of statistics: what is written is read again, and what is damaged is not used."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import zstandard

from frazil.errors import FormatError
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
from frazil.statistics.records import ROW, Rows, blank_rows
from frazil.storage.memory import MemoryStorage

DECODING = bytes(range(16))
KEY = f"{PREFIX}{DECODING.hex()}/0a"


def some(count: int, first: int = 0) -> Rows:
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
    for count in (1, FILE_ROWS, FILE_ROWS + 1, 2**63):
        with pytest.raises(FormatError):
            decode(HEADER.pack(MAGIC, DECODING, count) + packed, KEY)


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


def test_putting_together_leaves_nothing_when_somebody_erases_meanwhile() -> None:
    class Meanwhile(MemoryStorage):
        """Erases what is there as soon as a file has been put together."""

        armed = False

        def put(self, key: str, data: object, *more: object) -> None:
            super().put(key, data, *more)  # type: ignore[arg-type]
            if self.armed:
                self.delete_many([item.key for item in list_files(self) if item.key != key])

    place = Meanwhile()
    store(place, DECODING, some(2))
    store(place, DECODING, some(2, first=2))
    place.armed = True
    assert put_together(place, DECODING) == 0
    assert not list_files(place)


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
