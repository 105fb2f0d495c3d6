"""Storages around others: what is kept on a disk, refused, or made slow, and the rest as it was."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import pytest
import zarr

from frazil import config
from frazil.errors import ErrorKind, ReadOnlyError
from frazil.model.config import Attribution, StorageSettings
from frazil.repository import Repository
from frazil.storage.base import Deleted, Storage, Version
from frazil.storage.disk_cache import DiskCache
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import (
    SNAPSHOTS_CHANGE,
    CachedStorage,
    LatencyStorage,
    ReadOnlyStorage,
    WrappedStorage,
    with_disk_cache,
)
from frazil.testing.faulty import FaultyStorage
from tests.support.stepping import SteppingStorage
from tests.support.web import WebServer
from tests.unit.storage.test_object import on_web

T = TypeVar("T")
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


# --- to be read only ---


WRITES: dict[str, Callable[[Storage], object]] = {
    "put": lambda storage: storage.put("k", b"new"),
    "put_if": lambda storage: storage.put_if("k", b"new", None),
    "put_when": lambda storage: storage.put_when("k", b"new", None, lambda: None),
    "put_many": lambda storage: storage.put_many([("k", b"new")]),
    "put_parts": lambda storage: storage.put_parts("k", [b"n", b"ew"]),
    "copy_if": lambda storage: storage.copy_if("k", "copy", Version("1")),
    "duplicate": lambda storage: storage.duplicate("k", "copy"),
    "delete_many": lambda storage: storage.delete_many(["k", "other"]),
    "delete_once": lambda storage: storage.delete_once("k", Version("1")),
    "clock": lambda storage: storage.clock(),
    "require_safe_commits": lambda storage: storage.require_safe_commits(),
}


@pytest.mark.parametrize("work", WRITES)
def test_nothing_is_written_through_a_read_only_storage(work: str) -> None:
    inner = FaultyStorage(MemoryStorage())
    inner.put("k", b"old")
    inner.forget_calls()
    with pytest.raises(ReadOnlyError, match="this storage is read-only") as caught:
        WRITES[work](ReadOnlyStorage(inner))
    assert caught.value.kind is ErrorKind.READ_ONLY_STORAGE
    assert inner.url in str(caught.value)
    assert not inner.calls
    assert {item.key: inner.get(item.key) for item in inner.list()} == {"k": b"old"}


def test_a_read_only_storage_reads_as_before_and_stays_so() -> None:
    inner = MemoryStorage()
    inner.put_many([("a/x", b"0123"), ("a/y", b"45")])
    storage = ReadOnlyStorage(inner)
    for each in (storage, storage.with_settings(StorageSettings()), storage.with_request_limit(2)):
        assert not each.can_write
        assert each.get_many([("a/x", 1, 3), ("a/y", None, None)]) == [b"12", b"45"]
        assert [item.key for item in each.list("a/")] == ["a/x", "a/y"]
        with pytest.raises(ReadOnlyError):
            each.put("k", b"x")
    assert storage.delete_many([]) == Deleted(0)
    assert (storage.url, storage.is_empty()) == (inner.url, False)
    assert pickle.loads(pickle.dumps(storage)).get("a/y") == b"45"


# --- what every wrapper keeps ---


def test_other_settings_reach_the_inner_storage_and_the_wrapper_stays(
    web_server: WebServer,
) -> None:
    slow = LatencyStorage(on_web(web_server), write_latency_ms=1, read_latency_ms=2)
    changed = slow.with_settings(StorageSettings(storage_class="COLD"))
    changed = changed.with_attribution(Attribution(client="wrapper/1.0"))
    changed.put("k", b"x")
    [sent] = web_server.headers_of("PUT")
    assert sent["x-amz-storage-class"] == "COLD"
    assert sent["user-agent"].startswith("wrapper/1.0 ")
    assert (changed.write_latency_ms, changed.read_latency_ms) == (1, 2)
    assert repr(changed).endswith("write_latency_ms: 1\nread_latency_ms: 2\n")


def test_no_request_of_many_passes_a_wrapper_by() -> None:
    asked: list[tuple[str, str]] = []
    lock = threading.Lock()

    class Watching(WrappedStorage):
        def _around(self, inner: Storage) -> Self:
            return type(self)(inner)

        def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
            with lock:
                asked.append((operation, key))
            return work()

    storage = Watching(MemoryStorage())
    storage.put_many([("a", b"1"), ("b", b"2")])
    storage.read_into([("a", 0, memoryview(bytearray(1)))])
    storage.duplicate("a", "c")
    storage.start_durable(["a", "b"])()
    storage.put_when("d", b"", None, lambda: None)
    assert sorted(asked[:2]) == [("put", "a"), ("put", "b")]
    assert asked[2:] == [
        ("get", "a"),
        ("get", "a"),
        ("put", "c"),
        ("make_durable", "a,b"),
        ("put_if", "d"),
    ]


def test_the_disk_cache_of_the_process_is_used_where_requests_take_time(tmp_path: Path) -> None:
    quick, slow = MemoryStorage(), LatencyStorage(MemoryStorage())
    assert with_disk_cache(slow) is slow
    with config.set(disk_cache_path=tmp_path, disk_cache_bytes=MIB):
        assert with_disk_cache(quick) is quick
        found = with_disk_cache(slow)
        assert isinstance(found, CachedStorage)
        again = with_disk_cache(slow)
        assert isinstance(again, CachedStorage)
        assert again.cache is found.cache
    with config.set(disk_cache_path=tmp_path, disk_cache_bytes=0):
        assert with_disk_cache(slow) is slow


def test_only_objects_below_the_given_prefixes_are_kept(cache: DiskCache) -> None:
    inner = MemoryStorage()
    storage = CachedStorage(inner, cache, SNAPSHOTS_CHANGE)
    for key in ("snapshots/0123456789ABCDEFGHJ0", NAME):
        inner.put(key, b"old")
        storage.get(key)
        inner.put(key, b"new")
    assert storage.get("snapshots/0123456789ABCDEFGHJ0") == b"new"
    assert storage.get(NAME) == b"old"
