"""Copies of remote objects on disk: found again, bounded, never believed when damaged."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

from frazil.errors import StorageError
from frazil.storage.disk_cache import DiskCache
from tests.support.forking import run_all

MIB = 1 << 20
NAME = "chunks/0123456789ABCDEFGHJ0"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", MIB)


def files(cache: DiskCache) -> list[Path]:
    return [path for path in sorted(Path(cache.path).glob("*/*")) if path.is_file()]


def total(cache: DiskCache) -> int:
    found = 0
    for path in files(cache):
        with contextlib.suppress(FileNotFoundError):  # it may be trimmed meanwhile
            found += path.stat().st_size
    return found


class TestEntries:
    def test_copies_are_found_again(self, cache: DiskCache) -> None:
        cache.put("a", b"first")
        cache.put("b", memoryview(b"second"))
        again = DiskCache(Path(cache.path).parent, MIB)
        assert (again.get("a"), again.get("b"), again.get("c")) == (b"first", b"second", None)

    def test_memory_is_filled(self, cache: DiskCache) -> None:
        cache.put("a", b"0123456789")
        memory = bytearray(10)
        assert cache.read_into("a", memoryview(memory))
        assert memory == b"0123456789"
        assert not cache.read_into("b", memoryview(memory))

    @pytest.mark.parametrize("place", [0, 15, 16, 400, -1])
    @pytest.mark.parametrize("into", [False, True])
    def test_a_changed_byte_is_noticed(self, cache: DiskCache, place: int, into: bool) -> None:
        cache.put("a", bytes(range(256)) * 4)
        (entry,) = files(cache)
        data = bytearray(entry.read_bytes())
        data[place] ^= 1
        entry.write_bytes(data)
        if into:
            assert not cache.read_into("a", memoryview(bytearray(1024)))
        else:
            assert cache.get("a") is None
        assert not files(cache)

    @pytest.mark.parametrize("size", [0, 5, 16, 30])
    def test_a_cut_entry_is_noticed(self, cache: DiskCache, size: int) -> None:
        cache.put("a", b"x" * 100)
        (entry,) = files(cache)
        os.truncate(entry, size)
        assert not cache.read_into("a", memoryview(bytearray(100)))
        cache.put("a", b"x" * 100)
        os.truncate(entry, size)
        assert cache.get("a") is None
        assert not files(cache)

    def test_an_entry_under_another_name_is_noticed(self, cache: DiskCache) -> None:
        cache.put("a", b"of a")
        (first,) = files(cache)
        cache.put("b", b"of b")
        (second,) = (path for path in files(cache) if path != first)
        first.replace(second)
        assert cache.get("b") is None

    def test_the_folder_is_ours_alone(self, cache: DiskCache) -> None:
        cache.put("a", b"x")
        assert stat.S_IMODE(Path(cache.path).stat().st_mode) == 0o700
        assert stat.S_IMODE(files(cache)[0].stat().st_mode) == 0o600
        Path(cache.path).chmod(0o770)
        with pytest.raises(StorageError, match="not ours alone"):
            DiskCache(Path(cache.path).parent, MIB)


class TestSize:
    def test_what_was_used_longest_ago_goes_first(self, cache: DiskCache) -> None:
        data = bytes(100_000)
        hour_ago = time.time() - 3600
        for number in range(9):
            cache.put(str(number), data)
            newest = max(files(cache), key=lambda path: path.stat().st_mtime)
            os.utime(newest, (hour_ago + number, hour_ago + number))
        assert cache.get("0") == data  # which makes it the newest
        for number in range(10, 13):
            cache.put(str(number), data)
        while total(cache) > MIB:  # somebody may be at it already
            cache.trim()
        assert cache.get("0") == data
        assert cache.get("12") == data
        assert cache.get("1") is None

    def test_it_stays_bounded_by_itself(self, cache: DiskCache) -> None:
        for number in range(60):
            cache.put(str(number), bytes(66_000))
            if number % 10 == 9:
                while total(cache) > MIB + 10 * 66_100:  # an entry brings a trim by chance only
                    time.sleep(0.01)
                    cache.put(str(number), bytes(66_000))
        while total(cache) > MIB:  # somebody may be at it already
            cache.trim()
        assert total(cache) > MIB // 2

    def test_a_huge_entry_does_not_drive_out_all_others(self, cache: DiskCache) -> None:
        cache.put("small", b"x")
        cache.put("huge", bytes(MIB // 2))
        assert cache.get("huge") is None
        assert cache.get("small") == b"x"

    def test_only_files_of_its_own_are_deleted(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path, 1000)
        mine = tmp_path / "ab" / ("0" * 38)
        strange = Path(cache.path) / "ab" / "notes.txt"
        for path in (mine, strange):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(5000))
        for number in range(20):
            cache.put(str(number), bytes(200))
        cache.trim()
        cache.clear()
        assert mine.exists()
        assert strange.exists()
        assert not [path for path in files(cache) if path != strange]

    def test_what_a_killed_writer_left_goes_in_time(self, cache: DiskCache) -> None:
        cache.put("a", b"x")
        old, young = (files(cache)[0].parent / f"new-{digit * 16}" for digit in "ab")
        for path in (old, young):
            path.write_bytes(b"half")
        os.utime(old, (0, 0))
        cache.trim()
        assert not old.exists()
        assert young.exists()


def hammer(path: str, seed: int) -> None:
    """Write, read and spoil entries that others use too."""
    cache = DiskCache(path, 200_000)
    random = np.random.default_rng(seed)
    for step in range(300):
        number = int(random.integers(40))
        wanted = bytes([number]) * (1000 + 300 * number)
        found = cache.get(str(number))
        assert found is None or found == wanted
        memory = bytearray(len(wanted))
        assert not cache.read_into(str(number), memoryview(memory)) or memory == wanted
        cache.put(str(number), wanted)
        if step % 50 == 0:
            cache.trim()
            entry = next(Path(cache.path).glob("*/*"), None)
            if entry is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(entry, 900)


def test_many_processes_share_one_folder(tmp_path: Path) -> None:
    run_all(hammer, [(str(tmp_path), seed) for seed in range(4)])
    cache = DiskCache(tmp_path, 200_000)
    assert 0 < cache.trim() <= 200_000
    assert not list(Path(cache.path).glob("*/new-*"))
