"""Storages around others: what is kept on a disk, refused, or made slow, and the rest as it was."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil import config
from frazil.repository import Repository
from frazil.storage.disk_cache import DiskCache
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import CachedStorage, LatencyStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.stepping import SteppingStorage

MIB = 1 << 20
NAME = "chunks/0123456789ABCDEFGHJ0"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", MIB)


def files(cache: DiskCache) -> list[Path]:
    return [path for path in sorted(Path(cache.path).glob("*/*")) if path.is_file()]


class TestStorage:
    @pytest.fixture
    def inner(self) -> FaultyStorage:
        return FaultyStorage(MemoryStorage())

    @pytest.fixture
    def storage(self, inner: FaultyStorage, cache: DiskCache) -> CachedStorage:
        return CachedStorage(inner, cache)

    def test_objects_and_ranges_are_asked_for_once(
        self, storage: CachedStorage, inner: FaultyStorage
    ) -> None:
        storage.put(NAME, b"0123456789")
        inner.forget_calls()
        for _ in range(3):
            assert storage.get(NAME) == b"0123456789"
            assert storage.get(NAME, 2, 5) == b"234"
            assert storage.get(NAME, None, 2) == b"01"
            memory = bytearray(4)
            storage.read_into([(NAME, 6, memoryview(memory))])
            assert memory == b"6789"
        assert len(inner.calls) == 4
        assert storage.get(NAME, -2) == b"89"
        assert storage.get(NAME, 7) == b"789"

    @pytest.mark.parametrize(
        "key", ["repo", "config.yaml", "refs/branch.main/ref.json", "overwritten/repo.1"]
    )
    def test_what_may_change_is_never_kept(
        self, storage: CachedStorage, cache: DiskCache, key: str
    ) -> None:
        storage.put(key, b"old")
        assert storage.get(key) == b"old"
        storage.put(key, b"new")
        assert storage.get(key) == b"new"
        assert not files(cache)

    def test_the_first_snapshot_is_not_kept_since_all_repositories_have_it(
        self, storage: CachedStorage, cache: DiskCache
    ) -> None:
        for prefix in ("snapshots", "transactions"):
            storage.put(f"{prefix}/1CECHNKREP0F1RSTCMT0", b"x")
            storage.get(f"{prefix}/1CECHNKREP0F1RSTCMT0")
        assert not files(cache)

    def test_absent_objects_are_asked_for_again(self, storage: CachedStorage) -> None:
        assert storage.get(NAME) is None
        storage.put(NAME, b"x")
        assert storage.get(NAME) == b"x"

    def test_a_damaged_entry_is_fetched_again(
        self, storage: CachedStorage, cache: DiskCache
    ) -> None:
        storage.put(NAME, b"0123456789")
        storage.get(NAME)
        files(cache)[0].write_bytes(b"rubbish that is long enough for a checksum")
        assert storage.get(NAME) == b"0123456789"
        assert storage.get(NAME) == b"0123456789"

    def test_places_do_not_mix(self, cache: DiskCache, tmp_path: Path) -> None:
        for name in ("one", "two"):
            LocalStorage(tmp_path / name).put(NAME, name.encode())
        found = [
            CachedStorage(LocalStorage(tmp_path / name), cache).get(NAME) for name in ("one", "two")
        ]
        assert found == [b"one", b"two"]

    def test_no_folder_no_harm(
        self, storage: CachedStorage, cache: DiskCache, caplog: pytest.LogCaptureFixture
    ) -> None:
        storage.put(NAME, b"x")
        root = Path(cache.path)
        root.rmdir()
        root.write_bytes(b"not a folder")
        assert [storage.get(NAME) for _ in range(3)] == [b"x"] * 3
        assert caplog.text.count("cannot be used") == 1

    def test_it_travels(self, tmp_path: Path, cache: DiskCache) -> None:
        storage = CachedStorage(LocalStorage(tmp_path / "r"), cache)
        storage.put(NAME, b"x")
        assert pickle.loads(pickle.dumps(storage)).get(NAME) == b"x"


class TestRepositories:
    @pytest.fixture(autouse=True)
    def switched_on(self, tmp_path: Path) -> Iterator[None]:
        with config.set(disk_cache_path=tmp_path / "cache", disk_cache_bytes="64 MiB"):
            yield

    @staticmethod
    def filled(storage: LatencyStorage | LocalStorage, spec: int) -> None:
        repo = Repository.create(storage, spec_version=spec)
        session = repo.writable_session("main")
        array = zarr.create_array(
            session.store, name="a", shape=(64, 64), chunks=(16, 64), dtype="f8", compressors=None
        )
        array[:] = np.arange(4096.0).reshape(64, 64)
        session.commit("filled")

    @pytest.mark.parametrize("spec", [1, 2])
    def test_a_second_reader_asks_for_what_may_have_changed_only(
        self, tmp_path: Path, spec: int
    ) -> None:
        inner = FaultyStorage(LocalStorage(tmp_path / "r"))
        inner.answers_inline = False
        self.filled(LatencyStorage(inner), spec)
        for turn in range(2):
            inner.forget_calls()
            session = Repository.open(LatencyStorage(inner)).readonly_session("main")
            found = zarr.open_array(session.store, path="a", mode="r")[:]
            assert np.array_equal(np.asarray(found), np.arange(4096.0).reshape(64, 64))
            asked = {key.split("/")[0] for _, key in inner.calls}
            assert ("chunks" in asked, "manifests" in asked) == (turn == 0, turn == 0)
            assert ("snapshots" in asked) == (turn == 0 or spec == 1)

    def test_a_disk_needs_no_disk_cache(self, tmp_path: Path) -> None:
        self.filled(LocalStorage(tmp_path / "r"), 2)
        session = Repository.open(LocalStorage(tmp_path / "r")).readonly_session("main")
        zarr.open_array(session.store, path="a", mode="r")[:]
        assert not (tmp_path / "cache").exists()


def test_latency_is_paid_by_reads_and_writes() -> None:
    slow = LatencyStorage(MemoryStorage(), write_latency_ms=30, read_latency_ms=10)
    before = time.perf_counter()
    slow.put("k", b"x")
    between = time.perf_counter()
    slow.get("k")
    after = time.perf_counter()
    assert between - before >= 0.03
    assert after - between >= 0.01


def test_many_late_requests_wait_side_by_side() -> None:
    together = threading.Barrier(4, timeout=60)

    def meet(_operation: str, _key: str) -> None:
        together.wait()  # fails unless four requests are under way at once

    slow = LatencyStorage(SteppingStorage(MemoryStorage(), meet), read_latency_ms=1)
    slow.get_many([(str(number), None, None) for number in range(16)])


def test_latency_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        LatencyStorage(MemoryStorage(), read_latency_ms=-1)
